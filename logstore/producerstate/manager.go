package producerstate

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// lateTransactionSlackMs is how much longer than its timeout a transaction may stay
// open before it counts as late (Kafka's LATE_TRANSACTION_BUFFER_MS).
const lateTransactionSlackMs = 5 * 60 * 1000

// Options describe one partition's producer state.
type Options struct {
	FS  vfs.FS
	Dir string // of the partition
	// Expiration is producer.id.expiration.ms: a producer idle for as long is
	// forgotten, unless it has a transaction open.
	Expiration time.Duration
	// CurrentExpiration is asked instead of Expiration, if it is given: the key may change
	// while the broker runs.
	CurrentExpiration func() time.Duration
}

// Manager is the producer state of one partition.
type Manager struct {
	opts Options

	producers map[int64]*Producer // nil until the first
	ongoing   []txn               // open transactions by first offset
	decided   []txn               // ended ones by first offset, marker not below the high watermark
	snapshots []int64             // offsets of the snapshot files, rising

	endOffset      int64 // the state holds everything below
	snapshotOffset int64 // end of the last snapshot taken or loaded
}

// txn is one transaction; markerOffset is None while it is open.
type txn struct {
	producerID   int64
	firstOffset  int64
	markerOffset int64
}

// CompletedTxn is a transaction that a marker has just ended.
type CompletedTxn struct {
	ProducerID  int64
	FirstOffset int64
	LastOffset  int64 // of the marker
	Aborted     bool
	// LastStableOffset is where the last stable offset will be when the marker is
	// replicated: the next open transaction's first offset, else after the marker.
	// It goes into the transaction index.
	LastStableOffset int64
}

// New returns the state of a partition of which nothing is known yet, at end offset 0.
// Snapshots that exist must be made known by ListSnapshots or SetSnapshots.
func New(o Options) *Manager { return &Manager{opts: o} }

// SetDir follows a rename of the partition directory.
func (m *Manager) SetDir(dir string) { m.opts.Dir = dir }

// Len is the number of known producers.
func (m *Manager) Len() int { return len(m.producers) }

// IsEmpty reports that there is neither a producer nor a transaction that the last
// stable offset waits for.
func (m *Manager) IsEmpty() bool { return len(m.producers) == 0 && len(m.decided) == 0 }

// Producer is what is known of a producer id, nil if nothing. It is valid until the
// next change.
func (m *Manager) Producer(id int64) *Producer { return m.producers[id] }

// Producers yields all known producers in the order of their ids.
func (m *Manager) Producers() iter.Seq[*Producer] {
	return func(yield func(*Producer) bool) {
		for _, id := range slices.Sorted(maps.Keys(m.producers)) {
			if !yield(m.producers[id]) {
				return
			}
		}
	}
}

// EndOffset is the offset up to which batches were taken in (Kafka's mapEndOffset).
func (m *Manager) EndOffset() int64 { return m.endOffset }

// SetEndOffset says that everything below o was taken in; batches without a producer
// id move it, too.
func (m *Manager) SetEndOffset(o int64) { m.endOffset = o }

// Update takes in a batch that was written, and moves EndOffset behind it. Sequences
// and epochs are not looked at: that was Check's task, or the leader's. If the batch is
// the marker that ends a transaction, the transaction is returned; it holds the last
// stable offset back until OnHighWatermark passes the marker. The error is of kind
// InvalidRecord, for a control batch that cannot be read; then nothing has changed.
func (m *Manager) Update(v batch.View) (done CompletedTxn, ended bool, err error) {
	if v.HasProducerID() {
		if v.IsControl() {
			done, ended, err = m.updateMarker(v)
		} else {
			m.updateData(v)
		}
	}
	if err == nil {
		m.endOffset = v.NextOffset()
	}
	return done, ended, err
}

func (m *Manager) updateData(v batch.View) {
	p := m.ensure(v.ProducerID())
	p.setEpoch(v.ProducerEpoch())
	p.addBatch(BatchMeta{
		LastOffset:   v.LastOffset(),
		TimestampMs:  v.MaxTimestamp(),
		LastSequence: v.LastSequence(),
		OffsetDelta:  v.LastOffsetDelta(),
	})
	if v.IsTransactional() && p.TxnFirstOffset == None {
		p.TxnFirstOffset = v.BaseOffset()
		m.ongoing = insertTxn(m.ongoing, txn{producerID: p.ID, firstOffset: v.BaseOffset(), markerOffset: None})
	}
}

func (m *Manager) updateMarker(v batch.View) (done CompletedTxn, ended bool, err error) {
	mark, ok, err := markerOf(v)
	if err != nil || !ok {
		return CompletedTxn{}, false, err
	}
	p := m.ensure(v.ProducerID())
	p.setEpoch(v.ProducerEpoch())
	p.CoordinatorEpoch = mark.CoordinatorEpoch
	p.LastTimestampMs = v.MaxTimestamp()
	if p.TxnFirstOffset == None {
		return CompletedTxn{}, false, nil // an empty transaction moves nothing
	}
	done = CompletedTxn{ProducerID: p.ID, FirstOffset: p.TxnFirstOffset, LastOffset: v.BaseOffset(), Aborted: mark.Type == batch.ControlAbort}
	p.TxnFirstOffset = None
	m.complete(done)
	done.LastStableOffset = done.LastOffset + 1
	if len(m.ongoing) > 0 {
		done.LastStableOffset = m.ongoing[0].firstOffset
	}
	return done, true, nil
}

// complete moves a transaction from the ongoing to the decided ones.
func (m *Manager) complete(done CompletedTxn) {
	i, found := findTxn(m.ongoing, done.FirstOffset)
	invariant.Check(found, "transaction of producer %d at offset %d is not open", done.ProducerID, done.FirstOffset)
	t := m.ongoing[i]
	m.ongoing = slices.Delete(m.ongoing, i, i+1)
	t.markerOffset = done.LastOffset
	m.decided = insertTxn(m.decided, t)
}

func (m *Manager) ensure(id int64) *Producer {
	if p := m.producers[id]; p != nil {
		return p
	}
	if m.producers == nil {
		m.producers = make(map[int64]*Producer)
	}
	p := &Producer{ID: id, Epoch: None, CoordinatorEpoch: None, LastTimestampMs: None, TxnFirstOffset: None}
	m.producers[id] = p
	return p
}

func findTxn(txns []txn, firstOffset int64) (int, bool) {
	return slices.BinarySearchFunc(txns, firstOffset, func(t txn, o int64) int {
		switch {
		case t.firstOffset < o:
			return -1
		case t.firstOffset > o:
			return 1
		default:
			return 0
		}
	})
}

func insertTxn(txns []txn, t txn) []txn {
	i, _ := findTxn(txns, t.firstOffset)
	return slices.Insert(txns, i, t)
}

// FirstUnstableOffset is the first offset of the oldest transaction that is open, or
// ended by a marker that is not below the high watermark; false if there is none. The
// last stable offset is this, or else the high watermark.
func (m *Manager) FirstUnstableOffset() (int64, bool) {
	switch {
	case len(m.ongoing) == 0 && len(m.decided) == 0:
		return None, false
	case len(m.ongoing) == 0:
		return m.decided[0].firstOffset, true
	case len(m.decided) == 0:
		return m.ongoing[0].firstOffset, true
	default:
		return min(m.ongoing[0].firstOffset, m.decided[0].firstOffset), true
	}
}

// FirstUndecidedOffset is the first offset of the oldest open transaction.
func (m *Manager) FirstUndecidedOffset() (int64, bool) {
	if len(m.ongoing) == 0 {
		return None, false
	}
	return m.ongoing[0].firstOffset, true
}

// OnHighWatermark forgets ended transactions whose marker is below the high watermark.
func (m *Manager) OnHighWatermark(highWatermark int64) { m.forgetDecided(highWatermark) }

func (m *Manager) forgetDecided(below int64) {
	if len(m.decided) == 0 {
		return
	}
	m.decided = slices.DeleteFunc(m.decided, func(t txn) bool { return t.markerOffset < below })
}

func (m *Manager) expirationMs() int64 {
	if m.opts.CurrentExpiration != nil {
		return m.opts.CurrentExpiration().Milliseconds()
	}
	return m.opts.Expiration.Milliseconds()
}

// RemoveExpired forgets producers that were idle for the expiration time and have no
// transaction open, and returns how many.
func (m *Manager) RemoveExpired(now time.Time) int {
	nowMs, before := now.UnixMilli(), len(m.producers)
	maps.DeleteFunc(m.producers, func(_ int64, p *Producer) bool {
		return p.expired(nowMs, m.expirationMs())
	})
	return before - len(m.producers)
}

// HasLateTransaction reports whether the oldest open transaction got its last batch
// longer ago than any transaction may take, so that it probably hangs (KIP-664).
func (m *Manager) HasLateTransaction(now time.Time, maxTimeout time.Duration) bool {
	if len(m.ongoing) == 0 {
		return false
	}
	p := m.producers[m.ongoing[0].producerID]
	return p != nil && p.LastTimestampMs > 0 &&
		now.UnixMilli()-p.LastTimestampMs > maxTimeout.Milliseconds()+lateTransactionSlackMs
}
