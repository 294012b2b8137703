package configs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// readProperties follows java.util.Properties.load to the letter, with one difference: a text
// that is UTF-8 is taken as that, where Java takes every file as Latin-1. "${x}" is not
// expanded: Kafka does not either.
func readProperties(text []byte) (map[string]string, error) {
	settings := map[string]string{}
	r := propertiesReader{rest: decodeProperties(text)}
	for {
		line, number := r.logicalLine()
		if line == "" {
			return settings, nil
		}
		key, value := splitProperty(line)
		name, err := unescape(key)
		if err == nil {
			settings[name], err = unescape(value)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
}

// decodeProperties makes UTF-8 of Latin-1, if it is that.
func decodeProperties(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	var decoded strings.Builder
	for _, b := range text {
		decoded.WriteRune(rune(b))
	}
	return decoded.String()
}

// propertiesReader finds the lines of a file that mean something.
type propertiesReader struct {
	rest   string
	number int // lines taken from rest
}

const propertySpace = " \t\f"

// naturalLine is up to \n, \r or both, without leading white space.
func (r *propertiesReader) naturalLine() string {
	r.number++
	end := strings.IndexAny(r.rest, "\r\n")
	line, after := r.rest, ""
	if end >= 0 {
		line, after = r.rest[:end], r.rest[end+1:]
		if r.rest[end] == '\r' {
			after = strings.TrimPrefix(after, "\n")
		}
	}
	r.rest = after
	return strings.TrimLeft(line, propertySpace)
}

// logicalLine is a natural line with those that continue it, behind blank lines and
// comments, and the number of its first; "" at the end. What begins as a continuation of
// nothing may still be a comment.
func (r *propertiesReader) logicalLine() (line string, number int) {
	for r.rest != "" {
		next := r.naturalLine()
		if line == "" {
			number = r.number
			if next == "" || next[0] == '#' || next[0] == '!' {
				continue
			}
		}
		line += next
		backslashes := len(next) - len(strings.TrimRight(next, `\`))
		if backslashes%2 == 0 {
			break
		}
		line = line[:len(line)-1]
	}
	return line, number
}

// splitProperty parts a line at the first =, : or white space that is not escaped; of
// white space with a = or : in it that.
func splitProperty(line string) (key, value string) {
	end := 0
	for escaped := false; end < len(line); end++ {
		if !escaped && strings.ContainsRune("=:"+propertySpace, rune(line[end])) {
			break
		}
		escaped = line[end] == '\\' && !escaped
	}
	value = strings.TrimLeft(line[end:], propertySpace)
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], propertySpace)
	}
	return line[:end], value
}

// unescape resolves backslashes. Characters beyond U+FFFF are two \u.
func unescape(text string) (string, error) {
	if !strings.Contains(text, `\`) {
		return text, nil
	}
	var units []uint16
	for text != "" {
		c, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		if c != '\\' || text == "" {
			units = utf16.AppendRune(units, c)
			continue
		}
		c, size = utf8.DecodeRuneInString(text)
		text = text[size:]
		switch i := strings.IndexRune("tnrf", c); {
		case i >= 0:
			units = append(units, uint16("\t\n\r\f"[i]))
		case c == 'u':
			n, err := strconv.ParseUint(text[:min(4, len(text))], 16, 16)
			if err != nil || len(text) < 4 {
				return "", errors.New(`\u needs four hexadecimal digits`)
			}
			units, text = append(units, uint16(n)), text[4:]
		default:
			units = utf16.AppendRune(units, c)
		}
	}
	return string(utf16.Decode(units)), nil
}
