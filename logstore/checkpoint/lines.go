package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// currentVersion is the first line of every checkpoint file.
const currentVersion = 0

// FormatError says which line of a file cannot be read. Lines count from 1.
type FormatError struct {
	File   string
	Line   int
	Reason string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// encode writes version, count and n lines, each by one call of line.
func encode(n int, lines func(yield func(line []byte))) []byte {
	buf := strconv.AppendInt(nil, currentVersion, 10)
	buf = append(buf, '\n')
	buf = strconv.AppendInt(buf, int64(n), 10)
	buf = append(buf, '\n')
	lines(func(line []byte) {
		buf = append(buf, line...)
		buf = append(buf, '\n')
	})
	return buf
}

// readFile is the whole of a file, nil if it does not exist.
func readFile(fsys vfs.FS, name string) ([]byte, error) {
	data, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	return data, nil
}

// decode checks version and count and hands each entry's fields to entry, whose error
// becomes the reason of a *FormatError. Line ends of Windows, spaces around fields and
// empty lines at the end are accepted.
func decode(name string, data []byte, entry func(fields [][]byte) error) error {
	r := lineReader{file: name, rest: data}
	if !r.next() {
		return nil // missing or empty
	}
	version, err := r.number()
	if err != nil {
		return err
	}
	if version != currentVersion {
		return r.errorf("version %d is not known, want %d", version, currentVersion)
	}
	if !r.next() {
		return nil // as Kafka: a version alone is no entries
	}
	count, err := r.number()
	if err != nil {
		return err
	}
	return r.entries(count, entry)
}

// lineReader walks over lines; after next, line is the current one.
type lineReader struct {
	file string
	rest []byte
	line []byte
	n    int // of line
}

// next moves to the next line that is not the empty end of the file.
func (r *lineReader) next() bool {
	if len(bytes.TrimSpace(r.rest)) == 0 {
		return false
	}
	line, rest, _ := bytes.Cut(r.rest, []byte{'\n'})
	r.line, r.rest = bytes.TrimSpace(line), rest
	r.n++
	return true
}

func (r *lineReader) errorf(format string, args ...any) error {
	return &FormatError{File: r.file, Line: r.n, Reason: fmt.Sprintf(format, args...)}
}

func (r *lineReader) number() (int64, error) {
	v, err := strconv.ParseInt(string(r.line), 10, 32)
	if err != nil || v < 0 {
		return 0, r.errorf("%q is not a number", r.line)
	}
	return v, nil
}

func (r *lineReader) entries(count int64, entry func(fields [][]byte) error) error {
	var found int64
	for r.next() {
		if err := entry(bytes.Fields(r.line)); err != nil {
			return r.errorf("%q: %v", r.line, err)
		}
		found++
	}
	if found != count {
		return r.errorf("%d entries announced, %d found", count, found)
	}
	return nil
}

// parse reads one decimal field of at most the given number of bits.
func parse(what string, field []byte, bits int) (int64, error) {
	v, err := strconv.ParseInt(string(field), 10, bits)
	if err != nil {
		return 0, fmt.Errorf("%s is not a number of %d bits", what, bits)
	}
	return v, nil
}
