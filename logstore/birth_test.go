package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/countfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hasDirectory tells whether a partition has files.
func hasDirectory(t *testing.T, fsys vfs.FS, path string) bool {
	t.Helper()
	_, err := fsys.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// TestUnbornLogNeedsNoFiles: everything but a record can be had of a log without files, and
// it goes without a trace if it is deleted. An orderly stop gives it files.
func TestUnbornLogNeedsNoFiles(t *testing.T) {
	count := countfs.Wrap(vfs.NewMem())
	d, _ := mustOpen(t, testOptions(count), epochTime, DefaultConfig())
	count.Reset()
	l, gone := mustCreate(t, d, testID("t", 0), DefaultConfig()), mustCreate(t, d, testID("t", 1), DefaultConfig())
	must(t, l.TruncateTo(0))
	must(t, l.AssignEpoch(3, 0))
	must(t, l.AdvanceLogStart(0))
	must(t, d.PersistLogStarts(l))
	l.UpdateConfig(smallSegments())
	if info, err := l.Read(ReadParams{UpTo: 10, MaxBytes: 10}); err != nil || info.Region != nil {
		t.Errorf("read %+v, %v", info, err)
	}
	if _, found, err := l.OffsetOfMaxTimestamp(); found || err != nil {
		t.Errorf("largest timestamp: %v, %v", found, err)
	}
	if _, found, err := l.OffsetForTimestamp(-1); found || err != nil {
		t.Errorf("offset for a timestamp: %v, %v", found, err)
	}
	if at, err := l.PositionOf(0); err != nil || at.Pos != 0 {
		t.Errorf("position of the log end: %+v, %v", at, err)
	}
	if end, ok := l.EndOffsetForEpoch(3); !ok || end != (EpochEnd{3, 0}) {
		t.Errorf("end of the epoch: %+v, %v", end, ok)
	}
	_, err := l.Producers(epochTime)
	must(t, err)
	_, err = l.Retain(epochTime.AddDate(1, 0, 0), 0)
	must(t, err)
	k := NewKeeper(d, KeeperOptions{})
	k.promises(epochTime)
	k.logStarts(epochTime)
	k.highWatermarks(epochTime)
	must(t, d.DeleteLogs(epochTime, gone))
	for _, op := range []hookfs.Op{hookfs.Mkdir, hookfs.RemoveAll} {
		if n := count.Of(op).Calls; n > 0 {
			t.Errorf("%d times %s", n, op)
		}
	}
	must(t, d.Close(epochTime, 1))
	if !hasDirectory(t, count, l.Path()) || hasDirectory(t, count, gone.Path()) {
		t.Error("an orderly stop leaves a directory of each log, and of no other")
	}
	d, report := mustOpen(t, testOptions(count), epochTime, DefaultConfig())
	defer d.Abandon()
	if _, clean := d.PreviousBrokerEpoch(); !clean || len(report.Opened) != 1 || len(report.Failed) != 0 {
		t.Errorf("clean stop: %v, %+v", clean, report)
	}
	mustAppend(t, report.Opened[0], epochTime, 4, "a")
}

// TestFirstChangeGivesFiles, whatever it is.
func TestFirstChangeGivesFiles(t *testing.T) {
	for name, change := range map[string]func(l *Log) error{
		"append": func(l *Log) error {
			_, err := l.AppendAsLeader(AppendParams{Now: epochTime, Records: produced(epochTime, "a"), RequestVersion: 12})
			return err
		},
		"follow": func(l *Log) error {
			_, err := l.AppendAsFollower(epochTime, produced(epochTime, "a"), 5)
			return err
		},
		"start at an offset": func(l *Log) error { return l.TruncateFullyAndStartAt(5) },
		"start afresh":       func(l *Log) error { return l.TruncateFullyAndStartAt(0) },
	} {
		t.Run(name, func(t *testing.T) {
			crash := vfs.NewCrash(rand.NewPCG(1, 1))
			d, _ := mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
			l := mustCreate(t, d, testID("t", 0), DefaultConfig())
			must(t, change(l))
			d.Flush()
			start, end := l.LogStart(), l.LogEnd()
			crash.PowerCutLosingAll()
			d.Abandon()
			d, report := mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
			defer d.Abandon()
			if len(report.Opened) == 1 {
				l = report.Opened[0]
			}
			if len(report.Opened) != 1 || len(report.Failed) != 0 || l.LogEnd() != end || name == "append" && l.LogStart() != start {
				t.Errorf("want [%d, %d), opened %v [%d, %d), failed %v", start, end, report.Opened, l.LogStart(), l.LogEnd(), report.Failed)
			}
		})
	}
}

// TestBirthMeetsAnError that passes, at each of its calls. Nothing is lost by it.
func TestBirthMeetsAnError(t *testing.T) {
	for _, kind := range []string{"ENOSPC", "EMFILE"} {
		for n := 1; ; n++ {
			faulty := errfs.Wrap(vfs.NewMem())
			d, _ := mustOpen(t, testOptions(faulty), epochTime, DefaultConfig())
			l := mustCreate(t, d, testID("t", 0), DefaultConfig())
			faulty.Add(fmt.Sprintf("any dir=/data/t-0 from=%d err=%s", n, kind)) // what was begun cannot be removed, either
			_, err := l.AppendAsLeader(AppendParams{Now: epochTime, Records: produced(epochTime, "a"), RequestVersion: 12})
			if err == nil {
				d.Abandon()
				break
			}
			if !errors.Is(err, kafkaerr.KafkaStorageError) || !MayPass(err) || l.LogEnd() != 0 {
				t.Fatalf("%s at call %d: %v", kind, n, err)
			}
			faulty.Clear()
			d.checkSpace()
			mustAppend(t, l, epochTime, 1, "a")
			d.Flush()
			must(t, d.Close(epochTime, 1))
			d, report := mustOpen(t, testOptions(faulty), epochTime, DefaultConfig())
			d.Abandon()
			if len(report.Opened) != 1 || report.Opened[0].LogEnd() != 1 {
				t.Errorf("%s at call %d: %+v", kind, n, report)
			}
		}
	}
}

// TestForeignDirectoryInTheWay: what somebody has put where the log's files belong is left
// alone. The log fails, the directory does not.
func TestForeignDirectoryInTheWay(t *testing.T) {
	mem := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(mem), epochTime, DefaultConfig())
	defer d.Abandon()
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	must(t, mem.MkdirAll(l.Path(), 0o755))
	putFile(t, mem, l.Path()+"/", "00000000000000000000.log")
	_, err := l.AppendAsLeader(AppendParams{Now: epochTime, Records: produced(epochTime, "a"), RequestVersion: 12})
	if !errors.Is(err, kafkaerr.KafkaStorageError) || MayPass(err) || l.Failure() == nil || d.Err() != nil {
		t.Errorf("append: %v; log %v, directory %v", err, l.Failure(), d.Err())
	}
	entries, err := mem.ReadDir(l.Path())
	if err != nil || len(entries) != 1 {
		t.Errorf("left are %v, %v", entries, err)
	}
}

// TestKeeperGivesFiles to logs that nobody uses, a bounded number at a time, and not on a
// full disk.
func TestKeeperGivesFiles(t *testing.T) {
	mem := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(mem), epochTime, DefaultConfig())
	defer d.Abandon()
	k := NewKeeper(d, KeeperOptions{})
	k.Tick(epochTime)
	const logs = maxBirths + 10
	for p := range int32(logs) {
		mustCreate(t, d, testID("t", p), DefaultConfig())
	}
	born := func() (n int) {
		for _, l := range d.Logs() {
			if hasDirectory(t, mem, l.Path()) {
				n++
			}
		}
		return n
	}
	must(t, d.DeleteLogs(epochTime, d.Log(topicID("t"), 0)))
	again := mustCreate(t, d, ID{Topic: "t", TopicID: topicID("again")}, DefaultConfig())
	mustAppend(t, again, epochTime, 1, "born before its turn")
	now := epochTime.Add(birthDelay)
	if next := k.Tick(now.Add(-time.Millisecond)); !next.Equal(now) || born() != 1 {
		t.Errorf("next %v after the beginning, %d have files", next.Sub(epochTime), born())
	}
	if next := k.Tick(now); !next.Equal(now.Add(birthPause)) || born() != maxBirths {
		t.Errorf("next %v after they are due, %d have files", next.Sub(now), born())
	}
	d.space.full.Store(true)
	now = now.Add(birthPause)
	if k.Tick(now); born() != maxBirths {
		t.Errorf("%d have files, although the disk is full", born())
	}
	d.space.full.Store(false)
	if k.Tick(now.Add(birthRetry)); born() != logs || len(d.unborn) != 0 {
		t.Errorf("%d of %d have files, %d wait", born(), logs, len(d.unborn))
	}
	if l := d.Log(topicID("again"), 0); l != again || l.LogEnd() != 1 {
		t.Error("the keeper has been at the log that is used")
	}
}

// TestBirthsWaitForCreationsToEnd, but not for ever.
func TestBirthsWaitForCreationsToEnd(t *testing.T) {
	mem := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(mem), epochTime, DefaultConfig())
	defer d.Abandon()
	k := NewKeeper(d, KeeperOptions{})
	var logs []*Log
	create := func(after time.Duration) {
		l, err := d.CreateLog(epochTime.Add(after), ID{Topic: fmt.Sprint("t", len(logs)), TopicID: topicID(fmt.Sprint(len(logs)))}, DefaultConfig())
		must(t, err)
		logs = append(logs, l)
	}
	const step = 100 * time.Millisecond
	for after := time.Duration(0); after < birthDelay+birthPatience; after += step {
		create(after)
		if k.Tick(epochTime.Add(after)); hasDirectory(t, mem, logs[0].Path()) {
			t.Fatalf("the first log has files after %v, while others are created", after)
		}
	}
	if k.Tick(epochTime.Add(birthDelay + birthPatience)); !hasDirectory(t, mem, logs[0].Path()) || hasDirectory(t, mem, logs[1].Path()) {
		t.Error("the first log, and no other, should have waited for long enough")
	}
	if k.Tick(epochTime.Add(birthDelay + birthPatience - step + birthQuiet)); !hasDirectory(t, mem, logs[1].Path()) {
		t.Error("the second log has no files, although no more are created")
	}
}

// TestUnbornLogMoves, also off a full disk, on which it could not get files.
func TestUnbornLogMoves(t *testing.T) {
	faulty := errfs.Wrap(vfs.NewMem())
	a, _ := openAt(t, faulty, "/a", 1)
	b, _ := openAt(t, faulty, "/b", 2)
	defer a.Abandon()
	l := mustCreate(t, a, testID("t", 0), smallSegments())
	faulty.Add("mkdir dir=/a err=ENOSPC")
	must(t, l.AssignEpoch(2, 0))
	m := mustBegin(t, b, l)
	copyAll(t, m)
	moved, err := m.Finish(epochTime, 0)
	must(t, err)
	must(t, m.Leave(epochTime))
	mustAppend(t, moved, epochTime, 2, "a")
	b.Flush()
	if hasDirectory(t, faulty, "/a/t-0") || !hasDirectory(t, faulty, "/b/t-0") || a.Err() != nil {
		t.Errorf("files in the old place: %v, in the new one: %v; %v", hasDirectory(t, faulty, "/a/t-0"), hasDirectory(t, faulty, "/b/t-0"), a.Err())
	}
	must(t, b.Close(epochTime, 1))
}

// TestLostLogIsNoUnbornOne: one that had records is missed when its directory is gone, as is
// one of an earlier run (decision D19).
func TestLostLogIsNoUnbornOne(t *testing.T) {
	mem := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(mem), epochTime, DefaultConfig())
	lost, unborn := mustCreate(t, d, testID("lost", 0), DefaultConfig()), mustCreate(t, d, testID("unborn", 0), DefaultConfig())
	mustAppend(t, lost, epochTime, 1, "a")
	d.Flush()
	must(t, d.checkpointPromises())
	d.Abandon()
	must(t, mem.RemoveAll(lost.Path()))
	d, report := mustOpen(t, testOptions(mem), epochTime, DefaultConfig())
	defer d.Abandon()
	if len(report.Failed) != 1 || report.Failed[0].ID.TopicID != lost.ID().TopicID {
		t.Errorf("failed %v", report.Failed)
	}
	if _, err := d.CreateLog(epochTime, lost.ID(), DefaultConfig()); !errors.Is(err, kafkaerr.KafkaStorageError) {
		t.Errorf("the lost one is begun anew: %v", err)
	}
	mustCreate(t, d, unborn.ID(), DefaultConfig())
}
