package segment

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/klamm-mq/klamm/protocol/batch"
)

// RecoverParams say where to begin.
type RecoverParams struct {
	// FromOffset is an offset below which everything is known to be durable, the indexes
	// included; the base offset or less scans all.
	FromOffset int64
	// OnBatch is called with each good batch that ends at or above FromOffset, in order.
	// The view is valid during the call. It may call AppendAbortedTxn. An error ends the
	// scan and is returned.
	OnBatch func(v batch.View, pos int64) error
}

// Recovered tells what a scan found.
type Recovered struct {
	NextOffset int64 // after the last good batch
	ValidSize  int64 // bytes before the first bad one
	FileSize   int64 // bytes in the file
	Batches    int   // good ones that were scanned
	// Damage is the first bad batch, nil if the file is good to its end. Nothing has
	// been cut off: DropTail does, if the damage is a torn tail. Zeros up to the end of the
	// file are none: they were written ahead (or the file was preallocated, as Kafka can).
	Damage *CorruptionError
}

// Recover reads the log file sequentially, checks every batch from FromOffset on and
// builds their index entries in memory. What the indexes hold below FromOffset is kept,
// if it leads to that offset; else the whole file is checked, so that Damage may lie
// below it. Afterwards the segment ends at ValidSize. If
// batches were scanned, the file counts as unflushed, since what a killed process has
// written may not have reached the disk. It must not run beside readers.
func (s *Segment) Recover(p RecoverParams) (Recovered, error) {
	f, err := s.acquire()
	if err != nil {
		return Recovered{}, fmt.Errorf("recover segment %d: %w", s.base, err)
	}
	defer s.release(f)
	fileSize, err := f.Size()
	if err != nil {
		return Recovered{}, fmt.Errorf("recover segment %d: %w", s.base, err)
	}
	s.resetForRecovery()
	c, start, err := s.contentFrom(f, fileSize, p.FromOffset)
	if err != nil {
		return Recovered{}, fmt.Errorf("recover segment %d: %w", s.base, err)
	}
	if err := s.resetTxns(p.FromOffset); err != nil {
		return Recovered{}, fmt.Errorf("recover segment %d: %w", s.base, err)
	}
	r, err := s.scanAll(&c, f, start, fileSize, p)
	if err != nil {
		return Recovered{}, fmt.Errorf("recover segment %d: %w", s.base, err)
	}
	s.installRecovered(c, start, r)
	if r.ValidSize > start {
		s.MarkUnflushed()
	}
	s.countIndex()
	return r, nil
}

// resetForRecovery forgets what was known, so that nothing of it is used half way.
func (s *Segment) resetForRecovery() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	s.indexGeneration++
	s.content = emptyContent(s.base)
}

// contentFrom returns the content of what lies below an offset, going by the indexes,
// and the position of the first batch that ends at or above it. Where the indexes do not
// lead to such a batch, or the end of the file, it starts from nothing.
func (s *Segment) contentFrom(f *openFile, fileSize, from int64) (content, int64, error) {
	nothing := emptyContent(s.base)
	nothing.offsets.shrunk, nothing.times.shrunk = true, true
	nothing.loaded = true
	if from <= s.base || from-s.base > maxRelativeOffset {
		return nothing, 0, nil
	}
	c := emptyContent(s.base)
	if err := s.readIndexFiles(&c, fileSize); err != nil {
		return content{}, 0, err
	}
	var start int64
	err := s.cutTimes(&c, f, fileSize, from)
	if err == nil {
		c.offsets.cut(offsetEntrySize * (c.offsets.floor(from-1-s.base) + 1))
		start, err = s.walkBelow(&c, f, fileSize, from)
	}
	if errors.Is(err, errUnfit) || isCorrupt(err) {
		return nothing, 0, nil
	}
	return c, start, err
}

// walkBelow notes the batches below an offset, from the last index entry on, and
// returns where the next one begins.
func (s *Segment) walkBelow(c *content, f *openFile, fileSize, from int64) (start int64, err error) {
	indexed := s.startAtLastEntry(c)
	w := s.walkFrom(f, c.indexedPos, fileSize, s.base)
	defer w.close()
	for {
		v, pos, err := w.next()
		if indexed >= 0 && (err != nil || v == nil || v.LastOffset() != indexed) {
			return 0, cmp.Or(err, errUnfit)
		}
		if isCorrupt(err) && c.nextOffset == from {
			return pos, nil // the very first batch to be scanned is bad
		}
		if err != nil {
			return 0, err
		}
		if v == nil && c.times.len() > 0 && c.max.Offset >= c.nextOffset {
			return 0, errUnfit
		}
		if v == nil || v.LastOffset() >= from {
			return pos, nil
		}
		indexed = -1
		c.note(v, pos, s.base, s.opts.IndexIntervalBytes)
	}
}

// resetTxns keeps the aborted transactions that ended below an offset. If the file is
// damaged, none are: the scan finds those from there on.
func (s *Segment) resetTxns(from int64) error {
	x, err := s.readTxns()
	if err != nil {
		return err
	}
	if x.check("", s.base) != nil {
		x.cut(0)
	}
	x.cutFrom(from)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.txns = x
	return nil
}

// scanAll notes and reports the good batches from start on.
func (s *Segment) scanAll(c *content, f *openFile, start, fileSize int64, p RecoverParams) (Recovered, error) {
	r := Recovered{FileSize: fileSize}
	end := min(fileSize, maxSize)
	sc := s.scanFrom(f, start, end, end, max(s.base, c.nextOffset))
	defer sc.close()
	for {
		v, pos, err := sc.next()
		if err != nil && !errors.As(err, &r.Damage) {
			return Recovered{}, err
		}
		if err != nil || v == nil {
			r.ValidSize, r.NextOffset = pos, c.nextOffset
			return r, s.excuseZeros(f, &r)
		}
		c.note(v, pos, s.base, s.opts.IndexIntervalBytes)
		r.Batches++
		if p.OnBatch == nil || v.LastOffset() < p.FromOffset {
			continue
		}
		if err := p.OnBatch(v, pos); err != nil {
			return Recovered{}, err
		}
	}
}

// excuseZeros takes back the damage if it is nothing but zeros up to the end of the file.
func (s *Segment) excuseZeros(f *openFile, r *Recovered) error {
	if r.Damage == nil {
		return nil
	}
	zero, err := zeroFrom(f, r.ValidSize, r.FileSize, &s.opts.Pool.buffers)
	if zero {
		r.Damage = nil
	}
	return err
}

// installRecovered puts what the scan has found in place. Kafka, too, ends a recovered
// time index with the largest timestamp.
func (s *Segment) installRecovered(c content, start int64, r Recovered) {
	c.known = true
	c.noteLastTime(s.base)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.content = c
	s.size, s.tail, s.ahead = r.ValidSize, r.FileSize > r.ValidSize, ahead{}
	s.cold = coldBytes{end: start}
}

// MarkUnflushed makes the log file count as unflushed: an earlier process may have
// changed it without a sync.
func (s *Segment) MarkUnflushed() {
	p := s.opts.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.file.unflushed = true
	s.file.changes++
}
