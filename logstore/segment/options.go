package segment

import (
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// Options are what all segments of one log share. The pointer is kept, so that a
// segment stays small; the fields are not changed while a segment has it.
type Options struct {
	FS   vfs.FS
	Pool *FilePool
	// Codecs decode the records of a batch for look-ups by time.
	Codecs *batch.Codecs
	// IndexIntervalBytes is index.interval.bytes: an index entry is added for the
	// first batch that begins more than this many bytes behind the last entry's.
	IndexIntervalBytes int
	// MaxIndexBytes is segment.index.bytes: ShouldRoll says so when an index is full.
	MaxIndexBytes int
	// ReadOnly segments never write, not even an index that had to be built again.
	ReadOnly bool
}
