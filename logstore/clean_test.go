package logstore

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/compaction"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// compactConfig has a segment for every few of the batches that keyed makes.
func compactConfig() Config {
	c := DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes = 400, 1
	c.Compact, c.Delete = true, false
	return c
}

// kv is a record of a compacted topic; an empty value is a tombstone.
type kv struct{ key, value string }

func keyed(now time.Time, records ...kv) batch.View {
	b := batch.NewBuilder(batch.BuilderOptions{LeaderEpoch: -1})
	for _, r := range records {
		rec := batch.NewRecord{TimestampMs: now.UnixMilli(), Key: []byte(r.key), Value: []byte(r.value)}
		if r.value == "" {
			rec.Value = nil
		}
		b.Append(rec)
	}
	v, err := b.Build(nil)
	if err != nil {
		panic(err)
	}
	return v
}

func appendKeyed(t testing.TB, l *Log, now time.Time, records ...kv) int64 {
	t.Helper()
	info, err := l.AppendAsLeader(AppendParams{Now: now, Records: keyed(now, records...), LeaderEpoch: 1, RequestVersion: 12})
	if err != nil {
		t.Fatalf("append to %s: %v", l.ID(), err)
	}
	return info.FirstOffset
}

// compactedLog is a log of n batches of two records with few keys, all of it flushed and below
// the recovery point.
func compactedLog(t testing.TB, d *Dir, c Config, n int) *Log {
	t.Helper()
	l := mustCreate(t, d, testID("t", 0), c)
	for i := range n {
		appendKeyed(t, l, epochTime.Add(time.Duration(i)*time.Millisecond), kv{fmt.Sprint("k", i%5), fmt.Sprint("v", i)}, kv{fmt.Sprint("u", i%3), fmt.Sprint("w", i)})
		d.Flush()
	}
	settleAll(t, l)
	c.SegmentBytes *= 2 // and so neighbours become one
	l.UpdateConfig(c)
	return l
}

// settleAll moves the recovery point to the end.
func settleAll(t testing.TB, l *Log) {
	t.Helper()
	l.dir.Flush()
	if err := l.dir.captureRecoveryPoints(l.dir.clock(), []*Log{l}); err != nil {
		t.Fatal(err)
	}
	l.dir.Flush()
	if !l.settleRecoveryPoint() {
		t.Fatal("the recovery point does not settle")
	}
	if err := l.dir.checkpointPromises(); err != nil {
		t.Fatal(err)
	}
}

// everything lets all of a log be cleaned but the active segment.
func everything(l *Log) CleanBounds {
	return CleanBounds{HighWatermark: offset.HighWatermark(l.LogEnd()), LastStable: offset.LastStable(l.LogEnd())}
}

func cleanNow(l *Log, now time.Time) (CleanStats, error) {
	b := everything(l)
	dirty, err := l.Cleanable(now, b)
	if err != nil {
		return CleanStats{}, err
	}
	return l.Clean(CleanParams{Now: now, Bounds: b, Dirty: dirty, Map: compaction.NewOffsetMap(1<<20, 0.9)})
}

func mustClean(t testing.TB, l *Log, now time.Time) CleanStats {
	t.Helper()
	stats, err := cleanNow(l, now)
	if err != nil {
		t.Fatalf("clean %s: %v", l.ID(), err)
	}
	return stats
}

// record is one as it is read.
type record struct {
	offset     int64
	key, value string
}

func recordsOf(t testing.TB, l *Log) []record {
	t.Helper()
	records, err := readRecords(l)
	if err != nil {
		t.Fatalf("read %s: %v", l.ID(), err)
	}
	return records
}

func readRecords(l *Log) ([]record, error) {
	views, err := readAll(l, int64(l.LogStart()), int64(l.LogEnd()), 150)
	if err != nil {
		return nil, err
	}
	var records []record
	for _, v := range views {
		it := batch.NewIterator(v, nil)
		for it.Next() && !v.IsControl() {
			records = append(records, record{it.Record.Offset, string(it.Record.Key), string(it.Record.Value)})
		}
		err := it.Err()
		it.Close()
		if err != nil {
			return nil, err
		}
	}
	return records, nil
}

// survivors are the newest of each key below an offset, and all from there on.
func survivors(records []record, from int64) []record {
	newest := map[string]int64{}
	for _, r := range records {
		if r.offset < from {
			newest[r.key] = r.offset
		}
	}
	return slices.DeleteFunc(slices.Clone(records), func(r record) bool { return r.offset < from && r.offset != newest[r.key] })
}

// latest is what a reader of the whole log takes from it.
func latest(records []record) map[string]string {
	m := map[string]string{}
	for _, r := range records {
		if m[r.key] = r.value; r.value == "" {
			delete(m, r.key)
		}
	}
	return m
}

func fileNames(t testing.TB, fs vfs.FS, dir string) []string {
	t.Helper()
	entries, err := fs.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestClean: of what is replaced the newest record of each key is left, in one segment, with
// nothing of the work beside it; so it is after a clean stop and after a kill.
func TestClean(t *testing.T) {
	fs := vfs.NewMem()
	c := compactConfig()
	d, _ := mustOpen(t, testOptions(fs), epochTime, c)
	l := compactedLog(t, d, c, 20)
	before, active := recordsOf(t, l), l.active().BaseOffset()
	want := survivors(before, active)
	segments := l.NumSegments()
	stats := mustClean(t, l, epochTime.Add(time.Minute))
	if stats.End != active || stats.Segments != segments-1 || stats.SegmentsLeft >= stats.Segments {
		t.Errorf("of %d segments: %+v", segments, stats)
	}
	check := func(when string, l *Log) {
		t.Helper()
		if got := recordsOf(t, l); !slices.Equal(got, want) {
			t.Errorf("%s:\n%v, want\n%v", when, got, want)
		}
		if got := latest(recordsOf(t, l)); !maps.Equal(got, latest(before)) {
			t.Errorf("%s: %v", when, got)
		}
		if l.CleanedTo() != active || l.NumSegments() != stats.SegmentsLeft+1 {
			t.Errorf("%s: cleaned to %d of %d, %d segments", when, l.CleanedTo(), active, l.NumSegments())
		}
	}
	check("cleaned", l)
	for _, name := range fileNames(t, fs, l.Path()) {
		if len(name) > len("00000000000000000000.timeindex") || name == "00000000000000000000.txnindex" {
			t.Errorf("left: %s", name)
		}
	}
	d.Abandon()
	d, report := mustOpen(t, testOptions(fs), epochTime, c)
	check("killed", report.Opened[0])
	if err := d.Close(epochTime, 1); err != nil {
		t.Fatal(err)
	}
	d, report = mustOpen(t, testOptions(fs), epochTime, c)
	defer d.Abandon()
	check("stopped", report.Opened[0])
	if dirty, err := report.Opened[0].Cleanable(epochTime, everything(report.Opened[0])); err != nil || dirty.CleanableBytes > 0 {
		t.Errorf("still dirty: %+v, %v", dirty, err)
	}
}
