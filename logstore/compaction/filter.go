package compaction

import (
	"bytes"
	"fmt"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// LastRecord is what must not be lost of an active producer (Kafka's class of that name).
type LastRecord struct {
	// LastDataOffset is the last offset of its newest batch, -1 if a marker is all that is
	// known of it.
	LastDataOffset int64
	Epoch          int16
}

// FilterOptions is what one cleaning of a log goes by.
type FilterOptions struct {
	Map *OffsetMap
	// NowMs is the time at which the cleaning began, DeleteRetentionMs the topic's
	// delete.retention.ms.
	NowMs, DeleteRetentionMs int64
	// Producers are the active ones. The map is only read. Taken when cleaning begins:
	// one that is older keeps more than needed.
	Producers     map[int64]LastRecord
	HighWatermark int64
	Codecs        *batch.Codecs
}

// Filter goes through a log from its start and says what is kept of each batch
// (Cleaner.cleanInto and MemoryRecords.filterTo). One Filter serves all segments of one
// cleaning in their order: it follows transactions from one into the next.
type Filter struct {
	o      FilterOptions
	txns   transactions
	kept   kept
	writer batch.Retainer
	stats  Stats
}

// NewFilter makes a filter for one cleaning.
func NewFilter(o FilterOptions) *Filter {
	f := &Filter{o: o, txns: newTransactions(o.Codecs)}
	f.kept.ask = f.kept.has
	return f
}

// AddAborted makes aborted transactions known: of each segment, before its batches, those
// that overlap it. Ones that are known already may come again.
func (f *Filter) AddAborted(txns []segment.AbortedTxn) { f.txns.add(txns) }

// Batch returns what is kept of v: v itself, or a batch written anew, which is valid until
// the next call, or nil. Last says that v is the last batch of the segment that is written:
// it is kept, without records if need be. The batch must have passed View.Check; the error
// is that of batch.Iterator, or of the codec.
func (f *Filter) Batch(v batch.View, last bool) (batch.View, error) {
	f.stats.BytesRead += int64(len(v))
	out, err := f.batch(v, last)
	if err != nil {
		return nil, fmt.Errorf("clean batch at offset %d: %w", v.BaseOffset(), err)
	}
	f.stats.BytesKept += int64(len(out))
	return out, nil
}

func (f *Filter) batch(v batch.View, last bool) (batch.View, error) {
	discard, err := f.txns.read(v)
	if err != nil {
		return nil, err
	}
	emptyTxn := discard && v.IsControl()
	if emptyTxn {
		discard = f.expired(v)
	}
	border := f.isBorder(v)
	f.kept.begin()
	switch {
	case discard && !last && !border:
		return nil, nil
	case discard:
		f.stats.MessagesRead += int64(v.RecordCount())
	default:
		if err := f.choose(v); err != nil {
			return nil, err
		}
	}
	if f.kept.n == 0 {
		return f.empty(v, last, border), nil
	}
	return f.write(v, emptyTxn)
}

// empty is what is kept of a batch of which no record is. As the last one of its segment it
// says of its offsets alone that there were such: Kafka has no batch there, and nobody is to
// look in it for the largest timestamp.
func (f *Filter) empty(v batch.View, last, border bool) batch.View {
	maxTimestampMs := v.MaxTimestamp()
	switch {
	case !last && !border:
		return nil
	case !border:
		maxTimestampMs = batch.NoTimestamp
	}
	out := f.writer.Empty(v, maxTimestampMs)
	if bytes.Equal(out, v) {
		return v
	}
	return out
}

// expired reports whether the batch has a delete horizon, and it has been reached.
func (f *Filter) expired(v batch.View) bool {
	horizonMs, ok := v.DeleteHorizonMs()
	return ok && f.o.NowMs >= horizonMs
}

// isBorder reports whether v must stay, without records if need be. A. It is the newest
// batch of an active producer, whose last sequence it bears. B. It is a marker in the epoch
// of an active producer of which no other batch is known: fencing needs the epoch. C. It ends
// at the high watermark, and with it the log would seem to end before.
func (f *Filter) isBorder(v batch.View) bool {
	if r, ok := f.o.Producers[v.ProducerID()]; ok {
		if r.LastDataOffset >= 0 && v.LastOffset() == r.LastDataOffset { // A
			return true
		}
		if r.LastDataOffset < 0 && v.IsControl() && v.ProducerEpoch() == r.Epoch { // B
			return true
		}
	}
	return v.NextOffset() == f.o.HighWatermark // C
}

// choose notes the records that are kept.
func (f *Filter) choose(v batch.View) error {
	it := batch.NewIterator(v, f.o.Codecs)
	defer it.Close()
	expired := f.expired(v)
	for it.Next() {
		f.stats.MessagesRead++
		f.kept.note(&it.Record, v.IsControl() || f.retains(&it.Record, expired))
	}
	return it.Err()
}

// retains reports whether a data record is kept (Cleaner.shouldRetainRecord); expired says
// that the tombstones of its batch may go.
func (f *Filter) retains(r *batch.Record, expired bool) bool {
	switch {
	case r.Offset > f.o.Map.Latest():
		return true
	case !r.HasKey:
		f.stats.Invalid++
		return false
	case !r.HasValue && expired:
		return false
	default:
		return r.Offset >= f.o.Map.Get(r.Key)
	}
}

// write makes the batch of the records that are kept, one at least. The first time that there
// are tombstones among them, or that v is the marker of an empty transaction, they get their
// delete horizon.
func (f *Filter) write(v batch.View, emptyTxn bool) (batch.View, error) {
	f.stats.MessagesKept += int64(f.kept.n)
	horizonMs, has := v.DeleteHorizonMs()
	newHorizon := !has && (emptyTxn || f.kept.tombstone)
	switch {
	case newHorizon:
		horizonMs = f.o.NowMs + f.o.DeleteRetentionMs
	case f.kept.n == f.kept.asked:
		return v, nil
	case !has:
		horizonMs = batch.NoDeleteHorizon
	}
	return f.writer.Retain(f.o.Codecs, v, f.kept.ask, horizonMs)
}

// Aborted is the transaction index of what was kept since the last call: the transactions
// whose markers are kept and of which there are batches, in the order of the markers. Called
// once for each segment that is written, at its end.
func (f *Filter) Aborted() []segment.AbortedTxn {
	txns := f.txns.kept
	f.txns.kept = nil
	return txns
}

// Stats is what has been read and kept so far.
func (f *Filter) Stats() Stats { return f.stats }

// Stats counts as Kafka's CleanerStats does: records of batches that are dropped without a
// look into them are in BytesRead alone.
type Stats struct {
	MessagesRead, BytesRead int64
	MessagesKept, BytesKept int64
	// Invalid is the number of records without key, which a compacted topic refuses.
	Invalid int64
}

// kept says which records of a batch are kept, a bit for each.
type kept struct {
	bits      []uint64
	asked, n  int32
	tombstone bool // one of them is
	ask       func(int32) bool
}

func (k *kept) begin() {
	k.bits, k.asked, k.n, k.tombstone = k.bits[:0], 0, 0, false
}

// note says of the next record whether it is kept.
func (k *kept) note(r *batch.Record, keep bool) {
	if k.asked%64 == 0 {
		k.bits = append(k.bits, 0)
	}
	if keep {
		k.bits[k.asked/64] |= 1 << (k.asked % 64)
		k.n++
		k.tombstone = k.tombstone || !r.HasValue
	}
	k.asked++
}

func (k *kept) has(i int32) bool { return k.bits[i/64]&(1<<(i%64)) != 0 }
