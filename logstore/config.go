package logstore

import (
	"math"

	"github.com/klamm-mq/klamm/protocol/batch"
)

// Config is what one log needs of its topic's configuration, typed. Whoever knows the
// topic keys fills it; UpdateConfig swaps it while the log is in use. The names are
// those of Kafka's LogConfig.
type Config struct {
	// Durability says what the log's acknowledgements wait for, hence how eagerly its
	// bytes are flushed.
	Durability Durability

	SegmentBytes       int32 // segment.bytes: a segment rolls before it would grow beyond this
	SegmentMs          int64 // segment.ms, measured in message time
	SegmentJitterMs    int64 // segment.jitter.ms: each segment draws its share of it
	SegmentIndexBytes  int32 // segment.index.bytes: a full index rolls the segment
	IndexIntervalBytes int32 // index.interval.bytes between two index entries

	Delete         bool  // cleanup.policy contains delete
	Compact        bool  // cleanup.policy contains compact
	RetentionMs    int64 // retention.ms, -1 = for ever
	RetentionBytes int64 // retention.bytes, -1 = no limit

	// Of what is compacted:
	MinCleanableRatio  float64 // min.cleanable.dirty.ratio
	MinCompactionLagMs int64   // min.compaction.lag.ms
	MaxCompactionLagMs int64   // max.compaction.lag.ms
	DeleteRetentionMs  int64   // delete.retention.ms

	Compression       batch.Compression // compression.type and the codec's level
	MaxMessageBytes   int32             // max.message.bytes, of one batch
	MaxRecordBytes    int32             // max.decompressed.message.bytes, of one compressed record; 0 = no limit
	LogAppendTime     bool              // message.timestamp.type=LogAppendTime
	TimestampBeforeMs int64             // message.timestamp.before.max.ms
	TimestampAfterMs  int64             // message.timestamp.after.max.ms

	// WriteAheadBytes is the size of the blocks of zeros that are written behind the end of a
	// log that gets many small appends, to save CPU (ahead.go); 0 = none. With DurabilityFsync
	// it costs more than it saves: each sync writes the whole block. HotBytes appended within
	// a second are many.
	WriteAheadBytes, HotBytes int32

	FlushMessages     int64 // flush.messages: unflushed records that make a flush due
	FlushMs           int64 // flush.ms: age of unflushed records that makes a flush due
	FileDeleteDelayMs int64 // file.delete.delay.ms
}

// Durability is the topic key "durability".
type Durability int8

// With DurabilityFsync every append makes a flush due at once, since nobody sees a
// record before it is flushed. With DurabilityReplicated, Kafka's rules decide:
// flush.messages, flush.ms, roll, and the recovery point's own pace.
const (
	DurabilityFsync Durability = iota
	DurabilityReplicated
)

func (d Durability) String() string {
	if d == DurabilityReplicated {
		return "replicated"
	}
	return "fsync"
}

// DefaultConfig is Kafka 4.4's defaults with durability=fsync.
func DefaultConfig() Config {
	return Config{
		SegmentBytes:       1 << 30,
		SegmentMs:          7 * 24 * 3600 * 1000,
		SegmentIndexBytes:  10 << 20,
		IndexIntervalBytes: 4096,
		Delete:             true,
		RetentionMs:        7 * 24 * 3600 * 1000,
		RetentionBytes:     -1,
		MinCleanableRatio:  0.5,
		MaxCompactionLagMs: math.MaxInt64,
		DeleteRetentionMs:  24 * 3600 * 1000,
		MaxMessageBytes:    1048588,
		TimestampBeforeMs:  math.MaxInt64,
		TimestampAfterMs:   3600 * 1000,
		FlushMessages:      math.MaxInt64,
		FlushMs:            math.MaxInt64,
		FileDeleteDelayMs:  60 * 1000,
	}
}
