package segment

import (
	"fmt"
	"time"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// Append writes whole batches, which must continue the segment, with exactly one
// WriteAt. Their CRC was checked by the caller. After an error nothing was appended:
// what a failed write left behind the end is cut off, now or before the next append.
// Errors are ErrOffsetOverflow, ErrClosed, or the file system's, wrapped.
func (s *Segment) Append(now time.Time, records []byte) error {
	next, err := s.NextOffset()
	if err != nil {
		return err
	}
	if err := s.checkAppend(records, next); err != nil {
		return err
	}
	f, err := s.acquireToWrite()
	if err != nil {
		return fmt.Errorf("append to segment %d: %w", s.base, err)
	}
	defer s.releaseWritten(f)
	pos := s.Size()
	if err := s.write(f, records, pos); err != nil {
		return fmt.Errorf("append to segment %d: %w", s.base, err)
	}
	return s.appended(now, records, pos)
}

// checkAppend asserts that records are whole batches with rising offsets from next on.
func (s *Segment) checkAppend(records []byte, next int64) error {
	invariant.Check(len(records) > 0, "empty append to segment %d", s.base)
	for rest := records; len(rest) > 0; {
		v, tail, err := batch.Next(rest)
		invariant.Check(err == nil, "append of %d bytes to segment %d: %v", len(records), s.base, err)
		if v.LastOffset()-s.base > maxRelativeOffset {
			return fmt.Errorf("offset %d in segment %d: %w", v.LastOffset(), s.base, ErrOffsetOverflow)
		}
		invariant.Check(next <= v.BaseOffset() && v.LastOffsetDelta() >= 0,
			"append of offsets %d to %d to segment %d, which ends at %d", v.BaseOffset(), v.LastOffset(), s.base, next)
		next, rest = v.NextOffset(), tail
	}
	return nil
}

// write puts records at pos, the end of the segment. If that fails, the file is cut to
// what it was, so that a full disk leaves the last whole batch.
func (s *Segment) write(f *openFile, records []byte, pos int64) error {
	invariant.Check(pos+int64(len(records)) <= maxSize, "append of %d bytes to segment %d of %d bytes", len(records), s.base, pos)
	if err := s.dropTail(f); err != nil {
		return err
	}
	_, err := f.WriteAt(records, pos)
	if err != nil {
		s.mu.Lock()
		s.tail = true
		s.mu.Unlock()
		_ = s.dropTail(f) // else before the next append
	}
	return err
}

// dropTail cuts the file to the segment's size if there is something behind.
func (s *Segment) dropTail(f *openFile) error {
	s.mu.RLock()
	tail, size := s.tail, s.size
	s.mu.RUnlock()
	if !tail {
		return nil
	}
	return s.cutTo(f, size)
}

// cutTo cuts the file to the segment's size.
func (s *Segment) cutTo(f *openFile, size int64) error {
	if err := f.Truncate(size); err != nil {
		return fmt.Errorf("cut log file to %d bytes: %w", size, err)
	}
	s.mu.Lock()
	s.tail, s.ahead.end, s.ahead.reserved = false, 0, 0
	s.mu.Unlock()
	return nil
}

// DropTail cuts the log file to the segment's size: what Recover found bad, what a failed
// append left, and what was written or reserved ahead is gone. Nothing is synced.
func (s *Segment) DropTail() error {
	s.mu.RLock()
	tail, size := s.tail || max(s.ahead.end, s.ahead.reserved) > s.size, s.size
	s.mu.RUnlock()
	if !tail || s.opts.ReadOnly {
		return nil
	}
	f, err := s.acquireToWrite()
	if err != nil {
		return err
	}
	defer s.releaseWritten(f)
	return s.cutTo(f, size)
}

// appended makes written batches visible.
func (s *Segment) appended(now time.Time, records []byte, pos int64) error {
	if err := s.lockContent(); err != nil {
		s.mu.Lock()
		s.tail = true // written, but not appended
		s.mu.Unlock()
		return err
	}
	defer s.mu.Unlock()
	for len(records) > 0 {
		v, rest, _ := batch.Next(records) // checkAppend has seen it
		s.content.note(v, pos, s.base, s.opts.IndexIntervalBytes)
		pos += int64(len(v))
		records = rest
	}
	s.size = pos
	s.modifiedMs = now.UnixMilli()
	return nil
}

// RollParams are the limits that decide whether the next batches fit (Kafka's class of
// that name).
type RollParams struct {
	Now            time.Time
	SegmentBytes   int64 // segment.bytes
	SegmentMs      int64 // segment.ms minus the segment's share of segment.jitter.ms
	AppendBytes    int64 // of the batches about to be appended
	LastOffset     int64 // of their last record
	MaxTimestampMs int64 // of their records
}

// ShouldRoll decides whether a new segment must begin before the append: this one
// would grow too large, is too old in terms of its messages' time, has a full index,
// or cannot express the offset.
func (s *Segment) ShouldRoll(p RollParams) (bool, error) {
	if size := s.Size(); size > p.SegmentBytes-p.AppendBytes {
		return true, nil
	} else if size == 0 {
		return !s.fits(p.LastOffset), nil
	}
	waited, err := s.waitedForRoll(p)
	if err != nil {
		return false, err
	}
	full, err := s.indexesFull()
	if err != nil {
		return false, err
	}
	return waited > p.SegmentMs || full || !s.fits(p.LastOffset), nil
}

func (s *Segment) fits(offset int64) bool {
	return offset >= s.base && offset-s.base <= maxRelativeOffset
}

// waitedForRoll is how old the segment is: in message time, counted from the first
// batch, or by the clock if that has no timestamp.
func (s *Segment) waitedForRoll(p RollParams) (int64, error) {
	first, ok, err := s.FirstTimestamp()
	if err != nil {
		return 0, err
	}
	if ok && first >= 0 {
		return p.MaxTimestampMs - first, nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return p.Now.UnixMilli() - s.createdMs, nil
}

// indexesFull: the time index keeps room for the entry that Seal adds.
func (s *Segment) indexesFull() (bool, error) {
	if err := s.rlockContent(); err != nil {
		return false, err
	}
	defer s.mu.RUnlock()
	return s.content.offsets.len() >= s.opts.MaxIndexBytes/offsetEntrySize ||
		s.content.times.len() >= s.opts.MaxIndexBytes/timeEntrySize-1, nil
}

// Seal is called when a newer segment has taken over: it adds the last time index
// entry, writes the indexes, without sync, and gives up what only appends need.
func (s *Segment) Seal() error {
	if err := s.lockContent(); err != nil {
		return err
	}
	s.content.recent = nil
	s.mu.Unlock()
	return s.finishIndexes()
}
