package segment

import (
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/klamm-mq/klamm/internal/invariant"
)

// AbortedTxn is an entry of the transaction index.
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      int64
	LastOffset       int64 // of the abort marker
	LastStableOffset int64 // when the marker was written
}

// Layout of an entry of the transaction index: version i16 = 0, then the four fields.
const (
	txnVersion   = 0
	txnEntrySize = 34
)

// txnIndex holds the aborted transactions by the offset of their marker. Unlike the
// other indexes it is only read when somebody asks for it; most segments have none.
type txnIndex struct {
	entries
	loaded bool
}

func (x *txnIndex) len() int { return len(x.raw) / txnEntrySize }

func (x *txnIndex) entry(i int) AbortedTxn {
	b, be := x.raw[i*txnEntrySize:], binary.BigEndian
	return AbortedTxn{
		ProducerID:       int64(be.Uint64(b[2:])),
		FirstOffset:      int64(be.Uint64(b[10:])),
		LastOffset:       int64(be.Uint64(b[18:])),
		LastStableOffset: int64(be.Uint64(b[26:])),
	}
}

func (x *txnIndex) add(t AbortedTxn) {
	be := binary.BigEndian
	x.raw = be.AppendUint16(x.raw, txnVersion)
	x.raw = be.AppendUint64(x.raw, uint64(t.ProducerID))
	x.raw = be.AppendUint64(x.raw, uint64(t.FirstOffset))
	x.raw = be.AppendUint64(x.raw, uint64(t.LastOffset))
	x.raw = be.AppendUint64(x.raw, uint64(t.LastStableOffset))
}

// cutFrom drops the transactions whose marker is at or above an offset.
func (x *txnIndex) cutFrom(offset int64) {
	x.cut(txnEntrySize * sort.Search(x.len(), func(i int) bool { return x.entry(i).LastOffset >= offset }))
}

// check returns what is wrong with an index file.
func (x *txnIndex) check(name string, base int64) error {
	bad := func(i int, format string, args ...any) error {
		return &CorruptionError{File: name, Pos: int64(i * txnEntrySize), Reason: fmt.Sprintf(format, args...)}
	}
	last := base - 1
	for i := range x.len() {
		if v := binary.BigEndian.Uint16(x.raw[i*txnEntrySize:]); v != txnVersion {
			return bad(i, "version %d is not known, want %d", v, txnVersion)
		}
		t := x.entry(i)
		if t.LastOffset <= last || t.FirstOffset >= t.LastOffset || t.FirstOffset < 0 {
			return bad(i, "transaction from offset %d to %d follows one that ended at %d", t.FirstOffset, t.LastOffset, last)
		}
		last = t.LastOffset
	}
	if len(x.raw)%txnEntrySize != 0 {
		return bad(x.len(), "%d bytes at the end are no entry", len(x.raw)%txnEntrySize)
	}
	return nil
}

// CheckTxnIndex reads the transaction index file, and returns a *CorruptionError if it
// cannot be right. No marker in it may lie at or above end.
func (s *Segment) CheckTxnIndex(end int64) error {
	x, err := s.readTxns()
	if err != nil {
		return err
	}
	name := s.path(TxnIndexSuffix)
	if err := x.check(name, s.base); err != nil {
		return err
	}
	if n := x.len(); n > 0 && x.entry(n-1).LastOffset >= end {
		return &CorruptionError{
			File: name, Pos: int64((n - 1) * txnEntrySize),
			Reason: fmt.Sprintf("transaction ends at offset %d, the segment at %d", x.entry(n-1).LastOffset, end),
		}
	}
	return nil
}

// ReplaceTxns makes txns, in the order of their markers, the whole of the transaction index,
// durably. After an error it is so in memory.
func (s *Segment) ReplaceTxns(txns []AbortedTxn) error {
	x := txnIndex{entries: entries{shrunk: true}, loaded: true}
	for _, t := range txns {
		x.add(t)
	}
	s.mu.Lock()
	s.txns = x
	s.indexGeneration++
	s.mu.Unlock()
	return s.SyncIndexes()
}

// loadTxns reads the transaction index, if no other goroutine has. It cannot be built
// from the log without producer state, so what is wrong with it is a *CorruptionError:
// whoever has that state calls ReplaceTxns.
func (s *Segment) loadTxns() error {
	s.loadMu.Lock()
	defer s.loadMu.Unlock()
	s.mu.RLock()
	loaded := s.txns.loaded
	s.mu.RUnlock()
	if loaded {
		return nil
	}
	x, err := s.readTxns()
	if err == nil {
		err = x.check(s.path(TxnIndexSuffix), s.base)
	}
	if s.isClosed() {
		return ErrClosed // the file may have been removed, or that of whatever bears the name now
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.txns = x
	return nil
}

// readTxns reads the file without a look at what is in it.
func (s *Segment) readTxns() (txnIndex, error) {
	limit := (s.Size()/minBatchSize + 1) * txnEntrySize
	e, err := readEntries(s.opts.FS, s.path(TxnIndexSuffix), limit)
	if err != nil {
		return txnIndex{}, fmt.Errorf("load transaction index of segment %d: %w", s.base, err)
	}
	e.shrunk = e.shrunk && len(e.raw) > 0 // one that is missing need not be made
	return txnIndex{entries: e, loaded: true}, nil
}

// AppendAbortedTxn adds an entry to the transaction index. Last offsets rise. Like other
// index entries it is in memory until WriteIndexes.
func (s *Segment) AppendAbortedTxn(t AbortedTxn) error {
	if err := s.loadTxns(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.txns.len(); n > 0 {
		last := s.txns.entry(n - 1).LastOffset
		invariant.Check(last < t.LastOffset, "aborted transaction ends at %d after one that ended at %d", t.LastOffset, last)
	}
	s.txns.add(t)
	return nil
}

// AbortedTxns are the aborted transactions that overlap [from, upTo). complete means that
// later segments cannot have more (Kafka's collectAbortedTxns).
func (s *Segment) AbortedTxns(from, upTo int64) (txns []AbortedTxn, complete bool, err error) {
	if err := s.loadTxns(); err != nil {
		return nil, false, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	x := &s.txns
	for i := sort.Search(x.len(), func(i int) bool { return x.entry(i).LastOffset >= from }); i < x.len(); i++ {
		t := x.entry(i)
		if t.FirstOffset < upTo {
			txns = append(txns, t)
		}
		if t.LastStableOffset >= upTo {
			return txns, true, nil
		}
	}
	return txns, false, nil
}

// UpperBoundOffset is an offset that is certainly above everything in the n bytes from
// pos on: that of the first index entry behind them. False if there is none.
func (s *Segment) UpperBoundOffset(pos, n int64) (offset int64, ok bool, err error) {
	if err := s.rlockContent(); err != nil {
		return 0, false, err
	}
	defer s.mu.RUnlock()
	x := &s.content.offsets
	i := x.after(pos + n)
	if i == x.len() {
		return 0, false, nil
	}
	relative, _ := x.entry(i)
	return s.base + relative, true, nil
}
