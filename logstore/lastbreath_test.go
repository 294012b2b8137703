package logstore

import (
	"errors"
	"syscall"
	"testing"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
)

// dies runs fn, which must end in a broken invariant, and what is deferred in it.
func dies(t *testing.T, fn func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if recover() == nil {
			t.Error("the invariant holds")
		}
	}()
	fn()
}

// TestBrokenInvariantHoldsNoLock: a panic runs what is deferred on its way out, as Close
// defers Abandon. With a lock in its hand it would wait for itself there, and the process
// would hang instead of ending.
func TestBrokenInvariantHoldsNoLock(t *testing.T) {
	pool := segment.NewFilePool(segment.PoolOptions{})
	o := testOptions(vfs.NewMem())
	o.Pool = pool
	d, _ := mustOpen(t, o, epochTime, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	mustAppend(t, l, epochTime, 1, "a")
	round := d.BeginFlush()
	dies(t, func() {
		defer d.Abandon()
		d.BeginFlush()
	})
	round.Finish(errors.New("nobody has synced")) // a second sign of life

	d, _ = mustOpen(t, o, epochTime, DefaultConfig())
	region := regionOf(t, mustLog(t, d))
	region.Release()
	dies(t, func() {
		defer d.Abandon()
		region.Release()
	})
	if n := pool.OpenFiles(); n != 0 {
		t.Errorf("%d files are open", n)
	}
}

func mustLog(t *testing.T, d *Dir) *Log {
	t.Helper()
	logs := d.Logs()
	if len(logs) != 1 {
		t.Fatalf("%d logs", len(logs))
	}
	return logs[0]
}

// TestFailedLogIsSetAsideDurablyOrNotAtAll: the new log of the partition may take the name
// of the old one's directory, so a name that the disk may have lost is its failure.
func TestFailedLogIsSetAsideDurablyOrNotAtAll(t *testing.T) {
	for _, test := range []struct {
		rule    string
		offline bool
	}{
		{"syncdir /data err=EIO", true},
		{"rename /data/t-0 err=EIO", true},
		{"syncdir /data nth=1 err=EMFILE", false},
	} {
		t.Run(test.rule, func(t *testing.T) {
			fs := vfs.NewMem()
			d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
			l := threeFlushed(t, d)
			d.Abandon()
			if err := fs.Remove(l.active().Path()); err != nil {
				t.Fatal(err)
			}
			faulty := errfs.Wrap(fs)
			d, report := mustOpen(t, testOptions(faulty), epochTime, DefaultConfig())
			defer d.Abandon()
			if len(report.Failed) != 1 {
				t.Fatalf("%+v", report)
			}
			faulty.Add(test.rule)
			err := d.SetAsideFailed(epochTime, l.ID())
			if faulty.Fired() == 0 {
				t.Fatalf("the rule is not met: %v", err)
			}
			if offline := d.Err() != nil; offline != test.offline || offline != errors.Is(err, ErrDirOffline) || !offline && err != nil {
				t.Errorf("%v; the directory: %v", err, d.Err())
			}
			if test.offline && !errors.Is(d.Err(), syscall.EIO) {
				t.Errorf("the cause is gone from %v", d.Err())
			}
			faulty.Clear()
			if !d.marks.knows(l.ID()) {
				t.Error("its marks are forgotten, and the new name is not durable")
			}
			if test.offline {
				return
			}
			NewKeeper(d, KeeperOptions{}).promises(epochTime)
			if d.marks.knows(l.ID()) || len(d.renamed) > 0 || d.Err() != nil {
				t.Error("the keeper has not ended it")
			}
		})
	}
}
