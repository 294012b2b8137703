package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/batch/batchtest"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
	"pgregory.net/rapid"
)

// TestModel compares a log with a slice of batches, over appends by leaders and
// followers, idempotent and transactional producers, truncations, retention, restarts
// after clean stops and kills.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		defer func() { m.d.Abandon() }()
		t.Repeat(map[string]func(*rapid.T){
			"append":       m.append,
			"repeat":       m.repeatBatch,
			"follow":       m.follow,
			"endTxn":       m.endTransaction,
			"roll":         m.roll,
			"truncate":     m.truncate,
			"startAfresh":  m.startAfresh,
			"advanceStart": m.advanceStart,
			"retain":       m.retain,
			"reconfigure":  m.reconfigure,
			"flush":        func(t *rapid.T) { m.d.Flush() },
			"tick":         m.tick,
			"restart":      m.restart,
			"read":         m.read,
			"lookUp":       m.lookUp,
			"":             m.check,
		})
	})
}

type logModel struct {
	fs     *vfs.MemFS
	config Config
	now    time.Time
	d      *Dir
	k      *Keeper
	l      *Log
	epoch  int32
	n      int // values so far

	batches    []batch.View // also those below start
	start, end int64
	// forgotten is the largest log start that there was: a crash may bring back an
	// earlier one, but not what the producers' state has lost by then.
	forgotten int64
	seqs      map[int64]*batch.Producer // the next batch of each producer
}

func newModel(t *rapid.T) *logModel {
	m := &logModel{fs: vfs.NewMem(), now: epochTime, epoch: 1, seqs: map[int64]*batch.Producer{}}
	m.config = DefaultConfig()
	m.config.RetentionMs = -1
	m.reconfigureOnly(t)
	m.open(t)
	l, err := m.d.CreateLog(m.now, testID("t", 0), m.config)
	m.must(t, err)
	m.l = l
	return m
}

func (m *logModel) must(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func (m *logModel) open(t *rapid.T) {
	d, err := OpenDir(testOptions(m.fs))
	m.must(t, err)
	_, err = d.OpenLogs(t.Context(), OpenLogsParams{Now: m.now, Threads: 1, Config: func(ID) Config { return m.config }})
	m.must(t, err)
	m.d = d
	m.k = NewKeeper(d, KeeperOptions{
		RecoveryPointInterval: 2 * time.Second, RecoveryPointBytes: 1000, RetentionInterval: time.Hour,
		Wake: func() {},
	})
	m.k.Tick(m.now)
}

func (m *logModel) restart(t *rapid.T) {
	clean := rapid.Bool().Draw(t, "clean")
	if clean {
		m.must(t, m.d.Close(m.now, 1))
	} else {
		m.d.Abandon()
	}
	m.open(t)
	m.l = m.d.Log(topicID("t"), 0)
	if m.l == nil && m.end == 0 { // it was unborn
		l, err := m.d.CreateLog(m.now, testID("t", 0), m.config)
		m.must(t, err)
		m.l = l
	}
	if m.l == nil {
		t.Fatal("the log is gone")
	}
	// A kill forgets the log start since the last checkpoint.
	if start := int64(m.l.LogStart()); start < m.start && !clean {
		m.start = start
	}
	if m.l.Flushed() != offset.Flushed(m.end) {
		t.Fatalf("flushed %d after a restart, the log ends at %d", m.l.Flushed(), m.end)
	}
}

func (m *logModel) reconfigureOnly(t *rapid.T) {
	m.config.SegmentBytes = rapid.Int32Range(400, 3000).Draw(t, "segment bytes")
	m.config.IndexIntervalBytes = rapid.Int32Range(0, 500).Draw(t, "index interval")
	m.config.SegmentIndexBytes = rapid.SampledFrom([]int32{24, 64, 1 << 20}).Draw(t, "index bytes")
	m.config.SegmentMs = rapid.SampledFrom([]int64{10, 1000, math.MaxInt64}).Draw(t, "segment ms")
}

func (m *logModel) reconfigure(t *rapid.T) {
	m.reconfigureOnly(t)
	m.l.UpdateConfig(m.config)
}

func (m *logModel) tick(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
	m.k.Tick(m.now)
}

// build makes a batch with random timestamps and unique values.
func (m *logModel) build(t *rapid.T, o batch.BuilderOptions) batch.View {
	b := batch.NewBuilder(o)
	for range rapid.IntRange(1, 3).Draw(t, "records") {
		m.n++
		value := fmt.Sprintf("%d-%s", m.n, bytes.Repeat([]byte("x"), rapid.IntRange(0, 60).Draw(t, "size")))
		ts := m.now.UnixMilli() + int64(rapid.IntRange(-50, 50).Draw(t, "time"))
		b.Append(batch.NewRecord{TimestampMs: ts, Value: []byte(value)})
	}
	v, err := b.Build(nil)
	m.must(t, err)
	return v
}

// appended takes a batch as the log must have stored it into the model.
func (m *logModel) appended(v batch.View, base int64) {
	v = bytes.Clone(v)
	v.SetBaseOffset(base)
	v.SetLeaderEpoch(m.epoch)
	m.batches = append(m.batches, v)
	m.end = v.NextOffset()
	if v.HasProducerID() && !v.IsControl() {
		m.seqs[v.ProducerID()] = &batch.Producer{
			ID: v.ProducerID(), Epoch: v.ProducerEpoch(), BaseSequence: batch.IncrementSequence(v.LastSequence(), 1),
		}
	}
}

func (m *logModel) append(t *rapid.T) {
	var o batch.BuilderOptions
	if pid := rapid.Int64Range(-2, 3).Draw(t, "producer"); pid >= 0 {
		o.Producer = m.producer(pid)
		o.Transactional = pid >= 2 // producers 2 and 3 are transactional
	}
	m.leaderAppend(t, m.build(t, o), OriginClient)
}

func (m *logModel) producer(id int64) *batch.Producer {
	if p := m.seqs[id]; p != nil {
		return p
	}
	return &batch.Producer{ID: id}
}

func (m *logModel) leaderAppend(t *rapid.T, v batch.View, origin Origin) {
	info, err := m.l.AppendAsLeader(AppendParams{
		Now: m.now, Records: bytes.Clone(v), LeaderEpoch: m.epoch, Origin: origin, RequestVersion: 12,
	})
	if errors.Is(err, kafkaerr.OutOfOrderSequenceNumber) && !m.remembers(v.ProducerID()) {
		// As in Kafka: its batches were deleted, a marker is all that is left of it.
		m.seqs[v.ProducerID()] = &batch.Producer{ID: v.ProducerID(), Epoch: v.ProducerEpoch() + 1}
		return
	}
	m.must(t, err)
	want := m.end
	m.appended(v, want)
	if info.Duplicate || info.FirstOffset != want || info.LastOffset != m.end-1 || info.AppendedBytes != len(v) {
		t.Fatalf("append at %d to %d: %+v", want, m.end, info)
	}
}

// remembers: the producer has a batch that is not below the log start.
func (m *logModel) remembers(producer int64) bool {
	return slices.ContainsFunc(m.batches, func(v batch.View) bool {
		return v.ProducerID() == producer && !v.IsControl() && v.LastOffset() >= m.forgotten
	})
}

// txnModel is one transaction. A restart or a truncation may forget those of its
// batches that lie below the log start, so its first offset is a range.
type txnModel struct {
	producer   int64
	first      int64 // of all its batches
	firstLeft  int64 // of those that are not forgotten; the log end if there is none
	marker     int64 // -1 while it is open
	wasAborted bool
}

// transactions are those that are open or were aborted.
func (m *logModel) transactions() (txns []txnModel) {
	open := map[int64]*txnModel{}
	for _, v := range m.batches {
		t := open[v.ProducerID()]
		switch {
		case v.IsControl() && t != nil:
			marker, _, _ := batch.EndTxnMarkerOf(v, nil)
			t.marker, t.wasAborted = v.BaseOffset(), marker.Type == batch.ControlAbort
			delete(open, t.producer)
			if t.wasAborted {
				txns = append(txns, *t)
			}
		case v.IsTransactional() && !v.IsControl():
			if t == nil {
				t = &txnModel{producer: v.ProducerID(), first: v.BaseOffset(), firstLeft: m.end, marker: -1}
				open[t.producer] = t
			}
			if v.LastOffset() >= m.forgotten {
				t.firstLeft = min(t.firstLeft, v.BaseOffset())
			}
		}
	}
	for _, t := range open {
		txns = append(txns, *t)
	}
	return txns
}

func (m *logModel) endTransaction(t *rapid.T) {
	pid := rapid.Int64Range(2, 3).Draw(t, "producer")
	if !slices.ContainsFunc(m.transactions(), func(t txnModel) bool { return t.producer == pid && t.marker < 0 }) {
		t.Skip("no transaction is open")
	}
	kind := rapid.SampledFrom([]batch.ControlType{batch.ControlAbort, batch.ControlCommit}).Draw(t, "end")
	v := batch.NewEndTxnMarker(m.now.UnixMilli(), pid, m.producer(pid).Epoch, batch.EndTxnMarker{Type: kind})
	m.leaderAppend(t, v, OriginCoordinator)
}

// repeatBatch sends the last batch of a producer again, as after a lost answer.
func (m *logModel) repeatBatch(t *rapid.T) {
	pid := rapid.Int64Range(0, 3).Draw(t, "producer")
	marked := false // snapshots keep one timestamp, the marker's if that came last
	for i := len(m.batches) - 1; i >= 0 && m.batches[i].BaseOffset() >= m.forgotten; i-- {
		v := m.batches[i]
		if v.ProducerID() != pid || v.IsControl() {
			marked = marked || v.ProducerID() == pid
			continue
		}
		again := m.whole(v)
		info, err := m.l.AppendAsLeader(AppendParams{Now: m.now, Records: again, LeaderEpoch: m.epoch, RequestVersion: 12})
		m.must(t, err)
		if !info.Duplicate || info.FirstOffset != v.BaseOffset() || info.LastOffset != v.LastOffset() ||
			info.LogAppendTimeMs != v.MaxTimestamp() && !marked || info.AppendedBytes != 0 {
			t.Fatalf("repeated batch %d..%d: %+v", v.BaseOffset(), v.LastOffset(), info)
		}
		return
	}
	t.Skip("the producer has no batch")
}

// whole is a batch as its producer sent it, as far as a broker can tell.
func (m *logModel) whole(v batch.View) batch.View {
	if v.RecordCount() == v.LastOffsetDelta()+1 {
		again := bytes.Clone(v)
		batch.View(again).SetBaseOffset(0)
		return again
	}
	b := batch.NewBuilder(batch.BuilderOptions{
		Producer:      &batch.Producer{ID: v.ProducerID(), Epoch: v.ProducerEpoch(), BaseSequence: v.BaseSequence()},
		Transactional: v.IsTransactional(),
	})
	for range v.LastOffsetDelta() + 1 {
		b.Append(batch.NewRecord{TimestampMs: m.now.UnixMilli(), Value: []byte("again")})
	}
	again, _ := b.Build(nil)
	return again
}

// compacted is a batch as its leader may have it after a cleaning: whole, without some of its
// records, or without any.
func (m *logModel) compacted(t *rapid.T, v batch.View) batch.View {
	switch rapid.IntRange(0, 5).Draw(t, "compacted") {
	case 0:
		return batchtest.Empty(v)
	case 1:
		kept := rapid.Int32Range(0, v.LastOffsetDelta()).Draw(t, "kept")
		return batchtest.Thin(v, nil, func(r *batch.Record) bool { return r.OffsetDelta == kept })
	}
	return v
}

func (m *logModel) follow(t *rapid.T) {
	var all []byte
	var views []batch.View
	next := m.end
	for i := range rapid.IntRange(1, 4).Draw(t, "batches") {
		var producer *batch.Producer
		if pid := rapid.Int64Range(-6, 1).Draw(t, "producer"); i == 0 && pid >= 0 {
			producer = m.producer(pid)
		}
		if rapid.IntRange(0, 4).Draw(t, "gap") == 0 {
			next += int64(rapid.IntRange(1, 10).Draw(t, "gap"))
		}
		v := m.compacted(t, m.build(t, batch.BuilderOptions{BaseOffset: next, LeaderEpoch: m.epoch, Producer: producer}))
		views, all, next = append(views, bytes.Clone(v)), append(all, v...), v.NextOffset()
	}
	cut := rapid.IntRange(0, 20).Draw(t, "cut short")
	tail := views[0][:cut]
	info, err := m.l.AppendAsFollower(m.now, append(all, tail...), m.epoch)
	m.must(t, err)
	for _, v := range views {
		m.appended(v, v.BaseOffset())
	}
	if info.FirstOffset != views[0].BaseOffset() || info.LastOffset != m.end-1 || info.AppendedBytes != len(all) {
		t.Fatalf("follow: %+v", info)
	}
}

func (m *logModel) roll(t *rapid.T) { m.must(t, m.l.Roll(m.now)) }

func (m *logModel) truncate(t *rapid.T) {
	low := max(m.start-5, 0)
	to := rapid.Int64Range(max(low, m.end-15), m.end+2).Draw(t, "to")
	if m.l.segments()[0].BaseOffset() > to {
		m.must(t, m.l.TruncateTo(to))
		m.batches, m.start, m.end, m.forgotten = nil, to, to, to
		clear(m.seqs)
	} else {
		m.must(t, m.l.TruncateTo(to))
		m.cut(to)
	}
	m.epoch++
}

// cut drops the batches at or above to, and one that reaches over it. The log then ends
// after the last batch that is left; if that is in an earlier segment, where the one
// that was cut begins.
func (m *logModel) cut(to int64) {
	if to >= m.end {
		return
	}
	for n := len(m.batches); n > 0 && m.batches[n-1].NextOffset() > to; n-- {
		m.batches = m.batches[:n-1]
	}
	segs := m.l.segments()
	m.end = segs[len(segs)-1].BaseOffset()
	if n := len(m.batches); n > 0 {
		m.end = max(m.end, m.batches[n-1].NextOffset())
	}
	m.start, m.forgotten = min(m.start, m.end), min(m.forgotten, m.end)
	clear(m.seqs)
	for _, v := range m.batches {
		if v.HasProducerID() && !v.IsControl() {
			m.seqs[v.ProducerID()] = &batch.Producer{ID: v.ProducerID(), Epoch: v.ProducerEpoch(), BaseSequence: batch.IncrementSequence(v.LastSequence(), 1)}
		}
	}
}

func (m *logModel) startAfresh(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		t.Skip("too drastic")
	}
	to := rapid.Int64Range(0, 200).Draw(t, "to")
	m.must(t, m.l.TruncateFullyAndStartAt(to))
	m.batches, m.start, m.end, m.forgotten = nil, to, to, to
	m.epoch++
	clear(m.seqs)
}

func (m *logModel) advanceStart(t *rapid.T) {
	to := rapid.Int64Range(m.start, m.end).Draw(t, "to")
	m.must(t, m.l.AdvanceLogStart(to))
	m.start, m.forgotten = to, max(m.forgotten, to)
}

// retain may remove whole segments, so the model follows what the log says, within
// what is allowed: nothing at or above the high watermark, and what is left is at least
// retention.bytes.
func (m *logModel) retain(t *rapid.T) {
	c := m.config
	c.RetentionBytes = rapid.Int64Range(-1, 4000).Draw(t, "retention bytes")
	m.l.UpdateConfig(c)
	before := m.l.SizeBytes()
	hw := rapid.Int64Range(m.start, m.end).Draw(t, "high watermark")
	deleted, err := m.l.Retain(m.now, offset.HighWatermark(hw))
	m.must(t, err)
	m.l.UpdateConfig(m.config)
	var gone int64
	for _, s := range deleted {
		gone += s.SizeBytes
		if s.Reason == reasonSize && before-gone < c.RetentionBytes {
			t.Fatalf("%d bytes are left, retention.bytes is %d", before-gone, c.RetentionBytes)
		}
	}
	start := int64(m.l.LogStart())
	if start < m.start || start > max(hw, m.start) {
		t.Fatalf("log start %d after retention, was %d, high watermark %d", start, m.start, hw)
	}
	m.start, m.forgotten = start, max(m.forgotten, start)
}

// expected are the batches that a reader at from must find.
func (m *logModel) expected(from int64) []batch.View {
	i := slices.IndexFunc(m.batches, func(v batch.View) bool { return v.LastOffset() >= from })
	if i < 0 {
		return nil
	}
	return m.batches[i:]
}

func (m *logModel) read(t *rapid.T) {
	p := ReadParams{
		Offset:   rapid.Int64Range(m.start, m.end).Draw(t, "from"),
		MaxBytes: rapid.IntRange(0, 2000).Draw(t, "max bytes"),
		MinOne:   rapid.Bool().Draw(t, "min one"),
		Whole:    rapid.Bool().Draw(t, "whole"),
		Aborted:  rapid.Bool().Draw(t, "aborted"),
	}
	// Bounds are where batches begin or end, or lie between: the high watermark, the last
	// stable offset.
	bounds, last := []int64{m.end}, int64(0)
	for _, v := range m.batches {
		bounds = append(bounds, last, (last+v.BaseOffset())/2, v.BaseOffset())
		last = v.NextOffset()
	}
	p.UpTo = rapid.SampledFrom(bounds).Draw(t, "up to")
	info, err := m.l.Read(p)
	m.must(t, err)
	var want []byte
	for _, v := range m.expected(p.Offset) {
		if v.BaseOffset() >= p.UpTo {
			break
		}
		want = append(want, v...)
	}
	if p.Offset >= p.UpTo {
		want = nil
	}
	if info.Region == nil {
		if len(want) > 0 && (p.MinOne || p.MaxBytes > 0) {
			t.Fatalf("read %+v found nothing, want %d bytes", p, len(want))
		}
		return
	}
	defer info.Region.Release()
	got := make([]byte, info.Region.Len())
	if _, err := info.Region.ReadAt(got, 0); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	first := batch.View(want).Size()
	switch {
	case !bytes.HasPrefix(want, got):
		t.Fatalf("read %+v: %d bytes differ from what was appended", p, len(got))
	case p.MinOne && len(got) < first:
		t.Fatalf("read %+v: %d bytes do not hold the first batch of %d", p, len(got), first)
	case len(got) > p.MaxBytes && (!p.MinOne || len(got) > first):
		t.Fatalf("read %+v: %d bytes", p, len(got))
	case p.Whole && len(got) >= first && !slices.Contains(batchEnds(want), len(got)):
		t.Fatalf("read %+v: %d bytes end in the midst of a batch", p, len(got))
	}
	if p.Aborted {
		m.checkAborted(t, p.Offset, p.Offset+1, info.Aborted)
	}
}

// batchEnds are the places at which the batches end.
func batchEnds(batches []byte) (ends []int) {
	for at := 0; at < len(batches); {
		at += batch.View(batches[at:]).Size()
		ends = append(ends, at)
	}
	return ends
}

// checkAborted: all that have records in [from, to) must be there, and no other than
// aborted ones. More are harmless.
func (m *logModel) checkAborted(t *rapid.T, from, to int64, got []AbortedTxn) {
	txns := m.transactions()
	is := func(g AbortedTxn, txn txnModel) bool {
		return txn.wasAborted && g.ProducerID == txn.producer && g.FirstOffset >= txn.first && g.FirstOffset <= max(txn.first, txn.firstLeft)
	}
	for _, txn := range txns {
		if txn.wasAborted && txn.marker >= from && txn.firstLeft < min(to, m.end) &&
			!slices.ContainsFunc(got, func(g AbortedTxn) bool { return is(g, txn) }) {
			t.Fatalf("aborted transactions in [%d, %d): %v lacks %+v", from, to, got, txn)
		}
	}
	for _, g := range got {
		if !slices.ContainsFunc(txns, func(txn txnModel) bool { return is(g, txn) }) {
			t.Fatalf("aborted transactions in [%d, %d): %v was not, of %+v", from, to, g, txns)
		}
	}
}

func (m *logModel) lookUp(t *rapid.T) {
	ts := m.now.UnixMilli() + rapid.Int64Range(-5000, 100).Draw(t, "time")
	got, found, err := m.l.OffsetForTimestamp(ts)
	m.must(t, err)
	largest, any, err := m.l.OffsetOfMaxTimestamp()
	m.must(t, err)
	var want, most TimestampOffset
	var wantFound, wantAny bool
	claimed, claims := int64(-1), batch.View(nil)
	for _, v := range m.batches {
		if v.LastOffset() >= m.start && v.MaxTimestamp() > claimed {
			claimed, claims = v.MaxTimestamp(), v
		}
		it := batch.NewIterator(v, nil)
		for it.Next() {
			at := TimestampOffset{TimestampMs: it.Record.Timestamp, Offset: v.BaseOffset() + int64(it.Record.OffsetDelta), LeaderEpoch: v.LeaderEpoch()}
			if at.Offset < m.start {
				continue
			}
			if !wantFound && at.TimestampMs >= ts {
				want, wantFound = at, true
			}
			if !wantAny || at.TimestampMs > most.TimestampMs {
				most, wantAny = at, true
			}
		}
		it.Close()
	}
	if got != want || found != wantFound {
		t.Fatalf("look-up of %d: %v %v, want %v %v", ts, got, found, want, wantFound)
	}
	if claims != nil && claims.RecordCount() == 0 {
		// Of a batch that was emptied the largest timestamp is left, and the record is not
		// there: none is found then, as in Kafka.
		most, wantAny = TimestampOffset{}, false
	}
	// Records below the log start may still be in its segment, and may be the largest.
	if m.l.segments()[0].BaseOffset() == m.start && (largest != most || any != wantAny) {
		t.Fatalf("largest timestamp: %v %v, want %v %v", largest, any, most, wantAny)
	}
	m.checkEpochs(t)
	from := rapid.Int64Range(m.start, m.end).Draw(t, "from")
	to := rapid.Int64Range(from, m.end).Draw(t, "to")
	txns, err := m.l.AbortedTransactions(from, to)
	m.must(t, err)
	m.checkAborted(t, from, to, txns)
}

// checkEpochs compares the ends of all epochs that have records at or above the start.
func (m *logModel) checkEpochs(t *rapid.T) {
	ends := map[int32]int64{}
	for _, v := range m.batches {
		if v.NextOffset() > m.forgotten {
			ends[v.LeaderEpoch()] = v.NextOffset()
		}
	}
	for epoch, end := range ends {
		got, ok := m.l.EndOffsetForEpoch(epoch)
		// The next epoch may begin above a gap, and then the end lies in the gap.
		if !ok || got.Epoch != epoch || got.EndOffset < end {
			t.Fatalf("end of epoch %d: %v %v, want %d", epoch, got, ok, end)
		}
	}
	if latest, ok := m.l.LatestEpoch(); len(ends) > 0 && (!ok || ends[latest] == 0) {
		t.Fatalf("latest epoch %d %v, want one of %v", latest, ok, ends)
	}
}

// check holds after every action.
func (m *logModel) check(t *rapid.T) {
	if m.l == nil {
		return
	}
	start, end, flushed, point := int64(m.l.LogStart()), int64(m.l.LogEnd()), int64(m.l.Flushed()), int64(m.l.RecoveryPoint())
	if start != m.start || end != m.end {
		t.Fatalf("log is [%d, %d), want [%d, %d)", start, end, m.start, m.end)
	}
	if flushed > end || point > flushed {
		t.Fatalf("recovery point %d, flushed %d, end %d", point, flushed, end)
	}
	least, most := end, end
	for _, txn := range m.transactions() {
		if txn.marker < 0 {
			least, most = min(least, max(txn.first, start)), min(most, max(txn.firstLeft, start))
		}
	}
	if got := int64(m.l.LastStable(offset.HighWatermark(end))); got < least || got > most {
		t.Fatalf("last stable offset %d, want %d to %d", got, least, most)
	}
	if _, err := m.l.Read(ReadParams{Offset: end + 1, UpTo: end + 1}); !errors.Is(err, kafkaerr.OffsetOutOfRange) {
		t.Fatalf("read above the end: %v", err)
	}
}
