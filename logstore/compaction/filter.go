package compaction

import (
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
type Filter struct{}

// NewFilter makes a filter for one cleaning.
func NewFilter(o FilterOptions) *Filter { return new(Filter) }

// AddAborted makes aborted transactions known: of each segment, before its batches, those
// that overlap it. Ones that are known already may come again.
func (f *Filter) AddAborted(txns []segment.AbortedTxn) {}

// Batch returns what is kept of v: v itself, or a batch written anew, which is valid until
// the next call, or nil. Last says that v is the last batch of the segment that is written:
// it is kept, without records if need be. The batch must have passed View.Check; the error
// is that of batch.Iterator, or of the codec.
func (f *Filter) Batch(v batch.View, last bool) (batch.View, error) { return v, nil }

// Aborted is the transaction index of what was kept since the last call: the transactions
// whose markers are kept and of which there are batches, in the order of the markers. Called
// once for each segment that is written, at its end.
func (f *Filter) Aborted() []segment.AbortedTxn { return nil }

// Stats is what has been read and kept so far.
func (f *Filter) Stats() Stats { return Stats{} }

// Stats counts as Kafka's CleanerStats does: records of batches that are dropped without a
// look into them are in BytesRead alone.
type Stats struct {
	MessagesRead, BytesRead int64
	MessagesKept, BytesKept int64
	// Invalid is the number of records without key, which a compacted topic refuses.
	Invalid int64
}
