package logstore

import (
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// TestLogThatIsBackAgain: a log whose directory was not there at a start is what it was when it
// is back, though that start was killed before all was forgotten of it.
func TestLogThatIsBackAgain(t *testing.T) {
	fs := vfs.NewMem()
	c := DefaultConfig()
	c.SegmentBytes = 200
	d, _ := mustOpen(t, testOptions(fs), epochTime, c)
	l := mustCreate(t, d, testID("t", 0), c)
	for range 6 {
		mustAppend(t, l, epochTime, 1, "a record that fills a good part of a segment of two hundred bytes, so that there are some")
	}
	settleAll(t, l)
	if err := d.checkpointSegments(false); err != nil {
		t.Fatal(err)
	}
	c.RetentionBytes = 0
	l.UpdateConfig(c)
	if _, err := l.Retain(epochTime.Add(time.Hour), offset.HighWatermark(l.LogEnd())); err != nil {
		t.Fatal(err)
	}
	start, end := l.LogStart(), l.LogEnd()
	if start == 0 {
		t.Fatal("nothing was deleted")
	}
	if err := d.PersistLogStarts(l); err != nil {
		t.Fatal(err)
	}
	d.Abandon()

	if err := fs.Rename("/data/t-0", "/elsewhere"); err != nil {
		t.Fatal(err)
	}
	d, _ = mustOpen(t, testOptions(fs), epochTime, c)
	if err := d.marks.raise(); err != nil { // some other log has something to persist
		t.Fatal(err)
	}
	d.Abandon()

	if err := fs.Rename("/elsewhere", "/data/t-0"); err != nil {
		t.Fatal(err)
	}
	d, report := mustOpen(t, testOptions(fs), epochTime, c)
	defer d.Abandon()
	if len(report.Opened) != 1 {
		t.Fatalf("%+v", report.Failed)
	}
	if l := report.Opened[0]; l.LogStart() > start || l.LogEnd() != end {
		t.Errorf("log is [%d, %d), it was [%d, %d)", l.LogStart(), l.LogEnd(), start, end)
	}
}
