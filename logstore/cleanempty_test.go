package logstore

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// Of a segment of which nothing remains Kafka leaves an empty file, between others. Such a log
// is opened, cleaned, and opened again whenever a cleaning was cut off: what has come into the
// place of such segments holds a batch always.
func TestSegmentsThatKafkaHasEmptied(t *testing.T) {
	for _, emptied := range [][]int{{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 1, 2, 3}} {
		t.Run(fmt.Sprint(emptied), func(t *testing.T) {
			fs, c := vfs.NewMem(), compactConfig()
			d, _ := mustOpen(t, testOptions(fs), epochTime, c)
			l := mustCreate(t, d, testID("t", 0), c)
			for i := range 20 { // all but the last record go
				now := epochTime.Add(time.Duration(i) * time.Millisecond)
				appendKeyed(t, l, now, kv{"k", fmt.Sprint("v", i)}, kv{"k", fmt.Sprint("w", i)})
				d.Flush()
			}
			settleAll(t, l)
			segs := l.segments()
			d.Abandon()
			for _, i := range emptied {
				emptySegment(t, fs, segs[i])
			}
			if err := fs.Remove(d.marks.file(checkpoint.SegmentsFile)); err != nil && !os.IsNotExist(err) {
				t.Fatal(err) // it is no file of Kafka's
			}
			for _, bytes := range []int32{400, 1000, 1 << 20} { // of a group
				c.SegmentBytes = bytes
				d, l = reopenOne(t, fs, c)
				before := l.segments()
				mustClean(t, l, epochTime.Add(time.Minute))
				checkFilled(t, l, before)
				settleAll(t, l)
				d.Abandon()
			}
			d, l = reopenOne(t, fs, c)
			defer d.Abandon()
			if got := latest(recordsOf(t, l)); len(got) != 1 || got["k"] != "w19" {
				t.Errorf("read %v", got)
			}
		})
	}
}

func emptySegment(t *testing.T, fs vfs.FS, s *segment.Segment) {
	t.Helper()
	f, err := fs.OpenFile(s.Path(), os.O_RDWR, 0)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func reopenOne(t *testing.T, fs vfs.FS, c Config) (*Dir, *Log) {
	t.Helper()
	d, report := mustOpen(t, testOptions(fs), epochTime, c)
	if len(report.Opened) != 1 {
		t.Fatalf("not opened: %+v", report.Failed)
	}
	return d, report.Opened[0]
}

// checkFilled: a segment without batches has not come into the place of others.
func checkFilled(t *testing.T, l *Log, before []*segment.Segment) {
	t.Helper()
	segs := l.segments()
	for _, s := range segs[:len(segs)-1] {
		if s.Size() == 0 && !slices.Contains(before, s) {
			t.Errorf("the segment written at %d is empty", s.BaseOffset())
		}
	}
}
