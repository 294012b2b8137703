package batch

import "fmt"

// Codec is the compression of a batch's records, as numbered in its attributes.
type Codec uint8

// The codecs that Kafka knows; 5 to 7 are not assigned.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	LZ4    Codec = 3
	Zstd   Codec = 4
)

// Default levels, as of compression.gzip.level, compression.lz4.level and
// compression.zstd.level.
const (
	DefaultGzipLevel = -1
	DefaultLZ4Level  = 9
	DefaultZstdLevel = 3
)

func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	default:
		return fmt.Sprintf("codec(%d)", uint8(c))
	}
}

// Codec is the compression of the records; the value may be one that does not exist.
func (v View) Codec() Codec { return Codec(v[posAttributes+1] & codecMask) }

// Compression is a topic's wish: compression.type with the level of that codec.
// The zero value is compression.type=producer.
type Compression struct {
	// Recode is false for compression.type=producer: batches keep the codec they came
	// with.
	Recode bool
	Codec  Codec
	Level  int
}
