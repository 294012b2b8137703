package compaction

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// fakeLog is a log in memory that does what logstore does around a cleaning: segments,
// transaction index, producers. Everything in it is committed.
type fakeLog struct {
	t      tb
	codecs *batch.Codecs

	segments  []*fakeSegment // the last one is active
	end       int64
	producers map[int64]*fakeProducer
	// checkpoint is the first dirty offset.
	checkpoint  int64
	retentionMs int64
	hw          int64 // -1 for the end
	maxSize     int64 // of a group
	// plain: the last batch of a segment is nothing special, as it is not in Kafka.
	plain bool
}

type fakeSegment struct {
	base    int64
	batches []batch.View
	aborted []segment.AbortedTxn
}

type fakeProducer struct {
	epoch    int16
	lastData int64 // -1 for none in this epoch
	nextSeq  int32
	txnFirst int64 // -1 for none
}

// tb is what testing.T and rapid.T have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newFakeLog(t tb) *fakeLog {
	return &fakeLog{
		t:           t,
		codecs:      batch.NewCodecs(batch.CodecsOptions{}),
		segments:    []*fakeSegment{{}},
		producers:   map[int64]*fakeProducer{},
		retentionMs: 1000,
		hw:          -1,
		maxSize:     math.MaxInt32,
	}
}

func (l *fakeLog) active() *fakeSegment { return l.segments[len(l.segments)-1] }

func (l *fakeLog) roll() {
	if l.active().base < l.end {
		l.segments = append(l.segments, &fakeSegment{base: l.end})
	}
}

func (l *fakeLog) producer(id int64, epoch int16) *fakeProducer {
	p, ok := l.producers[id]
	if !ok {
		p = &fakeProducer{epoch: epoch, lastData: -1, txnFirst: -1}
		l.producers[id] = p
	}
	if p.epoch != epoch {
		p.epoch, p.lastData, p.nextSeq = epoch, -1, 0
	}
	return p
}

// append adds a batch of records at the end; o says what else stands in it. Producer ids
// below 0 are none.
func (l *fakeLog) append(id int64, epoch int16, o batch.BuilderOptions, records ...batch.NewRecord) batch.View {
	if id >= 0 {
		p := l.producer(id, epoch)
		o.Producer = &batch.Producer{ID: id, Epoch: epoch, BaseSequence: p.nextSeq}
		p.nextSeq += int32(len(records))
		p.lastData = l.end + int64(len(records)) - 1
		if o.Transactional && p.txnFirst < 0 {
			p.txnFirst = l.end
		}
	}
	b := batch.NewBuilder(o)
	for _, r := range records {
		b.Append(r)
	}
	v, err := b.Build(l.codecs)
	if err != nil {
		l.t.Fatal(err)
	}
	return l.add(v)
}

func (l *fakeLog) add(v batch.View) batch.View {
	v.SetBaseOffset(l.end)
	l.active().batches = append(l.active().batches, v)
	l.end = v.NextOffset()
	return v
}

// endTxn adds the marker of a producer, also where there is no transaction.
func (l *fakeLog) endTxn(nowMs, id int64, epoch int16, kind batch.ControlType) {
	p := l.producer(id, epoch)
	first := p.txnFirst
	p.txnFirst = -1
	v := l.add(batch.NewEndTxnMarker(nowMs, id, epoch, batch.EndTxnMarker{Type: kind}))
	if kind == batch.ControlAbort && first >= 0 {
		l.active().aborted = append(l.active().aborted, segment.AbortedTxn{
			ProducerID: id, FirstOffset: first, LastOffset: v.BaseOffset(), LastStableOffset: l.stable(),
		})
	}
}

// stable is the last stable offset.
func (l *fakeLog) stable() int64 {
	stable := l.end
	for _, p := range l.producers {
		if p.txnFirst >= 0 {
			stable = min(stable, p.txnFirst)
		}
	}
	return stable
}

// abortedIn is Kafka's collectAbortedTransactions.
func (l *fakeLog) abortedIn(from, upTo int64) (txns []segment.AbortedTxn) {
	for _, s := range l.segments {
		for _, t := range s.aborted {
			if t.LastOffset >= from && t.FirstOffset < upTo {
				txns = append(txns, t)
			}
			if t.LastStableOffset >= upTo {
				return txns
			}
		}
	}
	return txns
}

func (l *fakeLog) state() State {
	s := State{LogEnd: l.end, Checkpoint: l.checkpoint, Bound: l.stable(), MaxCompactionLagMs: math.MaxInt64}
	for _, seg := range l.segments {
		s.Segments = append(s.Segments, SegmentState{Base: seg.base, Size: seg.size()})
	}
	return s
}

func (s *fakeSegment) size() (n int64) {
	for _, v := range s.batches {
		n += int64(len(v))
	}
	return n
}

func (l *fakeLog) lastRecords() map[int64]LastRecord {
	m := map[int64]LastRecord{}
	for id, p := range l.producers {
		m[id] = LastRecord{LastDataOffset: p.lastData, Epoch: p.epoch}
	}
	return m
}

// clean does one cleaning with a map of so many keys, and returns what the filter and the
// index counted.
func (l *fakeLog) clean(nowMs int64, keys int) (Stats, IndexStats) {
	d := Judge(l.state(), nowMs)
	m := mapOf(keys)
	x := NewIndexer(m, d.FirstDirty, l.codecs, l.abortedIn(d.FirstDirty, d.FirstUncleanable))
	l.index(x, m, d)
	return l.rewrite(m, nowMs), x.Stats()
}

func (l *fakeLog) index(x *Indexer, m *OffsetMap, d Dirty) {
	for i, s := range l.segments[:len(l.segments)-1] {
		next := l.segments[i+1].base
		if next <= d.FirstDirty || s.base >= d.FirstUncleanable {
			continue
		}
		for _, v := range s.batches {
			full, err := x.Batch(v)
			if err != nil {
				l.t.Fatal(err)
			}
			if full {
				return
			}
		}
		m.Reach(next - 1)
	}
}

// rewrite filters all segments that begin at or below what the map knows.
func (l *fakeLog) rewrite(m *OffsetMap, nowMs int64) Stats {
	hw := l.hw
	if hw < 0 {
		hw = l.end
	}
	f := NewFilter(FilterOptions{
		Map: m, NowMs: nowMs, DeleteRetentionMs: l.retentionMs,
		Producers: l.lastRecords(), HighWatermark: hw, Codecs: l.codecs,
	})
	var pieces []Piece
	for i, s := range l.segments[:len(l.segments)-1] {
		if s.base <= m.Latest() {
			pieces = append(pieces, Piece{Base: s.base, End: l.segments[i+1].base, Size: s.size()})
		}
	}
	var cleaned []*fakeSegment
	for _, group := range Groups(pieces, l.maxSize, l.maxSize) {
		cleaned = append(cleaned, l.rewriteGroup(f, group))
	}
	l.segments = append(cleaned, l.segments[len(pieces):]...)
	l.checkpoint = max(l.checkpoint, m.Latest()+1)
	return f.Stats()
}

func (l *fakeLog) rewriteGroup(f *Filter, group []Piece) *fakeSegment {
	out := &fakeSegment{base: group[0].Base}
	for _, s := range l.segments {
		if s.base < group[0].Base || s.base >= group[len(group)-1].End {
			continue
		}
		f.AddAborted(l.abortedIn(s.base, group[len(group)-1].End))
		for i, v := range s.batches {
			last := !l.plain && s.base == group[len(group)-1].Base && i == len(s.batches)-1
			before := slices.Clone(v)
			got, err := f.Batch(v, last)
			switch {
			case err != nil:
				l.t.Fatal(err)
			case !slices.Equal(before, v):
				l.t.Fatalf("the batch at offset %d was written to", v.BaseOffset())
			case got != nil:
				l.check(v, got)
				out.batches = append(out.batches, slices.Clone(got))
			case last:
				l.t.Fatalf("the last batch, at offset %d, is gone", v.BaseOffset())
			}
		}
	}
	out.aborted = f.Aborted()
	return out
}

// check looks at what every batch must be that was kept of v.
func (l *fakeLog) check(v, got batch.View) {
	if err := got.Check(); err != nil {
		l.t.Fatal(err)
	}
	const flags = 0x3f &^ 7 // all but codec and horizon
	if got.BaseOffset() != v.BaseOffset() || got.LastOffset() != v.LastOffset() || got.LeaderEpoch() != v.LeaderEpoch() ||
		got.ProducerID() != v.ProducerID() || got.ProducerEpoch() != v.ProducerEpoch() || got.BaseSequence() != v.BaseSequence() ||
		got.Attributes()&flags != v.Attributes()&flags || got.RecordCount() > 0 && got.Codec() != v.Codec() {
		l.t.Fatalf("header\n%x became\n%x", v[:batch.HeaderSize], got[:batch.HeaderSize])
	}
	if slices.Equal(v, got) && &v[0] != &got[0] || got.RecordCount() == v.RecordCount() && got.HasDeleteHorizon() == v.HasDeleteHorizon() &&
		!slices.Equal(v, got) && got.RecordCount() > 0 {
		l.t.Fatalf("batch at offset %d was written anew, but says the same", v.BaseOffset())
	}
}

// mapOf is a map of exactly so many keys.
func mapOf(keys int) *OffsetMap {
	m := NewOffsetMap(int64(2*keys+64)*slotBytes, 1)
	m.limit = keys
	return m
}

// String shows the log: a line for each batch, a rule between segments.
//
//	[3..5] txn pid=1/0 seq=3 lz4 horizon=7: 3 a=1, 5 b
func (l *fakeLog) String() string {
	var b strings.Builder
	for i, s := range l.segments {
		if len(s.batches) == 0 {
			continue
		}
		if i > 0 {
			fmt.Fprintf(&b, "-- %d\n", s.base)
		}
		for _, v := range s.batches {
			fmt.Fprintln(&b, l.show(v))
		}
		for _, t := range s.aborted {
			fmt.Fprintf(&b, "aborted: pid=%d [%d..%d]\n", t.ProducerID, t.FirstOffset, t.LastOffset)
		}
	}
	return b.String()
}

func (l *fakeLog) show(v batch.View) string {
	s := fmt.Sprintf("[%d..%d]", v.BaseOffset(), v.LastOffset())
	if v.IsTransactional() && !v.IsControl() {
		s += " txn"
	}
	if v.HasProducerID() {
		s += fmt.Sprintf(" pid=%d/%d", v.ProducerID(), v.ProducerEpoch())
	}
	if v.BaseSequence() >= 0 {
		s += fmt.Sprintf(" seq=%d", v.BaseSequence())
	}
	if v.Codec() != batch.None {
		s += " " + v.Codec().String()
	}
	if v.IsLogAppendTime() {
		s += fmt.Sprintf(" appended=%d", v.MaxTimestamp())
	}
	if ms, ok := v.DeleteHorizonMs(); ok {
		s += fmt.Sprintf(" horizon=%d", ms)
	}
	if v.RecordCount() == 0 {
		return s + ": empty"
	}
	return s + ": " + l.showRecords(v)
}

func (l *fakeLog) showRecords(v batch.View) string {
	if v.IsControl() {
		m, _, err := batch.EndTxnMarkerOf(v, l.codecs)
		if err != nil {
			l.t.Fatal(err)
		}
		return map[batch.ControlType]string{batch.ControlAbort: "abort", batch.ControlCommit: "commit"}[m.Type]
	}
	var shown []string
	err := batch.Iterate(v, l.codecs, func(r batch.Record) error {
		s := fmt.Sprintf("%d %s", r.Offset, r.Key)
		if r.HasValue {
			s += fmt.Sprintf("=%s", r.Value)
		}
		if r.Timestamp != 0 && !v.IsLogAppendTime() {
			s += fmt.Sprintf("@%d", r.Timestamp)
		}
		shown = append(shown, s)
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return strings.Join(shown, ", ")
}
