package logstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// TestDamageIsNotCleanedAway: a source with a flipped bit fails its log, as any reader of it would,
// and stays as it is.
func TestDamageIsNotCleanedAway(t *testing.T) {
	disk, c := vfs.NewMem(), compactConfig()
	d, _ := mustOpen(t, testOptions(disk), epochTime, c)
	l := compactedLog(t, d, c, 20)
	names := fileNames(t, disk, l.Path())
	if err := d.Close(epochTime, 1); err != nil {
		t.Fatal(err)
	}
	flipBit(t, disk, l.segments()[1].Path(), 70, 1)
	d, _ = mustOpen(t, testOptions(disk), epochTime, l.Config())
	defer d.Abandon()
	l = mustLog(t, d)
	_, err := cleanNow(l, epochTime.Add(time.Minute))
	var damage *CorruptionError
	if !errors.As(err, &damage) || l.Failure() == nil || d.Err() != nil {
		t.Errorf("clean: %v, log %v, directory %v", err, l.Failure(), d.Err())
	}
	for _, name := range fileNames(t, disk, l.Path()) {
		if _, _, stage, ok := segment.ParseStagedName(name); ok && (stage != segment.InPlace || !slices.Contains(names, name)) {
			t.Errorf("left: %s", name)
		}
	}
}

// TestCleanedCheckpoint is lowered by a truncation, forgotten with the log, and not believed above
// its end.
func TestCleanedCheckpoint(t *testing.T) {
	disk, c := vfs.NewMem(), compactConfig()
	d, _ := mustOpen(t, testOptions(disk), epochTime, c)
	l := compactedLog(t, d, c, 20)
	mustClean(t, l, epochTime.Add(time.Minute))
	persisted := func() int64 {
		t.Helper()
		m, err := checkpoint.ReadOffsets(disk, "/data/"+checkpoint.CleanerFile)
		if err != nil {
			t.Fatal(err)
		}
		o, known := m[l.id.name()]
		if !known {
			return -1
		}
		return o
	}
	if got := persisted(); got != l.active().BaseOffset() || got != l.CleanedTo() {
		t.Errorf("cleaned to %d, persisted %d", l.CleanedTo(), got)
	}
	if err := d.PrepareTruncations(Truncation{Log: l, To: 17}); err != nil || persisted() > 17 || l.CleanedTo() > 17 {
		t.Errorf("about to be cut at 17: %v, cleaned to %d, persisted %d", err, l.CleanedTo(), persisted())
	}
	if err := l.TruncateTo(17); err != nil {
		t.Fatal(err)
	}
	d.Abandon()
	must(t, checkpoint.WriteOffsets(disk, "/data/"+checkpoint.CleanerFile, map[checkpoint.TopicPartition]int64{l.id.name(): 1000}))
	d, _ = mustOpen(t, testOptions(disk), epochTime, l.Config())
	defer d.Abandon()
	if l = mustLog(t, d); l.CleanedTo() != notCleaned || persisted() > 0 {
		t.Errorf("beyond the end: cleaned to %d, persisted %d", l.CleanedTo(), persisted())
	}
	must(t, d.DeleteLogs(epochTime, l))
	if persisted() >= 0 {
		t.Error("it is known after a deletion")
	}
}

// TestMovedLogStaysClean: the copy is as clean as the log was, unless that was cleaned meanwhile.
func TestMovedLogStaysClean(t *testing.T) {
	for _, meanwhile := range []bool{false, true} {
		disk, c := vfs.NewMem(), compactConfig()
		d, _ := mustOpen(t, testOptions(disk), epochTime, c)
		o := testOptions(disk)
		o.Path, o.Rand = "/other", &stream{seed: 9}
		other, _ := mustOpen(t, o, epochTime, c)
		l := compactedLog(t, d, c, 20)
		mustClean(t, l, epochTime.Add(time.Minute))
		want := l.CleanedTo()
		m := mustBegin(t, other, l)
		if _, err := m.Copy(epochTime, 1); err != nil {
			t.Fatal(err)
		}
		if meanwhile {
			want = 0
			for i := range 10 {
				appendKeyed(t, l, epochTime, kv{"k1", fmt.Sprint(i)})
			}
			must(t, l.Roll(epochTime))
			settleAll(t, l)
			mustClean(t, l, epochTime.Add(time.Minute))
		}
		before := latest(recordsOf(t, l))
		moved, err := m.Finish(epochTime, everything(l).HighWatermark)
		must(t, err)
		must(t, m.Leave(epochTime))
		if max(moved.CleanedTo(), 0) != want {
			t.Errorf("cleaned meanwhile %v: moved clean to %d, want %d", meanwhile, moved.CleanedTo(), want)
		}
		if got := latest(recordsOf(t, moved)); fmt.Sprint(got) != fmt.Sprint(before) {
			t.Errorf("moved: %v, want %v", got, before)
		}
		d.Abandon()
		other.Abandon()
	}
}

// TestCleanedSegmentKeepsItsTime: retention goes by the last write where records have no time.
func TestCleanedSegmentKeepsItsTime(t *testing.T) {
	disk, c := vfs.NewMem(), compactConfig()
	now := epochTime
	disk.SetClock(func() time.Time { return now })
	d, _ := mustOpen(t, testOptions(disk), epochTime, c)
	defer d.Abandon()
	l := compactedLog(t, d, c, 20)
	want := l.segments()[1].LastModified()
	now = now.Add(time.Hour)
	mustClean(t, l, now)
	first := l.segments()[0]
	if first.LastModified() != want {
		t.Errorf("written at %v, want %v", first.LastModified(), want)
	}
	info, err := disk.Stat(first.Path())
	if err != nil || !info.ModTime().Equal(want) {
		t.Errorf("file of %v, %v, want %v", info.ModTime(), err, want)
	}
}

// TestTombstonesGo when delete.retention.ms is over, after the values that they delete.
func TestTombstonesGo(t *testing.T) {
	disk, c := vfs.NewMem(), compactConfig()
	d, _ := mustOpen(t, testOptions(disk), epochTime, c)
	defer d.Abandon()
	l := mustCreate(t, d, testID("t", 0), c)
	appendKeyed(t, l, epochTime, kv{"a", "1"}, kv{"b", "1"})
	appendKeyed(t, l, epochTime, kv{"a", ""})
	d.Flush()
	must(t, l.Roll(epochTime))
	settleAll(t, l)
	mustClean(t, l, epochTime)
	if got := recordsOf(t, l); len(got) != 2 || got[1] != (record{2, "a", ""}) {
		t.Errorf("first: %v", got)
	}
	for _, day := range []int{0, 1} {
		appendKeyed(t, l, epochTime, kv{"c", fmt.Sprint(day)})
		d.Flush()
		must(t, l.Roll(epochTime))
		settleAll(t, l)
		mustClean(t, l, epochTime.AddDate(0, 0, day).Add(time.Millisecond))
		if got := recordsOf(t, l); slices.Contains(got, record{2, "a", ""}) != (day == 0) || !slices.Contains(got, record{1, "b", "1"}) {
			t.Errorf("day %d: %v", day, got)
		}
	}
	if l.LogEnd() != 5 || l.segments()[0].BaseOffset() != 0 {
		t.Errorf("[%d, %d)", l.segments()[0].BaseOffset(), l.LogEnd())
	}
}

// TestCleanedTransactions: records of aborted transactions go, a reader of committed ones sees the
// same as before, and producers go on with the sequence that they had, also after a start that has
// no snapshot left.
func TestCleanedTransactions(t *testing.T) {
	crash, c := vfs.NewCrash(rand.NewPCG(1, 1)), compactConfig()
	d, _ := mustOpen(t, testOptions(crash.Process()), epochTime, c)
	l := mustCreate(t, d, testID("t", 0), c)
	sequence := map[int64]int32{}
	send := func(id int64, key, value string) AppendInfo {
		t.Helper()
		b := batch.NewBuilder(batch.BuilderOptions{LeaderEpoch: -1, Transactional: true, Producer: &batch.Producer{ID: id, BaseSequence: sequence[id]}})
		b.Append(batch.NewRecord{TimestampMs: epochTime.UnixMilli(), Key: []byte(key), Value: []byte(value)})
		v, err := b.Build(nil)
		must(t, err)
		info, err := l.AppendAsLeader(AppendParams{Now: epochTime, Records: v, LeaderEpoch: 1, RequestVersion: 12})
		must(t, err)
		if !info.Duplicate {
			sequence[id]++
		}
		d.Flush()
		return info
	}
	mark := func(id int64, kind batch.ControlType) {
		t.Helper()
		v := batch.NewEndTxnMarker(epochTime.UnixMilli(), id, 0, batch.EndTxnMarker{Type: kind})
		_, err := l.AppendAsLeader(AppendParams{Now: epochTime, Records: v, LeaderEpoch: 1, Origin: OriginCoordinator, RequestVersion: 12})
		must(t, err)
		d.Flush()
	}
	for i := range 6 {
		send(1, "a", fmt.Sprint("committed ", i))
		send(2, "b", fmt.Sprint("aborted ", i))
		send(2, "a", fmt.Sprint("aborted ", i))
		mark(1, batch.ControlCommit)
		mark(2, batch.ControlAbort)
	}
	must(t, l.Roll(epochTime))
	settleAll(t, l)
	c.SegmentBytes *= 3
	l.UpdateConfig(c)
	mustClean(t, l, epochTime)
	check := func(when string) {
		t.Helper()
		got := recordsOf(t, l)
		if len(got) != 1 || got[0].value != "committed 5" {
			t.Errorf("%s: %v", when, got)
		}
		txns, err := l.AbortedTransactions(0, int64(l.LogEnd()))
		must(t, err)
		for _, txn := range txns {
			if txn.ProducerID != 2 {
				t.Errorf("%s: aborted %+v", when, txn)
			}
		}
	}
	check("cleaned")
	crash.PowerCutLosingAll()
	d.Abandon()
	for _, name := range fileNames(t, crash, l.Path()) {
		if _, _, ok := segment.ParseFileName(name); !ok && name[len(name)-len(".snapshot"):] == ".snapshot" {
			must(t, crash.Remove(l.file(name)))
		}
	}
	d, _ = mustOpen(t, testOptions(crash.Process()), epochTime, c)
	defer d.Abandon()
	l = mustLog(t, d)
	check("started")
	sequence[1]--
	if info := send(1, "a", "again"); !info.Duplicate {
		t.Errorf("the last batch is sent again: %+v", info)
	}
	sequence[1]++
	if info := send(1, "a", "next"); info.Duplicate {
		t.Errorf("the next batch: %+v", info)
	}
}

// TestKafkaLeftovers are the files that a Kafka leaves that is killed while it puts a cleaned segment in
// place: it renames the log first, and the sources to .deleted.
func TestKafkaLeftovers(t *testing.T) {
	log, index, times := segment.LogSuffix, segment.IndexSuffix, segment.TimeIndexSuffix
	for what, renames := range map[string][]string{
		"log renamed": {log + ".cleaned", log + ".swap"},
		"all renamed": {log + ".cleaned", log + ".swap", index + ".cleaned", index + ".swap", times + ".cleaned", times + ".swap"},
		"sources renamed": {
			log + ".cleaned", log + ".swap", index + ".cleaned", index + ".swap", times + ".cleaned", times + ".swap",
			log, log + ".deleted", index, index + ".deleted", times, times + ".deleted",
		},
		"log in place": {
			log + ".cleaned", log + ".swap", index + ".cleaned", index + ".swap", times + ".cleaned", times + ".swap",
			log, log + ".deleted", index, index + ".deleted", times, times + ".deleted", log + ".swap", log,
		},
	} {
		t.Run(what, func(t *testing.T) {
			disk, c := vfs.NewMem(), compactConfig()
			d, _ := mustOpen(t, testOptions(disk), epochTime, c)
			l := compactedLog(t, d, c, 20)
			o := d.segmentOptions(c)
			s, err := segment.CreateCleaned(l.Path(), 0, epochTime, o)
			must(t, err)
			must(t, l.segments()[0].ForEachBatch(0, 100, func(v batch.View, _ int64) error { return s.Append(epochTime, slices.Clone(v)) }))
			must(t, s.Seal())
			s.Abandon()
			d.Abandon()
			for i := 0; i < len(renames); i += 2 {
				name := segment.FileName(0, "")
				must(t, disk.Rename(l.file(name+renames[i]), l.file(name+renames[i+1])))
			}
			want := int(l.LogEnd())
			d, report := mustOpen(t, testOptions(disk), epochTime, c)
			defer d.Abandon()
			if len(report.Opened) != 1 {
				t.Fatalf("%+v", report)
			}
			if got := recordsOf(t, report.Opened[0]); len(got) != want {
				t.Errorf("%d records, want %d", len(got), want)
			}
			for _, name := range fileNames(t, disk, l.Path()) {
				if len(name) > len("00000000000000000000.timeindex") && name != checkpoint.LeaderEpochFile {
					t.Errorf("left: %s", name)
				}
			}
		})
	}
}
