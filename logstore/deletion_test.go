package logstore

import (
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// TestDeletionAtAnyCall deletes a log, and in half of the runs creates the next topic of
// that name, before each single call on the file system that the keeper, the committer or
// a truncation makes for it. Whatever they are in the middle of, the directory must not
// take the missing names for a failed disk, and must leave the new log alone.
func TestDeletionAtAnyCall(t *testing.T) {
	for _, act := range []struct {
		name string
		run  func(d *Dir, l *Log)
	}{
		{"flush of a new log", func(d *Dir, _ *Log) { d.Flush() }},
		{"recovery point", func(d *Dir, _ *Log) { _ = d.captureRecoveryPoints(epochTime, d.Logs()) }},
		{"retention", func(_ *Dir, l *Log) { _, _ = l.Retain(epochTime, offset.HighWatermark(l.LogEnd())) }},
		{"truncation", func(_ *Dir, l *Log) { _ = l.TruncateTo(2) }},
		{"fresh start", func(_ *Dir, l *Log) { _ = l.TruncateFullyAndStartAt(10) }},
		{"roll", func(_ *Dir, l *Log) { _ = l.Roll(epochTime) }},
		{"checkpoints", func(d *Dir, _ *Log) { _ = d.checkpointPromises() }},
	} {
		t.Run(act.name, func(t *testing.T) {
			for _, again := range []bool{false, true} {
				for n, more := 1, true; more; n++ {
					more = deletedAt(t, n, again, act.run)
				}
			}
		})
	}
}

// deletedAt deletes the log before call n of act; false if act makes fewer calls.
func deletedAt(t *testing.T, n int, again bool, act func(*Dir, *Log)) (reached bool) {
	t.Helper()
	mem := vfs.NewMem()
	calls := -1
	before := func() {}
	fs := hookfs.Wrap(mem, true, func(c *hookfs.Call) error {
		if calls >= 0 {
			if calls++; calls == n {
				calls = -1
				before()
				calls = n
			}
		}
		return nil
	})
	c := DefaultConfig()
	c.RetentionBytes, c.SegmentBytes = 0, 300
	d, _ := mustOpen(t, testOptions(fs), epochTime, c)
	defer d.Abandon()
	l := mustCreate(t, d, testID("t", 0), c)
	for _, sequence := range []int32{0, 1, 2, 3} {
		records := producedBy(&batch.Producer{ID: 5, BaseSequence: sequence}, epochTime, "some value")
		if _, err := l.AppendAsLeader(AppendParams{Now: epochTime, Records: records, LeaderEpoch: 1, RequestVersion: 9}); err != nil {
			t.Fatal(err)
		}
	}
	next := ID{Topic: "t", TopicID: topicID("another"), Partition: 0}
	deleted := false
	before = func() {
		if l.isLocked() {
			return // the deletion would wait
		}
		deleted = true
		if err := d.DeleteLogs(epochTime, l); err != nil {
			t.Errorf("deleted at call %d: %v", n, err)
		}
		if again {
			mustBear(t, d, next, c)
		}
	}
	calls = 0
	act(d, l)
	reached, calls = calls >= n, -1
	if err := d.Err(); err != nil {
		t.Fatalf("deleted at call %d: the directory is offline: %v", n, err)
	}
	if deleted && again {
		expectFresh(t, n, d, mem, next)
	}
	return reached
}

// isLocked tells that a lock is held for which a deletion waits.
func (l *Log) isLocked() bool {
	if !l.names.TryLock() {
		return true
	}
	defer l.names.Unlock()
	if !l.writer.TryLock() {
		return true
	}
	defer l.writer.Unlock()
	return len(l.dir.marks.turn) > 0
}

// expectFresh checks that a log which was created in place of a deleted one has all that
// it needs, and nothing of its predecessor's.
func expectFresh(t *testing.T, n int, d *Dir, mem *vfs.MemFS, id ID) {
	t.Helper()
	l := d.Log(id.TopicID, id.Partition)
	entries, err := mem.ReadDir(l.Path())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "00000000000000000000.index 00000000000000000000.log 00000000000000000000.timeindex partition.metadata" {
		t.Errorf("deleted and created again at call %d: files %s", n, got)
	}
	mustAppend(t, l, epochTime, 1, "new")
	d.Flush()
	if err := d.checkpointPromises(); err != nil {
		t.Error(err)
	}
	d.Abandon()
	d2, report := mustOpen(t, testOptions(mem), epochTime, DefaultConfig())
	defer d2.Abandon()
	if len(report.Opened) != 1 || report.Opened[0].LogEnd() != 1 || report.Opened[0].ID() != id {
		t.Errorf("deleted and created again at call %d: after a restart %+v", n, report)
	}
}
