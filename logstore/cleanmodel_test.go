package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/klamm-mq/klamm/logstore/compaction"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// TestCleaningModel cleans a log of keys, with producers and transactions, in between of
// everything else that happens to one: whoever reads it, committed records alone or all of
// them, ends with the same values as if it had never been cleaned; producers go on, and what
// they repeat is found to be a duplicate.
func TestCleaningModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newCleanModel(t)
		defer func() { m.d.Abandon() }()
		t.Repeat(map[string]func(*rapid.T){
			"append":       m.append,
			"append more":  m.append,
			"repeat":       m.repeatBatch,
			"endTxn":       m.endTransaction,
			"clean":        m.clean,
			"clean more":   m.clean,
			"advanceStart": m.advanceStart,
			"reconfigure":  m.reconfigure,
			"tick":         m.tick,
			"truncate":     m.truncate,
			"restart":      m.restart,
			"":             m.check,
		})
	})
}

type cleanModel struct {
	fs     *vfs.CrashFS
	config Config
	now    time.Time
	d      *Dir
	k      *Keeper
	l      *Log
	n      int // values so far

	history []keyedRecord
	start   int64
	lost    int64 // the largest log start that there was
	seqs    map[int64]*batch.Producer
	last    map[int64]sentBatch
	open    map[int64]bool
}

// keyedRecord is a record that was written.
type keyedRecord struct {
	offset     int64
	producer   int64 // of an open transaction, else -1
	key, value string
	aborted    bool
}

// sentBatch is the newest of a producer.
type sentBatch struct {
	v    batch.View
	base int64
}

func newCleanModel(t *rapid.T) *cleanModel {
	m := &cleanModel{
		fs: vfs.NewCrash(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), now: epochTime, config: compactConfig(),
		seqs: map[int64]*batch.Producer{}, last: map[int64]sentBatch{}, open: map[int64]bool{},
	}
	m.fs.SetClock(func() time.Time { return m.now })
	m.config.DeleteRetentionMs = rapid.Int64Range(0, 3000).Draw(t, "retention")
	m.reconfigureOnly(t)
	m.openDir(t)
	l, err := m.d.CreateLog(m.now, testID("t", 0), m.config)
	m.must(t, err)
	m.must(t, l.bearNow())
	m.l = l
	m.leaderAppend(t, keyed(m.now, kv{"first", "0"}), OriginClient)
	m.history = append(m.history, keyedRecord{producer: -1, key: "first", value: "0"})
	m.d.Flush()
	return m
}

func (m *cleanModel) must(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func (m *cleanModel) openDir(t *rapid.T) {
	d, err := OpenDir(testOptions(m.fs.Process()))
	m.must(t, err)
	report, err := d.OpenLogs(t.Context(), OpenLogsParams{Now: m.now, Threads: 1, Config: func(ID) Config { return m.config }})
	m.must(t, err)
	if len(report.Failed) > 0 {
		t.Fatalf("%+v", report.Failed)
	}
	m.d = d
	m.k = NewKeeper(d, KeeperOptions{
		RecoveryPointInterval: 2 * time.Second, RecoveryPointBytes: 1000, RetentionInterval: 10 * time.Second, Wake: func() {},
	})
	m.k.Tick(m.now)
}

func (m *cleanModel) restart(t *rapid.T) {
	end := m.l.LogEnd()
	how := rapid.SampledFrom([]string{"stop", "kill", "power cut"}).Draw(t, "how")
	switch how {
	case "stop":
		m.must(t, m.d.Close(m.now, 1))
	case "kill":
		m.d.Abandon()
		m.fs.Kill()
	default:
		m.d.Flush()
		m.d.Abandon()
		m.fs.PowerCut()
	}
	m.openDir(t)
	if m.l = m.d.Log(topicID("t"), 0); m.l == nil || m.l.LogEnd() != end {
		t.Fatalf("after %s: %v, want a log that ends at %d", how, m.l, end)
	}
	m.start = min(m.start, int64(m.l.LogStart()))
}

func (m *cleanModel) reconfigureOnly(t *rapid.T) {
	m.config.SegmentBytes = rapid.Int32Range(300, 2000).Draw(t, "segment bytes")
	m.config.IndexIntervalBytes = rapid.Int32Range(0, 500).Draw(t, "index interval")
}

func (m *cleanModel) reconfigure(t *rapid.T) {
	m.reconfigureOnly(t)
	m.l.UpdateConfig(m.config)
}

func (m *cleanModel) tick(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
	if rapid.Bool().Draw(t, "flush") {
		m.d.Flush()
	}
	m.k.Tick(m.now)
}

func (m *cleanModel) append(t *rapid.T) {
	o := batch.BuilderOptions{Codec: rapid.SampledFrom([]batch.Codec{batch.None, batch.None, batch.LZ4}).Draw(t, "codec")}
	pid := rapid.Int64Range(-2, 4).Draw(t, "producer")
	if pid >= 0 {
		o.Producer = m.producer(pid)
		o.Transactional = pid >= 2
	}
	b := batch.NewBuilder(o)
	var written []keyedRecord
	for i := range rapid.IntRange(1, 4).Draw(t, "records") {
		r := keyedRecord{producer: -1, key: fmt.Sprint("key-", rapid.IntRange(0, 5).Draw(t, "key"))}
		if o.Transactional {
			r.producer = pid
		}
		n := batch.NewRecord{TimestampMs: m.now.UnixMilli(), Key: []byte(r.key)}
		if rapid.IntRange(0, 3).Draw(t, "tombstone") > 0 {
			m.n++
			r.value = fmt.Sprint("value-", m.n)
			n.Value = []byte(r.value)
		}
		r.offset = int64(m.l.LogEnd()) + int64(i)
		b.Append(n)
		written = append(written, r)
	}
	v, err := b.Build(m.d.o.Codecs)
	m.must(t, err)
	if m.leaderAppend(t, v, OriginClient) {
		m.history = append(m.history, written...)
		m.open[pid] = m.open[pid] || o.Transactional
	}
}

func (m *cleanModel) producer(id int64) *batch.Producer {
	if p := m.seqs[id]; p != nil {
		return p
	}
	return &batch.Producer{ID: id}
}

func (m *cleanModel) leaderAppend(t *rapid.T, v batch.View, origin Origin) bool {
	want := int64(m.l.LogEnd())
	info, err := m.l.AppendAsLeader(AppendParams{
		Now: m.now, Records: bytes.Clone(v), LeaderEpoch: 1, Origin: origin, RequestVersion: 12,
	})
	id := v.ProducerID()
	if errors.Is(err, kafkaerr.OutOfOrderSequenceNumber) && m.last[id].base < m.lost {
		m.seqs[id] = &batch.Producer{ID: id, Epoch: v.ProducerEpoch() + 1}
		return false
	}
	m.must(t, err)
	if info.Duplicate || info.FirstOffset != want {
		t.Fatalf("append at %d: %+v", want, info)
	}
	if v.HasProducerID() && !v.IsControl() {
		m.seqs[id] = &batch.Producer{ID: id, Epoch: v.ProducerEpoch(), BaseSequence: batch.IncrementSequence(v.LastSequence(), 1)}
		m.last[id] = sentBatch{bytes.Clone(v), want}
	}
	return true
}

// repeatBatch sends the last batch of a producer again, as after a lost answer.
func (m *cleanModel) repeatBatch(t *rapid.T) {
	sent, ok := m.last[rapid.Int64Range(0, 4).Draw(t, "producer")]
	if !ok || sent.base < m.lost || m.seqs[sent.v.ProducerID()].Epoch != sent.v.ProducerEpoch() {
		t.Skip("nothing to repeat")
	}
	info, err := m.l.AppendAsLeader(AppendParams{Now: m.now, Records: bytes.Clone(sent.v), LeaderEpoch: 1, RequestVersion: 12})
	if err != nil || !info.Duplicate || info.FirstOffset != sent.base {
		t.Fatalf("repeat of the batch at %d: %+v, %v", sent.base, info, err)
	}
}

func (m *cleanModel) endTransaction(t *rapid.T) {
	pid := rapid.Int64Range(2, 4).Draw(t, "producer")
	if !m.open[pid] {
		t.Skip("no transaction is open")
	}
	kind := rapid.SampledFrom([]batch.ControlType{batch.ControlAbort, batch.ControlCommit}).Draw(t, "end")
	m.leaderAppend(t, batch.NewEndTxnMarker(m.now.UnixMilli(), pid, m.producer(pid).Epoch, batch.EndTxnMarker{Type: kind}), OriginCoordinator)
	m.open[pid] = false
	for i := range m.history {
		if r := &m.history[i]; r.producer == pid {
			r.producer, r.aborted = -1, kind == batch.ControlAbort
		}
	}
}

func (m *cleanModel) bounds() CleanBounds {
	hw := offset.HighWatermark(m.l.LogEnd())
	return CleanBounds{HighWatermark: hw, LastStable: m.l.LastStable(hw)}
}

func (m *cleanModel) clean(t *rapid.T) {
	if rapid.Bool().Draw(t, "settled") {
		m.d.Flush()
		m.must(t, m.d.captureRecoveryPoints(m.now, []*Log{m.l}))
		m.d.Flush()
		m.l.settleRecoveryPoint()
	}
	b := m.bounds()
	dirty, err := m.l.Cleanable(m.now, b)
	m.must(t, err)
	if dirty.CleanableBytes == 0 {
		return
	}
	keys := rapid.Int64Range(1, 10).Draw(t, "keys")
	_, err = m.l.Clean(CleanParams{Now: m.now, Bounds: b, Dirty: dirty, Map: compaction.NewOffsetMap(2*keys*24, 0.5), BufferBytes: rapid.IntRange(1, 1000).Draw(t, "buffer")})
	m.must(t, err)
}

func (m *cleanModel) advanceStart(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
		return
	}
	start := rapid.Int64Range(m.start, int64(m.bounds().LastStable)).Draw(t, "start")
	m.must(t, m.l.AdvanceLogStart(start))
	m.start, m.lost = start, max(m.lost, start)
	_, err := m.l.Retain(m.now, m.bounds().HighWatermark)
	m.must(t, err)
}

// truncate takes back what is above a point that all have.
func (m *cleanModel) truncate(t *rapid.T) {
	end := int64(m.l.LogEnd())
	to := rapid.Int64Range(max(end-6, m.start, m.l.CleanedTo(), m.l.active().BaseOffset()), end).Draw(t, "to")
	for _, open := range m.open {
		if open {
			return
		}
	}
	for _, s := range m.last {
		if s.base+int64(s.v.LastOffsetDelta()) >= to {
			return // the model does not know what producers are left with
		}
	}
	if i := slices.IndexFunc(m.history, func(r keyedRecord) bool { return r.offset >= to }); i >= 0 {
		return
	}
	m.must(t, m.l.TruncateTo(to))
}

// check reads the log as consumers do.
func (m *cleanModel) check(t *rapid.T) {
	if got := int64(m.l.LogStart()); got != m.start {
		t.Fatalf("log start %d, want %d", got, m.start)
	}
	end, stable := int64(m.l.LogEnd()), int64(m.bounds().LastStable)
	views, err := readAll(m.l, m.start, end, 200)
	m.must(t, err)
	m.checkRange(t, views)
	aborted, err := m.l.AbortedTransactions(m.start, stable)
	m.must(t, err)
	if got, want := m.fold(m.read(t, views, stable, aborted)), m.want(stable); !maps.Equal(got, want) {
		t.Fatalf("committed below %d: %v, want %v\naborted %v", stable, got, want, aborted)
	}
}

func (m *cleanModel) checkRange(t *rapid.T, views []batch.View) {
	next := int64(0)
	for _, v := range views {
		if err := v.Check(); err != nil || v.BaseOffset() < next {
			t.Fatalf("batch at %d after %d: %v", v.BaseOffset(), next, err)
		}
		next = v.NextOffset()
	}
	if end := int64(m.l.LogEnd()); next != end && m.start < end {
		t.Fatalf("batches end at %d, the log at %d", next, end)
	}
}

// read takes the records below an offset, without those of aborted transactions, as a
// consumer does.
func (m *cleanModel) read(t *rapid.T, views []batch.View, upTo int64, aborted []AbortedTxn) (records []keyedRecord) {
	skip := map[int64]bool{}
	aborted = slices.Clone(aborted)
	slices.SortFunc(aborted, func(a, b AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
	for _, v := range views {
		for len(aborted) > 0 && aborted[0].FirstOffset <= v.LastOffset() {
			skip[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		if v.IsControl() {
			if marker, ok, _ := batch.EndTxnMarkerOf(v, nil); ok && marker.Type == batch.ControlAbort {
				delete(skip, v.ProducerID())
			}
			continue
		}
		if v.IsTransactional() && skip[v.ProducerID()] {
			continue
		}
		err := batch.Iterate(v, m.d.o.Codecs, func(r batch.Record) error {
			if r.Offset >= m.start && r.Offset < upTo {
				records = append(records, keyedRecord{offset: r.Offset, key: string(r.Key), value: string(r.Value)})
			}
			return nil
		})
		m.must(t, err)
	}
	return records
}

func (m *cleanModel) fold(records []keyedRecord) map[string]string {
	state := map[string]string{}
	for _, r := range records {
		if state[r.key] = r.value; r.value == "" {
			delete(state, r.key)
		}
	}
	return state
}

// want is what a reader ends with.
func (m *cleanModel) want(upTo int64) map[string]string {
	var records []keyedRecord
	for _, r := range m.history {
		if r.offset >= m.start && r.offset < upTo && !r.aborted {
			records = append(records, r)
		}
	}
	return m.fold(records)
}
