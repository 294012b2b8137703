package logstore

import (
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

func TestAppendFlushReopen(t *testing.T) {
	fs := vfs.NewMem()
	c := DefaultConfig()
	d, _ := mustOpen(t, testOptions(fs), epochTime, c)
	l := mustCreate(t, d, testID("t", 0), c)
	for range 10 {
		mustAppend(t, l, epochTime, 3, "a", "b")
	}
	if got := d.Flush(); len(got) != 1 || got[0].Flushed != 20 {
		t.Fatalf("flushed %v", got)
	}
	if err := d.Close(epochTime, 5); err != nil {
		t.Fatal(err)
	}
	d, report := mustOpen(t, testOptions(fs), epochTime, c)
	if len(report.Opened) != 1 {
		t.Fatalf("report %+v", report)
	}
	l = report.Opened[0]
	if l.LogEnd() != 20 || l.Flushed() != 20 || l.RecoveryPoint() != 20 {
		t.Fatalf("end %d flushed %d point %d", l.LogEnd(), l.Flushed(), l.RecoveryPoint())
	}
	views, err := readAll(l, 0, 20, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if got := valuesOf(t, views); len(got) != 20 || got[19] != "b" {
		t.Fatalf("read %v", got)
	}
	mustAppend(t, l, epochTime, 3, "c")
	d.Abandon()
}
