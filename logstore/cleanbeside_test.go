package logstore

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/logstore/compaction"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// beside are things that happen to a log while it is cleaned.
var beside = map[string]func(b *besideRun) error{
	"append": func(b *besideRun) error {
		for range 8 {
			if _, err := b.l.AppendAsLeader(AppendParams{Now: epochTime, Records: keyed(epochTime, kv{"k1", "later"}), LeaderEpoch: 1, RequestVersion: 12}); err != nil {
				return err
			}
		}
		return b.l.Roll(epochTime)
	},
	"read":    func(b *besideRun) error { return b.read() },
	"time":    func(b *besideRun) error { _, _, err := b.l.OffsetForTimestamp(epochTime.UnixMilli() + 5); return err },
	"capture": func(b *besideRun) error { return b.d.captureRecoveryPoints(epochTime, []*Log{b.l}) },
	"truncate": func(b *besideRun) error { // below the end of what is cleaned
		b.end = 11
		return b.l.TruncateTo(11)
	},
	"truncate above": func(b *besideRun) error {
		b.end = int64(b.l.LogEnd()) - 1
		return b.l.TruncateTo(b.end)
	},
	"start afresh": func(b *besideRun) error {
		b.start, b.end = 100, 100
		return b.l.TruncateFullyAndStartAt(100)
	},
	"retain": func(b *besideRun) error {
		b.start = 10
		if err := b.l.AdvanceLogStart(10); err != nil {
			return err
		}
		_, err := b.l.Retain(epochTime, everything(b.l).HighWatermark)
		return errors.Join(err, b.d.PersistLogStarts(b.l))
	},
	"segments":  func(b *besideRun) error { return b.d.checkpointSegments(false) },
	"set aside": func(b *besideRun) error { b.gone = true; return b.d.SetAside(epochTime, b.l) },
	"delete":    func(b *besideRun) error { b.gone = true; return b.d.DeleteLogs(epochTime, b.l) },
	"move":      func(b *besideRun) error { return b.move() },
	"producers": func(b *besideRun) error { _, err := b.l.Producers(epochTime); return err },
}

// TestCleaningBesideOthers does each of them between any two calls of a cleaning at which it
// holds no lock: its syncs, and where it keeps its pace. Whatever comes of it, the next start finds
// the log, with all survivors.
func TestCleaningBesideOthers(t *testing.T) {
	for what := range beside {
		t.Run(what, func(t *testing.T) {
			for at := 1; ; at++ {
				more := false
				synctest.Test(t, func(t *testing.T) { more = cleanBeside(t, what, at) })
				if !more || t.Failed() {
					t.Logf("%d places", at-1)
					return
				}
			}
		})
	}
}

type besideRun struct {
	t          *testing.T
	what       string
	at         int
	places     atomic.Int64 // what happens beside may come to places of its own
	done       chan error
	disk       vfs.FS
	d, other   *Dir
	l          *Log
	before     []record
	active     int64
	start, end int64
	gone       bool
	moved      *Log
}

func cleanBeside(t *testing.T, what string, at int) (met bool) {
	b := &besideRun{t: t, what: what, disk: vfs.NewMem(), done: make(chan error, 1)}
	c := compactConfig()
	b.d, _ = mustOpen(t, testOptions(hookfs.Wrap(b.disk, true, b.hook)), epochTime, c)
	o := testOptions(b.disk)
	o.Path, o.Rand = "/other", &stream{seed: 9}
	b.other, _ = mustOpen(t, o, epochTime, c)
	defer func() { b.d.Abandon(); b.other.Abandon() }()
	b.l = compactedLog(t, b.d, c, 20)
	b.before, b.active, b.end = recordsOf(t, b.l), b.l.active().BaseOffset(), int64(b.l.LogEnd())
	b.at = at
	bounds := everything(b.l)
	dirty, err := b.l.Cleanable(epochTime, bounds)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.l.Clean(CleanParams{
		Now: epochTime.Add(time.Minute), Bounds: bounds, Dirty: dirty, Map: compaction.NewOffsetMap(1<<20, 0.9), BufferBytes: 1,
		Pace: func(int) error { b.place(); return nil },
	})
	if b.places.Load() < int64(at) {
		return false
	}
	if did := <-b.done; did != nil {
		t.Errorf("place %d: %s: %v", at, what, did)
	}
	if err != nil && !errors.Is(err, ErrOvertaken) && !errors.Is(err, ErrClosed) {
		t.Errorf("place %d: %v", at, err)
	}
	b.judge(err)
	return true
}

func (b *besideRun) hook(c *hookfs.Call) error {
	if c.Op == hookfs.Sync || c.Op == hookfs.SyncDir {
		b.place()
	}
	return nil
}

// place is where the other thing may happen. It goes on until it is over, or waits.
func (b *besideRun) place() {
	if b.at == 0 {
		return
	}
	if b.places.Add(1) != int64(b.at) {
		return
	}
	go func() { b.done <- beside[b.what](b) }()
	synctest.Wait()
}

func (b *besideRun) read() error {
	got, err := readRecords(b.l)
	if err != nil {
		return err
	}
	for _, r := range survivors(b.before, b.active) {
		if !slices.Contains(got, r) {
			return fmt.Errorf("%v is missing in %v", r, got)
		}
	}
	return nil
}

func (b *besideRun) move() error {
	m, err := b.other.BeginMove(epochTime, b.l)
	if err != nil {
		return err
	}
	b.moved, err = m.Finish(epochTime, everything(b.l).HighWatermark)
	if err != nil {
		return err
	}
	b.gone = true
	return m.Leave(epochTime)
}

// judge looks at what the next start finds.
func (b *besideRun) judge(err error) {
	t := b.t
	t.Helper()
	b.d.Abandon()
	b.other.Abandon()
	d, report := mustOpen(t, testOptions(b.disk), epochTime, b.l.Config())
	defer d.Abandon()
	o := testOptions(b.disk)
	o.Path = "/other"
	other, otherReport := mustOpen(t, o, epochTime, b.l.Config())
	defer other.Abandon()
	if len(otherReport.Failed)+len(otherReport.Futures) > 0 {
		t.Errorf("place %d: %+v", b.at, otherReport)
	}
	opened := append(report.Opened, otherReport.Opened...)
	if (len(opened) == 0) != (b.gone && b.moved == nil) || len(report.Failed) > 0 && b.moved == nil {
		t.Fatalf("place %d: %+v %+v, clean: %v", b.at, report, otherReport, err)
	}
	if len(opened) == 0 {
		return
	}
	l := opened[0]
	got := recordsOf(t, l)
	for _, r := range survivors(b.before, b.active) {
		if b.start <= r.offset && r.offset < min(b.end, int64(l.LogEnd())) && !slices.Contains(got, r) {
			t.Errorf("place %d: %v is lost, clean: %v\n%v", b.at, r, err, got)
		}
	}
	for _, r := range got {
		if !slices.Contains(b.before, r) && r.value != "later" {
			t.Errorf("place %d: %v was not there", b.at, r)
		}
	}
	if int64(l.LogEnd()) < int64(l.LogStart()) || int64(l.LogEnd()) > max(b.end, b.start) && b.what != "append" {
		t.Errorf("place %d: ends at %d, want at most %d", b.at, l.LogEnd(), b.end)
	}
	if l.CleanedTo() > int64(l.LogEnd()) || err != nil && l.CleanedTo() > 0 && b.what != "truncate above" {
		t.Errorf("place %d: cleaned to %d", b.at, l.CleanedTo())
	}
	for _, name := range fileNames(t, b.disk, l.Path()) {
		if _, _, stage, ok := segment.ParseStagedName(name); ok && stage != segment.InPlace {
			t.Errorf("place %d: left: %s", b.at, name)
		}
	}
}
