package coordinator

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/batch/batchtest"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// loadCase is a partition, and what it is loaded as.
type loadCase struct {
	name              string
	start, hw, end    int64
	batches           []batch.View
	newest, committed map[string]int64
	unknown           int64
}

var testCodecs = batch.NewCodecs(batch.CodecsOptions{})

// plain is a batch of counters: name, value, name, value …
func plain(o batch.BuilderOptions, records ...Record) batch.View {
	b := batch.NewBuilder(o)
	for _, r := range records {
		b.Append(batch.NewRecord{Key: r.Key, Value: r.Value})
	}
	v, err := b.Build(testCodecs)
	if err != nil {
		panic(err)
	}
	return v
}

func of(producer int64) batch.BuilderOptions {
	return batch.BuilderOptions{Producer: &batch.Producer{ID: producer}, Transactional: true}
}

func marker(producer int64, kind batch.ControlType) batch.View {
	return batch.NewEndTxnMarker(0, producer, 0, batch.EndTxnMarker{Type: kind})
}

// disordered is a batch of two records whose offset deltas are 1 and 0, and then above the
// batch's end.
func disordered() batch.View {
	v := plain(batch.BuilderOptions{}, counterRecord("a", 1), counterRecord("a", 2))
	for i, delta := range []byte{200, 0} {
		size := (len(v) - batch.HeaderSize) / 2
		v[batch.HeaderSize+i*size+3] = delta & 0x7f
	}
	binary.BigEndian.PutUint32(v[17:], v.ComputeCRC())
	return v
}

func TestLoad(t *testing.T) {
	none := batch.BuilderOptions{}
	a, b, c := counterRecord, counterRecord, counterRecord
	cases := []loadCase{
		{name: "an empty partition"},
		{
			name: "tombstones and values replaced", hw: 4,
			batches:   []batch.View{plain(none, a("a", 1), b("b", 1)), plain(none, a("a", 2), Record{Key: []byte("b")})},
			newest:    map[string]int64{"a": 2},
			committed: map[string]int64{"a": 2},
		},
		{
			name: "what lies above the high watermark is pending", hw: 1,
			batches:   []batch.View{plain(none, a("a", 1)), plain(none, a("a", 2), b("b", 1))},
			newest:    map[string]int64{"a": 2, "b": 1},
			committed: map[string]int64{"a": 1},
		},
		{
			name: "compressed batches", hw: 3,
			batches: []batch.View{
				plain(batch.BuilderOptions{Codec: batch.Zstd}, a("a", 1), b("b", 2)),
				plain(batch.BuilderOptions{Codec: batch.LZ4}, c("c", 3)),
			},
			newest:    map[string]int64{"a": 1, "b": 2, "c": 3},
			committed: map[string]int64{"a": 1, "b": 2, "c": 3},
		},
		{
			name: "records that are not understood are left out", hw: 3, unknown: 2,
			batches:   []batch.View{plain(none, Record{Key: []byte("new"), Value: []byte{1}}, a("a", 1), Record{Key: []byte("new"), Value: []byte{2}})},
			newest:    map[string]int64{"a": 1},
			committed: map[string]int64{"a": 1},
		},
		{
			name:    "offsets within a batch are out of order",
			batches: []batch.View{disordered(), plain(none, a("b", 2))},
			newest:  map[string]int64{"a": 2, "b": 2},
		},
		{
			name: "the log start lies within a batch", start: 1, hw: 2,
			batches:   []batch.View{plain(none, a("a", 1), b("b", 1))},
			newest:    map[string]int64{"b": 1},
			committed: map[string]int64{"b": 1},
		},
		{
			name: "transactions count when they are committed", hw: 10,
			batches: []batch.View{
				plain(of(1), a("a", 1)),
				plain(of(2), a("a", 2), b("b", 2)),
				plain(none, a("a", 5), c("c", 5)),
				marker(2, batch.ControlCommit),
				marker(1, batch.ControlAbort),
				plain(of(3), c("c", 7)),
			},
			newest:    map[string]int64{"a": 2, "b": 2, "c": 5},
			committed: map[string]int64{"a": 2, "b": 2, "c": 5},
		},
	}
	at := func(v batch.View, offset int64) batch.View { v.SetBaseOffset(offset); return v }
	empty := batchtest.Empty
	cases = append(cases, []loadCase{
		{
			name: "gaps and empty batches", hw: 40,
			batches: []batch.View{
				at(plain(none, a("a", 1)), 7), empty(at(plain(none, a("a", 2), b("b", 2)), 10)),
				at(plain(none, b("b", 3)), 20), empty(at(plain(none, c("c", 4)), 39)),
			},
			newest:    map[string]int64{"a": 1, "b": 3},
			committed: map[string]int64{"a": 1, "b": 3},
		},
		{
			name: "the high watermark lies in a gap", hw: 15,
			batches:   []batch.View{at(plain(none, a("a", 1)), 7), at(plain(none, a("a", 2)), 20)},
			newest:    map[string]int64{"a": 2},
			committed: map[string]int64{"a": 1},
		},
		{
			name: "the log begins in a gap", start: 5, hw: 30,
			batches:   []batch.View{at(plain(none, a("a", 1)), 3), at(plain(none, a("b", 2)), 20)},
			newest:    map[string]int64{"b": 2},
			committed: map[string]int64{"b": 2},
		},
		{
			name: "the log ends in a gap", hw: 50, end: 50,
			batches:   []batch.View{at(plain(none, a("a", 1)), 3)},
			newest:    map[string]int64{"a": 1},
			committed: map[string]int64{"a": 1},
		},
		{
			name: "no record is left", start: 5, hw: 50, end: 50,
		},
		{
			name: "tombstones of what is gone", hw: 9,
			batches: []batch.View{at(plain(none, Record{Key: []byte("a")}), 4), at(plain(none, Record{Key: []byte("b")}, a("a", 2)), 7)},
			newest:  map[string]int64{"a": 2}, committed: map[string]int64{"a": 2},
		},
		{
			name: "an aborted transaction whose records are gone, a committed one whose marker is left", hw: 90,
			batches: []batch.View{
				at(plain(of(1), a("a", 1)), 10), at(marker(2, batch.ControlAbort), 20), at(empty(marker(3, batch.ControlCommit)), 25),
				at(marker(1, batch.ControlCommit), 30), at(marker(1, batch.ControlCommit), 40),
			},
			newest: map[string]int64{"a": 1}, committed: map[string]int64{"a": 1},
		},
	}...)
	for _, lc := range cases {
		t.Run(lc.name, func(t *testing.T) {
			log := logOf(lc.start, lc.hw, lc.batches...)
			log.with(0, func(p *fakePartition) { p.end, p.hw = max(p.end, lc.end), max(p.hw, min(lc.hw, lc.end)) })
			shard := newCounters(0)
			l := loader{
				log: poisoned{log}, partition: Partition{LeaderEpoch: 1}, shard: shard, codecs: testCodecs,
				logger: slog.New(slog.DiscardHandler), progress: func(loadReport) {},
			}
			if err := l.run(context.Background()); err != nil {
				t.Fatal(err)
			}
			l.core(coreOptions{})
			check := func(what string, got, want map[string]int64) {
				if d := cmp.Diff(want, got); d != "" && len(got)+len(want) > 0 {
					t.Errorf("%s (-want +got): %s", what, d)
				}
			}
			check("newest", maps.Collect(shard.values.All()), lc.newest)
			check("committed", maps.Collect(shard.values.AllCommitted()), lc.committed)
			if end := log.partitions[0].end; l.next != end || l.report.Unknown != lc.unknown {
				t.Errorf("loaded up to %d of %d, %d not understood", l.next, end, l.report.Unknown)
			}
		})
	}
}

// logOf is a log with these batches, one after the other, or where they say if that is later.
func logOf(start, hw int64, batches ...batch.View) *fakeLog {
	log := newFakeLog(1)
	log.with(0, func(p *fakePartition) {
		p.epoch, p.autoCommit, p.start, p.hw = 1, false, start, hw
		for _, v := range batches {
			v.SetBaseOffset(max(p.end, v.BaseOffset()))
			p.batches = append(p.batches, v)
			p.end = v.NextOffset()
		}
		p.hw = min(p.hw, p.end)
	})
	return log
}

// A read may end within a batch, and a batch be larger than the buffer.
func TestLoadInSmallReads(t *testing.T) {
	for _, size := range []int64{1, 10, 1000} {
		var batches []batch.View
		for i := range size {
			batches = append(batches, plain(batch.BuilderOptions{}, counterRecord(fmt.Sprint("c", i%7), i), Record{Key: make([]byte, i*i%9000), Value: make([]byte, 8)}))
		}
		log := logOf(0, 2*size, batches...)
		reads := 0
		shard := newCounters(0)
		l := loader{
			log: poisoned{log}, partition: Partition{LeaderEpoch: 1}, shard: shard,
			logger: slog.New(slog.DiscardHandler), progress: func(loadReport) { reads++ },
		}
		if err := l.run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if l.report.Records != 2*size || reads == 0 {
			t.Errorf("%d records in %d reads, want %d", l.report.Records, reads, 2*size)
		}
		if n, _ := shard.values.GetCommitted("c0"); n != (size-1)/7*7 {
			t.Errorf("c0 is %d", n)
		}
	}
}

func TestLoadThatCannotGoOn(t *testing.T) {
	broken := plain(batch.BuilderOptions{}, counterRecord("a", 1))
	broken[len(broken)-1] ^= 1
	run := func(log *fakeLog, ctx context.Context, epoch int32) error {
		l := loader{
			log: log, partition: Partition{LeaderEpoch: epoch}, shard: newCounters(0),
			logger: slog.New(slog.DiscardHandler), progress: func(loadReport) {},
		}
		return l.run(ctx)
	}
	good := logOf(0, 1, plain(batch.BuilderOptions{}, counterRecord("a", 1)))
	if err := run(logOf(0, 1, broken), context.Background(), 1); !errors.Is(err, kafkaerr.CorruptMessage) {
		t.Errorf("a batch with another checksum: %v", err)
	}
	if err := run(good, context.Background(), 2); !leadershipLost(err) {
		t.Errorf("in another epoch: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := run(good, ctx, 1); !leadershipLost(err) {
		t.Errorf("cancelled: %v", err)
	}
	short := logOf(0, 1, plain(batch.BuilderOptions{}, counterRecord("a", 1)))
	short.with(0, func(p *fakePartition) { p.end-- })
	if err := run(short, context.Background(), 1); err == nil {
		t.Error("a log with batches behind its end was loaded")
	}
}

func BenchmarkLoad(b *testing.B) {
	var batches []batch.View
	for i := range 1000 {
		var records []Record
		for j := range 100 {
			records = append(records, counterRecord(fmt.Sprint("counter-", (i*100+j)%10_000), int64(i)))
		}
		batches = append(batches, plain(batch.BuilderOptions{}, records...))
	}
	log := logOf(0, 1<<40, batches...)
	b.ReportAllocs()
	for b.Loop() {
		l := loader{
			log: log, partition: Partition{LeaderEpoch: 1}, shard: newCounters(0),
			logger: slog.New(slog.DiscardHandler), progress: func(loadReport) {},
		}
		if err := l.run(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/record")
}
