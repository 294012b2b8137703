package logstore

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// hotConfig prepares for each append.
func hotConfig() Config {
	c := DefaultConfig()
	c.Durability, c.WriteAheadBytes = DurabilityReplicated, 4096
	return c
}

// logFiles are the sizes of a log's segment files.
func logFiles(t *testing.T, fsys vfs.FS, l *Log) (sizes []int64) {
	t.Helper()
	entries, err := fsys.ReadDir(l.Path())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".log" {
			continue
		}
		var info fs.FileInfo
		if info, err = e.Info(); err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size())
	}
	return sizes
}

func wantFiles(t *testing.T, when string, fsys vfs.FS, l *Log, sizes ...int64) {
	t.Helper()
	if got := logFiles(t, fsys, l); fmt.Sprint(got) != fmt.Sprint(sizes) {
		t.Errorf("%s, the log files have %d bytes, want %d", when, got, sizes)
	}
}

// TestWriteAheadIsNoPartOfTheLog: what is written ahead counts in no size, and a start after
// a kill cuts it off without a word, whatever had been flushed.
func TestWriteAheadIsNoPartOfTheLog(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		var said bytes.Buffer
		fsys := vfs.NewCrash(rand.NewPCG(1, 2))
		o := testOptions(fsys.Process())
		o.Logger = slog.New(slog.NewTextHandler(&said, nil))
		d, _ := mustOpen(t, o, epochTime, hotConfig())
		l := mustCreate(t, d, testID("t", 0), hotConfig())
		size := int64(mustAppend(t, l, epochTime, 1, "one", "two").AppendedBytes)
		wantFiles(t, "after an append", fsys, l, 4096)
		if l.SizeBytes() != size {
			t.Errorf("the log has %d bytes, want %d", l.SizeBytes(), size)
		}
		if flushed {
			d.wantFlush(l)
			d.Flush()
			if err := d.checkpointPromises(); err != nil {
				t.Fatal(err)
			}
		}
		fsys.Kill()
		d.Abandon()

		o.FS = fsys.Process()
		d, report := mustOpen(t, o, epochTime, hotConfig())
		l = report.Opened[0]
		wantFiles(t, "after a kill", o.FS, l, size)
		if l.LogEnd() != 2 || l.SizeBytes() != size {
			t.Errorf("the log ends at %d and has %d bytes, want 2 and %d", l.LogEnd(), l.SizeBytes(), size)
		}
		if said := said.String(); strings.Contains(said, "WARN") || strings.Contains(said, "ERROR") {
			t.Errorf("a start after a kill says:\n%s", said)
		}
		d.Abandon()
	}
}

// TestLossBelowTheFlushedOffsetIsDamage: zeros where batches had been reported durable are
// not taken for what was written ahead.
func TestLossBelowTheFlushedOffsetIsDamage(t *testing.T) {
	mem := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(mem), epochTime, hotConfig())
	l := mustCreate(t, d, testID("t", 0), hotConfig())
	first := mustAppend(t, l, epochTime, 1, "one").AppendedBytes
	second := mustAppend(t, l, epochTime, 1, "two").AppendedBytes
	d.wantFlush(l)
	d.Flush()
	if err := d.checkpointPromises(); err != nil {
		t.Fatal(err)
	}
	file := l.segments()[0].Path()
	d.Abandon()
	f, err := mem.OpenFile(file, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, second), int64(first)); err != nil {
		t.Fatal(err)
	}
	_, report := mustOpen(t, testOptions(mem), epochTime, hotConfig())
	if len(report.Failed) != 1 || len(report.Opened) != 0 {
		t.Errorf("report %+v, want one failed log", report)
	}
	if got, err := vfs.ReadFile(mem, file); err != nil || len(got) != 4096 {
		t.Errorf("a damaged file has %d bytes, want 4096 as before: %v", len(got), err)
	}
}

// TestRollCutsAhead: a segment that is full ends where its batches end, durably before the
// recovery point lets a start pass it over. The flush of the roll syncs it although all of
// its batches were flushed before.
func TestRollCutsAhead(t *testing.T) {
	fsys := vfs.NewCrash(rand.NewPCG(1, 2))
	d, _ := mustOpen(t, testOptions(fsys.Process()), epochTime, hotConfig())
	l := mustCreate(t, d, testID("t", 0), hotConfig())
	size := int64(mustAppend(t, l, epochTime, 1, "one").AppendedBytes)
	d.wantFlush(l)
	d.Flush()
	if err := l.Roll(epochTime); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, "after a roll", fsys, l, size, 0)
	mustAppend(t, l, epochTime, 1, "two")
	d.Flush()
	if l.segments()[0].Unflushed() {
		t.Error("the cut was not synced")
	}
	fsys.PowerCutLosingAll()
	d.Abandon()
	o := testOptions(fsys.Process())
	d, report := mustOpen(t, o, epochTime, hotConfig())
	defer d.Abandon()
	wantFiles(t, "after a power cut", o.FS, report.Opened[0], size, size)
}

// TestCloseCutsAhead: a start after a clean stop reads nothing, so it has to find every file
// as long as its batches, also if the power fails right after the stop.
func TestCloseCutsAhead(t *testing.T) {
	fsys := vfs.NewCrash(rand.NewPCG(1, 2))
	d, _ := mustOpen(t, testOptions(fsys.Process()), epochTime, hotConfig())
	l := mustCreate(t, d, testID("t", 0), hotConfig())
	size := int64(mustAppend(t, l, epochTime, 1, "one").AppendedBytes)
	d.wantFlush(l) // and settled, so that the stop has nothing else to do for it
	d.Flush()
	if err := d.captureRecoveryPoints(epochTime, []*Log{l}); err != nil || !l.settleRecoveryPoint() {
		t.Fatal("the recovery point does not move", err)
	}
	if err := d.Close(epochTime, 1); err != nil {
		t.Fatal(err)
	}
	fsys.PowerCutLosingAll()
	o := testOptions(fsys.Process())
	d, report := mustOpen(t, o, epochTime, hotConfig())
	defer d.Abandon()
	if _, clean := d.PreviousBrokerEpoch(); !clean {
		t.Error("the stop was not clean")
	}
	wantFiles(t, "after a clean stop", o.FS, report.Opened[0], size)
	mustAppend(t, report.Opened[0], epochTime, 2, "two")
}

// TestColdLogIsCut: when a log has gone cold, the keeper cuts off what was written ahead, has
// that flushed, and forgets the log.
func TestColdLogIsCut(t *testing.T) {
	mem := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(mem), epochTime, hotConfig())
	defer d.Abandon()
	l := mustCreate(t, d, testID("t", 0), hotConfig())
	wakes := 0
	k := NewKeeper(d, KeeperOptions{Wake: func() { wakes++ }})
	k.Tick(epochTime)
	size := int64(mustAppend(t, l, epochTime, 1, "one").AppendedBytes)
	d.wantFlush(l)
	d.Flush()
	if err := d.captureRecoveryPoints(epochTime, []*Log{l}); err != nil || !l.settleRecoveryPoint() {
		t.Fatal("the recovery point does not move", err)
	}
	k.Tick(epochTime.Add(time.Second))
	wantFiles(t, "after a second", mem, l, 4096)
	k.Tick(epochTime.Add(2 * time.Second))
	wantFiles(t, "after two seconds", mem, l, size)
	if wakes != 1 {
		t.Errorf("%d wakes, want 1", wakes)
	}
	d.Flush()
	if l.segments()[0].Unflushed() {
		t.Error("the cut was not synced")
	}
	k.Tick(epochTime.Add(3 * time.Second))
	if moved := d.movedLogs(); len(moved) != 0 {
		t.Errorf("%d logs are still looked after", len(moved))
	}
}

// TestFullDiskOnlyEndsWritingAhead: where there is no room for a block of zeros, there may be
// for the append.
func TestFullDiskOnlyEndsWritingAhead(t *testing.T) {
	fsys := hookfs.Wrap(vfs.NewMem(), false, func(c *hookfs.Call) error {
		if c.Op == hookfs.Write && c.Bytes == 4096 {
			return syscall.ENOSPC
		}
		return nil
	})
	d, _ := mustOpen(t, testOptions(fsys), epochTime, hotConfig())
	defer d.Abandon()
	l := mustCreate(t, d, testID("t", 0), hotConfig())
	size := int64(mustAppend(t, l, epochTime, 1, "one").AppendedBytes)
	if d.Full() {
		t.Error("the directory counts as full")
	}
	wantFiles(t, "after an append", fsys, l, size)
}

// TestWriteAheadCountsAsUsedRoom: the room is looked at after so many bytes, and zeros are
// bytes.
func TestWriteAheadCountsAsUsedRoom(t *testing.T) {
	d, _ := mustOpen(t, testOptions(vfs.NewMem()), epochTime, hotConfig())
	defer d.Abandon()
	l := mustCreate(t, d, testID("t", 0), hotConfig())
	size := int64(mustAppend(t, l, epochTime, 1, "one").AppendedBytes)
	if got := d.space.unseen.Load(); got != size+4096 {
		t.Errorf("%d bytes count as used, want %d", got, size+4096)
	}
}
