package logstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// TestMarksOutliveTheName: a damaged log is set aside, or deleted, and at each change of the
// disk on that way the process dies or the power fails. Never is there a log afterwards that
// has lost the marks by which a start knows that it is damaged: it would be opened as if it
// were whole, from its second segment on, or without what follows the damage.
func TestMarksOutliveTheName(t *testing.T) {
	retire := map[string]func(d *Dir, id ID) error{
		"set aside":        func(d *Dir, id ID) error { return d.SetAside(epochTime, d.Log(id.TopicID, id.Partition)) },
		"delete":           func(d *Dir, id ID) error { return d.DeleteLogs(epochTime, d.Log(id.TopicID, id.Partition)) },
		"set aside failed": func(d *Dir, id ID) error { return d.SetAsideFailed(epochTime, id) },
		"delete failed":    func(d *Dir, id ID) error { return d.DeleteFailed(epochTime, id) },
	}
	for how, do := range retire {
		for _, damage := range []string{"first segment", "short segment"} {
			for _, end := range []string{"kill", "power cut", "power cut that loses all"} {
				t.Run(fmt.Sprint(how, "/", damage, "/", end), func(t *testing.T) {
					r := retireRun{failed: how == "set aside failed" || how == "delete failed", damage: damage, end: end, do: do}
					for at := 1; r.dies(t, at) && !t.Failed(); at++ {
						r.points++
					}
					if r.points < 10 {
						t.Errorf("%d changes of the disk only", r.points)
					}
				})
			}
		}
	}
}

// retireRun is one way to take a damaged log out of use.
type retireRun struct {
	failed      bool // start has found it
	damage, end string
	do          func(*Dir, ID) error
	points      int
}

// dies lets it end at one change of the disk, and judges; false if there are fewer.
func (r *retireRun) dies(t *testing.T, at int) bool {
	t.Helper()
	crash := vfs.NewCrash(rand.NewPCG(uint64(at), 3))
	id := testID("t", 0)
	c := threeInASegment()
	d, _ := mustOpen(t, testOptions(crash.Process()), epochTime, c)
	l := mustCreate(t, d, id, c)
	for sequence := range int32(8) {
		sequenced(t, l, sequence)
		d.Flush()
	}
	mustPersist(t, d)
	d.Abandon()
	if r.failed {
		r.ruin(t, crash, l)
	}
	changes, counting := 0, false
	d, _ = mustOpen(t, testOptions(hookfs.Wrap(crash.Process(), true, func(c *hookfs.Call) error {
		if counting && changesDisk(c) {
			if changes++; changes == at {
				r.cut(crash)
			}
		}
		return nil
	})), epochTime, c)
	if !r.failed {
		r.ruin(t, crash, l)
	}
	counting = true
	err := r.do(d, id)
	counting = false
	d.Abandon()
	if changes < at {
		if err != nil {
			t.Errorf("without a crash: %v", err)
		}
		return false
	}
	r.judge(t, at, crash)
	return true
}

func changesDisk(c *hookfs.Call) bool {
	switch c.Op {
	case hookfs.Rename, hookfs.Sync, hookfs.SyncDir, hookfs.Write, hookfs.Truncate, hookfs.Remove, hookfs.RemoveAll:
		return true
	default:
		return false
	}
}

// ruin damages the log below what its marks vouch for.
func (r *retireRun) ruin(t *testing.T, fs vfs.FS, l *Log) {
	t.Helper()
	name := func(base int64) string { return filepath.Join(l.Path(), segment.FileName(base, segment.LogSuffix)) }
	var err error
	if r.damage == "first segment" {
		err = errors.Join(fs.Remove(name(0)), fs.SyncDir(l.Path()))
	} else {
		f, openErr := fs.OpenFile(name(3), os.O_RDWR, 0)
		if openErr != nil {
			t.Fatal(openErr)
		}
		err = errors.Join(f.Truncate(100), f.Sync(), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (r *retireRun) cut(crash *vfs.CrashFS) {
	switch r.end {
	case "kill":
		crash.Kill()
	case "power cut":
		crash.PowerCut()
	default:
		crash.PowerCutLosingAll()
	}
}

// judge starts twice, since what the first one finds need not be durable, and then begins the
// log anew.
func (r *retireRun) judge(t *testing.T, at int, crash *vfs.CrashFS) {
	t.Helper()
	id, c := testID("t", 0), threeInASegment()
	for range 2 {
		d, report := mustOpen(t, testOptions(crash.Process()), epochTime, c)
		if len(report.Opened) > 0 {
			l := report.Opened[0]
			t.Errorf("change %d: a damaged log is opened as [%d, %d)", at, l.LogStart(), l.LogEnd())
		}
		d.Abandon()
		crash.PowerCutLosingAll()
	}
	d, _ := mustOpen(t, testOptions(crash.Process()), epochTime, c)
	if err := d.SetAsideFailed(epochTime, id); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, mustCreate(t, d, id, c), epochTime, 2, "new")
	d.Flush()
	mustPersist(t, d)
	d.Abandon()
	crash.PowerCutLosingAll()
	d, report := mustOpen(t, testOptions(crash.Process()), epochTime, c)
	defer d.Abandon()
	if len(report.Failed) > 0 || len(report.Opened) != 1 || report.Opened[0].LogEnd() != 1 {
		t.Errorf("change %d: begun anew: %+v", at, report)
	}
}

func mustPersist(t *testing.T, d *Dir) {
	t.Helper()
	if err := errors.Join(d.checkpointPromises(), d.checkpointAllLogStarts(), d.checkpointSegments(false)); err != nil {
		t.Fatal(err)
	}
}
