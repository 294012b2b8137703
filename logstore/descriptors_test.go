package logstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// TestNoDescriptorLeft: whatever cannot be opened, or opened to be synced, because clients
// hold all descriptors, the disk has not failed. What was put off is done when the keeper
// comes round, and only then counts as flushed.
func TestNoDescriptorLeft(t *testing.T) {
	for _, op := range []string{"open", "syncdir"} {
		for n := 1; ; n++ {
			reached := false
			t.Run(fmt.Sprintf("%s %d", op, n), func(t *testing.T) {
				reached = withoutDescriptors(t, fmt.Sprintf("%s nth=%d err=EMFILE", op, n))
			})
			if !reached || t.Failed() {
				break
			}
		}
	}
}

func withoutDescriptors(t *testing.T, rule string) (reached bool) {
	crash := vfs.NewCrash(rand.NewPCG(1, 1))
	faulty := errfs.Wrap(crash.Process())
	c := DefaultConfig()
	c.SegmentBytes = 300
	d, _ := mustOpen(t, testOptions(faulty), epochTime, c)
	k := NewKeeper(d, KeeperOptions{Wake: func() { d.Flush() }})
	k.Tick(epochTime)
	gone := mustCreate(t, d, testID("gone", 0), c)
	l := mustCreate(t, d, testID("t", 0), c)
	var appended int64
	add := func() {
		records := producedBy(&batch.Producer{ID: 5, BaseSequence: int32(appended)}, epochTime, "some value")
		_, err := l.AppendAsLeader(AppendParams{Now: epochTime, Records: records, LeaderEpoch: 1, RequestVersion: 9})
		if err == nil {
			appended++
		} else if !isBusy(err) {
			t.Fatalf("append: %v", err)
		}
	}
	faulty.Add(rule)
	for range 4 {
		add()
		d.Flush()
	}
	_ = d.DeleteLogs(epochTime, gone)
	_ = d.captureRecoveryPoints(epochTime, d.Logs())
	_ = l.Roll(epochTime)
	add()
	reached = faulty.Fired() > 0
	faulty.Clear()
	if err := d.Err(); err != nil {
		t.Fatalf("the directory is offline: %v", err)
	}
	k.Tick(epochTime.Add(2e9))
	d.Flush()
	k.Tick(epochTime.Add(4e9))
	if flushed := int64(l.Flushed()); flushed != appended {
		t.Errorf("flushed up to %d, want %d", flushed, appended)
	}
	again := mustCreate(t, d, ID{Topic: "gone", TopicID: topicID("gone again")}, c)
	mustAppend(t, again, epochTime, 1, "a")
	d.Flush()
	crash.PowerCutLosingAll()

	d, report := mustOpen(t, testOptions(crash.Process()), epochTime, c)
	defer d.Abandon()
	if len(report.Failed) > 0 || len(report.Opened) != 2 || int64(report.Opened[1].LogEnd()) != appended || report.Opened[0].LogEnd() != 1 {
		t.Errorf("after the power cut %+v, want log ends 1 and %d", report, appended)
		for _, l := range report.Opened {
			t.Logf("%s ends at %d", l.ID(), l.LogEnd())
		}
	}
	return reached
}

// TestMorePartitionsThanDescriptors: after a kill each log holds descriptors until its tail
// is synced. A start must not need them all at once.
func TestMorePartitionsThanDescriptors(t *testing.T) {
	const partitions = 100
	mem := vfs.NewMem()
	c := DefaultConfig()
	c.SegmentBytes = 300
	o := testOptions(mem)
	d, _ := mustOpen(t, o, epochTime, c)
	for p := range int32(partitions) {
		l := mustCreate(t, d, testID("t", p), c)
		for range 5 {
			mustAppend(t, l, epochTime, 1, "some value")
		}
		d.Flush()
	}
	d.Abandon()

	for _, limit := range []int{8, 20} {
		o.Pool = segment.NewFilePool(segment.PoolOptions{MaxOpenFiles: 4, MaxFiles: limit})
		d, report := mustOpen(t, o, epochTime, c)
		if len(report.Failed) > 0 || len(report.Opened) != partitions {
			t.Errorf("limit %d: %d opened, %d failed", limit, len(report.Opened), len(report.Failed))
		}
		for _, l := range report.Opened {
			if l.LogEnd() != 5 || l.Flushed() != 5 {
				t.Errorf("limit %d: %s is [%d, %d), flushed %d", limit, l.ID(), l.LogStart(), l.LogEnd(), l.Flushed())
			}
		}
		d.Abandon()
	}
}

// TestFullDiskAtStart: a log whose creation was cut off by a kill needs room to be opened.
// Without it, the others can be read all the same.
func TestFullDiskAtStart(t *testing.T) {
	mem := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(mem), epochTime, DefaultConfig())
	whole, torn := mustCreate(t, d, testID("whole", 0), DefaultConfig()), mustBear(t, d, testID("torn", 0), DefaultConfig())
	mustAppend(t, whole, epochTime, 1, "a")
	d.Flush()
	d.Abandon()
	if err := mem.Remove(torn.file("00000000000000000000.log")); err != nil {
		t.Fatal(err)
	}
	d, report := mustOpen(t, testOptions(errfs.Wrap(mem, "open /data/torn-0/*.log err=ENOSPC")), epochTime, DefaultConfig())
	defer d.Abandon()
	if len(report.Failed) != 1 || !errors.Is(report.Failed[0].Err, ErrDirFull) || len(report.Opened) != 1 || report.Opened[0].LogEnd() != 1 {
		t.Errorf("%+v", report)
	}
}

// TestTruncationWithoutDescriptors: a truncation meets an error that passes, anywhere, and is
// asked for again. What the log knows of its producers must be that of the shorter log.
func TestTruncationWithoutDescriptors(t *testing.T) {
	for n := 1; ; n++ {
		faulty := errfs.Wrap(vfs.NewMem())
		o := testOptions(faulty)
		o.Pool = segment.NewFilePool(segment.PoolOptions{MaxOpenFiles: 1})
		c := DefaultConfig()
		c.SegmentBytes = 300
		d, _ := mustOpen(t, o, epochTime, c)
		l := mustCreate(t, d, testID("t", 0), c)
		send := func(sequence int32) AppendInfo {
			records := producedBy(&batch.Producer{ID: 5, BaseSequence: sequence}, epochTime, "some value")
			info, err := l.AppendAsLeader(AppendParams{Now: epochTime, Records: records, LeaderEpoch: 1, RequestVersion: 9})
			if err != nil {
				t.Fatalf("open %d fails: sequence %d: %v", n, sequence, err)
			}
			return info
		}
		for sequence := range int32(9) {
			send(sequence)
			d.Flush()
		}
		faulty.Add(fmt.Sprintf("open nth=%d err=EMFILE", n))
		err := l.TruncateTo(5)
		fired := faulty.Fired() > 0
		faulty.Clear()
		if err != nil && !isBusy(err) {
			t.Fatalf("open %d fails: %v", n, err)
		}
		if err := l.TruncateTo(5); err != nil {
			t.Errorf("open %d fails: again: %v", n, err)
		}
		if info := send(4); !info.Duplicate || info.FirstOffset != 4 {
			t.Errorf("open %d fails: the last batch again: %+v", n, info)
		}
		if info := send(5); info.Duplicate || info.FirstOffset != 5 {
			t.Errorf("open %d fails: the next batch: %+v", n, info)
		}
		d.Abandon()
		if !fired {
			return
		}
	}
}
