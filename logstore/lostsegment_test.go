package logstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// fourSegments are logs of 11 records, of which nobody has noted the segments yet: the promises
// are a second old.
func fourSegments(t *testing.T, fs vfs.FS, c Config) (*Dir, *Log) {
	t.Helper()
	d, _ := mustOpen(t, testOptions(fs), epochTime, c)
	if err := d.checkpointPromises(); err != nil {
		t.Fatal(err)
	}
	l := mustCreate(t, d, testID("t", 0), c)
	for sequence := range int32(11) {
		sequenced(t, l, sequence)
		d.Flush()
	}
	if err := d.checkpointPromises(); err != nil || l.NumSegments() != 4 {
		t.Fatalf("%d segments, %v", l.NumSegments(), err)
	}
	return d, l
}

func removeSegment(t *testing.T, fs vfs.FS, l *Log, base int64) {
	t.Helper()
	if err := fs.Remove(filepath.Join(l.Path(), segment.FileName(base, segment.LogSuffix))); err != nil {
		t.Fatal(err)
	}
}

// TestLostSegmentIsMissedBeforeItIsNoted: a segment, or its name, is lost before the keeper
// has noted it, a minute after its roll. The first one above all: the log would begin with the
// second, and what was acknowledged below would be gone without a trace.
func TestLostSegmentIsMissedBeforeItIsNoted(t *testing.T) {
	for _, compact := range []bool{false, true} {
		for lost := int64(0); lost < 12; lost += 3 {
			t.Run(fmt.Sprint("compact ", compact, " segment ", lost), func(t *testing.T) {
				fs := vfs.NewMem()
				c, lost := threeInASegment(), lost
				d, l := fourSegments(t, fs, c)
				if compact { // what has come before the first note may be Kafka's, and compacted
					if err := d.checkpointSegments(false); err != nil {
						t.Fatal(err)
					}
					for sequence := range int32(12) {
						sequenced(t, l, 11+sequence)
						d.Flush()
					}
					if err := d.checkpointPromises(); err != nil {
						t.Fatal(err)
					}
					lost += 9
				}
				c.Compact = compact
				d.Abandon()
				removeSegment(t, fs, l, lost)
				d, report := mustOpen(t, testOptions(fs), epochTime, c)
				defer d.Abandon()
				var corrupt *CorruptionError
				if len(report.Failed) != 1 || !errors.As(report.Failed[0].Err, &corrupt) || corrupt.Offset > lost {
					t.Errorf("%+v", report)
				}
			})
		}
	}
}

// TestLogStartsProveNothing where nobody has seen to that: Kafka has written them, or the disk
// was so full that retention had to do without.
func TestLogStartsProveNothing(t *testing.T) {
	c := threeInASegment()
	c.RetentionBytes = 200
	t.Run("Kafka's", func(t *testing.T) {
		fs := vfs.NewMem()
		d, l := fourSegments(t, fs, c)
		d.Abandon()
		removeSegment(t, fs, l, 0)
		if err := fs.Remove(filepath.Join("/data", checkpoint.SegmentsFile)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			d, report := mustOpen(t, testOptions(fs), epochTime, c)
			if len(report.Failed) > 0 || report.Opened[0].LogStart() != 3 {
				t.Errorf("%+v", report)
			}
			if err := d.checkpointPromises(); err != nil { // notes that it begins at 3, and that it has noted that
				t.Error(err)
			}
			if !d.marks.startsTold || d.marks.start[l.id.name()] != 3 {
				t.Errorf("log start %d, told %v", d.marks.start[l.id.name()], d.marks.startsTold)
			}
			d.Abandon()
		}
	})
	t.Run("Kafka's, beside what was noted before", func(t *testing.T) {
		fs := vfs.NewMem()
		d, l := fourSegments(t, fs, c)
		if err := d.checkpointSegments(false); err != nil {
			t.Fatal(err)
		}
		d.Abandon()
		removeSegment(t, fs, l, 0)
		text := fmt.Sprintf("0\n1\n%s %d 11\n", l.id.Topic, l.id.Partition)
		if err := vfs.WriteFileAtomic(fs, filepath.Join("/data", checkpoint.HighWatermarkFile), []byte(text)); err != nil {
			t.Fatal(err)
		}
		d, report := mustOpen(t, testOptions(fs), epochTime, c)
		defer d.Abandon()
		if len(report.Failed) > 0 || report.Opened[0].LogStart() != 3 {
			t.Errorf("%+v", report)
		}
	})
	t.Run("no room", func(t *testing.T) {
		mem := vfs.NewMem()
		faulty := errfs.Wrap(mem)
		d, l := fourSegments(t, faulty, c)
		faulty.Add("write *checkpoint.tmp err=ENOSPC")
		if deleted, err := l.Retain(epochTime, 11); err != nil || len(deleted) == 0 {
			t.Fatalf("deleted %+v, %v", deleted, err)
		}
		if err := d.checkpointPromises(); err == nil || d.marks.startsTold {
			t.Errorf("%v, told %v", err, d.marks.startsTold)
		}
		d.Abandon()
		d, report := mustOpen(t, testOptions(mem), epochTime, c)
		defer d.Abandon()
		if len(report.Failed) > 0 || report.Opened[0].LogStart() == 0 {
			t.Errorf("%+v", report)
		}
	})
}

// TestFreshStartIsNoLoss: a log starts afresh, and at each change of the disk the keeper
// persists what it is promised, and the power fails.
func TestFreshStartIsNoLoss(t *testing.T) {
	for _, to := range []int64{2, 50} {
		n := 1
		for ; freshStartCut(t, to, n) && !t.Failed(); n++ {
		}
		if n < 10 {
			t.Errorf("%d changes of the disk only", n)
		}
	}
}

func freshStartCut(t *testing.T, to int64, at int) (reached bool) {
	t.Helper()
	crash := vfs.NewCrash(rand.NewPCG(uint64(at), 5))
	changes := -1
	var before func()
	fs := hookfs.Wrap(crash.Process(), true, func(c *hookfs.Call) error {
		if changes < 0 || !changesDisk(c) {
			return nil
		}
		if changes++; changes == at {
			changes = -1
			before()
		}
		return nil
	})
	c := threeInASegment()
	d, l := fourSegments(t, fs, c)
	if err := l.AdvanceLogStart(3); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Retain(epochTime, 11); err != nil || l.segments()[0].BaseOffset() != 3 {
		t.Fatal(err)
	}
	before = func() {
		reached = true
		if !l.isLocked() {
			_ = d.checkpointPromises()
		}
		crash.PowerCut()
	}
	changes = 0
	err := l.TruncateFullyAndStartAt(to)
	if err == nil {
		_, err = l.AppendAsLeader(AppendParams{Now: epochTime, Records: produced(epochTime, "a"), LeaderEpoch: 1, RequestVersion: 12})
	}
	if err == nil {
		d.Flush()
		_ = d.checkpointPromises()
	}
	d.Abandon()
	changes = -1
	crash.PowerCutLosingAll()
	d, report := mustOpen(t, testOptions(crash.Process()), epochTime, c)
	defer d.Abandon()
	if len(report.Failed) > 0 {
		t.Errorf("to %d, change %d: %v", to, at, report.Failed[0].Err)
	}
	return reached
}
