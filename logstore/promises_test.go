package logstore

import (
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/klamm-mq/klamm/logstore/producerstate"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// Marks on the disk must never claim more than is there. These are ways in which they did,
// in a broker with one line wrong.

// moveRecoveryPoint takes the recovery point of a log to its end, and persists it.
func moveRecoveryPoint(t *testing.T, l *Log) {
	t.Helper()
	d := l.dir
	if err := d.captureRecoveryPoints(epochTime, []*Log{l}); err != nil {
		t.Fatal(err)
	}
	d.Flush()
	l.settleRecoveryPoint()
	if err := d.checkpointPromises(); err != nil {
		t.Fatal(err)
	}
}

// TestPostponedRoundSyncsDirectories: a round that lacked a descriptor for a directory leaves
// it to the next.
func TestPostponedRoundSyncsDirectories(t *testing.T) {
	for _, rule := range []string{"syncdir /data/t-0 err=EMFILE", "syncdir /data err=EMFILE", "open /data/t-0/partition.metadata err=EMFILE"} {
		t.Run(rule, func(t *testing.T) {
			crash := vfs.NewCrash(rand.NewPCG(1, 1))
			faulty := errfs.Wrap(crash.Process())
			d, _ := mustOpen(t, testOptions(faulty), epochTime, DefaultConfig())
			l := mustCreate(t, d, testID("t", 0), DefaultConfig())
			mustAppend(t, l, epochTime, 1, "a")
			faulty.Add(rule)
			d.Flush()
			if faulty.Fired() == 0 || l.Flushed() != 0 {
				t.Fatalf("fired %d times, flushed %d", faulty.Fired(), l.Flushed())
			}
			faulty.Clear()
			d.Flush()
			if l.Flushed() != 1 {
				t.Fatalf("flushed %d", l.Flushed())
			}
			crash.PowerCutLosingAll()
			d.Abandon()
			d, report := mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
			defer d.Abandon()
			if len(report.Opened) != 1 || report.Opened[0].LogEnd() != 1 {
				t.Errorf("%+v", report)
			}
		})
	}
}

// TestTruncationDuringACapture: what was captured describes records that are gone by the time
// it is durable, whatever has been appended at their offsets since.
func TestTruncationDuringACapture(t *testing.T) {
	var cut func()
	fs := hookfs.Wrap(vfs.NewMem(), true, func(c *hookfs.Call) error {
		if c.Op == hookfs.Sync && strings.HasSuffix(c.Name, producerstate.SnapshotSuffix) && cut != nil {
			once := cut
			cut = nil
			once()
		}
		return nil
	})
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	defer d.Abandon()
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	for sequence := range int32(3) {
		sequenced(t, l, sequence)
	}
	d.Flush()
	cut = func() {
		if err := l.TruncateTo(1); err != nil {
			t.Error(err)
		}
		for _, v := range []string{"b", "c"} {
			mustAppend(t, l, epochTime, 2, v)
		}
	}
	if err := d.captureRecoveryPoints(epochTime, d.Logs()); err != nil || cut != nil {
		t.Fatalf("%v; cut %v", err, cut == nil)
	}
	d.Flush()
	l.settleRecoveryPoint()
	if l.Flushed() != 3 || l.RecoveryPoint() > 1 {
		t.Errorf("flushed %d, recovery point %d: it vouches for what came after the capture", l.Flushed(), l.RecoveryPoint())
	}
}

// TestRecoveryPointAtARollKeepsTheProducers: the snapshot that a roll has written without a
// sync becomes that of the recovery point. Retention may remove all older ones.
func TestRecoveryPointAtARollKeepsTheProducers(t *testing.T) {
	crash := vfs.NewCrash(rand.NewPCG(1, 1))
	c := threeInASegment()
	d, _ := mustOpen(t, testOptions(crash.Process()), epochTime, c)
	l := mustCreate(t, d, testID("t", 0), c)
	for sequence := range int32(3) {
		sequenced(t, l, sequence)
	}
	d.Flush()
	if err := l.Roll(epochTime); err != nil {
		t.Fatal(err)
	}
	moveRecoveryPoint(t, l)
	if err := l.AdvanceLogStart(3); err != nil {
		t.Fatal(err)
	}
	if deleted, err := l.Retain(epochTime, 3); err != nil || len(deleted) != 1 || l.RecoveryPoint() != 3 {
		t.Fatalf("deleted %+v, %v; recovery point %d", deleted, err, l.RecoveryPoint())
	}
	crash.PowerCutLosingAll()
	d.Abandon()
	d, report := mustOpen(t, testOptions(crash.Process()), epochTime, c)
	defer d.Abandon()
	if info := sequenced(t, report.Opened[0], 2); !info.Duplicate || info.FirstOffset != 2 {
		t.Errorf("an acknowledged batch is sent again: %+v", info)
	}
}

// TestDeletedRecordsLeaveTheirProducers: a batch that somebody deleted before its producer
// heard of it is sent again after a crash. It is known, as the producer's next ones are in the
// log: it would be out of order for ever else.
func TestDeletedRecordsLeaveTheirProducers(t *testing.T) {
	for _, persist := range []struct {
		name string
		do   func(d *Dir, l *Log) error
	}{
		{"deletion", func(d *Dir, l *Log) error { return d.PersistLogStarts(l) }},
		{"keeper", func(d *Dir, _ *Log) error { return d.checkpointAllLogStarts() }},
		{"another log's", func(d *Dir, _ *Log) error { return d.checkpointLogStarts() }},
	} {
		t.Run(persist.name, func(t *testing.T) {
			crash := vfs.NewCrash(rand.NewPCG(1, 1))
			d, _ := mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
			l := mustCreate(t, d, testID("t", 0), DefaultConfig())
			for sequence := range int32(3) {
				sequenced(t, l, sequence)
			}
			d.Flush()
			for _, o := range []int64{1, 2} {
				if err := errors.Join(l.AdvanceLogStart(o), persist.do(d, l)); err != nil {
					t.Fatal(err)
				}
			}
			crash.PowerCutLosingAll()
			d.Abandon()
			d, report := mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
			defer d.Abandon()
			l = report.Opened[0]
			if want := persist.name != "another log's"; (l.LogStart() == 2) != want {
				t.Errorf("begins at %d", l.LogStart())
			}
			if info := sequenced(t, l, 1); !info.Duplicate || info.FirstOffset != 1 {
				t.Errorf("a deleted batch is sent again: %+v", info)
			}
		})
	}
}

// TestSnapshotOfTheRecoveryPointStays: a roll has written a newer one, which a start from the
// recovery point does not believe. The log start moves, and counts on the producers that the
// recovery point has, then on those of the next one, which is not persisted yet.
func TestSnapshotOfTheRecoveryPointStays(t *testing.T) {
	for _, again := range []bool{false, true} {
		crash := vfs.NewCrash(rand.NewPCG(1, 1))
		d, _ := mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
		l := mustCreate(t, d, testID("t", 0), DefaultConfig())
		for sequence := range int32(2) {
			sequenced(t, l, sequence)
		}
		d.Flush()
		if err := d.captureRecoveryPoints(epochTime, d.Logs()); err != nil {
			t.Fatal(err)
		}
		sequenced(t, l, 2)
		if err := l.Roll(epochTime); err != nil {
			t.Fatal(err)
		}
		if !l.settleRecoveryPoint() || l.RecoveryPoint() != 2 {
			t.Fatalf("recovery point %d", l.RecoveryPoint())
		}
		if err := d.checkpointPromises(); err != nil {
			t.Fatal(err)
		}
		if again {
			sequenced(t, l, 3)
			d.Flush()
			if err := d.captureRecoveryPoints(epochTime, d.Logs()); err != nil || !l.settleRecoveryPoint() {
				t.Fatal(err)
			}
		}
		if err := errors.Join(l.AdvanceLogStart(1), d.PersistLogStarts(l)); err != nil {
			t.Fatal(err)
		}
		d.Flush()
		crash.Kill()
		d.Abandon()
		d, report := mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
		if l = report.Opened[0]; l.LogStart() != 1 {
			t.Errorf("begins at %d", l.LogStart())
		}
		if info := sequenced(t, l, 0); !info.Duplicate || info.FirstOffset != 0 {
			t.Errorf("a deleted batch is sent again: %+v", info)
		}
		d.Abandon()
	}
}

// TestDamagedSnapshotVouchesForNothing: that of the recovery point cannot be read. The log start
// does not count on it, also when the same recovery point is persisted again.
func TestDamagedSnapshotVouchesForNothing(t *testing.T) {
	crash := vfs.NewCrash(rand.NewPCG(1, 1))
	d, _ := mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	for sequence := range int32(3) {
		sequenced(t, l, sequence)
	}
	if err := d.Close(epochTime, 1); err != nil {
		t.Fatal(err)
	}
	flipBit(t, crash.Process(), l.file("00000000000000000003.snapshot"), 10, 1)
	d, report := mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
	l = report.Opened[0]
	if info := sequenced(t, l, 2); !info.Duplicate {
		t.Fatalf("the last batch is sent again: %+v", info)
	}
	sequenced(t, l, 3)
	d.Flush()
	if err := errors.Join(d.checkpointPromises(), l.AdvanceLogStart(2), d.PersistLogStarts(l)); err != nil {
		t.Fatal(err)
	}
	crash.Kill()
	d.Abandon()
	d, report = mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
	defer d.Abandon()
	if l = report.Opened[0]; l.LogStart() != 2 {
		t.Errorf("begins at %d", l.LogStart())
	}
	if info := sequenced(t, l, 1); !info.Duplicate || info.FirstOffset != 1 {
		t.Errorf("a deleted batch is sent again: %+v", info)
	}
}

// TestProducersOfAnEmptiedLogStay: all records are deleted, and the log is stopped in good order.
func TestProducersOfAnEmptiedLogStay(t *testing.T) {
	mem := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(mem), epochTime, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	sequenced(t, l, 0)
	d.Flush()
	if err := errors.Join(l.AdvanceLogStart(1), d.Close(epochTime, 1)); err != nil {
		t.Fatal(err)
	}
	d, report := mustOpen(t, testOptions(mem), epochTime, DefaultConfig())
	defer d.Abandon()
	if l = report.Opened[0]; l.LogStart() != 1 || l.LogEnd() != 1 {
		t.Errorf("the log is [%d, %d)", l.LogStart(), l.LogEnd())
	}
	if info := sequenced(t, l, 0); !info.Duplicate {
		t.Errorf("a deleted batch is sent again: %+v", info)
	}
}

// TestCleanStopAfterATruncationKnowsItsProducers: the truncation has removed the snapshot at
// the recovery point. A clean stop that left it at that would tell the next start that there
// have never been producers.
func TestCleanStopAfterATruncationKnowsItsProducers(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	for sequence := range int32(2) {
		sequenced(t, l, sequence)
	}
	d.Flush()
	moveRecoveryPoint(t, l)
	if err := l.TruncateTo(1); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(epochTime, 1); err != nil {
		t.Fatal(err)
	}
	d, report := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	defer d.Abandon()
	if info := sequenced(t, report.Opened[0], 0); !info.Duplicate || info.FirstOffset != 0 {
		t.Errorf("a batch is sent again: %+v", info)
	}
}

// TestDeletedLogIsPromisedNoMore: the keeper still has the log on its list.
func TestDeletedLogIsPromisedNoMore(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	mustAppend(t, l, epochTime, 1, "a")
	d.Flush()
	hw := func(*Log) (offset.HighWatermark, bool) { return 1, true }
	err := errors.Join(d.DeleteLogs(epochTime, l), d.checkpointPromises(), d.checkpointLogStarts(), d.checkpointHighWatermarks(hw))
	if err != nil {
		t.Fatal(err)
	}
	d.Abandon()
	d, report := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	defer d.Abandon()
	if len(report.Failed) > 0 {
		t.Errorf("a deleted log is missed: %+v", report.Failed)
	}
}

// TestHighWatermarkIsLoweredWithTheLog: one that was left above the cut would be believed
// when the log has grown past it, though nobody has acknowledged what is there.
func TestHighWatermarkIsLoweredWithTheLog(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	l := threeFlushed(t, d)
	if err := l.TruncateTo(1); err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"B", "C"} {
		mustAppend(t, l, epochTime, 2, v)
	}
	d.Flush()
	d.Abandon()
	d, report := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	defer d.Abandon()
	if hw := report.Opened[0].CheckpointedHighWatermark(); hw != 1 {
		t.Errorf("high watermark %d, want 1", hw)
	}
}

// TestMarksOfAFailedDiskAreWrittenAgain: the sync of the lowered marks' name has failed, so a
// power cut brings the old ones back, while this process reads the new ones and sees no need
// to lower them.
func TestMarksOfAFailedDiskAreWrittenAgain(t *testing.T) {
	crash := vfs.NewCrash(rand.NewPCG(1, 1))
	d, _ := mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
	l := threeFlushed(t, d)
	crash.OnSync(func(p vfs.SyncPoint) error {
		if !p.Done && p.Name == "/data" {
			return syscall.EIO
		}
		return nil
	})
	if err := l.TruncateTo(1); !errors.Is(err, ErrDirOffline) {
		t.Fatalf("truncated: %v", err)
	}
	crash.OnSync(nil)
	crash.Kill()
	d.Abandon()

	d, report := mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
	if len(report.Opened) != 1 {
		t.Fatalf("%+v", report)
	}
	if err := report.Opened[0].TruncateTo(1); err != nil {
		t.Fatal(err)
	}
	crash.PowerCutLosingAll()
	d.Abandon()
	d, report = mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
	defer d.Abandon()
	if len(report.Failed) > 0 || len(report.Opened) != 1 || report.Opened[0].LogEnd() != 1 {
		t.Errorf("%+v", report)
	}
}
