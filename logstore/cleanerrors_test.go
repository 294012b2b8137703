package logstore

import (
	"errors"
	"io/fs"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// nthFails lets one call of some kinds fail, once it is armed.
type nthFails struct {
	ops   []hookfs.Op
	nth   int
	err   error
	seen  int
	fired bool
}

func (n *nthFails) hook(c *hookfs.Call) error {
	if n.nth == 0 || !slices.Contains(n.ops, c.Op) {
		return nil
	}
	if n.seen++; n.seen != n.nth {
		return nil
	}
	n.fired = true
	return &fs.PathError{Op: string(c.Op), Path: c.Name, Err: n.err}
}

// TestCleaningIsTriedAgain: there is no room, or no descriptor, for one call of a cleaning. The log
// is in use as before, and what could not be finished is, by the next cleaning, by a truncation
// that waits for it, or by the next start.
func TestCleaningIsTriedAgain(t *testing.T) {
	for name, kind := range map[string]nthFails{
		"no room":       {ops: []hookfs.Op{hookfs.Open, hookfs.Write, hookfs.Rename}, err: syscall.ENOSPC},
		"no descriptor": {ops: []hookfs.Op{hookfs.Open, hookfs.SyncDir}, err: syscall.EMFILE},
	} {
		for _, then := range []string{"clean", "truncate", "retain", "start", "stop"} {
			t.Run(name+"/"+then, func(t *testing.T) {
				for nth := 1; ; nth++ {
					if !cleanAgain(t, kind, nth, then) {
						t.Logf("%d calls", nth-1)
						return
					}
				}
			})
		}
	}
}

func cleanAgain(t *testing.T, kind nthFails, nth int, then string) (fired bool) {
	t.Helper()
	disk, c := vfs.NewMem(), compactConfig()
	d, _ := mustOpen(t, testOptions(hookfs.Wrap(disk, true, kind.hook)), epochTime, c)
	defer func() { d.Abandon() }()
	l := compactedLog(t, d, c, 20)
	before, active := recordsOf(t, l), l.active().BaseOffset()
	kind.nth = nth
	_, err := cleanNow(l, epochTime.Add(time.Minute))
	kind.nth = 0
	if !kind.fired {
		return false
	}
	if err == nil || !MayPass(err) || d.Err() != nil || l.Failure() != nil {
		t.Fatalf("call %d: %v; directory %v, log %v", nth, err, d.Err(), l.Failure())
	}
	d.checkSpace()
	if got := recordsOf(t, l); !slices.Equal(survivors(got, active), survivors(before, active)) {
		t.Fatalf("call %d: %v is left of %v", nth, got, before)
	}
	appendKeyed(t, l, epochTime, kv{"k0", "newest"})
	switch then {
	case "truncate":
		if err := l.TruncateTo(active - 3); err != nil {
			t.Fatalf("call %d: truncate: %v", nth, err)
		}
	case "retain":
		if err := l.AdvanceLogStart(9); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Retain(epochTime, everything(l).HighWatermark); err != nil {
			t.Fatalf("call %d: retain: %v", nth, err)
		}
	case "start":
		d.Abandon()
	case "stop":
		if err := d.Close(epochTime, 1); err != nil {
			t.Fatal(err)
		}
	}
	if then == "start" || then == "stop" {
		d, _ = mustOpen(t, testOptions(disk), epochTime, l.Config())
		l = mustLog(t, d)
	}
	appendKeyed(t, l, epochTime, kv{"other", "newest"})
	cleanToEnd(t, l, survivors(before, active), nth)
	return true
}

// cleanToEnd cleans all that is there. Of what must have been there nothing was lost.
func cleanToEnd(t *testing.T, l *Log, must []record, nth int) {
	t.Helper()
	there := recordsOf(t, l)
	for _, r := range must {
		if r.offset >= there[0].offset && r.offset < there[len(there)-1].offset && !slices.Contains(there, r) {
			t.Errorf("call %d: %v is lost, there is %v", nth, r, there)
		}
	}
	if err := l.Roll(epochTime); err != nil {
		t.Fatal(err)
	}
	settleAll(t, l)
	mustClean(t, l, epochTime.Add(time.Minute))
	if got, want := recordsOf(t, l), survivors(there, l.active().BaseOffset()); !slices.Equal(got, want) {
		t.Errorf("call %d: %v, want %v", nth, got, want)
	}
	for _, name := range fileNames(t, l.dir.o.FS, l.Path()) {
		if _, _, stage, ok := segment.ParseStagedName(name); ok && stage != segment.InPlace {
			t.Errorf("call %d: left: %s", nth, name)
		}
	}
}

// TestCleaningLeavesTheReserve: what producers need to be accepted is not used up, and nothing of
// what was written is left.
func TestCleaningLeavesTheReserve(t *testing.T) {
	disk, c := vfs.NewMem(), compactConfig()
	o := testOptions(disk)
	o.ReserveBytes = 20_000
	d, _ := mustOpen(t, o, epochTime, c)
	defer d.Abandon()
	l := compactedLog(t, d, c, 20)
	before, names := recordsOf(t, l), fileNames(t, disk, l.Path())
	room := func(bytes int64) {
		disk.SetCapacity(0)
		s, err := d.Space()
		if err != nil {
			t.Fatal(err)
		}
		disk.SetCapacity(int64(s.TotalBytes-s.AvailBytes) + 25_000 + bytes)
		d.checkSpace()
	}
	room(10)
	if _, err := cleanNow(l, epochTime.Add(time.Minute)); !errors.Is(err, ErrDirFull) {
		t.Fatalf("clean without room: %v", err)
	}
	if d.Full() || !slices.Equal(fileNames(t, disk, l.Path()), names) || !slices.Equal(recordsOf(t, l), before) {
		t.Errorf("full %v, files %v", d.Full(), fileNames(t, disk, l.Path()))
	}
	appendKeyed(t, l, epochTime, kv{"k0", "newest"})
	room(3000)
	mustClean(t, l, epochTime.Add(time.Minute))
}
