package logstore

import (
	"errors"
	"testing"

	"github.com/klamm-mq/klamm/logstore/compaction"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// TestDeletionDuringACleaningIsNoFailureOfTheDisk: whenever the log is deleted, the cleaning
// ends, and what it was writing, whose name has changed with the directory, is no reason to
// take all logs offline.
func TestDeletionDuringACleaningIsNoFailureOfTheDisk(t *testing.T) {
	for at, deleted := 1, true; deleted; at++ {
		o := testOptions(vfs.NewMem())
		o.Pool = segment.NewFilePool(segment.PoolOptions{MaxOpenFiles: 1})
		d, _ := mustOpen(t, o, epochTime, compactConfig())
		l := compactedLog(t, d, compactConfig(), 20)
		other := mustCreate(t, d, testID("other", 0), DefaultConfig())
		dirty, err := l.Cleanable(epochTime, everything(l))
		if err != nil {
			t.Fatal(err)
		}
		steps := 0
		_, err = l.Clean(CleanParams{
			Now: epochTime, Bounds: everything(l), Dirty: dirty, Map: compaction.NewOffsetMap(1<<20, 0.9), BufferBytes: 1,
			Pace: func(int) error {
				if steps++; steps == at {
					return d.DeleteLogs(epochTime, l)
				}
				return nil
			},
		})
		if deleted = steps >= at; deleted && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrOvertaken) {
			t.Errorf("deleted at step %d: %v", at, err)
		}
		mustAppend(t, other, epochTime, 1, "a")
		if d.Err() != nil {
			t.Fatalf("deleted at step %d the directory is offline: %v", at, d.Err())
		}
		d.Abandon()
	}
}
