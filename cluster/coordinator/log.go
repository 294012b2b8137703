package coordinator

import (
	"errors"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Partition names a partition of the runtime's topic in one leadership of this broker.
type Partition struct {
	TopicID     uuid.UUID
	Index       int32
	LeaderEpoch int32
}

// Log is the only way of coordinators to the logs of their topic. Its methods fail with
// kafkaerr.NotLeaderOrFollower when the leadership that the partition names has ended.
// All are safe for concurrent use.
type Log interface {
	// Append appends one batch, as a leader with acks=all, and returns its base offset.
	// It does not wait for a flush or for replicas. If nothing was written and the
	// partition can still be written to, the error is a *RefusedError.
	Append(p Partition, batch []byte) (baseOffset int64, err error)
	// MaxBatchBytes is the largest batch that the partition takes.
	MaxBatchBytes(p Partition) int

	// Read reads batches from offset on, up to the log end, into buf, or into new memory if
	// the first of them is larger. The last may be cut short. Nothing at the log end.
	Read(p Partition, offset int64, buf []byte) ([]byte, error)
	// Offsets tells where the partition is.
	Offsets(p Partition) (Offsets, error)

	// Watch calls changed whenever Offsets may answer otherwise, until stop is called:
	// the high watermark has moved, or the leadership ended. It is called from any
	// goroutine, and must not block nor use the log.
	Watch(p Partition, changed func()) (stop func(), err error)
}

// Offsets are the positions of a partition that is led here.
type Offsets struct {
	Start, HighWatermark, End int64
}

// RefusedError says that an append has written nothing, and that the next one may succeed.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap gives the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

func isRefused(err error) bool {
	var refused *RefusedError
	return errors.As(err, &refused)
}
