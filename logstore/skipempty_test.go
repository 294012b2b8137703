package logstore

import (
	"slices"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/batch/batchtest"
)

// TestReadersThatSkipEmptyBatches: where a cleaned segment ends, its last batch is kept
// without records. A client whose library stays at such a batch is given the next one that
// has some, also out of the next segment.
func TestReadersThatSkipEmptyBatches(t *testing.T) {
	d, _ := mustOpen(t, testOptions(vfs.NewMem()), epochTime, DefaultConfig())
	l := mustBear(t, d, testID("t", 0), DefaultConfig())
	for _, segment := range []string{"re", "e", "ree", "ere"} { // r: a batch with a record, e: one without
		if l.LogEnd() > 0 {
			if err := l.Roll(epochTime); err != nil {
				t.Fatal(err)
			}
		}
		for _, kind := range segment {
			v := batch.New(batch.BuilderOptions{BaseOffset: int64(l.LogEnd())}, batch.NewRecord{TimestampMs: epochTime.UnixMilli(), Key: []byte("k")})
			if kind == 'e' {
				v = batchtest.Empty(v)
			}
			if _, err := l.AppendAsFollower(epochTime, v, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		skip bool
		upTo int64
		want []int64 // where a read at each offset begins
	}{
		{false, 9, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8}},
		{true, 9, []int64{0, 3, 3, 3, 7, 7, 7, 7, 8}}, // nothing follows 8
		{true, 7, []int64{0, 3, 3, 3, 4, 5, 6}},       // nothing that may be read follows 3
		{true, 3, []int64{0, 1, 2}},
	} {
		var got []int64
		for at := range c.upTo {
			info, err := l.Read(ReadParams{Offset: at, MaxBytes: 1, UpTo: c.upTo, MinOne: true, SkipEmpty: c.skip})
			if err != nil || info.Start.Offset != at {
				t.Fatalf("read at %d up to %d: %+v, %v", at, c.upTo, info, err)
			}
			got = append(got, firstOf(t, info).BaseOffset())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("up to %d, skip %v: reads begin at %v, want %v", c.upTo, c.skip, got, c.want)
		}
	}
}

// firstOf is the first batch of what was read.
func firstOf(t *testing.T, info ReadInfo) batch.View {
	t.Helper()
	defer info.Region.Release()
	buf := make([]byte, info.Region.Len())
	if _, err := info.Region.ReadAt(buf, 0); err != nil {
		t.Fatal(err)
	}
	v, _, err := batch.Next(buf)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
