package logstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// Kafka takes -1 for a timestamp like any other when it looks for the largest, but an
// empty log has none.
func TestLargestTimestampOfRecordsWithoutOne(t *testing.T) {
	d, _ := mustOpen(t, testOptions(vfs.NewMem()), epochTime, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	if _, any, err := l.OffsetOfMaxTimestamp(); any || err != nil {
		t.Errorf("of an empty log: %v, %v", any, err)
	}
	for range 2 {
		records := batch.New(batch.BuilderOptions{}, batch.NewRecord{TimestampMs: -1, Value: []byte("a")}, batch.NewRecord{TimestampMs: -1})
		if _, err := l.AppendAsLeader(AppendParams{Now: epochTime, Records: records, LeaderEpoch: 3, RequestVersion: 12}); err != nil {
			t.Fatal(err)
		}
	}
	want := TimestampOffset{TimestampMs: -1, Offset: 0, LeaderEpoch: 3}
	if got, any, err := l.OffsetOfMaxTimestamp(); got != want || !any || err != nil {
		t.Errorf("largest %+v (%v, %v), want %+v", got, any, err, want)
	}
	mustAppend(t, l, epochTime, 3, "with a timestamp")
	if got, _, _ := l.OffsetOfMaxTimestamp(); got.Offset != 4 {
		t.Errorf("largest %+v, want that of offset 4", got)
	}
	if err := d.Close(epochTime, 0); err != nil {
		t.Fatal(err)
	}
}

// DeleteRecords hides a record from readers; the largest timestamp remains its own, as in
// Kafka, until its segment goes.
func TestLargestTimestampBelowTheLogStart(t *testing.T) {
	d, _ := mustOpen(t, testOptions(vfs.NewMem()), epochTime, DefaultConfig())
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	mustAppend(t, l, epochTime, 3, "a")
	for _, start := range []int64{1, 2} {
		want, any, err := l.OffsetOfMaxTimestamp()
		if !any || err != nil {
			t.Fatal(want, any, err)
		}
		if start == 2 { // with an older one behind it
			mustAppend(t, l, epochTime.Add(-time.Minute), 3, "b")
		}
		if err := l.AdvanceLogStart(start); err != nil {
			t.Fatal(err)
		}
		if got, any, err := l.OffsetOfMaxTimestamp(); got != want || !any || err != nil {
			t.Errorf("largest with log start %d: %+v (%v, %v), want %+v", start, got, any, err, want)
		}
	}
	if err := d.Close(epochTime, 0); err != nil {
		t.Fatal(err)
	}
}

// TestBatchThatClaimsATimestampItDoesNotHold: records below -1 leave their batch with -1, the
// largest of the log if no other has a time. Kafka looks into the first such batch alone.
// Found by a random sequence beside Kafka (seed 3001530).
func TestBatchThatClaimsATimestampItDoesNotHold(t *testing.T) {
	d, _ := mustOpen(t, testOptions(vfs.NewMem()), epochTime, DefaultConfig())
	defer d.Abandon()
	for _, c := range []struct {
		times []int64
		found bool
		at    int64
	}{
		{[]int64{-2, -1}, false, 0},
		{[]int64{-1, -2}, true, 0},
		{[]int64{-2, 5}, true, 1},
		{[]int64{-2}, false, 0},
	} {
		l := mustCreate(t, d, testID(fmt.Sprint("t", c.times), 0), DefaultConfig())
		for _, ms := range c.times {
			mustAppend(t, l, time.UnixMilli(ms), 1, "x")
		}
		if at, found, err := l.OffsetOfMaxTimestamp(); found != c.found || at.Offset != c.at || err != nil {
			t.Errorf("%v: offset %d, %v, %v, want %d, %v", c.times, at.Offset, found, err, c.at, c.found)
		}
	}
}
