package segment

import (
	"errors"
	"fmt"
)

// CorruptionError says that a log file does not hold what was written, and where.
// Whoever gets one from a read must not use the segment for anything but reads below
// Pos: the bytes are kept as they are for repair.
type CorruptionError struct {
	File   string
	Pos    int64  // of the batch that is bad, in bytes
	Reason string // what is wrong with it
}

func (e *CorruptionError) Error() string {
	return fmt.Sprintf("corrupt log file %s at byte %d: %s", e.File, e.Pos, e.Reason)
}

// ErrClosed is returned by a segment that was closed or deleted.
var ErrClosed = errors.New("segment is closed")

// ErrOffsetOverflow is returned by an append whose last offset lies more than 2^31-1
// above the base offset, which the indexes cannot express: the caller must roll first
// (Kafka's LogSegmentOffsetOverflowException).
var ErrOffsetOverflow = errors.New("offset is too far above the segment's base offset")
