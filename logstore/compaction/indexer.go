package compaction

import (
	"fmt"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// Indexer fills an OffsetMap from the dirty batches of a log (Cleaner.buildOffsetMap).
// Records of aborted transactions and control records have no say.
type Indexer struct {
	m     *OffsetMap
	start int64
	txns  transactions
	stats IndexStats
}

// NewIndexer begins at the first dirty offset, start. The transactions are those aborted
// ones that overlap the range to be indexed.
func NewIndexer(m *OffsetMap, start int64, codecs *batch.Codecs, aborted []segment.AbortedTxn) *Indexer {
	x := &Indexer{m: m, start: start, txns: newTransactions(codecs)}
	x.txns.add(aborted)
	return x
}

// Batch takes in the next batch; batches below start may be given and change nothing. Full
// means that the map has no room for one of its keys: the caller gives no more, and the map's
// Latest is where the cleaning ends. The batch must have passed View.Check; the error is
// that of batch.Iterator.
//
// When a segment has been given whole, the caller calls Reach of the map with the last
// offset before the next segment.
func (x *Indexer) Batch(v batch.View) (full bool, err error) {
	x.stats.BytesRead += int64(len(v))
	aborted, err := x.txns.read(v)
	if err != nil {
		return false, fmt.Errorf("index: %w", err)
	}
	switch {
	case v.IsControl():
		x.stats.MessagesRead++
	case aborted:
		x.stats.MessagesRead += int64(v.RecordCount())
	default:
		if full, err = x.records(v); full || err != nil {
			return full, err
		}
	}
	if v.LastOffset() >= x.start {
		x.m.Reach(v.LastOffset())
	}
	return false, nil
}

func (x *Indexer) records(v batch.View) (full bool, err error) {
	it := batch.NewIterator(v, x.txns.codecs)
	defer it.Close()
	for it.Next() {
		r := &it.Record
		if r.HasKey && r.Offset >= x.start && !x.m.Put(r.Key, r.Offset) {
			return true, nil
		}
		x.stats.MessagesRead++
	}
	if err := it.Err(); err != nil {
		return false, fmt.Errorf("index batch at offset %d: %w", v.BaseOffset(), err)
	}
	return false, nil
}

// IndexStats is what an Indexer has read. As in Kafka, a control batch is one message, even
// one without records.
type IndexStats struct{ MessagesRead, BytesRead int64 }

// Stats is what has been read so far.
func (x *Indexer) Stats() IndexStats { return x.stats }
