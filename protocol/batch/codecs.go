package batch

import (
	"fmt"
	"io"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Limits on what compressed bytes may become. Kafka has none: a megabyte of zstd can
// grow to tens of gigabytes there.
const (
	// DefaultMaxBatchBytes bounds the decoded bytes of one batch. They are never held
	// at once, so it is a bound on the time that one batch may take.
	DefaultMaxBatchBytes = 512 << 20
	// DefaultMaxRecordBytes bounds a compressed record that is read whole, hence an
	// iterator's memory.
	DefaultMaxRecordBytes = 64 << 20
)

// CodecsOptions are the limits of Codecs; 0 stands for the default.
type CodecsOptions struct {
	MaxBatchBytes  int64
	MaxRecordBytes int
	// Registerer, if not nil, exports how often a limit was hit.
	Registerer prometheus.Registerer
}

// Codecs keeps decoders and encoders for reuse. One of them serves a whole broker; it
// is passed in, not global, so that two brokers in one process share nothing. Safe for
// concurrent use.
type Codecs struct {
	maxBatchBytes  int64
	maxRecordBytes int
	limitHits      prometheus.Counter

	decoders [Zstd + 1]sync.Pool // of decoder, by codec
	streams  sync.Pool           // of *stream
	encoders encoderPools
	// bigWindow has one token: the right to decode zstd frames whose window is above
	// zstdSmallWindow.
	bigWindow chan struct{}
}

// NewCodecs makes a set of pools.
func NewCodecs(o CodecsOptions) *Codecs {
	c := &Codecs{
		maxBatchBytes:  o.MaxBatchBytes,
		maxRecordBytes: o.MaxRecordBytes,
		bigWindow:      make(chan struct{}, 1),
		limitHits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "klamm_batch_decode_limit_total",
			Help: "Compressed batches given up because their decoded size passed a limit.",
		}),
	}
	if c.maxBatchBytes == 0 {
		c.maxBatchBytes = DefaultMaxBatchBytes
	}
	if c.maxRecordBytes == 0 {
		c.maxRecordBytes = DefaultMaxRecordBytes
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(c.limitHits)
	}
	return c
}

// decoder undoes one compression. Reset starts on a payload, of which it keeps a
// reference until the next Reset; Reset(nil) lets go of it.
type decoder interface {
	io.Reader
	Reset(payload []byte) error
}

// decoder takes a decoder for codec out of the pool or makes one.
func (c *Codecs) decoder(codec Codec) (decoder, error) {
	if codec == None || codec > Zstd {
		return nil, fmt.Errorf("compression type %d is not assigned: %w", codec, kafkaerr.UnknownServerError)
	}
	if d, ok := c.decoders[codec].Get().(decoder); ok {
		return d, nil
	}
	switch codec {
	case Gzip:
		return new(gzipDecoder), nil
	case Snappy:
		return &snappyDecoder{maxBlock: c.maxBatchBytes}, nil
	case LZ4:
		return new(lz4Decoder), nil
	default:
		return newZstdDecoder(c.bigWindow)
	}
}

// Compress appends src, compressed, to dst. Level 0 is the codec's default. The result
// is what Kafka's clients write: a gzip member, xerial-framed snappy blocks, an lz4
// frame of independent 64 KiB blocks, a zstd frame.
func (c *Codecs) Compress(dst []byte, codec Codec, level int, src []byte) ([]byte, error) {
	s := &sink{buf: dst, limit: maxInt}
	e, err := c.encoder(codec, level)
	if err != nil {
		return nil, err
	}
	defer c.release(e)
	e.Reset(s)
	if _, err := e.Write(src); err != nil {
		return nil, fmt.Errorf("compress with %v: %w", codec, err)
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("compress with %v: %w", codec, err)
	}
	return s.buf, nil
}

const maxInt = int(^uint(0) >> 1)

// sink collects what an encoder writes, up to limit bytes in all; what does not fit is
// dropped and noted.
type sink struct {
	buf   []byte
	limit int
	over  bool
}

func (s *sink) Write(p []byte) (int, error) {
	if s.over || len(p) > s.limit-len(s.buf) {
		s.over = true
		return len(p), nil
	}
	s.buf = append(s.buf, p...)
	return len(p), nil
}
