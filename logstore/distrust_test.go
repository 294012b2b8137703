package logstore

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
)

// TestFailedSyncIsRememberedWithoutADescriptor: the marker of a disk failure is written when
// things go badly already. If it were lost for want of a descriptor, the next process would
// sync pages that the failure has left marked clean, and promise what is not on the disk.
func TestFailedSyncIsRememberedWithoutADescriptor(t *testing.T) {
	for _, rule := range []string{"", "open " + failedFile + " err=EMFILE"} {
		t.Run(rule, func(t *testing.T) {
			crash := vfs.NewCrash(rand.NewPCG(1, 1))
			faulty := errfs.Wrap(crash.Process())
			d, _ := mustOpen(t, testOptions(faulty), epochTime, DefaultConfig())
			l := mustCreate(t, d, testID("t", 0), DefaultConfig())
			mustAppend(t, l, epochTime, 1, "a")
			d.Flush()
			mustAppend(t, l, epochTime, 1, "b")
			if rule != "" {
				faulty.Add(rule)
			}
			crash.OnSync(func(p vfs.SyncPoint) error {
				if !p.Done && strings.HasSuffix(p.Name, ".log") || p.Op == "syncall" && !p.Done {
					return syscall.EIO
				}
				return nil
			})
			d.Flush()
			crash.OnSync(nil)
			if d.Err() == nil {
				t.Fatal("the sync has not failed")
			}
			crash.Kill()
			d.Abandon()

			d, report := mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
			if len(report.Opened) != 1 || report.Opened[0].Flushed() != 2 {
				t.Fatalf("%+v", report)
			}
			if left, _ := crash.Process().Stat("/data/" + failedFile); left != nil {
				t.Error("the marker is still there")
			}
			d.Abandon()
			crash.PowerCutLosingAll()

			d, report = mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
			defer d.Abandon()
			if len(report.Opened) != 1 || report.Opened[0].LogEnd() != 2 {
				t.Errorf("what the second process has promised is gone: %+v", report)
			}
		})
	}
}

// TestRecordsOnTheirWayBackAreRecords: a directory that does not say whose it is goes if it
// holds no records. A log that a crash has left under its other name holds some.
func TestRecordsOnTheirWayBackAreRecords(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	mustAppend(t, l, epochTime, 1, "a")
	d.Flush()
	d.Abandon()
	damageFile(t, fs, l.file("partition.metadata"), func([]byte) []byte { return []byte("version: 0\n") })
	log := l.file("00000000000000000000.log")
	if err := fs.Rename(log, log+againSuffix); err != nil {
		t.Fatal(err)
	}
	d, report := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	defer d.Abandon()
	if len(report.SetAside) != 1 {
		t.Fatalf("set aside %v, %+v", report.SetAside, report)
	}
	if _, err := fs.Stat("/data/" + report.SetAside[0] + "/00000000000000000000.log"); err != nil {
		t.Error(err)
	}
}
