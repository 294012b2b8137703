package logstore

import (
	"fmt"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/logstore/producerstate"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// Values of Log.unstable.
const (
	txnsUnknown int32 = iota // the producers' state has not been loaded
	noTxns
	someTxns // open, or ended above the high watermark
)

// loadProducers brings the producers' state into memory: the newest snapshot, and the
// batches behind it. It happens when the log is first changed, or first asked for its
// last stable offset. Callers hold writer.
func (l *Log) loadProducers(now time.Time) error {
	if l.loaded {
		return nil
	}
	l.mu.RLock()
	start, end := l.marks.start, l.marks.end
	l.mu.RUnlock()
	if err := l.loadProducersUpTo(now, start, end); err != nil {
		return err
	}
	l.loaded = true
	l.noteProducers()
	return nil
}

// loadProducersUpTo loads the state as of an offset. A log without any snapshot that
// was closed cleanly has never seen a producer (Kafka's rule in rebuildProducerState,
// which spares an upgraded log a scan of all of it).
func (l *Log) loadProducersUpTo(now time.Time, start, end int64) error {
	if _, ok := l.producers.LatestSnapshot(); !ok && l.openedClean {
		l.producers.SetEndOffset(end)
		return nil
	}
	if err := l.producers.Load(start, end, now); err != nil {
		return l.readError("load producers of", err)
	}
	l.checkBackup()
	return l.replayProducers(l.producers.EndOffset(), end)
}

// checkBackup: a snapshot that could not be read is gone.
func (l *Log) checkBackup() {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, there := &l.recovery, l.producers.Snapshots()
	r.backed = r.backed && slices.Contains(there, r.point)
	if !slices.Contains(there, r.backup) {
		r.backup = noPending
	}
}

// replayProducers takes in the batches of [from, end), the one that from lies in
// included: that is the log start then, since snapshots lie between batches. The
// transaction index has what they say about it already.
func (l *Log) replayProducers(from, end int64) error {
	segs := l.segments()
	for i := max(floor(segs, from), 0); i < len(segs) && segs[i].BaseOffset() < end; i++ {
		err := segs[i].ForEachBatch(from, end, func(v batch.View, _ int64) error {
			l.updateProducers(v)
			return nil
		})
		if err != nil {
			return l.readError("load producers of", err)
		}
	}
	l.producers.SetEndOffset(end)
	return nil
}

// noteProducers keeps where readers find it without a lock how many producers are known,
// and the answer to "does the last stable offset differ from the high watermark".
func (l *Log) noteProducers() {
	l.producerCount.Store(int64(l.producers.Len()))
	state := noTxns
	if _, ok := l.producers.FirstUnstableOffset(); ok {
		state = someTxns
	}
	if l.unstable.Load() != state {
		l.unstable.Store(state)
	}
}

// LastStable is the bound of read_committed readers: the first offset of a transaction
// that is open, or ended above the high watermark; the high watermark if there is none.
// A log whose producers cannot be loaded has failed; its bound is the log start.
func (l *Log) LastStable(hw offset.HighWatermark) offset.LastStable {
	if l.unstable.Load() == noTxns {
		return offset.LastStable(hw)
	}
	l.writer.Lock()
	defer l.writer.Unlock()
	start := int64(l.LogStart())
	if err := l.usable(); err != nil {
		return offset.LastStable(start)
	}
	if err := l.loadProducers(time.Time{}); err != nil {
		return offset.LastStable(start)
	}
	l.producers.OnHighWatermark(int64(hw))
	l.noteProducers()
	first, ok := l.producers.FirstUnstableOffset()
	if !ok {
		return offset.LastStable(hw)
	}
	return offset.LastStable(min(max(first, start), int64(hw)))
}

// ProducerCount is how many producers the log keeps in memory, 0 before they are loaded.
func (l *Log) ProducerCount() int { return int(l.producerCount.Load()) }

// Producers describes the producers known, for DescribeProducers. It loads them first.
func (l *Log) Producers(now time.Time) ([]ProducerInfo, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	l.writer.Lock()
	defer l.writer.Unlock()
	if err := l.loadProducers(now); err != nil {
		return nil, fmt.Errorf("describe producers of %s: %w", l.id, err)
	}
	var infos []ProducerInfo
	for p := range l.producers.Producers() {
		infos = append(infos, producerInfo(p))
	}
	return infos, nil
}

// ProducerInfo is what a partition knows of one producer; -1 where it knows nothing.
type ProducerInfo struct {
	ProducerID       int64
	Epoch            int16
	LastSequence     int32
	LastTimestampMs  int64
	CoordinatorEpoch int32
	TxnFirstOffset   int64
}

func producerInfo(p *producerstate.Producer) ProducerInfo {
	return ProducerInfo{
		ProducerID: p.ID, Epoch: p.Epoch, LastSequence: p.LastSequence(), LastTimestampMs: p.LastTimestampMs,
		CoordinatorEpoch: p.CoordinatorEpoch, TxnFirstOffset: p.TxnFirstOffset,
	}
}

// expireProducers forgets producers that have been idle for producer.id.expiration.ms.
func (d *Dir) expireProducers(now time.Time) {
	for _, l := range d.everyLog() {
		l.writer.Lock()
		if l.loaded && l.producers.RemoveExpired(now) > 0 {
			l.noteProducers()
		}
		l.writer.Unlock()
	}
}
