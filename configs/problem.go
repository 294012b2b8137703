package configs

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Problem is one reason not to start. As a text it is one line: place, key, value, reason.
type Problem struct {
	Place  string // "server.properties", "environment KAFKA_LOG_DIRS", "--set", "default"
	Key    string // "" if the place as a whole is at fault
	Value  string // "[hidden]" if it may be a secret
	Reason string
}

func (p Problem) Error() string {
	if p.Key == "" {
		return p.Place + ": " + p.Reason
	}
	return p.Place + ": " + readable(p.Key) + ": " + readable(p.Value) + ": " + p.Reason
}

// mostShown is how much of a name or a value a line shows.
const mostShown = 200

// readable is a text as part of a line: quoted where it would not look like a word, and cut
// where it is very long.
func readable(text string) string {
	more := ""
	if len(text) > mostShown {
		text, more = strings.ToValidUTF8(text[:mostShown], ""), "…"
	}
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || !unicode.IsPrint(r) }) {
		text = strconv.Quote(text)
	}
	return text + more
}

// Problems is the error of Load: all that is wrong. Its text is the first one's line.
type Problems []Problem

func (ps Problems) Error() string {
	if len(ps) == 1 {
		return ps[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", ps[0].Error(), len(ps)-1)
}

// Warning is something that was ignored, in one line.
type Warning string

// hidden stands for values that are never shown.
const hidden = "[hidden]"

// Shown is what people are shown of a value: "[hidden]" if the name is one of a secret.
func Shown(name, value string) string {
	if isSecret(name) && value != "" {
		return hidden
	}
	return value
}
