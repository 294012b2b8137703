package batchtest

import (
	"encoding/binary"
	"fmt"

	"github.com/klamm-mq/klamm/protocol/batch"
)

// CleanParams say how far a log is cleaned.
type CleanParams struct {
	// UpTo is the end of what is cleaned. A batch that ends above it stays as it is, and
	// its records make no older one superfluous.
	UpTo int64
	// TombstonesUpTo is the offset below which tombstones go, too.
	TombstonesUpTo int64
	// KeepEmpty says of a batch that has lost its last record whether it stays, empty;
	// nil: none does.
	KeepEmpty func(v batch.View) bool
	Codecs    *batch.Codecs
}

// Clean is what is left of a row of batches: the newest record of each key, at its offset.
// Records without key go; control batches and those of transactions stay. The batches that
// were given are not changed.
func Clean(batches []batch.View, p CleanParams) []batch.View {
	newest := make(map[string]int64)
	for _, v := range batches {
		if v.NextOffset() <= p.UpTo && !v.IsControl() {
			each(v, p.Codecs, func(r *batch.Record) { newest[string(r.Key)] = r.Offset })
		}
	}
	var left []batch.View
	for _, v := range batches {
		if v.NextOffset() > p.UpTo || v.IsControl() || v.IsTransactional() {
			left = append(left, v)
			continue
		}
		thin := Thin(v, p.Codecs, func(r *batch.Record) bool {
			return r.HasKey && r.Offset == newest[string(r.Key)] && (r.HasValue || r.Offset >= p.TombstonesUpTo)
		})
		if thin.RecordCount() > 0 || p.KeepEmpty != nil && p.KeepEmpty(v) {
			left = append(left, thin)
		}
	}
	return left
}

// Thin is a batch with only those of its records that are to be kept; with none it is
// empty, the header alone.
func Thin(v batch.View, codecs *batch.Codecs, keep func(r *batch.Record) bool) batch.View {
	o := batch.BuilderOptions{
		BaseOffset: v.BaseOffset(), LeaderEpoch: v.LeaderEpoch(), Codec: v.Codec(), LastOffsetDelta: v.LastOffsetDelta(),
		Transactional: v.IsTransactional(), Control: v.IsControl(),
		LogAppendTime: v.IsLogAppendTime(), AppendTimeMs: v.MaxTimestamp(),
	}
	if v.HasProducerID() {
		o.Producer = &batch.Producer{ID: v.ProducerID(), Epoch: v.ProducerEpoch(), BaseSequence: v.BaseSequence()}
	}
	b := batch.NewBuilder(o)
	each(v, codecs, func(r *batch.Record) {
		if keep(r) {
			b.Copy(r.OffsetDelta, r)
		}
	})
	if b.Len() == 0 {
		return Empty(v)
	}
	thin, err := b.Build(codecs)
	if err != nil {
		panic(fmt.Errorf("build a batch anew: %w", err))
	}
	return append(batch.View{}, thin...)
}

// Positions in a batch's header.
const (
	posLength      = 8
	posCRC         = 17
	posAttributes  = 21
	posRecordCount = 57
)

// Empty is the header of a batch alone: no record is left.
func Empty(v batch.View) batch.View {
	e := append(batch.View{}, v[:batch.HeaderSize]...)
	binary.BigEndian.PutUint32(e[posLength:], batch.HeaderSize-batch.PrefixSize)
	e[posAttributes+1] &^= 0x07 // not compressed
	binary.BigEndian.PutUint32(e[posRecordCount:], 0)
	binary.BigEndian.PutUint32(e[posCRC:], e.ComputeCRC())
	return e
}

// each calls fn with each record of a batch, which must be whole.
func each(v batch.View, codecs *batch.Codecs, fn func(r *batch.Record)) {
	it := batch.NewIterator(v, codecs)
	defer it.Close()
	for it.Next() {
		fn(&it.Record)
	}
	if err := it.Err(); err != nil {
		panic(fmt.Errorf("read a batch: %w", err))
	}
}
