package logstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/klamm-mq/klamm/logstore/compaction"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// CleanBounds say up to where a log may be cleaned: what is above them may still be taken
// back, or belongs to a transaction that is open.
type CleanBounds struct {
	HighWatermark offset.HighWatermark
	LastStable    offset.LastStable
}

// CleanParams is one cleaning.
type CleanParams struct {
	Now    time.Time
	Bounds CleanBounds
	// Dirty is what Cleanable has answered.
	Dirty compaction.Dirty
	// Map takes the keys. It is cleared first, and when the cleaning ends.
	Map *compaction.OffsetMap
	// BufferBytes is how much is written at a time; 0 = 256 KiB.
	BufferBytes int
	// Pace is called between batches with the bytes that were read or written since the last
	// time, and may wait. An error of it ends the cleaning, which returns it; nil = no pace.
	Pace func(bytes int) error
}

// CleanStats is what a cleaning has done.
type CleanStats struct {
	// End is the first dirty offset now.
	End     int64
	Indexed compaction.IndexStats
	Kept    compaction.Stats
	// Segments is how many there were of what was cleaned, SegmentsLeft how many there are.
	Segments, SegmentsLeft int
	// MapUtilization is how full the map has become, at most 1.
	MapUtilization float64
}

// ErrOvertaken ends a cleaning whose log was truncated, closed or moved, or has lost segments
// to retention meanwhile. What was not put in place has been thrown away.
var ErrOvertaken = fmt.Errorf("the log was changed while it was cleaned: %w", kafkaerr.KafkaStorageError)

// Cleanable tells what of the log can be cleaned now: nothing if CleanableBytes is 0. It
// changes nothing, and reads the ends of dirty segments at most.
func (l *Log) Cleanable(now time.Time, b CleanBounds) (compaction.Dirty, error) {
	if err := l.usable(); err != nil {
		return compaction.Dirty{}, err
	}
	return compaction.Dirty{}, nil
}

// Clean removes from the log what newer records have replaced. One call at a time.
func (l *Log) Clean(p CleanParams) (CleanStats, error) {
	return CleanStats{}, errors.ErrUnsupported
}
