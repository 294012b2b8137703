package dump

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Entry is one thing found in a file: a batch, a record, an index entry, a line.
type Entry struct {
	Kind   string
	Fields []Field
}

// Field is a named value: a number, a string, a bool, an error, []byte (nil is null), a
// list of strings, or a nested []Field.
type Field struct {
	Name  string
	Value any
}

// Text is the entry in one line: its kind, then name=value.
func (e Entry) Text() string { return e.Kind + fieldsText(e.Fields) }

func fieldsText(fields []Field) string {
	var line strings.Builder
	for _, f := range fields {
		line.WriteString(" " + f.Name + "=" + valueText(f.Value))
	}
	return line.String()
}

func valueText(value any) string {
	switch v := value.(type) {
	case []Field:
		return "{" + strings.TrimPrefix(fieldsText(v), " ") + "}"
	case [][]Field:
		texts := make([]string, len(v))
		for i, fields := range v {
			texts[i] = valueText(fields)
		}
		return "[" + strings.Join(texts, " ") + "]"
	case []string:
		texts := make([]string, len(v))
		for i, s := range v {
			texts[i] = word(s)
		}
		return "[" + strings.Join(texts, " ") + "]"
	case []byte:
		switch {
		case v == nil:
			return "null"
		case utf8.Valid(v):
			return strconv.Quote(string(v))
		}
		return "base64:" + base64.StdEncoding.EncodeToString(v)
	case nil:
		return "null"
	default:
		return word(fmt.Sprint(v))
	}
}

// word quotes what would not be read as one word.
func word(s string) string {
	awkward := func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune(`"{}[]=`, r)
	}
	if s == "" || s == "null" || strings.ContainsFunc(s, awkward) {
		return strconv.Quote(s)
	}
	return s
}

// MarshalJSON is an object with the fields in their order. Bytes that are not UTF-8
// appear in base64 under their name with "_base64".
func (e Entry) MarshalJSON() ([]byte, error) {
	return fieldsJSON(append([]Field{{"kind", e.Kind}}, e.Fields...))
}

// Object is fields as an object alone, in the form that they have in an Entry.
type Object []Field

// MarshalJSON is an object with the fields in their order, as Entry's.
func (o Object) MarshalJSON() ([]byte, error) { return fieldsJSON(o) }

func fieldsJSON(fields []Field) ([]byte, error) {
	var object bytes.Buffer
	for i, f := range fields {
		object.WriteByte("{,"[min(i, 1)])
		name, value, err := memberJSON(f)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", f.Name, err)
		}
		key, err := plainJSON(name)
		if err != nil {
			return nil, fmt.Errorf("encode a name: %w", err)
		}
		object.Write(key)
		object.WriteByte(':')
		object.Write(value)
	}
	if len(fields) == 0 {
		object.WriteByte('{')
	}
	object.WriteByte('}')
	return object.Bytes(), nil
}

func memberJSON(f Field) (name string, value []byte, err error) {
	name = f.Name
	switch v := f.Value.(type) {
	case []Field:
		value, err = fieldsJSON(v)
		return name, value, err
	case [][]Field:
		list := make([]json.RawMessage, len(v))
		for i, fields := range v {
			if list[i], err = fieldsJSON(fields); err != nil {
				return name, nil, err
			}
		}
		value, err = plainJSON(list)
		return name, value, err
	case []byte:
		switch {
		case v == nil:
			return name, []byte("null"), nil
		case utf8.Valid(v):
			value, err = plainJSON(string(v))
			return name, value, err
		}
		value, err = plainJSON(base64.StdEncoding.EncodeToString(v))
		return name + "_base64", value, err
	case error:
		value, err = plainJSON(v.Error())
		return name, value, err
	case fmt.Stringer:
		value, err = plainJSON(v.String())
		return name, value, err
	}
	value, err = plainJSON(f.Value)
	return name, value, err
}

// plainJSON leaves <, > and & as they are: this is read by people, too.
func plainJSON(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encode a value: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// Problem is something that cannot be right.
type Problem struct {
	File   string
	Pos    int64 // in bytes; of the batch, entry or header that is wrong
	Line   int   // instead of Pos in files of text, from 1; else 0
	Reason string
}

func (p Problem) Error() string {
	if p.Line > 0 {
		return fmt.Sprintf("%s: line %d: %s", p.File, p.Line, p.Reason)
	}
	return fmt.Sprintf("%s: position %d: %s", p.File, p.Pos, p.Reason)
}

// entry is the problem where a dump meets it.
func (p Problem) entry() Entry {
	if p.Line > 0 {
		return Entry{"damage", []Field{{"line", p.Line}, {"reason", p.Reason}}}
	}
	return Entry{"damage", []Field{{"pos", p.Pos}, {"reason", p.Reason}}}
}
