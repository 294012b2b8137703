package batch

import (
	"fmt"
	"iter"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Record is one record of a batch. Its slices alias the batch (or the iterator's
// buffer, if the batch is compressed) and are valid until the next record is read.
type Record struct {
	// Offset and Timestamp (ms) are absolute. In a batch with the LogAppendTime bit
	// every record bears the batch's max timestamp.
	Offset    int64
	Timestamp int64
	// OffsetDelta is the offset relative to the batch's base offset, as encoded.
	OffsetDelta int32
	// Size is the number of encoded bytes, the length prefix included.
	Size int32
	// Key and Value are nil when null, and empty but not nil when empty. An iterator
	// that was asked to skip payloads gives neither, only HasKey.
	Key, Value []byte
	Headers    Headers
	// Attributes is unused in magic 2 and kept for inspection.
	Attributes int8
	HasKey     bool
	HasValue   bool
}

// Headers are the record headers, still encoded.
type Headers struct {
	raw []byte // pairs of varint-prefixed key and value, checked when the record was read
	n   int32
}

// Len is the number of headers.
func (h Headers) Len() int { return int(h.n) }

// All yields key and value of each header in order; a null value is nil.
func (h Headers) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		c := cursor{buf: h.raw}
		for range h.n {
			key, value := c.bytes(), c.bytes()
			if c.bad || !yield(key, value) {
				return
			}
		}
	}
}

// appendTo encodes the headers anew, in the shortest form: what came may have had lengths
// with surplus bytes, or nulls other than -1.
func (h Headers) appendTo(dst []byte) []byte {
	for key, value := range h.All() {
		dst = appendBytes(dst, key)
		dst = appendBytes(dst, value)
	}
	return dst
}

// frame is what a batch's header says about each of its records.
type frame struct {
	baseOffset    int64
	baseTimestamp int64
	appendTime    int64 // the timestamp of every record, if isAppendTime
	isAppendTime  bool
}

func frameOf(v View) frame {
	return frame{
		baseOffset:    v.BaseOffset(),
		baseTimestamp: v.BaseTimestamp(),
		appendTime:    v.MaxTimestamp(),
		isAppendTime:  v.IsLogAppendTime(),
	}
}

// parse reads the record at the head of buf and returns its encoded size. Errors are
// of kind kafkaerr.InvalidRecord, except that for a length of more than five bytes Kafka
// has no answer but UNKNOWN_SERVER_ERROR.
func (f *frame) parse(buf []byte, r *Record) (int, error) {
	size, n := varint(buf)
	switch {
	case n == 0:
		return 0, invalidRecord("the batch ends within its length")
	case n < 0:
		return 0, fmt.Errorf("record: its length is too long: %w", kafkaerr.UnknownServerError)
	}
	if size < 0 || int(size) > len(buf)-n {
		return 0, invalidRecord("it claims %d bytes where %d are left", size, len(buf)-n)
	}
	c := cursor{buf: buf[n : n+int(size)]}
	r.Attributes = c.byte()
	delta := c.varlong()
	r.OffsetDelta = c.varint()
	f.place(r, delta)
	r.Key = c.bytes()
	r.Value = c.bytes()
	r.HasKey, r.HasValue = r.Key != nil, r.Value != nil
	r.Headers = c.headers()
	r.Size = int32(n) + size
	if c.bad || len(c.buf) != 0 {
		return 0, invalidRecord("its %d bytes are not one record", size)
	}
	return int(r.Size), nil
}

// place sets what depends on the batch: offset and timestamp.
func (f *frame) place(r *Record, timestampDelta int64) {
	r.Offset = f.baseOffset + int64(r.OffsetDelta)
	r.Timestamp = f.baseTimestamp + timestampDelta
	if f.isAppendTime {
		r.Timestamp = f.appendTime
	}
}

func invalidRecord(format string, args ...any) error {
	return fmt.Errorf("record: %s: %w", fmt.Sprintf(format, args...), kafkaerr.InvalidRecord)
}

// cursor takes fields off the front of a record's body. The first field that is not
// there sets bad, after which every field is zero.
type cursor struct {
	buf []byte
	bad bool
}

func (c *cursor) fail() {
	c.bad = true
	c.buf = nil
}

func (c *cursor) byte() int8 {
	if len(c.buf) == 0 {
		c.fail()
		return 0
	}
	b := c.buf[0]
	c.buf = c.buf[1:]
	return int8(b)
}

func (c *cursor) varint() int32 {
	v, n := varint(c.buf)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.buf = c.buf[n:]
	return v
}

func (c *cursor) varlong() int64 {
	v, n := varlong(c.buf)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.buf = c.buf[n:]
	return v
}

// bytes takes a length and as many bytes: nil if the length is negative (null).
func (c *cursor) bytes() []byte {
	n := c.varint()
	if n < 0 || c.bad {
		return nil
	}
	if int(n) > len(c.buf) {
		c.fail()
		return nil
	}
	b := c.buf[:n:n]
	c.buf = c.buf[n:]
	return b
}

// headers takes a count and as many pairs, all that is left of the record. A header's
// key is never null.
func (c *cursor) headers() Headers {
	n := c.varint()
	if n == 0 || c.bad {
		return Headers{}
	}
	if n < 0 || int(n) > len(c.buf) {
		c.fail()
		return Headers{}
	}
	h := Headers{raw: c.buf, n: n}
	for range n {
		if key := c.bytes(); key == nil {
			c.fail()
			return Headers{}
		}
		c.bytes()
	}
	return h
}
