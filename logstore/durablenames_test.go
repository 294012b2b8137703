package logstore

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/producerstate"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// TestDirectoryMadeByAKilledProcess: the name of a directory is not durable because the
// directory is there. Found by the exact tier.
func TestDirectoryMadeByAKilledProcess(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	crash := vfs.NewCrash(rand.NewPCG(1, 1))
	crash.OnSync(func(p vfs.SyncPoint) error {
		if !p.Done && p.N == 1 {
			crash.Kill() // the directory is made, its name not yet durable
		}
		return nil
	})
	if _, err := OpenDir(testOptions(crash.Process())); !errors.Is(err, vfs.ErrCrashed) {
		t.Fatalf("open: %v, want it to die", err)
	}
	o := testOptions(crash.Process())
	d, _ := mustOpen(t, o, now, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	mustAppend(t, l, now, 1, "a")
	d.Flush()
	crash.PowerCutLosingAll()

	o.FS = crash.Process()
	d, report := mustOpen(t, o, now, DefaultConfig())
	defer d.Abandon()
	if len(report.Opened) != 1 || report.Opened[0].LogEnd() != 1 {
		t.Fatalf("after the power cut: %+v", report)
	}
}

// TestSnapshotAboveTheEndStaysGone: recovery removes a producer snapshot that lies above
// the end, durably. If a power cut brought it back when other records have taken those
// offsets, a retry would be answered as a duplicate of somebody else's record. Found by
// the exact tier.
func TestSnapshotAboveTheEndStaysGone(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	crash := vfs.NewCrash(rand.NewPCG(1, 1))
	o := testOptions(crash.Process())
	d, _ := mustOpen(t, o, now, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	mustAppend(t, l, now, 1, "a")
	d.Flush()
	if err := d.checkpointPromises(); err != nil {
		t.Fatal(err)
	}
	// The snapshot of records that were lost.
	stale := producerstate.New(producerstate.Options{FS: o.FS, Dir: l.Path(), Expiration: time.Hour})
	stale.SetEndOffset(5)
	if _, err := stale.TakeSnapshot(true); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(l.Path(), producerstate.SnapshotName(5))
	crash.Kill()

	o.FS = crash.Process()
	mustOpen(t, o, now, DefaultConfig())
	crash.PowerCutLosingAll()
	if _, err := crash.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is back: %v", name, err)
	}
}

// TestSnapshotOfATruncatedPastStaysGone: a truncation meets a recovery point on its way to
// the disk. The snapshot that goes with it describes records that are gone; when others
// have taken their offsets, nothing may bring it back.
func TestSnapshotOfATruncatedPastStaysGone(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	crash := vfs.NewCrash(rand.NewPCG(1, 1))
	o := testOptions(crash.Process())
	d, _ := mustOpen(t, o, now, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	for sequence := range int32(4) {
		records := producedBy(&batch.Producer{ID: 5, BaseSequence: sequence}, now, "lost")
		if _, err := l.AppendAsLeader(AppendParams{Now: now, Records: records, LeaderEpoch: 1, RequestVersion: 9}); err != nil {
			t.Fatal(err)
		}
	}
	d.Flush()
	met := false
	crash.OnSync(func(p vfs.SyncPoint) error {
		if met || p.Op != "syncall" || p.Done {
			return nil
		}
		met = true
		if err := l.TruncateTo(1); err != nil {
			t.Error(err)
		}
		for range 3 {
			mustAppend(t, l, now, 2, "another's")
		}
		d.Flush()
		return nil
	})
	if err := d.captureRecoveryPoints(now, d.Logs()); err != nil || !met {
		t.Fatalf("captured without a sync: %v", err)
	}
	if err := d.checkpointPromises(); err != nil {
		t.Fatal(err)
	}
	crash.PowerCutLosingAll()
	crash.OnSync(nil)

	o.FS = crash.Process()
	d, report := mustOpen(t, o, now, DefaultConfig())
	defer d.Abandon()
	if len(report.Opened) != 1 || report.Opened[0].LogEnd() != 4 {
		t.Fatalf("after the power cut: %+v", report)
	}
	producers, err := report.Opened[0].Producers(now)
	if err != nil || len(producers) != 1 || producers[0].LastSequence != 0 {
		t.Errorf("producers %+v, %v; want one that has sent sequence 0", producers, err)
	}
}

// TestCreationCutOffByAKill: the process dies at any call of a log's creation. What the next
// one finds is not durable because it is there, and belongs to a log that will hold records.
func TestCreationCutOffByAKill(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	for n := 1; ; n++ {
		crash := vfs.NewCrash(rand.NewPCG(1, 1))
		calls, counting := 0, false
		o := testOptions(hookfs.Wrap(crash.Process(), true, func(*hookfs.Call) error {
			if counting {
				if calls++; calls == n {
					crash.Kill()
				}
			}
			return nil
		}))
		d, _ := mustOpen(t, o, now, DefaultConfig())
		counting = true
		l, err := d.CreateLog(now, testID("t", 0), DefaultConfig())
		if err == nil {
			err = l.bearNow()
		}
		if err == nil {
			if n < 10 {
				t.Fatalf("created after %d calls", calls)
			}
			return
		}

		o.FS = crash.Process()
		d, _ = mustOpen(t, o, now, DefaultConfig())
		l = d.Log(testID("t", 0).TopicID, 0)
		if l == nil {
			l = mustCreate(t, d, testID("t", 0), DefaultConfig())
		}
		mustAppend(t, l, now, 1, "a")
		d.Flush()
		crash.PowerCutLosingAll()

		o.FS = crash.Process()
		d, report := mustOpen(t, o, now, DefaultConfig())
		d.Abandon()
		if len(report.Opened) != 1 || report.Opened[0].LogEnd() != 1 || report.Opened[0].ID() != testID("t", 0) {
			t.Errorf("killed at call %d: after a power cut %+v", n, report)
		}
	}
}

// TestProducersOutliveTheirRecords: retention takes all that a producer has sent but its
// last batch, and the power fails. A retry of an earlier batch is still a duplicate.
func TestProducersOutliveTheirRecords(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	crash := vfs.NewCrash(rand.NewPCG(1, 1))
	c := DefaultConfig()
	c.SegmentBytes, c.RetentionBytes = 300, 0
	d, _ := mustOpen(t, testOptions(crash.Process()), now, c)
	l := mustCreate(t, d, testID("t", 0), c)
	send := func(sequence int32) AppendInfo {
		records := producedBy(&batch.Producer{ID: 5, BaseSequence: sequence}, now, "some value")
		info, err := l.AppendAsLeader(AppendParams{Now: now, Records: records, LeaderEpoch: 1, RequestVersion: 9})
		if err != nil {
			t.Errorf("sequence %d: %v", sequence, err)
		}
		return info
	}
	for sequence := range int32(4) {
		send(sequence)
		d.Flush()
	}
	if deleted, err := l.Retain(now, 3); err != nil || len(deleted) != 1 || l.LogStart() != 3 {
		t.Fatalf("deleted %+v, %v; log start %d", deleted, err, l.LogStart())
	}
	crash.PowerCutLosingAll()

	d, report := mustOpen(t, testOptions(crash.Process()), now, c)
	defer d.Abandon()
	l = report.Opened[0]
	if info := send(2); !info.Duplicate || info.FirstOffset != 2 {
		t.Errorf("retry: %+v", info)
	}
}

// TestSnapshotOfAForgottenPastIsNotBelieved: a snapshot that a failed start had removed is
// back, and the log has grown over its offset since. It knows nothing of the producers of
// now. Found by the exact tier (seed 9204955).
func TestSnapshotOfAForgottenPastIsNotBelieved(t *testing.T) {
	fsys := vfs.NewMem()
	o := testOptions(fsys)
	d, _ := mustOpen(t, o, epochTime, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	for sequence := range int32(3) {
		records := producedBy(&batch.Producer{ID: 5, BaseSequence: sequence}, epochTime, "some value")
		if _, err := l.AppendAsLeader(AppendParams{Now: epochTime, Records: records, LeaderEpoch: 1, RequestVersion: 12}); err != nil {
			t.Fatal(err)
		}
	}
	d.Flush()
	if err := d.checkpointPromises(); err != nil {
		t.Fatal(err)
	}
	d.Abandon()
	ghost := producerstate.New(producerstate.Options{FS: fsys, Dir: l.Path(), Expiration: time.Hour})
	ghost.SetEndOffset(3)
	if _, err := ghost.TakeSnapshot(true); err != nil {
		t.Fatal(err)
	}

	d, report := mustOpen(t, o, epochTime, DefaultConfig())
	defer d.Abandon()
	records := producedBy(&batch.Producer{ID: 5, BaseSequence: 2}, epochTime, "some value")
	info, err := report.Opened[0].AppendAsLeader(AppendParams{Now: epochTime, Records: records, LeaderEpoch: 1, RequestVersion: 12})
	if err != nil || !info.Duplicate || info.FirstOffset != 2 {
		t.Errorf("a retry is answered %+v: %v", info, err)
	}
}
