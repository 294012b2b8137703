package logstore

import (
	"context"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/countfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// crashedDir is a directory whose process was killed with two flushed records above the
// recovery point.
func crashedDir(t *testing.T, fs vfs.FS) {
	t.Helper()
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	mustAppend(t, l, epochTime, 1, "a")
	d.Flush()
	if err := d.captureRecoveryPoints(epochTime, d.Logs()); err != nil || !l.settleRecoveryPoint() {
		t.Fatalf("recovery point does not move: %v", err)
	}
	mustAppend(t, l, epochTime, 1, "b")
	d.Flush()
	if err := d.checkpointPromises(); err != nil || l.RecoveryPoint() != 1 || l.Flushed() != 2 {
		t.Fatalf("recovery point %d, flushed %d: %v", l.RecoveryPoint(), l.Flushed(), err)
	}
	d.Abandon()
}

func expectRecovered(t *testing.T, fs vfs.FS) {
	t.Helper()
	d, report := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	defer d.Abandon()
	if len(report.Opened) != 1 || report.Opened[0].LogEnd() != 2 {
		t.Fatalf("flushed records are gone: log end %v of %+v", report.Opened[0].LogEnd(), report)
	}
	mustAppend(t, report.Opened[0], epochTime, 1, "c")
}

// TestStopBeforeRecoveryIsNoCleanStop: a process that stops in good order before it has
// opened the logs (no metadata came) cannot vouch for what an earlier crash has left.
func TestStopBeforeRecoveryIsNoCleanStop(t *testing.T) {
	fs := vfs.NewMem()
	crashedDir(t, fs)
	d, err := OpenDir(testOptions(fs))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(epochTime, 7); err != nil {
		t.Error(err)
	}
	expectRecovered(t, fs)
}

// TestStopAfterFailedRecoveryIsNoCleanStop: the same when opening the logs has failed, for
// a reason that has passed when the next process comes.
func TestStopAfterFailedRecoveryIsNoCleanStop(t *testing.T) {
	fs := vfs.NewMem()
	crashedDir(t, fs)
	faulty := errfs.Wrap(fs, "open *.log nth=1 err=EMFILE")
	d, err := OpenDir(testOptions(faulty))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.OpenLogs(context.Background(), OpenLogsParams{Now: epochTime}); err == nil {
		t.Fatal("logs are opened without descriptors")
	}
	faulty.Clear()
	if err := d.Close(epochTime, 7); err != nil {
		t.Error(err)
	}
	expectRecovered(t, fs)
}

// TestStopBeforeRecoveryKeepsACleanStop: what was clean and was not touched stays clean.
func TestStopBeforeRecoveryKeepsACleanStop(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	mustAppend(t, mustCreate(t, d, testID("t", 0), DefaultConfig()), epochTime, 1, "a")
	if err := d.Close(epochTime, 7); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDir(testOptions(fs))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(epochTime.Add(time.Second), -1); err != nil {
		t.Error(err)
	}
	d, _ = mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	defer d.Abandon()
	if epoch, clean := d.PreviousBrokerEpoch(); epoch != 7 || !clean {
		t.Errorf("epoch %d, clean %v; want that of the stop before", epoch, clean)
	}
}

// TestStopWithAnUnreadablePartitionIsNoCleanStop: nobody has looked at what is in it.
func TestStopWithAnUnreadablePartitionIsNoCleanStop(t *testing.T) {
	for _, rule := range []string{"read partition.metadata err=EIO", "open partition.metadata err=EACCES", "read *.log err=EIO"} {
		t.Run(rule, func(t *testing.T) {
			fs := vfs.NewMem()
			crashedDir(t, fs)
			d, report := mustOpen(t, testOptions(errfs.Wrap(fs, rule)), epochTime, DefaultConfig())
			if len(report.Failed) == 0 {
				t.Fatalf("%+v", report)
			}
			if err := d.Close(epochTime, 7); err != nil {
				t.Error(err)
			}
			expectRecovered(t, fs)
		})
	}
}

// TestStopWritesNoEpochWithoutRecords: leaders change without anything being written, for
// thousands of partitions at a time, and a start would forget their epochs.
func TestStopWritesNoEpochWithoutRecords(t *testing.T) {
	for _, records := range []int{0, 1} {
		fs := countfs.Wrap(vfs.NewMem())
		d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
		l := mustCreate(t, d, testID("t", 0), DefaultConfig())
		for range records {
			mustAppend(t, l, epochTime, 1, "a")
		}
		stop := func() (openings int) {
			fs.Reset()
			if err := d.Close(epochTime, 7); err != nil {
				t.Fatal(err)
			}
			return fs.Of(hookfs.Open).Calls
		}
		stop()
		reopen := func() {
			d, _ = mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
			l = d.Logs()[0]
		}
		reopen()
		least := stop()
		reopen()
		if err := l.AssignEpoch(5, int64(records)); err != nil {
			t.Fatal(err)
		}
		if n := stop(); n != least {
			t.Errorf("with %d records %d files are opened for an epoch without any, %d for nothing", records, n, least)
		}
		reopen()
		if e, known := l.LatestEpoch(); known != (records > 0) || known && e != 1 {
			t.Errorf("with %d records the latest epoch is %d, %v", records, e, known)
		}
		if err := l.AssignEpoch(6, int64(records)); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, epochTime, 6, "b")
		if n := stop(); n == least {
			t.Errorf("an epoch with a record is not written")
		}
		reopen()
		if e, _ := l.LatestEpoch(); e != 6 {
			t.Errorf("latest epoch %d", e)
		}
		d.Abandon()
	}
}
