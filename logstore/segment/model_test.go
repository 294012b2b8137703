package segment

import (
	"bytes"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"pgregory.net/rapid"
)

// TestAgainstModel compares a segment with a slice of batches, while it is closed,
// opened, evicted, recovered and loses index files.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"append":      m.append,
			"truncate":    m.truncate,
			"reopen":      m.reopen,
			"seal":        m.seal,
			"sync":        m.sync,
			"recover":     m.recover,
			"lose index":  m.loseIndex,
			"evict":       m.evict,
			"read":        m.read,
			"lookup time": m.lookupTime,
			"":            m.check,
		})
	})
}

type model struct {
	o       *Options
	s       *Segment
	other   *Segment // its use makes the pool give up what s holds
	base    int64
	next    int64
	batches []batch.View
}

func newModel(t *rapid.T) *model {
	o := testOptions(vfs.NewMem())
	o.IndexIntervalBytes = rapid.SampledFrom([]int{0, 100, 400, 1 << 20}).Draw(t, "interval")
	o.Pool = NewFilePool(PoolOptions{MaxOpenFiles: 1, MaxIndexBytes: 1})
	base := rapid.Int64Range(0, 1000).Draw(t, "base")
	if err := o.FS.MkdirAll(testDir, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := Create(testDir, base, testNow, o)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Create(testDir, base+1_000_000, testNow, o)
	if err != nil {
		t.Fatal(err)
	}
	return &model{o: o, s: s, other: other, base: base, next: base}
}

func (m *model) append(t *rapid.T) {
	var records []byte
	for range rapid.IntRange(1, 3).Draw(t, "batches") {
		m.next += rapid.SampledFrom([]int64{0, 0, 0, 7}).Draw(t, "gap")
		n := rapid.IntRange(1, 4).Draw(t, "records")
		v := testBatch(m.next, n, rapid.SampledFrom([]int{8, 100, 9000}).Draw(t, "size"), rapid.Int64Range(0, 5000).Draw(t, "timestamp"))
		m.batches = append(m.batches, v)
		m.next = v.NextOffset()
		records = append(records, v...)
	}
	if err := m.s.Append(testNow, records); err != nil {
		t.Fatal(err)
	}
}

// offset draws one within or near the segment.
func (m *model) offset(t *rapid.T) int64 {
	return rapid.Int64Range(max(0, m.base-1), m.next+1).Draw(t, "offset")
}

// from is the index of the first batch that ends at or above an offset.
func (m *model) from(o int64) int {
	for i, v := range m.batches {
		if v.LastOffset() >= o {
			return i
		}
	}
	return len(m.batches)
}

func (m *model) truncate(t *rapid.T) {
	o := m.offset(t)
	i := m.from(o)
	removed, err := m.s.TruncateTo(testNow, o)
	if err != nil {
		t.Fatal(err)
	}
	if want := len(joined(m.batches[i:])); removed != int64(want) {
		t.Fatalf("removed %d bytes, want %d", removed, want)
	}
	m.batches = m.batches[:i]
	m.next = m.base
	if i > 0 {
		m.next = m.batches[i-1].NextOffset()
	}
}

func joined(batches []batch.View) []byte { return bytes.Join(views(batches), nil) }

func (m *model) reopen(t *rapid.T) {
	if err := m.s.Close(); err != nil {
		t.Fatal(err)
	}
	m.s = mustOpen(t, m.o, m.base)
}

func (m *model) seal(t *rapid.T) {
	if err := m.s.Seal(); err != nil {
		t.Fatal(err)
	}
}

func (m *model) sync(t *rapid.T) {
	f, err := m.s.BeginFlush()
	if err != nil {
		t.Fatal(err)
	}
	if f != nil {
		f.Finish(f.File().Sync())
	}
	if m.s.Unflushed() {
		t.Fatal("unflushed after a flush")
	}
	if err := m.s.SyncIndexes(); err != nil {
		t.Fatal(err)
	}
}

func (m *model) recover(t *rapid.T) {
	from := m.offset(t)
	if err := m.s.WriteIndexes(); err != nil {
		t.Fatal(err)
	}
	var seen []batch.View
	r, err := m.s.Recover(RecoverParams{FromOffset: from, OnBatch: func(v batch.View, _ int64) error {
		seen = append(seen, bytes.Clone(v))
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Damage != nil || r.NextOffset != m.next || r.ValidSize != r.FileSize {
		t.Fatalf("recovered %+v, want next offset %d", r, m.next)
	}
	if !bytes.Equal(joined(seen), joined(m.batches[m.from(from):])) {
		t.Fatalf("recovery from %d reported %s", from, describe(joined(seen)))
	}
}

func (m *model) loseIndex(t *rapid.T) {
	m.reopen(t)
	suffix := rapid.SampledFrom([]string{IndexSuffix, TimeIndexSuffix}).Draw(t, "suffix")
	if err := removeIfExists(m.o.FS, m.s.path(suffix)); err != nil {
		t.Fatal(err)
	}
}

// evict uses another segment, so that the pool, which has room for one, takes what it
// can.
func (m *model) evict(t *rapid.T) {
	m.sync(t)
	if err := m.other.load(); err != nil {
		t.Fatal(err)
	}
	f, err := m.other.acquire()
	if err != nil {
		t.Fatal(err)
	}
	m.other.release(f)
	m.other.countIndex()
	if n := m.o.Pool.OpenFiles(); n != 1 {
		t.Fatalf("%d files open", n)
	}
	if m.s.content.loaded && m.s.content.memory() > 0 {
		t.Fatal("the index is still in memory")
	}
}

func (m *model) read(t *rapid.T) {
	o := m.offset(t)
	p := ReadParams{
		Offset:   o,
		MaxPos:   rapid.Int64Range(0, m.s.Size()).Draw(t, "max pos"),
		MaxBytes: rapid.SampledFrom([]int{0, 50, 300, 1 << 20}).Draw(t, "max bytes"),
		MinOne:   rapid.Bool().Draw(t, "min one"),
	}
	r, err := m.s.Read(p)
	if err != nil {
		t.Fatal(err)
	}
	i := m.from(o)
	if r.Found != (i < len(m.batches)) {
		t.Fatalf("found %v at %d", r.Found, o)
	}
	if !r.Found {
		return
	}
	pos := int64(len(joined(m.batches[:i])))
	if want := (BatchPos{m.batches[i].BaseOffset(), pos, int64(len(m.batches[i]))}); r.First != want {
		t.Fatalf("first batch %+v, want %+v", r.First, want)
	}
	n := int64(p.MaxBytes)
	if p.MinOne {
		n = max(n, r.First.Size)
	}
	want := joined(m.batches[i:])
	want = want[:max(0, min(int64(len(want)), n, p.MaxPos-pos))]
	if got := drain(t, r.Region); !bytes.Equal(got, want) {
		t.Fatalf("read %+v: %d bytes, want %d", p, len(got), len(want))
	}
}

func (m *model) lookupTime(t *rapid.T) {
	ts, from := rapid.Int64Range(0, 5010).Draw(t, "timestamp"), m.offset(t)
	got, found, err := m.s.OffsetForTimestamp(ts, from)
	if err != nil {
		t.Fatal(err)
	}
	want, wantFound := m.timeOf(t, ts, from)
	if got != want || found != wantFound {
		t.Fatalf("timestamp %d from %d: %+v %v, want %+v %v", ts, from, got, found, want, wantFound)
	}
}

func (m *model) timeOf(t *rapid.T, ts, from int64) (TimestampOffset, bool) {
	for _, v := range m.batches {
		it := batch.NewIterator(v, nil)
		for it.Next() {
			if it.Record.Timestamp >= ts && it.Record.Offset >= from {
				return TimestampOffset{it.Record.Timestamp, it.Record.Offset, v.LeaderEpoch()}, true
			}
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}
	return TimestampOffset{}, false
}

// check compares what can be asked at any time.
func (m *model) check(t *rapid.T) {
	if got, want := m.s.Size(), int64(len(joined(m.batches))); got != want {
		t.Fatalf("size %d, want %d", got, want)
	}
	next, err := m.s.NextOffset()
	if err != nil || next != m.next {
		t.Fatalf("next offset %d, want %d: %v", next, m.next, err)
	}
	newest, err := m.s.MaxTimestamp()
	if err != nil {
		t.Fatal(err)
	}
	want := emptyContent(m.base).max
	for _, v := range m.batches {
		if v.MaxTimestamp() > want.TimestampMs {
			want.TimestampMs, want.Offset = v.MaxTimestamp(), v.LastOffset()
		}
	}
	if newest.LeaderEpoch = -1; newest != want {
		t.Fatalf("max timestamp %+v, want %+v", newest, want)
	}
	first, ok, err := m.s.FirstTimestamp()
	if err != nil || ok != (len(m.batches) > 0) || ok && first != m.batches[0].MaxTimestamp() {
		t.Fatalf("first timestamp %d %v %v", first, ok, err)
	}
}
