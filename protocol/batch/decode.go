package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// The decoders accept what Kafka's (Java's) accept, down to what may follow the
// compressed data: see the four types.

// gzipDecoder reads gzip members one after another and ignores what follows them, as
// java.util.zip.GZIPInputStream does.
type gzipDecoder struct {
	in bytes.Reader
	gz gzip.Reader
}

func (d *gzipDecoder) Reset(payload []byte) error {
	d.in.Reset(payload)
	if payload == nil {
		return nil
	}
	return d.nextMember()
}

func (d *gzipDecoder) nextMember() error {
	if err := d.gz.Reset(&d.in); err != nil {
		return noEOF(err)
	}
	d.gz.Multistream(false)
	return nil
}

func (d *gzipDecoder) Read(p []byte) (int, error) {
	for {
		n, err := d.gz.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, clearEOF(n, err)
		}
		if d.in.Len() == 0 || d.nextMember() != nil {
			return 0, io.EOF
		}
	}
}

// clearEOF holds an EOF back that came with data; the next Read reports it.
func clearEOF(n int, err error) error {
	if n > 0 && errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// noEOF makes an end where data must be an error that is not io.EOF.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Xerial framing, the format of snappy-java's SnappyOutputStream: a 16-byte header,
// then blocks, each behind its length.
//
//	┌──────────────┬───────────┬───────────┬────────┬───────┬────────┬───────
//	│ 82 SNAPPY 00 │ version 1 │ compat. 1 │ length │ block │ length │ block …
//	└──────8───────┴─────4─────┴─────4─────┴───4────┴───────┴────────┴───────
const (
	xerialMagic     = "\x82SNAPPY\x00"
	xerialHeader    = xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01"
	xerialMagicHead = 0x82534e41 // the first four bytes where a length may stand
	snappyMaxRatio  = 22
)

var errSnappy = errors.New("snappy: corrupt input")

// snappyDecoder reads xerial-framed snappy, and a bare snappy block, which some clients
// send. Like Java's it takes frames one after another, and a length that is cut short
// for the end.
type snappyDecoder struct {
	maxBlock int64
	in       []byte
	out      []byte // the decoded block
	left     []byte // what was not read of it
}

func (d *snappyDecoder) Reset(payload []byte) error {
	d.in, d.left = payload, nil
	if cap(d.out) > maxKeptBuffer {
		d.out = nil
	}
	switch {
	case payload == nil:
		return nil
	case len(payload) == 0:
		return io.ErrUnexpectedEOF
	case len(payload) < len(xerialHeader) || string(payload[:len(xerialMagic)]) != xerialMagic:
		d.in = nil
		return d.block(payload)
	default:
		return d.header()
	}
}

// header takes a frame's header off in; its versions say nothing that matters.
func (d *snappyDecoder) header() error {
	if len(d.in) < len(xerialHeader) {
		return io.ErrUnexpectedEOF
	}
	d.in = d.in[len(xerialHeader):]
	return nil
}

func (d *snappyDecoder) block(b []byte) error {
	n, err := s2.DecodedLen(b)
	if err != nil {
		return err
	}
	// A copy of at most 64 bytes takes three: a length that promises more is a lie that
	// must not make us allocate.
	if int64(n) > snappyMaxRatio*int64(len(b)) {
		return errSnappy
	}
	if int64(n) > d.maxBlock {
		return errTooManyBytes
	}
	if cap(d.out) < n {
		d.out = make([]byte, n)
	}
	d.out, err = s2.Decode(d.out[:cap(d.out)], b)
	d.left = d.out
	return err
}

func (d *snappyDecoder) Read(p []byte) (int, error) {
	for len(d.left) == 0 {
		if err := d.nextBlock(); err != nil {
			return 0, err
		}
	}
	n := copy(p, d.left)
	d.left = d.left[n:]
	return n, nil
}

func (d *snappyDecoder) nextBlock() error {
	if len(d.in) < 4 {
		return io.EOF
	}
	size := binary.BigEndian.Uint32(d.in)
	if size == xerialMagicHead {
		return d.header()
	}
	if int64(size) > int64(len(d.in)-4) {
		return io.ErrUnexpectedEOF
	}
	block := d.in[4 : 4+size]
	d.in = d.in[4+size:]
	return d.block(block)
}

const (
	// zstdSmallWindow is the window up to which a decoder is kept for reuse: what
	// zstd's levels below 20 need.
	zstdSmallWindow = 8 << 20
	// zstdMaxWindow is the largest window that libzstd, hence Kafka, accepts unasked.
	zstdMaxWindow = 128 << 20
)

// zstdDecoder reads zstd frames. A decoder allocates what the frame's header asks for,
// so a header of a few bytes costs up to 128 MiB. Those above zstdSmallWindow
// are decoded by one goroutine at a time, with a decoder that is thrown away.
type zstdDecoder struct {
	in    bytes.Reader
	small *zstd.Decoder
	big   *zstd.Decoder // nil unless this payload needs it; then we hold the token
	token chan struct{}
}

func newZstdDecoder(token chan struct{}) (*zstdDecoder, error) {
	small, err := zstd.NewReader(nil, zstdOptions(zstdSmallWindow)...)
	if err != nil {
		return nil, fmt.Errorf("make zstd decoder: %w", err)
	}
	return &zstdDecoder{small: small, token: token}, nil
}

// zstdOptions are those of a decoder that works in the caller's goroutine.
func zstdOptions(window uint64) []zstd.DOption {
	return []zstd.DOption{
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(window),
		zstd.WithDecoderMaxMemory(window),
	}
}

func (d *zstdDecoder) Reset(payload []byte) error {
	d.dropBig()
	d.in.Reset(payload)
	if payload == nil {
		return d.small.Reset(nil)
	}
	var h zstd.Header
	if err := h.Decode(payload); err == nil && zstdWindow(&h) > zstdSmallWindow {
		return d.useBig()
	}
	return d.small.Reset(&d.in)
}

func zstdWindow(h *zstd.Header) uint64 {
	if h.SingleSegment {
		return max(h.WindowSize, h.FrameContentSize)
	}
	return h.WindowSize
}

// useBig waits for the token; whoever has it is decoding and not waiting for anything.
func (d *zstdDecoder) useBig() error {
	big, err := zstd.NewReader(nil, zstdOptions(zstdMaxWindow)...)
	if err != nil {
		return fmt.Errorf("make zstd decoder: %w", err)
	}
	d.token <- struct{}{}
	d.big = big
	return big.Reset(&d.in)
}

func (d *zstdDecoder) dropBig() {
	if d.big == nil {
		return
	}
	d.big.Close()
	d.big = nil
	<-d.token
}

func (d *zstdDecoder) Read(p []byte) (int, error) {
	if d.big != nil {
		return d.big.Read(p)
	}
	return d.small.Read(p)
}
