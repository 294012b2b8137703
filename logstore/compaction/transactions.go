package compaction

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// transactions follows the transactions of a log from batch to batch (Kafka's
// CleanedTransactionMetadata).
//
//	pending ── a batch reaches its first offset ──► aborted ── its marker ──► kept, if a
//	                                                                          batch was seen
type transactions struct {
	codecs  *batch.Codecs
	pending []segment.AbortedTxn // by first offset; their first batch is still to come
	aborted map[int64]*ongoing   // by producer
	// committed are the producers with a batch of a transaction that was not aborted, as
	// far as is known, whose marker is still to come.
	committed map[int64]struct{}
	kept      []segment.AbortedTxn
}

// ongoing is an aborted transaction whose marker is still to come.
type ongoing struct {
	txn  segment.AbortedTxn
	seen bool // a batch of it is there, with records or without
}

func newTransactions(codecs *batch.Codecs) transactions {
	return transactions{codecs: codecs, aborted: map[int64]*ongoing{}, committed: map[int64]struct{}{}}
}

// add makes aborted transactions known.
func (t *transactions) add(txns []segment.AbortedTxn) {
	t.pending = append(t.pending, txns...)
	slices.SortStableFunc(t.pending, func(a, b segment.AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
}

// read takes in the next batch and reports whether its records can go because of
// transactions: those of an aborted one, or a marker of which all batches have gone.
func (t *transactions) read(v batch.View) (discard bool, err error) {
	t.begin(v)
	if v.IsControl() {
		return t.marker(v)
	}
	if !v.IsTransactional() {
		return false, nil
	}
	if o, ok := t.aborted[v.ProducerID()]; ok && !o.overBefore(v) {
		o.seen = true
		return true, nil
	}
	t.committed[v.ProducerID()] = struct{}{}
	return false, nil
}

// begin moves the transactions that v reaches from pending to aborted. A transaction may be
// pending twice, having been found by two segments; only the first counts, unless that one's
// marker was to come before v and did not.
func (t *transactions) begin(v batch.View) {
	for len(t.pending) > 0 && t.pending[0].FirstOffset <= v.LastOffset() {
		txn := t.pending[0]
		t.pending = t.pending[1:]
		if o, ok := t.aborted[txn.ProducerID]; !ok || o.overBefore(v) {
			t.aborted[txn.ProducerID] = &ongoing{txn: txn}
		}
	}
}

// overBefore reports whether the transaction's marker lies, or lay, before v.
func (o *ongoing) overBefore(v batch.View) bool { return o.txn.LastOffset < v.BaseOffset() }

// marker takes in a control batch. One without records has been cleaned before.
func (t *transactions) marker(v batch.View) (discard bool, err error) {
	it := batch.NewIterator(v, t.codecs)
	defer it.Close()
	if !it.Next() {
		return it.Err() == nil, it.Err()
	}
	kind, err := batch.ControlTypeOf(it.Record.Key)
	if err != nil {
		return false, fmt.Errorf("control batch at offset %d: %w", v.BaseOffset(), err)
	}
	switch kind {
	case batch.ControlAbort:
		return !t.end(v), nil
	case batch.ControlCommit:
		return !t.forget(v.ProducerID()), nil
	default:
		return false, nil
	}
}

// end takes in an abort marker and reports whether it is still needed. One of which the
// transaction index does not know is needed as long as there are batches that seem to be
// committed, since with it the index can be made again.
func (t *transactions) end(marker batch.View) (needed bool) {
	id := marker.ProducerID()
	o, ok := t.aborted[id]
	delete(t.aborted, id)
	if !ok || o.overBefore(marker) {
		return t.forget(id)
	}
	if o.seen {
		o.txn.LastOffset = marker.LastOffset() // the index has no checksum, and its order must be right
		t.kept = append(t.kept, o.txn)
	}
	return o.seen
}

func (t *transactions) forget(producerID int64) (known bool) {
	_, known = t.committed[producerID]
	delete(t.committed, producerID)
	return known
}
