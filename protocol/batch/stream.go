package batch

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

const (
	// streamWindow is the buffer that a stream starts with. Records that fit are read
	// in place; larger ones grow it (read whole) or are passed over piece by piece.
	streamWindow = 32 << 10
	// maxKeptBuffer is the largest buffer that goes back to a pool.
	maxKeptBuffer = 1 << 20
)

var (
	errTooManyBytes = errors.New("decoded size passes the limit")
	errRecordSize   = errors.New("record passes the limit")
)

// stream is the decoded payload of one compressed batch, seen through a window.
//
//	decoded   ░░░░░░░░░░░░░░▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓┈┈┈┈┈┈┈┈  not decoded yet
//	                        ↑ pos             ↑ end
type stream struct {
	codecs   *Codecs
	codec    Codec
	dec      decoder
	buf      []byte
	pos, end int
	total    int64 // bytes decoded
	err      error // why nothing follows buf[:end]; io.EOF at the end
}

// open starts decoding payload. A failure stands in the stream and is met by the first
// read.
func (c *Codecs) open(codec Codec, payload []byte) *stream {
	s, ok := c.streams.Get().(*stream)
	if !ok {
		s = &stream{codecs: c, buf: make([]byte, streamWindow)}
	}
	s.codec, s.pos, s.end, s.total, s.err = codec, 0, 0, 0, nil
	s.dec, s.err = c.decoder(codec)
	if s.err == nil {
		s.err = s.dec.Reset(payload)
	}
	return s
}

// close gives decoder and window back.
func (s *stream) close() {
	if s.dec != nil {
		_ = s.dec.Reset(nil) // letting go can't fail
		s.codecs.decoders[s.codec].Put(s.dec)
		s.dec = nil
	}
	if cap(s.buf) > maxKeptBuffer {
		s.buf = make([]byte, streamWindow)
	}
	s.codecs.streams.Put(s)
}

// peek returns at least n decoded bytes without taking them, fewer only if the stream
// ends before.
func (s *stream) peek(n int) []byte {
	for s.end-s.pos < n && s.err == nil {
		s.fill(n)
	}
	return s.buf[s.pos:s.end]
}

func (s *stream) advance(n int) { s.pos += n }

// fill decodes more, making room for n bytes. The window grows with the bytes that have
// come, never on a length's word alone.
func (s *stream) fill(n int) {
	if s.pos > 0 {
		s.end = copy(s.buf, s.buf[s.pos:s.end])
		s.pos = 0
	}
	if s.end == len(s.buf) {
		s.grow(n)
	}
	if s.err != nil {
		return
	}
	m, err := s.decode(s.buf[s.end:])
	s.end += m
	s.total += int64(m)
	s.err = err
	if s.total > s.codecs.maxBatchBytes {
		s.limit(errTooManyBytes)
	}
}

// decode reads into p. Java's inflater gives nothing of a piece in which it meets damage,
// not even what comes before it, so that Kafka answers for the compression where our
// decoder would first show a record that the damage has spoiled.
func (s *stream) decode(p []byte) (n int, err error) {
	if s.codec != Gzip {
		return s.dec.Read(p)
	}
	for n < len(p) && err == nil {
		var m int
		m, err = s.dec.Read(p[n:])
		n += m
	}
	var damage flate.CorruptInputError
	if errors.As(err, &damage) {
		n = 0
	}
	return n, err
}

func (s *stream) grow(n int) {
	if n > s.codecs.maxRecordBytes {
		s.limit(errRecordSize)
		return
	}
	bigger := make([]byte, min(2*len(s.buf), max(n, streamWindow)))
	copy(bigger, s.buf[:s.end])
	s.buf = bigger
}

func (s *stream) limit(err error) {
	s.codecs.limitHits.Inc()
	s.err = err
}

// skip passes over n bytes; false if the stream ends before.
func (s *stream) skip(n int) bool {
	for n > s.end-s.pos {
		n -= s.end - s.pos
		s.pos = s.end
		if len(s.peek(1)) == 0 {
			return false
		}
	}
	s.pos += n
	return true
}

// atEnd reports whether nothing is left, which must be asked for: a checksum behind the
// data may prove damage.
func (s *stream) atEnd() bool { return len(s.peek(1)) == 0 && errors.Is(s.err, io.EOF) }

// failure is why a record could not be had from here: the compression's fault, if that
// ended the stream, else the record's, which reached beyond the end.
func (s *stream) failure() error {
	switch {
	case s.err == nil || errors.Is(s.err, io.EOF):
		return invalidRecord("the batch ends within it")
	case errors.Is(s.err, errTooManyBytes) || errors.Is(s.err, errRecordSize):
		return fmt.Errorf("%v batch of %d bytes so far: %w: %w", s.codec, s.total, s.err, kafkaerr.MessageTooLarge)
	default:
		return fmt.Errorf("undo %v compression: %w: %w", s.codec, s.err, kafkaerr.UnknownServerError)
	}
}

// record reads the record at the head of the stream, whose body may have limit bytes, 0
// for any number. With whole, or if it fits into the window anyway, key, value and headers
// are there; else they are passed over.
func (s *stream) record(f *frame, r *Record, whole bool, limit int) error {
	size, n := varint(s.peek(maxVarintLen))
	switch {
	case n == 0:
		return s.failure()
	case n < 0 || size < 0:
		return invalidRecord("its length is too long or negative")
	case limit > 0 && int(size) > limit:
		return invalidRecord("its %d bytes are above max.decompressed.message.bytes %d", size, limit)
	}
	total := n + int(size)
	if !whole && total > len(s.buf) {
		return s.passOver(f, r, n, size)
	}
	data := s.peek(total)
	if len(data) < total {
		return s.failure()
	}
	if _, err := f.parse(data[:total], r); err != nil {
		if !whole {
			return cmp.Or(s.passOver(f, r, n, size), err)
		}
		return err
	}
	s.advance(total)
	return nil
}

// passOver reads what is small of a record and skips the rest. As Kafka, it compares with
// the record's size at the end only: fields may lead beyond the record and to the end of
// the stream, where damage of the compression shows, and that is then the answer.
func (s *stream) passOver(f *frame, r *Record, n int, size int32) error {
	s.advance(n)
	p := passer{s: s}
	*r = Record{Size: int32(n) + size}
	p.fields(f, r)
	notOne := invalidRecord("its %d bytes are not one record", size)
	switch {
	case p.ended:
		return s.failure()
	case p.bad:
		return notOne
	case p.taken != int64(size):
		return cmp.Or(s.damage(f), notOne)
	}
	return nil
}

// damage is what is wrong with the compression of what follows, nil if nothing, or if a
// record is found to be none before. Kafka does not notice the size of a record that it
// passes over, but goes on.
func (s *stream) damage(f *frame) error {
	for {
		size, n := varint(s.peek(maxVarintLen))
		switch {
		case n == 0 && errors.Is(s.err, io.EOF):
			return nil
		case n == 0:
			return s.failure()
		case n < 0 || size < 0:
			return nil
		}
		s.advance(n)
		p := passer{s: s}
		if p.fields(f, new(Record)); p.bad {
			if p.ended {
				return s.failure()
			}
			return nil
		}
	}
}

// passer is cursor's counterpart over a stream. After the first trouble it reads nothing.
type passer struct {
	s     *stream
	taken int64
	bad   bool
	ended bool // the stream ended within the record
}

// fields reads what is small of a record's body.
func (p *passer) fields(f *frame, r *Record) {
	r.Attributes = p.byte()
	delta := p.varlong()
	r.OffsetDelta = p.varint()
	f.place(r, delta)
	r.HasKey, _ = p.bytes()
	r.HasValue, _ = p.bytes()
	for range p.headerCount() {
		if hasKey, ok := p.bytes(); !hasKey || !ok {
			p.bad = true
			break
		}
		if _, ok := p.bytes(); !ok {
			break
		}
	}
}

// head looks at the next bytes, at most n.
func (p *passer) head(n int) []byte {
	if p.bad {
		return nil
	}
	b := p.s.peek(n)
	return b[:min(len(b), n)]
}

func (p *passer) take(n int) {
	p.s.advance(n)
	p.taken += int64(n)
}

// short notes a field that the end of the stream has cut.
func (p *passer) short() { p.ended, p.bad = p.ended || !p.bad, true }

func (p *passer) byte() int8 {
	b := p.head(1)
	if len(b) == 0 {
		p.short()
		return 0
	}
	v := int8(b[0])
	p.take(1)
	return v
}

func (p *passer) varint() int32 {
	v, n := varint(p.head(maxVarintLen))
	if n <= 0 {
		p.notANumber(n)
		return 0
	}
	p.take(n)
	return v
}

func (p *passer) varlong() int64 {
	v, n := varlong(p.head(maxVarlongLen))
	if n <= 0 {
		p.notANumber(n)
		return 0
	}
	p.take(n)
	return v
}

func (p *passer) notANumber(n int) {
	if n == 0 {
		p.short()
		return
	}
	p.bad = true
}

// bytes passes over a length and as many bytes; present is false for null.
func (p *passer) bytes() (present, ok bool) {
	n := p.varint()
	if p.bad || n < 0 {
		return false, !p.bad
	}
	if !p.s.skip(int(n)) {
		p.short()
		return false, false
	}
	p.taken += int64(n)
	return true, true
}

func (p *passer) headerCount() int32 {
	n := p.varint()
	if n < 0 {
		p.bad = true
	}
	return max(n, 0)
}
