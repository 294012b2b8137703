package logstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// threeFlushed is a log of three batches, flushed and promised.
func threeFlushed(t *testing.T, d *Dir) *Log {
	t.Helper()
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	for _, v := range []string{"a", "b", "c"} {
		mustAppend(t, l, epochTime, 1, v)
	}
	d.Flush()
	hw := func(*Log) (offset.HighWatermark, bool) { return 3, true }
	if err := errors.Join(d.checkpointPromises(), d.checkpointHighWatermarks(hw)); err != nil {
		t.Fatal(err)
	}
	return l
}

// promised is what the flushed-offset checkpoint says.
func promised(t *testing.T, fs vfs.FS, l *Log) int64 {
	t.Helper()
	flushed, err := checkpoint.ReadFlushed(fs, l.dir.file(checkpoint.FlushedFile))
	if err != nil {
		t.Fatal(err)
	}
	return flushed[l.id.key()]
}

// TestTruncationDeeperThanPrepared: the marks are lowered once more before the first byte
// is cut.
func TestTruncationDeeperThanPrepared(t *testing.T) {
	fs := vfs.NewMem()
	faulty := errfs.Wrap(fs, "truncate *.log err=EIO")
	d, _ := mustOpen(t, testOptions(faulty), epochTime, DefaultConfig())
	defer d.Abandon()
	l := threeFlushed(t, d)
	if err := d.PrepareTruncations(Truncation{Log: l, To: 2}); err != nil || promised(t, fs, l) != 2 {
		t.Fatalf("promised %d, %v", promised(t, fs, l), err)
	}
	if err := l.TruncateTo(1); err == nil {
		t.Fatal("the file could be cut")
	}
	if got, cut := promised(t, fs, l), faulty.Fired() > 0; !cut || got != 1 {
		t.Errorf("cut %v with %d promised, want 1", cut, got)
	}
}

// TestTruncationLessDeepThanPrepared: the deeper one that was prepared counts durably, and
// what lies between counts again when a round has covered it. Nobody has to append first:
// a high watermark waits for it.
func TestTruncationLessDeepThanPrepared(t *testing.T) {
	for _, to := range []int64{2, 3, 4} { // 3 and 4 cut nothing
		t.Run(fmt.Sprint(to), func(t *testing.T) {
			fs := vfs.NewMem()
			d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
			defer d.Abandon()
			l := threeFlushed(t, d)
			if err := d.PrepareTruncations(Truncation{Log: l, To: 1}); err != nil {
				t.Fatal(err)
			}
			if flushed := d.Flush(); flushed != nil || l.Flushed() != 1 {
				t.Errorf("flushed %d before the truncation: %v", l.Flushed(), flushed)
			}
			if err := errors.Join(l.TruncateTo(to), d.checkpointPromises()); err != nil {
				t.Fatal(err)
			}
			if l.Flushed() != 1 || promised(t, fs, l) != 1 {
				t.Errorf("flushed %d, promised %d; want 1", l.Flushed(), promised(t, fs, l))
			}
			d.Flush()
			if want := min(to, 3); int64(l.LogEnd()) != want || int64(l.Flushed()) != want {
				t.Errorf("log end %d, flushed %d after a round, want %d", l.LogEnd(), l.Flushed(), want)
			}
		})
	}
}

// TestMarksDoNotRiseBeforeTheCut: the keeper may come between the lowering and the cut. A
// high watermark or log start that it wrote would be believed when the log has grown again.
func TestMarksDoNotRiseBeforeTheCut(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	l := threeFlushed(t, d)
	if err := l.AdvanceLogStart(2); err != nil {
		t.Fatal(err)
	}
	keeper := func() {
		t.Helper()
		hw := func(*Log) (offset.HighWatermark, bool) { return 3, true } // the replica has not heard yet
		if err := errors.Join(d.checkpointHighWatermarks(hw), d.checkpointAllLogStarts(), d.checkpointPromises()); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.PrepareTruncations(Truncation{Log: l, To: 1}); err != nil {
		t.Fatal(err)
	}
	keeper()
	for _, name := range []string{checkpoint.HighWatermarkFile, checkpoint.LogStartFile} {
		if marks, err := checkpoint.ReadOffsets(fs, d.file(name)); err != nil || marks[l.id.name()] > 1 {
			t.Errorf("%s before the cut: %v, %v", name, marks, err)
		}
	}
	if err := l.TruncateTo(1); err != nil {
		t.Fatal(err)
	}
	keeper()
	for _, v := range []string{"B", "C"} {
		mustAppend(t, l, epochTime, 2, v)
	}
	d.Flush()
	d.Abandon()
	d, report := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	defer d.Abandon()
	l = report.Opened[0]
	if l.CheckpointedHighWatermark() != 1 || l.LogStart() != 1 || l.LogEnd() != 3 {
		t.Errorf("high watermark %d, log is [%d, %d); want 1, [1, 3)", l.CheckpointedHighWatermark(), l.LogStart(), l.LogEnd())
	}
}

// TestTruncationLackingADescriptor: one that fails for lack of a descriptor, wherever it
// needs one, leaves the log as it was, or truncated; never with an end beyond its files.
func TestTruncationLackingADescriptor(t *testing.T) {
	c := DefaultConfig()
	c.SegmentBytes = 150 // two batches
	fired := true
	for n := 1; fired; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			fs := vfs.NewMem()
			d, _ := mustOpen(t, testOptions(fs), epochTime, c)
			l := mustCreate(t, d, testID("t", 0), c)
			for _, v := range []string{"a", "b", "c", "d", "e"} {
				mustAppend(t, l, epochTime, 1, v)
			}
			if err := d.Close(epochTime, 1); err != nil {
				t.Fatal(err)
			}
			faulty := errfs.Wrap(fs)
			o := testOptions(faulty)
			o.Pool = segment.NewFilePool(segment.PoolOptions{MaxOpenFiles: 1})
			d, report := mustOpen(t, o, epochTime, c)
			l = report.Opened[0]
			faulty.Add(fmt.Sprintf("open nth=%d err=EMFILE", n))
			err := l.TruncateTo(1)
			fired = faulty.Fired() > 0
			faulty.Clear()
			if (err != nil) != fired || err != nil && !MayPass(err) {
				t.Fatalf("fired %v: %v", fired, err)
			}
			d.Flush()
			if err := d.checkpointPromises(); err != nil {
				t.Fatal(err)
			}
			if end := int64(l.LogEnd()); end != 1 && end != 5 {
				t.Errorf("log end %d", end)
			}
			if views, err := readAll(l, 0, int64(l.LogEnd()), 1000); err != nil || len(valuesOf(t, views)) != int(l.LogEnd()) {
				t.Errorf("%d records of %d can be read: %v", len(valuesOf(t, views)), l.LogEnd(), err)
			}
			end := l.LogEnd()
			d.Abandon()
			d, report = mustOpen(t, testOptions(fs), epochTime, c)
			defer d.Abandon()
			if len(report.Failed) > 0 || report.Opened[0].LogEnd() != end {
				t.Errorf("after a kill: %+v, log end %d was %d", report.Failed, report.Opened[0].LogEnd(), end)
			}
			if err := report.Opened[0].TruncateTo(1); err != nil || report.Opened[0].LogEnd() != 1 {
				t.Errorf("once more: %v, log end %d", err, report.Opened[0].LogEnd())
			}
		})
		if t.Failed() {
			return
		}
	}
}

// TestStartingAfreshWithoutRoom: a log that could not be started afresh, since the disk has no
// room for the checkpoints, is the log that it was: its flushed end rises again.
func TestStartingAfreshWithoutRoom(t *testing.T) {
	faulty := errfs.Wrap(vfs.NewMem())
	d, _ := mustOpen(t, testOptions(faulty), epochTime, DefaultConfig())
	defer d.Abandon()
	l := threeFlushed(t, d)
	faulty.Add("write *-checkpoint.tmp err=ENOSPC")
	if err := l.TruncateFullyAndStartAt(9); !errors.Is(err, ErrDirFull) {
		t.Fatalf("%v", err)
	}
	faulty.Clear()
	d.Flush()
	if err := d.checkpointPromises(); err != nil || l.Flushed() != 3 || promised(t, faulty, l) != 3 {
		t.Errorf("flushed %d, promised %d, %v; want 3", l.Flushed(), promised(t, faulty, l), err)
	}
}

// TestEmptiedLogForgetsEpochs: after a crash the checkpoint of the epochs may be older than
// the batches that retention took. A follower that said that its log ended in epoch 1, which
// ended earlier on its leader, would be told to cut below its high watermark.
func TestEmptiedLogForgetsEpochs(t *testing.T) {
	fs := vfs.NewCrash(rand.NewPCG(1, 1))
	c := DefaultConfig()
	d, _ := mustOpen(t, testOptions(fs.Process()), epochTime, c)
	l := mustCreate(t, d, testID("t", 0), c)
	mustAppend(t, l, epochTime, 1, "a", "b")
	if err := d.Close(epochTime, 1); err != nil {
		t.Fatal(err)
	}
	d, _ = mustOpen(t, testOptions(fs.Process()), epochTime, c)
	l = d.Log(l.ID().TopicID, 0)
	mustAppend(t, l, epochTime, 2, "c", "d")
	d.Flush()
	c.RetentionBytes = 0
	l.UpdateConfig(c)
	if _, err := l.Retain(epochTime, 4); err != nil {
		t.Fatal(err)
	}
	if err := d.PersistLogStarts(l); err != nil {
		t.Fatal(err)
	}
	fs.Kill()
	d.Abandon()
	d, _ = mustOpen(t, testOptions(fs.Process()), epochTime, c)
	defer d.Abandon()
	l = d.Log(l.ID().TopicID, 0)
	if l.LogStart() != 4 || l.LogEnd() != 4 {
		t.Fatalf("the log is %d to %d", l.LogStart(), l.LogEnd())
	}
	if e, ok := l.LatestEpoch(); ok && e != 2 {
		t.Errorf("an empty log says that it ends in epoch %d", e)
	}
}
