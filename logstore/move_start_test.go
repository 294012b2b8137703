package logstore

import (
	"fmt"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// TestCopyBeginsWithTheBatchOfTheLogStart: records were deleted up to the middle of a batch,
// before the copy was begun or while it was far behind. The batch is copied whole.
func TestCopyBeginsWithTheBatchOfTheLogStart(t *testing.T) {
	for _, behind := range []bool{false, true} {
		t.Run(fmt.Sprint("begun before: ", behind), func(t *testing.T) {
			fs := vfs.NewMem()
			a, _ := openAt(t, fs, "/a", 1)
			b, _ := openAt(t, fs, "/b", 2)
			l := mustCreate(t, a, testID("t", 0), smallSegments())
			for i := range 12 {
				mustAppend(t, l, epochTime, int32(1+i/6), fmt.Sprint("value ", i), "and more")
			}
			var m *Move
			if behind {
				m = mustBegin(t, b, l)
				if _, err := m.Copy(epochTime, 1); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.AdvanceLogStart(17); err != nil {
				t.Fatal(err)
			}
			if !behind {
				m = mustBegin(t, b, l)
			}
			copyAll(t, m)
			moved, err := m.Finish(epochTime, 0)
			if err != nil {
				t.Fatal(err)
			}
			same(t, l, moved)
		})
	}
}

// TestEmptiedLogOutdoesTheOneItCameFrom: all of a log that has moved was deleted before the
// disk with the older one came back. Its offsets must not be given again.
func TestEmptiedLogOutdoesTheOneItCameFrom(t *testing.T) {
	fs := vfs.NewMem()
	a, _ := openAt(t, fs, "/a", 1)
	b, _ := openAt(t, fs, "/b", 2)
	older, newer := mustCreate(t, a, testID("t", 0), smallSegments()), mustCreate(t, b, testID("t", 0), smallSegments())
	for i := range 9 {
		mustAppend(t, newer, epochTime, 3, "value")
		if i < 5 {
			mustAppend(t, older, epochTime, 3, "value")
		}
	}
	if err := newer.AdvanceLogStart(9); err != nil {
		t.Fatal(err)
	}
	if got, back := newer.Outdoes(older), older.Outdoes(newer); got != 1 || back != -1 {
		t.Errorf("%d and %d, want 1 and -1", got, back)
	}
	if err := newer.TruncateFullyAndStartAt(20); err != nil {
		t.Fatal(err)
	}
	if got, back := newer.Outdoes(older), older.Outdoes(newer); got != 1 || back != -1 {
		t.Errorf("without an epoch: %d and %d, want 1 and -1", got, back)
	}
}
