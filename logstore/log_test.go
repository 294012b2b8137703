package logstore

import (
	"errors"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
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

// TestFollowerFlushesWhatCameBeforeAFault: of what a leader sent, the second batch is
// damaged. The first one was appended, and is flushed without waiting for another.
func TestFollowerFlushesWhatCameBeforeAFault(t *testing.T) {
	d, _ := mustOpen(t, testOptions(vfs.NewMem()), epochTime, DefaultConfig())
	defer d.Abandon()
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	good, bad := batch.View(produced(epochTime, "a")), batch.View(produced(epochTime, "b"))
	good.SetLeaderEpoch(1)
	bad.SetLeaderEpoch(1)
	bad.SetBaseOffset(1)
	bad[len(bad)-2] ^= 1
	info, err := l.AppendAsFollower(epochTime, append(good, bad...), 1)
	if !errors.Is(err, kafkaerr.CorruptMessage) || info.LastOffset != 0 || !info.FlushWanted {
		t.Errorf("append: %+v, %v", info, err)
	}
	if flushed := d.Flush(); len(flushed) != 1 || flushed[0].Flushed != 1 {
		t.Errorf("flushed %+v", flushed)
	}
}
