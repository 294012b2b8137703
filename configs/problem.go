package configs

import (
	"fmt"
	"strings"
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
	value := p.Value
	if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' }) {
		value = fmt.Sprintf("%q", value)
	}
	return p.Place + ": " + p.Key + ": " + value + ": " + p.Reason
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
