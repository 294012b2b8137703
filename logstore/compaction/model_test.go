package compaction

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/klamm-mq/klamm/protocol/batch"
)

// TestModel writes random logs and cleans them again and again, with maps of any size, and
// compares with what should be left, found out from the whole history without any of the
// cleaner's means.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"append":  m.appendBatch,
			"end":     m.endTransaction,
			"roll":    func(*rapid.T) { m.log.roll() },
			"expire":  m.expireProducer,
			"tick":    func(t *rapid.T) { m.nowMs += rapid.Int64Range(1, 60).Draw(t, "ms") },
			"clean":   m.clean,
			"forget":  func(*rapid.T) { m.log.checkpoint = 0 },
			"":        m.check,
			"settled": m.settle,
		})
	})
}

// model is a log and its whole history.
type model struct {
	log     *fakeLog
	nowMs   int64
	values  int
	history []written
	// open are the records of transactions that have not ended, by producer.
	open map[int64][]int
	// cleanedTo is the largest end of all cleanings so far.
	cleanedTo int64
}

// written is a record of the history.
type written struct {
	offset, timestampMs int64
	key, value          string
	tombstone, keyless  bool
	aborted             bool
}

func (w written) String() string {
	return fmt.Sprintf("%d %d %q=%q/%v%v", w.offset, w.timestampMs, w.key, w.value, w.tombstone, w.keyless)
}

func newModel(t *rapid.T) *model {
	m := &model{log: newFakeLog(t), open: map[int64][]int{}}
	m.log.retentionMs = rapid.Int64Range(0, 100).Draw(t, "retention")
	m.log.maxSize = rapid.SampledFrom([]int64{1, 300, 2000}).Draw(t, "max size")
	return m
}

func (m *model) appendBatch(t *rapid.T) {
	m.log.t = t
	id := rapid.Int64Range(-2, 3).Draw(t, "producer")
	o := batch.BuilderOptions{
		Codec:       batch.Codec(rapid.IntRange(int(batch.None), int(batch.Zstd)).Draw(t, "codec")),
		LeaderEpoch: int32(len(m.history)),
	}
	if p, ok := m.log.producers[id]; id >= 0 {
		o.Transactional = rapid.Bool().Draw(t, "transactional")
		if ok && p.txnFirst >= 0 {
			o.Transactional = true // a producer writes nothing else while one is open
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "append time") == 0 {
		o.LogAppendTime, o.AppendTimeMs = true, m.nowMs
	}
	var records []batch.NewRecord
	for range rapid.IntRange(1, 6).Draw(t, "records") {
		records = append(records, m.record(t))
	}
	v := m.log.append(id, 0, o, records...)
	for i, r := range records {
		w := written{
			offset: v.BaseOffset() + int64(i), timestampMs: r.TimestampMs,
			key: string(r.Key), value: string(r.Value), tombstone: r.Value == nil, keyless: r.Key == nil,
		}
		if o.LogAppendTime {
			w.timestampMs = m.nowMs
		}
		if o.Transactional {
			m.open[id] = append(m.open[id], len(m.history))
		}
		m.history = append(m.history, w)
	}
}

func (m *model) record(t *rapid.T) batch.NewRecord {
	r := batch.NewRecord{TimestampMs: rapid.Int64Range(-1, 500).Draw(t, "timestamp")}
	if key := rapid.IntRange(0, 6).Draw(t, "key"); key > 0 {
		r.Key = fmt.Append(nil, "key", key)
	} else if rapid.Bool().Draw(t, "empty key") {
		r.Key = []byte{}
	}
	if rapid.IntRange(0, 2).Draw(t, "tombstone") > 0 {
		m.values++
		r.Value = fmt.Append(nil, m.values)
		r.Headers = []batch.Header{{Key: "h", Value: r.Value}}
	}
	return r
}

func (m *model) endTransaction(t *rapid.T) {
	id := rapid.Int64Range(0, 3).Draw(t, "producer")
	kind := rapid.SampledFrom([]batch.ControlType{batch.ControlAbort, batch.ControlCommit}).Draw(t, "marker")
	for _, i := range m.open[id] {
		m.history[i].aborted = kind == batch.ControlAbort
	}
	delete(m.open, id)
	m.log.endTxn(m.nowMs, id, 0, kind)
}

func (m *model) expireProducer(t *rapid.T) {
	id := rapid.Int64Range(0, 3).Draw(t, "producer")
	if p, ok := m.log.producers[id]; ok && p.txnFirst < 0 {
		delete(m.log.producers, id)
	}
}

func (m *model) clean(t *rapid.T) {
	m.log.t = t
	from := m.log.checkpoint
	keys := rapid.IntRange(1, 9).Draw(t, "map")
	d := Judge(m.log.state(), m.nowMs)
	m.log.clean(m.nowMs, keys)
	m.cleanedTo = max(m.cleanedTo, m.log.checkpoint)
	if end := m.log.checkpoint; end < from || d.CleanableBytes > 0 && end <= from || end > max(from, d.FirstUncleanable) {
		t.Fatalf("cleaned from %d to %d, with %+v", from, end, d)
	}
}

// check: what is in the log was written so, in this order; of each key the newest record is
// there, unless it was a tombstone; and nothing went that need not.
func (m *model) check(t *rapid.T) {
	byOffset := map[int64]written{}
	for _, w := range m.history {
		byOffset[w.offset] = w
	}
	newest := m.newest(m.cleanedTo)
	there := map[int64]bool{}
	for _, r := range m.records(t) {
		if w, ok := byOffset[r.offset]; !ok || r.String() != w.String() {
			t.Fatalf("%v, but written was %v", r, w)
		}
		if there[r.offset] {
			t.Fatalf("offset %d twice", r.offset)
		}
		there[r.offset] = true
	}
	for _, w := range m.history {
		newestOfKey := !w.keyless && newest[w.key] == w.offset && !w.tombstone
		needed := w.offset >= m.cleanable() || !w.aborted && (newestOfKey || w.offset >= m.cleanedTo)
		if needed && !there[w.offset] {
			t.Fatalf("%v is gone; clean below %d\n%s", w, m.cleanedTo, m.log)
		}
	}
	m.checkLayout(t)
}

// newest is the offset of the newest committed record of each key below end.
func (m *model) newest(end int64) map[string]int64 {
	newest := map[string]int64{}
	for _, w := range m.history {
		if !w.aborted && !w.keyless && w.offset < end {
			newest[w.key] = w.offset
		}
	}
	return newest
}

// cleanable is where the part of the log begins that no cleaning can have touched.
func (m *model) cleanable() int64 { return min(m.log.active().base, m.log.stable()) }

// checkLayout: offsets rise, and each segment reaches to the next one.
func (m *model) checkLayout(t *rapid.T) {
	next := int64(0)
	for i, s := range m.log.segments {
		if s.base < next {
			t.Fatalf("segment %d begins before %d\n%s", s.base, next, m.log)
		}
		for _, v := range s.batches {
			if v.BaseOffset() < max(next, s.base) {
				t.Fatalf("batch at %d lies before %d\n%s", v.BaseOffset(), next, m.log)
			}
			next = v.NextOffset()
		}
		if i+1 < len(m.log.segments) && next != m.log.segments[i+1].base {
			t.Fatalf("segment %d ends at %d\n%s", s.base, next, m.log)
		}
	}
}

// records are the data records in the log.
func (m *model) records(t *rapid.T) (all []written) {
	for _, s := range m.log.segments {
		for _, v := range s.batches {
			if err := v.Check(); err != nil {
				t.Fatal(err)
			}
			if v.IsControl() {
				continue
			}
			err := batch.Iterate(v, m.log.codecs, func(r batch.Record) error {
				for _, value := range r.Headers.All() {
					if string(value) != string(r.Value) {
						t.Fatalf("header of %q is %q", r.Value, value)
					}
				}
				all = append(all, written{
					offset: r.Offset, timestampMs: r.Timestamp, key: string(r.Key), value: string(r.Value),
					tombstone: !r.HasValue, keyless: !r.HasKey,
				})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// settle cleans, over and over until all horizons have passed, what can be cleaned: of that
// part exactly the newest values remain, no aborted record, no tombstone, and a marker only
// if there are batches of its transaction. Another cleaning changes nothing. The longest way has
// six steps: a batch of a transaction becomes empty, goes when its segment is no longer one of its
// own, its marker gets a horizon and goes, each perhaps a cleaning later.
func (m *model) settle(t *rapid.T) {
	m.log.t = t
	end := int64(0)
	for range 6 {
		m.log.checkpoint = 0
		for before := int64(-1); before < m.log.checkpoint; {
			before = m.log.checkpoint
			m.log.clean(m.nowMs, rapid.IntRange(1, 99).Draw(t, "map"))
		}
		end = m.log.checkpoint
		m.cleanedTo = max(m.cleanedTo, end)
		m.nowMs += m.log.retentionMs
	}
	m.checkSettled(t, end)
	text := m.log.String()
	m.log.checkpoint = 0
	m.log.clean(m.nowMs, 99)
	if again := m.log.String(); again != text {
		t.Fatalf("before\n%s\nafter\n%s", text, again)
	}
}

func (m *model) checkSettled(t *rapid.T, end int64) {
	newest := m.newest(end)
	var want, got []string
	for _, w := range m.history {
		if w.offset >= end || newest[w.key] == w.offset && !w.aborted && !w.keyless && !w.tombstone {
			want = append(want, w.String())
		}
	}
	for _, r := range m.records(t) {
		got = append(got, r.String())
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Fatalf("clean below %d: left are\n%q, want\n%q\n%s", end, got, want, m.log)
	}
	m.checkMarkers(t, end)
}

// checkMarkers: each batch of a transaction has its marker behind it, and the index knows the
// aborted ones.
func (m *model) checkMarkers(t *rapid.T, end int64) {
	open := map[int64]int{}
	index := map[int64]bool{}
	for _, s := range m.log.segments {
		for _, a := range s.aborted {
			index[a.LastOffset] = true
		}
	}
	for _, s := range m.log.segments {
		for _, v := range s.batches {
			switch {
			case !v.IsControl():
				if v.IsTransactional() {
					open[v.ProducerID()]++
				}
			case v.RecordCount() > 0:
				marker, _, _ := batch.EndTxnMarkerOf(v, m.log.codecs)
				aborted := marker.Type == batch.ControlAbort
				if v.BaseOffset() < end && open[v.ProducerID()] == 0 && !m.isEpochOfProducer(v) {
					t.Fatalf("marker at %d of nothing, clean below %d\n%s", v.BaseOffset(), end, m.log)
				}
				if aborted && open[v.ProducerID()] > 0 && !index[v.BaseOffset()] {
					t.Fatalf("abort at %d is not in the index\n%s", v.BaseOffset(), m.log)
				}
				delete(open, v.ProducerID())
			}
		}
	}
	for id, n := range open {
		if len(m.open[id]) == 0 {
			t.Fatalf("%d batches of producer %d without marker\n%s", n, id, m.log)
		}
	}
}

func (m *model) isEpochOfProducer(v batch.View) bool {
	p, ok := m.log.producers[v.ProducerID()]
	return ok && p.lastData < 0
}
