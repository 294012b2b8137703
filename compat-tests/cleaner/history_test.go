package cleaner

import (
	"fmt"
	"math/rand/v2"

	"github.com/klamm-mq/klamm/logstore/compaction"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// history is a log, and what is known of it.
type history struct {
	r         *rand.Rand
	codecs    *batch.Codecs
	segments  []*part
	end       int64
	nowMs     int64
	producers map[int64]*producer
	// options of its cleanings
	retentionMs int64
}

// part is one segment.
type part struct {
	base, next int64
	log        []byte
	aborted    []segment.AbortedTxn // its transaction index
}

type producer struct {
	epoch    int16
	lastData int64
	seq      int32
	first    int64 // of its open transaction, or -1
}

// randomHistory is a log in which all transactions have ended.
func randomHistory(seed uint64, codecs *batch.Codecs) *history {
	h := &history{
		r: rand.New(rand.NewPCG(seed, 7)), codecs: codecs, nowMs: 1000, producers: map[int64]*producer{},
	}
	h.retentionMs = h.r.Int64N(3) * 40
	for range 1 + h.r.IntN(4) {
		h.segments = append(h.segments, &part{base: h.end})
		for range 1 + h.r.IntN(12) {
			h.step()
		}
		h.last().next = h.end
	}
	for id, p := range h.producers {
		if p.first >= 0 {
			h.endTxn(id, p)
		}
	}
	h.last().next = h.end
	return h
}

func (h *history) last() *part { return h.segments[len(h.segments)-1] }

func (h *history) step() {
	h.nowMs += h.r.Int64N(10)
	id := h.r.Int64N(6) - 2
	if h.r.IntN(20) == 0 {
		h.end += h.r.Int64N(5) // offsets that are not there any more
	}
	p := h.producers[id]
	switch {
	case id < 0:
		h.append(batch.BuilderOptions{})
	case p == nil:
		h.producers[id] = &producer{epoch: int16(h.r.IntN(3)), lastData: -1, first: -1}
	case h.r.IntN(3) == 0:
		h.endTxn(id, p)
	default:
		h.appendOf(id, p)
	}
}

func (h *history) appendOf(id int64, p *producer) {
	o := batch.BuilderOptions{
		Producer:      &batch.Producer{ID: id, Epoch: p.epoch, BaseSequence: p.seq},
		Transactional: p.first >= 0 || h.r.IntN(2) == 0,
	}
	if o.Transactional && p.first < 0 {
		p.first = h.end
	}
	p.seq += h.append(o)
	p.lastData = h.end - 1
}

// append adds a batch and returns how many offsets it has. Some have gaps or a delete
// horizon, as a cleaned one has.
func (h *history) append(o batch.BuilderOptions) int32 {
	o.Codec = batch.Codec(max(h.r.IntN(8)-3, 0))
	o.LeaderEpoch = int32(h.r.IntN(5))
	if h.r.IntN(4) == 0 {
		o.LogAppendTime, o.AppendTimeMs = true, h.nowMs
	}
	if h.r.IntN(6) == 0 {
		o.DeleteHorizonMs = h.nowMs + h.r.Int64N(100)
	}
	b := batch.NewBuilder(o)
	delta := int32(0)
	for range 1 + h.r.IntN(7) {
		b.AppendAt(delta, h.record())
		delta += int32(1 + h.r.IntN(9)/8)
	}
	if h.r.IntN(8) == 0 {
		o.LastOffsetDelta = delta + 2
		b = rebuilt(b, o, h)
	}
	v, err := b.Build(h.codecs)
	if err != nil {
		panic(err)
	}
	h.add(v)
	return v.LastOffsetDelta() + 1
}

// rebuilt is the batch of a builder with other options.
func rebuilt(b *batch.Builder, o batch.BuilderOptions, h *history) *batch.Builder {
	v, err := b.Build(h.codecs)
	if err != nil {
		panic(err)
	}
	again := batch.NewBuilder(o)
	if err := batch.Iterate(v, h.codecs, func(r batch.Record) error {
		again.Copy(r.OffsetDelta, &r)
		return nil
	}); err != nil {
		panic(err)
	}
	return again
}

func (h *history) add(v batch.View) {
	v.SetBaseOffset(h.end)
	h.last().log = append(h.last().log, v...)
	h.end = v.NextOffset()
}

func (h *history) record() batch.NewRecord {
	r := batch.NewRecord{TimestampMs: h.nowMs - h.r.Int64N(50)}
	switch h.r.IntN(12) {
	case 0: // no key
	case 1:
		r.Key = []byte{}
	case 2:
		r.Key = []byte{0, 0, 0, byte(h.r.IntN(2))} // as a marker's
	default:
		r.Key = fmt.Append(nil, "key-", h.r.IntN(8))
	}
	if h.r.IntN(3) > 0 {
		r.Value = fmt.Append(nil, "value-", h.r.IntN(1000))[:h.r.IntN(8)]
	}
	for range h.r.IntN(3) * h.r.IntN(2) {
		header := batch.Header{Key: "h"}
		if h.r.IntN(2) == 0 {
			header.Value = []byte("x")
		}
		r.Headers = append(r.Headers, header)
	}
	return r
}

// endTxn adds a marker, which may raise the epoch, also where no transaction is open.
func (h *history) endTxn(id int64, p *producer) {
	if h.r.IntN(3) == 0 {
		p.epoch, p.lastData, p.seq = p.epoch+1, -1, 0
	}
	kind := batch.ControlType(h.r.IntN(2))
	first := p.first
	p.first = -1
	at := h.end
	h.add(batch.NewEndTxnMarker(h.nowMs, id, p.epoch, batch.EndTxnMarker{Type: kind, CoordinatorEpoch: 3}))
	if kind == batch.ControlAbort && first >= 0 {
		h.last().aborted = append(h.last().aborted, segment.AbortedTxn{
			ProducerID: id, FirstOffset: first, LastOffset: at, LastStableOffset: h.stable(),
		})
	}
}

func (h *history) stable() int64 {
	stable := h.end
	for _, p := range h.producers {
		if p.first >= 0 {
			stable = min(stable, p.first)
		}
	}
	return stable
}

// abortedIn is UnifiedLog.collectAbortedTransactions.
func (h *history) abortedIn(from, upTo int64) (txns []segment.AbortedTxn) {
	for _, p := range h.segments {
		for _, t := range p.aborted {
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

// round is how one cleaning goes.
type round struct {
	firstDirty             int64
	keys                   int
	nowMs, retentionMs, hw int64
	producers              map[int64]compaction.LastRecord
}

func (h *history) round(firstDirty int64) round {
	x := round{
		firstDirty: firstDirty, keys: 1 + h.r.IntN(14), nowMs: h.nowMs + h.r.Int64N(80), retentionMs: h.retentionMs,
		hw: h.end, producers: map[int64]compaction.LastRecord{},
	}
	if h.r.IntN(4) == 0 {
		x.hw = h.r.Int64N(h.end + 1)
	}
	h.nowMs = x.nowMs
	for id, p := range h.producers {
		if h.r.IntN(5) > 0 { // else it has expired
			x.producers[id] = compaction.LastRecord{LastDataOffset: p.lastData, Epoch: p.epoch}
		}
	}
	return x
}
