package logstore

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/klamm-mq/klamm/logstore/producerstate"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// Transaction indexes have no checksum, and unlike the others they cannot be built again
// from their segment alone: which transactions were open when it began stands in the
// producers' state. Each one there is (few segments have any) is looked at when its log is
// opened, as in Kafka; one that is damaged is built again. To fail the log instead would
// take records away that are all there.

// mendTransactionIndexes builds the damaged ones again. Callers have set the log's segments
// and end.
func (o *opening) mendTransactionIndexes() error {
	for i, s := range o.l.segs {
		if !slices.Contains(o.txnIndexes, s.BaseOffset()) {
			continue
		}
		end := o.l.marks.end
		if i+1 < len(o.l.segs) {
			end = o.l.segs[i+1].BaseOffset()
		}
		damage := o.checkTransactionIndex(s, end)
		var bad *segment.CorruptionError
		switch {
		case damage == nil:
			continue
		case !errors.As(damage, &bad):
			return unreadable(s.Path(), damage)
		}
		o.d.o.Logger.Error("transaction index is built again", "log", o.l.path, "err", damage)
		if err := o.rebuildTransactionIndex(s, end); err != nil {
			return err
		}
	}
	return nil
}

// checkTransactionIndex looks at the file, whatever the scan has made of it. After a crash it
// may end with leftovers, and nobody can tell a torn tail from a damaged entry.
func (o *opening) checkTransactionIndex(s *segment.Segment, end int64) error {
	if !o.clean && end > o.from {
		end = math.MaxInt64 // scanned: what lies above the recovery point has been replaced
	}
	return s.CheckTxnIndex(end)
}

// rebuildTransactionIndex finds the aborted transactions whose markers lie in a segment that
// ends at end. It has a producers' state of its own, which knows the snapshots up to there
// only: the log's must not lose the later ones.
func (o *opening) rebuildTransactionIndex(s *segment.Segment, end int64) error {
	l, base := o.l, max(s.BaseOffset(), o.l.marks.start)
	p := producerstate.New(producerstate.Options{FS: o.d.o.FS, Dir: l.path, CurrentExpiration: o.d.producerIDExpiration})
	p.SetSnapshots(slices.DeleteFunc(slices.Clone(l.producers.Snapshots()), func(at int64) bool { return at > base }))
	if err := p.Load(l.marks.start, base, o.now); err != nil {
		return unreadable(l.path, fmt.Errorf("load producers as of offset %d: %w", base, err))
	}
	var aborted []segment.AbortedTxn
	from := p.EndOffset()
	for i := max(floor(l.segs, from), 0); i < len(l.segs) && l.segs[i].BaseOffset() < end; i++ {
		err := l.segs[i].ForEachBatch(from, end, func(v batch.View, _ int64) error {
			done, ended, err := p.Update(v)
			if err == nil && ended && done.Aborted && done.LastOffset >= s.BaseOffset() {
				aborted = append(aborted, abortedTxn(done))
			}
			return nil // a control batch that cannot be read says nothing about producers
		})
		if err != nil {
			return unreadable(l.segs[i].Path(), err)
		}
	}
	if err := s.ReplaceTxns(aborted); err != nil && !isNoSpace(err) { // in memory it is whole
		return err
	}
	o.mended = append(o.mended, s)
	return nil
}
