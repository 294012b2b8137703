package batch

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// encoder does one compression. Close writes the end; Reset(nil) lets go of the writer.
type encoder interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// Ranges of levels that topic configurations accept.
const (
	maxGzipLevel = 9
	maxLZ4Level  = 17
)

// encoderPools keep encoders by what they were made with.
type encoderPools struct {
	gzip   [maxGzipLevel + 1]sync.Pool
	snappy sync.Pool
	lz4    sync.Pool
	zstd   [zstd.SpeedBestCompression + 1]sync.Pool
}

// pooled is an encoder that knows its pool.
type pooled struct {
	encoder
	home *sync.Pool
}

func (c *Codecs) release(p *pooled) {
	p.Reset(nil)
	p.home.Put(p)
}

// encoder takes one out of its pool or makes one; give it back with release.
func (c *Codecs) encoder(codec Codec, level int) (*pooled, error) {
	home, fresh, err := c.encoders.kind(codec, level)
	if err != nil {
		return nil, err
	}
	if p, ok := home.Get().(*pooled); ok {
		if l, ok := p.encoder.(*lz4Encoder); ok {
			l.level = level
		}
		return p, nil
	}
	e, err := fresh()
	if err != nil {
		return nil, fmt.Errorf("make %v encoder of level %d: %w", codec, level, err)
	}
	return &pooled{encoder: e, home: home}, nil
}

// kind finds the pool for a codec and level, and how to fill it.
func (p *encoderPools) kind(codec Codec, level int) (*sync.Pool, func() (encoder, error), error) {
	switch codec {
	case Gzip:
		level = gzipLevel(level)
		return &p.gzip[level], func() (encoder, error) { return gzip.NewWriterLevel(nil, level) }, nil
	case Snappy:
		return &p.snappy, func() (encoder, error) { return new(xerialEncoder), nil }, nil
	case LZ4:
		return &p.lz4, func() (encoder, error) { return &lz4Encoder{level: level}, nil }, nil
	case Zstd:
		speed := zstd.EncoderLevelFromZstd(zstdLevel(level))
		return &p.zstd[speed], func() (encoder, error) { return newZstdEncoder(speed) }, nil
	default:
		return nil, nil, fmt.Errorf("compress with %v: %w", codec, kafkaerr.UnsupportedCompressionType)
	}
}

// gzipLevel maps the default, -1 or 0, to the level 6 that zlib means by it.
func gzipLevel(level int) int {
	if level <= 0 {
		return 6
	}
	return min(level, maxGzipLevel)
}

func zstdLevel(level int) int {
	if level == 0 {
		return DefaultZstdLevel
	}
	return level
}

// zstdEncodeWindow is enough for batches of the default size limit, and keeps an
// encoder at a few MiB.
const zstdEncodeWindow = 1 << 20

func newZstdEncoder(speed zstd.EncoderLevel) (encoder, error) {
	return zstd.NewWriter(nil,
		zstd.WithEncoderLevel(speed),
		zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(zstdEncodeWindow),
		zstd.WithEncoderCRC(false)) // the batch has a CRC; Kafka's zstd writes none either
}

// chunker collects what is written into blocks of one size and hands them on.
type chunker struct {
	w   io.Writer
	buf []byte
	out []byte // room for one encoded block
}

func (c *chunker) write(p []byte, size int, emit func(block []byte) error) (int, error) {
	n := len(p)
	for len(p) > 0 {
		room := min(size-len(c.buf), len(p))
		c.buf = append(c.buf, p[:room]...)
		p = p[room:]
		if len(c.buf) == size {
			if err := c.flush(emit); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (c *chunker) flush(emit func(block []byte) error) error {
	if len(c.buf) == 0 {
		return nil
	}
	err := emit(c.buf)
	c.buf = c.buf[:0]
	return err
}

// xerialBlock is snappy-java's block size.
const xerialBlock = 32 << 10

// xerialEncoder writes snappy blocks in xerial framing.
type xerialEncoder struct {
	chunker
	begun bool
}

func (e *xerialEncoder) Reset(w io.Writer) {
	e.w, e.buf, e.begun = w, e.buf[:0], false
}

func (e *xerialEncoder) Write(p []byte) (int, error) { return e.write(p, xerialBlock, e.emit) }

func (e *xerialEncoder) Close() error {
	if err := e.flush(e.emit); err != nil {
		return err
	}
	return e.begin()
}

func (e *xerialEncoder) begin() error {
	if e.begun {
		return nil
	}
	e.begun = true
	_, err := io.WriteString(e.w, xerialHeader)
	return err
}

func (e *xerialEncoder) emit(block []byte) error {
	if err := e.begin(); err != nil {
		return err
	}
	if e.out == nil {
		e.out = make([]byte, 4+s2.MaxEncodedLen(xerialBlock))
	}
	b := s2.EncodeSnappy(e.out[4:], block)
	binary.BigEndian.PutUint32(e.out, uint32(len(b)))
	_, err := e.w.Write(e.out[:4+len(b)])
	return err
}

// lz4FrameHeader opens every frame we write: independent blocks of at most 64 KiB, no
// checksums but the header's own.
const lz4FrameHeader = "\x04\x22\x4d\x18" + "\x60\x40" + "\x82"

// lz4Encoder writes one lz4 frame.
type lz4Encoder struct {
	chunker
	level int
	begun bool
	fast  lz4.Compressor
	high  lz4.CompressorHC
}

func (e *lz4Encoder) Reset(w io.Writer) {
	e.w, e.buf, e.begun = w, e.buf[:0], false
}

func (e *lz4Encoder) Write(p []byte) (int, error) { return e.write(p, lz4WriteBlock, e.emit) }

func (e *lz4Encoder) Close() error {
	if err := e.flush(e.emit); err != nil {
		return err
	}
	if err := e.begin(); err != nil {
		return err
	}
	_, err := io.WriteString(e.w, "\x00\x00\x00\x00") // end mark
	return err
}

func (e *lz4Encoder) begin() error {
	if e.begun {
		return nil
	}
	e.begun = true
	_, err := io.WriteString(e.w, lz4FrameHeader)
	return err
}

func (e *lz4Encoder) emit(block []byte) error {
	if err := e.begin(); err != nil {
		return err
	}
	if e.out == nil {
		e.out = make([]byte, 4+lz4.CompressBlockBound(lz4WriteBlock))
	}
	n, err := e.compress(block)
	if err != nil {
		return err
	}
	invariant.Check(n <= len(block), "lz4 block of %d bytes became %d", len(block), n)
	_, err = e.w.Write(e.out[:4+n])
	return err
}

// compress puts a block and its length into out and returns the block's size; one that
// would not shrink stays as it is.
func (e *lz4Encoder) compress(block []byte) (int, error) {
	var n int
	var err error
	if e.level == 0 || e.level == DefaultLZ4Level {
		n, err = e.fast.CompressBlock(block, e.out[4:])
	} else {
		e.high.Level = lz4Depth(e.level)
		n, err = e.high.CompressBlock(block, e.out[4:])
	}
	if err != nil {
		return 0, err
	}
	if n == 0 || n >= len(block) {
		binary.LittleEndian.PutUint32(e.out, uint32(len(block))|lz4Uncompressed)
		return copy(e.out[4:], block), nil
	}
	binary.LittleEndian.PutUint32(e.out, uint32(n))
	return n, nil
}

// lz4Depth maps Kafka's levels 1 to 17 to the search depths 1 to 9 of our encoder. As
// in Kafka the default, 9, is not among them: it means the fast encoder.
func lz4Depth(level int) lz4.CompressionLevel {
	level = min(max(level, 1), maxLZ4Level)
	return lz4.Level1 << ((level - 1) / 2)
}
