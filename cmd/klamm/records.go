package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// This file is how records look as text: what consume prints, and what produce reads.

// encodings are the ways to write bytes in a line of text.
const encodings = "text, json, base64 or hex"

// jsonRecord is a line with --output json, and one that --input json takes. Bytes that
// are not UTF-8 appear in the …_base64 field instead of the plain one; null stays null.
type jsonRecord struct {
	Topic       string       `json:"topic,omitempty"`
	Partition   int32        `json:"partition"`
	Offset      int64        `json:"offset"`
	Timestamp   int64        `json:"timestamp"` // ms
	Key         *string      `json:"key"`
	KeyBase64   *string      `json:"key_base64,omitempty"`
	Value       *string      `json:"value"`
	ValueBase64 *string      `json:"value_base64,omitempty"`
	Headers     []jsonHeader `json:"headers,omitempty"`
}

type jsonHeader struct {
	Key         string  `json:"key"`
	Value       *string `json:"value"`
	ValueBase64 *string `json:"value_base64,omitempty"`
}

func newJSONRecord(rec *kgo.Record) jsonRecord {
	line := jsonRecord{Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset, Timestamp: rec.Timestamp.UnixMilli()}
	line.Key, line.KeyBase64 = textOrBase64(rec.Key)
	line.Value, line.ValueBase64 = textOrBase64(rec.Value)
	for _, h := range rec.Headers {
		header := jsonHeader{Key: h.Key}
		header.Value, header.ValueBase64 = textOrBase64(h.Value)
		line.Headers = append(line.Headers, header)
	}
	return line
}

func textOrBase64(b []byte) (text, encoded *string) {
	if b == nil {
		return nil, nil
	}
	if utf8.Valid(b) {
		s := string(b)
		return &s, nil
	}
	s := base64.StdEncoding.EncodeToString(b)
	return nil, &s
}

// record is what the line says beside place and time, which are the new record's own.
func (line jsonRecord) record() (*kgo.Record, error) {
	var rec kgo.Record
	var errs [2]error
	rec.Key, errs[0] = fromTextOrBase64("key", line.Key, line.KeyBase64)
	rec.Value, errs[1] = fromTextOrBase64("value", line.Value, line.ValueBase64)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	for _, h := range line.Headers {
		value, err := fromTextOrBase64("header "+h.Key, h.Value, h.ValueBase64)
		if err != nil {
			return nil, err
		}
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: value})
	}
	return &rec, nil
}

func fromTextOrBase64(what string, text, encoded *string) ([]byte, error) {
	switch {
	case encoded != nil:
		b, err := base64.StdEncoding.DecodeString(*encoded)
		if err != nil {
			return nil, fmt.Errorf("%s_base64: %w", what, err)
		}
		return b, nil
	case text != nil:
		return []byte(*text), nil
	default:
		return nil, nil
	}
}

// printer writes one record.
type printer func(w io.Writer, rec *kgo.Record) error

// newPrinter is the printer of --output; format and null belong to text alone.
func newPrinter(output, format, null string) (printer, error) {
	switch output {
	case "text":
		return textPrinter(format, null)
	case "json":
		return func(w io.Writer, rec *kgo.Record) error {
			encoder := json.NewEncoder(w)
			encoder.SetEscapeHTML(false)
			return encoder.Encode(newJSONRecord(rec))
		}, nil
	case "base64":
		return valuePrinter(base64.StdEncoding.AppendEncode), nil
	case "hex":
		return valuePrinter(hex.AppendEncode), nil
	default:
		return nil, usagef("--output %s: want %s", output, encodings)
	}
}

// valuePrinter prints values alone, a line each; null as an empty line.
func valuePrinter(encode func(dst, src []byte) []byte) printer {
	var line []byte
	return func(w io.Writer, rec *kgo.Record) error {
		line = append(encode(line[:0], rec.Value), '\n')
		_, err := w.Write(line)
		return err
	}
}

// piece appends one part of a formatted record.
type piece func(dst []byte, rec *kgo.Record) []byte

// textPrinter compiles --format.
func textPrinter(format, null string) (printer, error) {
	pieces, err := parseFormat(format, null)
	if err != nil {
		return nil, err
	}
	var line []byte
	return func(w io.Writer, rec *kgo.Record) error {
		line = line[:0]
		for _, p := range pieces {
			line = p(line, rec)
		}
		_, err := w.Write(line)
		return err
	}, nil
}

func parseFormat(format, null string) ([]piece, error) {
	var pieces []piece
	rest := unescape(format)
	for rest != "" {
		text, after, found := strings.Cut(rest, "%")
		if text != "" {
			pieces = append(pieces, func(dst []byte, _ *kgo.Record) []byte { return append(dst, text...) })
		}
		if !found {
			break
		}
		verb, size := utf8.DecodeRuneInString(after)
		p := verbPiece(verb, null)
		if p == nil {
			return nil, usagef("--format %q: want %%t, %%p, %%o, %%T, %%k, %%v, %%h or %%%% after a percent sign, not %q", format, after[:size])
		}
		pieces, rest = append(pieces, p), after[size:]
	}
	return pieces, nil
}

// verbPiece is the piece of a letter after a percent sign, nil if it has none.
func verbPiece(verb rune, null string) piece {
	orNull := func(dst, b []byte) []byte {
		if b == nil {
			return append(dst, null...)
		}
		return append(dst, b...)
	}
	switch verb {
	case '%':
		return func(dst []byte, _ *kgo.Record) []byte { return append(dst, '%') }
	case 't':
		return func(dst []byte, rec *kgo.Record) []byte { return append(dst, rec.Topic...) }
	case 'p':
		return func(dst []byte, rec *kgo.Record) []byte { return strconv.AppendInt(dst, int64(rec.Partition), 10) }
	case 'o':
		return func(dst []byte, rec *kgo.Record) []byte { return strconv.AppendInt(dst, rec.Offset, 10) }
	case 'T':
		return func(dst []byte, rec *kgo.Record) []byte { return strconv.AppendInt(dst, rec.Timestamp.UnixMilli(), 10) }
	case 'k':
		return func(dst []byte, rec *kgo.Record) []byte { return orNull(dst, rec.Key) }
	case 'v':
		return func(dst []byte, rec *kgo.Record) []byte { return orNull(dst, rec.Value) }
	case 'h':
		return func(dst []byte, rec *kgo.Record) []byte { return appendHeaders(dst, rec, orNull) }
	default:
		return nil
	}
}

func appendHeaders(dst []byte, rec *kgo.Record, orNull func(dst, b []byte) []byte) []byte {
	for i, h := range rec.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = orNull(append(append(dst, h.Key...), '='), h.Value)
	}
	return dst
}

// unescape is what \n, \t, \0 and \\ on a command line stand for.
func unescape(s string) string {
	return strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\0`, "\x00").Replace(s)
}

// recipe turns one piece of input into a record.
type recipe struct {
	topic     string
	partition int32
	separator string // "" for lines without keys
	key       []byte
	headers   []kgo.RecordHeader
	null      *string // the text that stands for null; nil if none does
	decode    func(string) ([]byte, error)
	json      bool
}

func newRecipe(topic string, f produceFlags) (*recipe, error) {
	r := &recipe{topic: topic, partition: max(f.partition, 0), separator: unescape(f.separator), json: f.input == "json"}
	if f.keySet {
		r.key = []byte(f.key)
	}
	if f.nullSet {
		r.null = &f.null
	}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok || name == "" {
			return nil, usagef("--header %q: want name=value", h)
		}
		r.headers = append(r.headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	switch f.input {
	case "text":
		r.decode = func(s string) ([]byte, error) { return []byte(s), nil }
	case "base64":
		r.decode = base64.StdEncoding.DecodeString
	case "hex":
		r.decode = hex.DecodeString
	case "json":
		if f.separator != "" || f.keySet || f.nullSet || f.whole {
			return nil, usagef("--input json: the lines say what --key, --key-separator, --null and --whole would")
		}
	default:
		return nil, usagef("--input %s: want %s", f.input, encodings)
	}
	return r, nil
}

// record makes the record of a line, or of a whole input.
func (r *recipe) record(text string) (*kgo.Record, error) {
	rec := &kgo.Record{Key: r.key}
	var err error
	if r.json {
		rec, err = parseJSONRecord(text)
	} else {
		err = r.fill(rec, text)
	}
	if err != nil {
		return nil, err
	}
	rec.Topic, rec.Partition = r.topic, r.partition
	rec.Headers = append(rec.Headers, r.headers...)
	return rec, nil
}

func parseJSONRecord(text string) (*kgo.Record, error) {
	var line jsonRecord
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		return nil, err
	}
	return line.record()
}

func (r *recipe) fill(rec *kgo.Record, text string) error {
	if r.separator != "" {
		if key, value, ok := strings.Cut(text, r.separator); ok {
			rec.Key, text = []byte(key), value
			if r.null != nil && key == *r.null {
				rec.Key = nil
			}
		}
	}
	if r.null != nil && text == *r.null {
		return nil
	}
	value, err := r.decode(text)
	rec.Value = value
	return err
}

// parseTime reads a time of day in RFC 3339, or a number of milliseconds after "@".
func parseTime(s string) (ms int64, ok bool) {
	if number, found := strings.CutPrefix(s, "@"); found {
		ms, err := strconv.ParseInt(number, 10, 64)
		return ms, err == nil
	}
	at, err := time.Parse(time.RFC3339, s)
	return at.UnixMilli(), err == nil
}
