package compaction

import (
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// Indexer fills an OffsetMap from the dirty batches of a log (Cleaner.buildOffsetMap).
// Records of aborted transactions and control records have no say.
type Indexer struct{}

// NewIndexer begins at the first dirty offset, start. The transactions are those aborted
// ones that overlap the range to be indexed.
func NewIndexer(m *OffsetMap, start int64, codecs *batch.Codecs, aborted []segment.AbortedTxn) *Indexer {
	return new(Indexer)
}

// Batch takes in the next batch; batches below start may be given and change nothing. Full
// means that the map has no room for one of its keys: the caller gives no more, and the map's
// Latest is where the cleaning ends. The batch must have passed View.Check; the error is
// that of batch.Iterator.
//
// When a segment has been given whole, the caller calls Reach of the map with the last
// offset before the next segment.
func (x *Indexer) Batch(v batch.View) (full bool, err error) { return false, nil }

// IndexStats is what an Indexer has read.
type IndexStats struct{ MessagesRead, BytesRead int64 }

// Stats is what has been read so far.
func (x *Indexer) Stats() IndexStats { return IndexStats{} }
