package logstore

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// TestMarksOfADeletedTopicAreForgotten: there was no room to take the marks of a deleted
// topic out of the checkpoints. The next topic of that name must not inherit them: to a
// start they would say that it has lost records, or begins somewhere else.
func TestMarksOfADeletedTopicAreForgotten(t *testing.T) {
	mem := vfs.NewMem()
	faulty := errfs.Wrap(mem)
	d, _ := mustOpen(t, testOptions(faulty), epochTime, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	for range 5 {
		mustAppend(t, l, epochTime, 1, "old")
	}
	d.Flush()
	if err := l.AdvanceLogStart(3); err != nil {
		t.Fatal(err)
	}
	if err := d.captureRecoveryPoints(epochTime, d.Logs()); err != nil || !l.settleRecoveryPoint() {
		t.Fatal(err)
	}
	if err := d.checkpointPromises(); err != nil || l.RecoveryPoint() != 5 {
		t.Fatalf("recovery point %d, %v", l.RecoveryPoint(), err)
	}
	faulty.Add("write *checkpoint.tmp nth=1 err=ENOSPC")
	if err := d.DeleteLogs(epochTime, l); err != nil || faulty.Fired() != 1 {
		t.Fatalf("delete: %v, %d faults", err, faulty.Fired())
	}
	d.checkSpace()
	next := ID{Topic: "t", TopicID: topicID("another")}
	mustAppend(t, mustCreate(t, d, next, DefaultConfig()), epochTime, 1, "new")
	d.Flush()
	d.Abandon()

	d, report := mustOpen(t, testOptions(mem), epochTime, DefaultConfig())
	defer d.Abandon()
	l = d.Log(next.TopicID, 0)
	if l == nil || l.LogStart() != 0 || l.LogEnd() != 1 {
		t.Errorf("after a kill: %+v", report)
	}
}

// TestNoRoomToTidyUp: what a deleted topic has left in the checkpoints keeps nobody from creating
// another one, but one of its name.
func TestNoRoomToTidyUp(t *testing.T) {
	faulty := errfs.Wrap(vfs.NewMem())
	d, _ := mustOpen(t, testOptions(faulty), epochTime, DefaultConfig())
	defer d.Abandon()
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	mustAppend(t, l, epochTime, 1, "old")
	moveRecoveryPoint(t, l)
	faulty.Add("write *checkpoint.tmp err=ENOSPC")
	must(t, d.DeleteLogs(epochTime, l))
	d.checkSpace()
	mustCreate(t, d, testID("other", 0), DefaultConfig())
	next := ID{Topic: "t", TopicID: topicID("another")}
	if _, err := d.CreateLog(epochTime, next, DefaultConfig()); !MayPass(err) {
		t.Errorf("another one of that name: %v", err)
	}
	faulty.Clear()
	d.checkSpace()
	mustCreate(t, d, next, DefaultConfig())
}

// TestRoundBetweenLoweringAndCut: a round that comes between the two must not raise the
// marks again, nor a checkpoint write what it has raised.
func TestRoundBetweenLoweringAndCut(t *testing.T) {
	crash := vfs.NewCrash(rand.NewPCG(1, 1))
	d, _ := mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	for range 9 {
		mustAppend(t, l, epochTime, 1, "a")
	}
	if err := d.PrepareTruncations(Truncation{Log: l, To: 5}); err != nil {
		t.Fatal(err)
	}
	d.Flush()
	if err := d.checkpointPromises(); err != nil || l.Flushed() != 5 {
		t.Errorf("flushed %d before a cut at 5: %v", l.Flushed(), err)
	}
	l.writer.Lock()
	_, err := l.truncateTo(epochTime, 5)
	l.writer.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	crash.Kill()

	d, report := mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
	defer d.Abandon()
	if len(report.Failed) > 0 || report.Opened[0].LogEnd() != 5 {
		t.Errorf("after a kill: %+v", report)
	}
}

// TestBytesFromBeforeATruncation: behind the batch that was written after a truncation a
// power cut has left one from before it, whole, and with the offset that comes next. Its
// leader epoch gives it away.
func TestBytesFromBeforeATruncation(t *testing.T) {
	mem := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(mem), epochTime, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	mustAppend(t, l, epochTime, 1, "a")
	mustAppend(t, l, epochTime, 2, "b")
	d.Flush()
	d.Abandon()
	old := batch.View(produced(epochTime, "c"))
	old.SetBaseOffset(2)
	old.SetLeaderEpoch(1)
	f, err := mem.OpenFile(l.segments()[0].Path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(old, size); err != nil {
		t.Fatal(err)
	}

	d, report := mustOpen(t, testOptions(mem), epochTime, DefaultConfig())
	defer d.Abandon()
	if len(report.Opened) != 1 || report.Opened[0].LogEnd() != 2 {
		t.Fatalf("%+v", report)
	}
	if info := mustAppend(t, report.Opened[0], epochTime, 3, "d"); info.FirstOffset != 2 {
		t.Errorf("the next batch is at %d", info.FirstOffset)
	}
}

// TestEpochsOfWhatIsBack: the checkpoint of epochs says that everything was deleted, that of log
// starts does not yet. After a kill the records are back, and so are their epochs: a leader
// without any would send its followers to begin anew.
func TestEpochsOfWhatIsBack(t *testing.T) {
	mem := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(mem), epochTime, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	mustAppend(t, l, epochTime, 1, "a")
	mustAppend(t, l, epochTime, 2, "b", "c")
	if err := l.AdvanceLogStart(3); err != nil {
		t.Fatal(err)
	}
	d.wantFlush(l)
	d.Flush()
	if err := d.captureRecoveryPoints(epochTime, d.Logs()); err != nil || !l.settleRecoveryPoint() {
		t.Fatal(err)
	}
	if err := d.checkpointPromises(); err != nil {
		t.Fatal(err)
	}
	d.Abandon()

	d, _ = mustOpen(t, testOptions(mem), epochTime, DefaultConfig())
	defer d.Abandon()
	l = d.Log(testID("t", 0).TopicID, 0)
	if l.LogStart() != 0 || l.LogEnd() != 3 {
		t.Fatalf("the log is [%d, %d)", l.LogStart(), l.LogEnd())
	}
	for epoch, want := range map[int32]int64{1: 1, 2: 3} {
		if end, known := l.EndOffsetForEpoch(epoch); !known || end.Epoch != epoch || end.EndOffset != want {
			t.Errorf("epoch %d ends at %+v, %v, want %d", epoch, end, known, want)
		}
	}
}

// TestEpochsThatWereBuiltAgainAreKept: a checkpoint of epochs that cannot be read has all batches
// scanned, and once is enough: the first tick replaces it, so that a kill after that does not
// have them scanned again.
func TestEpochsThatWereBuiltAgainAreKept(t *testing.T) {
	o, c, epochs := sumsTest(t)
	name := filepath.Join(o.Path, "t-0", checkpoint.LeaderEpochFile)
	if err := vfs.WriteFileAtomic(o.FS, name, []byte("0\n1\nx")); err != nil {
		t.Fatal(err)
	}
	d, _ := mustOpen(t, o, epochTime, c)
	k := NewKeeper(d, KeeperOptions{})
	k.Tick(epochTime)
	d.Flush()
	k.Tick(epochTime.Add(time.Second))
	d.Abandon()
	if got, err := checkpoint.ReadEpochs(o.FS, name); err != nil || !slices.Equal(got, epochs) {
		t.Errorf("after a tick: %v, %v, want %v", got, err, epochs)
	}
	d, report := mustOpen(t, o, epochTime, c)
	defer d.Abandon()
	if point := report.Opened[0].recovery.point; point != sumsEnd {
		t.Errorf("the next start scans from %d, want %d", point, sumsEnd)
	}
}

// TestUnreadableEpochsOfAnEmptyLogAreReplaced: by a clean stop, since there is nothing to scan.
func TestUnreadableEpochsOfAnEmptyLogAreReplaced(t *testing.T) {
	o, c := testOptions(vfs.NewMem()), DefaultConfig()
	d, _ := mustOpen(t, o, epochTime, c)
	l := mustCreate(t, d, testID("t", 0), c)
	mustAppend(t, l, epochTime, 1, "a")
	d.Flush()
	if err := l.TruncateFullyAndStartAt(7); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(epochTime, 1); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(o.Path, "t-0", checkpoint.LeaderEpochFile)
	if err := vfs.WriteFileAtomic(o.FS, name, []byte("0\n1\nx")); err != nil {
		t.Fatal(err)
	}
	d, _ = mustOpen(t, o, epochTime, c)
	if err := d.Close(epochTime, 2); err != nil {
		t.Fatal(err)
	}
	if got, err := checkpoint.ReadEpochs(o.FS, name); err != nil || len(got) != 0 {
		t.Errorf("after a clean stop: %v, %v", got, err)
	}
}
