package batch

import (
	"encoding/binary"
	"math"

	"github.com/klamm-mq/klamm/internal/invariant"
)

// Header is one record header to be written.
type Header struct {
	Key   string
	Value []byte // nil = null
}

// NewRecord is one record to be written.
type NewRecord struct {
	TimestampMs int64
	Key, Value  []byte // nil = null
	Headers     []Header
}

// Producer is the idempotent producer that a batch belongs to.
type Producer struct {
	ID           int64
	Epoch        int16
	BaseSequence int32
}

// noProducer is what a batch without producer bears.
var noProducer = Producer{ID: -1, Epoch: -1, BaseSequence: -1}

// BuilderOptions says what stands in the header of the batch to build. The zero value
// is a plain batch at offset 0, uncompressed, with create times and leader epoch 0.
type BuilderOptions struct {
	BaseOffset  int64
	LeaderEpoch int32
	Codec       Codec
	// Level of the codec; 0 means its default.
	Level int
	// Producer is nil for a batch without producer id.
	Producer      *Producer
	Transactional bool
	Control       bool
	// AppendTimeMs, if LogAppendTime, is the header's max timestamp.
	LogAppendTime bool
	AppendTimeMs  int64
	// DeleteHorizonMs, if > 0, sets the delete-horizon bit and is the base timestamp
	// (KIP-534).
	DeleteHorizonMs int64
	// LastOffsetDelta, if > 0, is the header's last offset delta even if the last
	// records are gone: compaction keeps a batch's range.
	LastOffsetDelta int32
}

// Builder collects records and makes one batch of them. It may be reused by Reset.
// Not safe for concurrent use.
type Builder struct {
	o             BuilderOptions
	buf           []byte // room for the header, then encoded records
	headers       []byte // scratch: one record's encoded headers
	count         int32
	baseTimestamp int64
	maxTimestamp  int64
	lastDelta     int32
}

// NewBuilder makes a builder.
func NewBuilder(o BuilderOptions) *Builder {
	b := new(Builder)
	b.Reset(o)
	return b
}

// Reset starts an empty batch and keeps the buffer; a batch that Build returned
// uncompressed aliases that buffer and is overwritten.
func (b *Builder) Reset(o BuilderOptions) {
	b.o = o
	b.buf = append(b.buf[:0], make([]byte, HeaderSize)...)
	b.count, b.lastDelta = 0, -1
	b.maxTimestamp, b.baseTimestamp = noTimestamp, noTimestamp
}

// noTimestamp is what a record without timestamp bears.
const noTimestamp int64 = -1

// Len is the number of records so far; Size the bytes of the batch if not compressed.
func (b *Builder) Len() int  { return int(b.count) }
func (b *Builder) Size() int { return len(b.buf) }

// Append adds a record at the next offset.
func (b *Builder) Append(r NewRecord) { b.AppendAt(b.lastDelta+1, r) }

// AppendAt adds a record at an offset relative to the batch's base offset; deltas must
// rise.
func (b *Builder) AppendAt(offsetDelta int32, r NewRecord) {
	b.note(offsetDelta, r.TimestampMs)
	b.headers = appendHeaders(b.headers[:0], r.Headers)
	b.buf = appendRecord(b.buf, &encoding{
		timestampDelta: r.TimestampMs - b.baseTimestamp,
		offsetDelta:    offsetDelta,
		key:            r.Key,
		value:          r.Value,
		headers:        Headers{raw: b.headers, n: int32(len(r.Headers))},
	})
}

// Copy adds a record read from another batch at an offset relative to this one's base
// offset. Its unused attributes are not kept.
func (b *Builder) Copy(offsetDelta int32, r *Record) {
	b.note(offsetDelta, r.Timestamp)
	b.headers = r.Headers.appendTo(b.headers[:0])
	b.buf = appendRecord(b.buf, &encoding{
		timestampDelta: r.Timestamp - b.baseTimestamp,
		offsetDelta:    offsetDelta,
		key:            r.Key,
		value:          r.Value,
		headers:        Headers{raw: b.headers, n: r.Headers.n},
	})
}

// note accounts for one more record.
func (b *Builder) note(offsetDelta int32, timestampMs int64) {
	invariant.Check(offsetDelta > b.lastDelta, "record at delta %d after delta %d", offsetDelta, b.lastDelta)
	invariant.Check(b.count < math.MaxInt32, "batch of %d records is full", b.count)
	if b.count == 0 {
		b.baseTimestamp = timestampMs
		if b.o.DeleteHorizonMs > 0 {
			b.baseTimestamp = b.o.DeleteHorizonMs
		}
	}
	b.count++
	b.lastDelta = offsetDelta
	b.maxTimestamp = max(b.maxTimestamp, timestampMs)
}

// Build finishes the batch: records compressed, header and CRC written. Uncompressed,
// the view aliases the builder's buffer until Reset; codecs may then be nil. The error
// is that of a codec and never happens for None.
func (b *Builder) Build(codecs *Codecs) (View, error) {
	invariant.Check(b.count > 0 || b.o.LastOffsetDelta > 0, "batch without records")
	v := View(b.buf)
	if b.o.Codec != None {
		out, err := codecs.Compress(make([]byte, HeaderSize), b.o.Codec, b.o.Level, b.buf[HeaderSize:])
		if err != nil {
			return nil, err
		}
		v = out
	}
	h := b.header()
	h.put(v)
	return v, nil
}

// New builds an uncompressed batch of records: what tests and coordinators mostly want.
func New(o BuilderOptions, records ...NewRecord) View {
	invariant.Check(o.Codec == None, "batch.New does not compress")
	b := NewBuilder(o)
	for _, r := range records {
		b.Append(r)
	}
	v, _ := b.Build(nil) // can't fail uncompressed
	return v
}

func (b *Builder) header() header {
	h := header{
		BuilderOptions: b.o,
		baseTimestamp:  b.baseTimestamp,
		maxTimestamp:   b.maxTimestamp,
		lastDelta:      max(b.lastDelta, b.o.LastOffsetDelta),
		count:          b.count,
		producer:       noProducer,
		deleteHorizon:  b.o.DeleteHorizonMs > 0,
	}
	if b.o.LogAppendTime {
		h.maxTimestamp = b.o.AppendTimeMs
	}
	if b.o.Producer != nil {
		h.producer = *b.o.Producer
	}
	return h
}

// header is everything that stands before the records.
type header struct {
	BuilderOptions
	producer                    Producer
	baseTimestamp, maxTimestamp int64
	lastDelta, count            int32
	deleteHorizon               bool
}

// put writes the header into v, whose records are in place, and the CRC of it all.
func (h *header) put(v View) {
	p, be := h.producer, binary.BigEndian
	be.PutUint64(v[posBaseOffset:], uint64(h.BaseOffset))
	be.PutUint32(v[posLength:], uint32(len(v)-PrefixSize))
	be.PutUint32(v[posLeaderEpoch:], uint32(h.LeaderEpoch))
	v[posMagic] = magic2
	be.PutUint16(v[posAttributes:], uint16(h.attributes()))
	be.PutUint32(v[posLastOffsetDelta:], uint32(h.lastDelta))
	be.PutUint64(v[posBaseTimestamp:], uint64(h.baseTimestamp))
	be.PutUint64(v[posMaxTimestamp:], uint64(h.maxTimestamp))
	be.PutUint64(v[posProducerID:], uint64(p.ID))
	be.PutUint16(v[posProducerEpoch:], uint16(p.Epoch))
	be.PutUint32(v[posBaseSequence:], uint32(p.BaseSequence))
	be.PutUint32(v[posRecordCount:], uint32(h.count))
	be.PutUint32(v[posCRC:], v.ComputeCRC())
}

func (h *header) attributes() int16 {
	a := int16(h.Codec) & codecMask
	if h.LogAppendTime {
		a |= logAppendTimeBit
	}
	if h.Transactional {
		a |= transactionalBit
	}
	if h.Control {
		a |= controlBit
	}
	if h.deleteHorizon {
		a |= deleteHorizonBit
	}
	return a
}

// encoding is one record about to be written; its headers are encoded already.
type encoding struct {
	timestampDelta int64
	offsetDelta    int32
	key, value     []byte
	headers        Headers
}

// size of the record without its length prefix.
func (e *encoding) size() int {
	return 1 + varintLen(e.timestampDelta) + varintLen(int64(e.offsetDelta)) +
		bytesLen(e.key) + bytesLen(e.value) + varintLen(int64(e.headers.n)) + len(e.headers.raw)
}

func appendRecord(dst []byte, e *encoding) []byte {
	dst = appendVarint(dst, int64(e.size()))
	dst = append(dst, 0) // attributes, unused in magic 2
	dst = appendVarint(dst, e.timestampDelta)
	dst = appendVarint(dst, int64(e.offsetDelta))
	dst = appendBytes(dst, e.key)
	dst = appendBytes(dst, e.value)
	dst = appendVarint(dst, int64(e.headers.n))
	return append(dst, e.headers.raw...)
}

func appendHeaders(dst []byte, headers []Header) []byte {
	for _, h := range headers {
		dst = appendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendBytes(dst, h.Value)
	}
	return dst
}

// appendBytes appends length and bytes; nil is null, length -1.
func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return appendVarint(dst, -1)
	}
	dst = appendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

func bytesLen(b []byte) int {
	if b == nil {
		return 1
	}
	return varintLen(int64(len(b))) + len(b)
}
