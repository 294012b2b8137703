package segment

import (
	"errors"

	"github.com/klamm-mq/klamm/protocol/batch"
)

// TimestampOffset is a timestamp and where it is.
type TimestampOffset struct {
	TimestampMs int64
	Offset      int64
	LeaderEpoch int32 // of the batch; -1 if not known
}

// MaxTimestamp is the largest timestamp of the segment, with the last offset of the
// first batch that has it; {-1, base offset, -1} if no batch has a timestamp. It does
// not know the epoch of a batch that it has only met in the time index.
func (s *Segment) MaxTimestamp() (TimestampOffset, error) {
	s.mu.RLock()
	known, newest := s.content.known, s.content.max
	s.mu.RUnlock()
	if known {
		return newest, nil
	}
	if err := s.rlockContent(); err != nil {
		return TimestampOffset{}, err
	}
	defer s.mu.RUnlock()
	return s.content.max, nil
}

// FirstTimestamp is the max timestamp of the first batch, by which segment.ms is counted;
// false if the segment is empty.
func (s *Segment) FirstTimestamp() (timestampMs int64, ok bool, err error) {
	s.mu.RLock()
	first, size := s.content.first, s.size
	s.mu.RUnlock()
	if first.known || size == 0 {
		return first.timestampMs, first.known, nil
	}
	err = s.reading(func(f *openFile) error {
		w := s.walkFrom(f, 0, s.Size(), s.base)
		defer w.close()
		v, _, err := w.next()
		if err == nil && v != nil {
			timestampMs, ok = v.MaxTimestamp(), true
		}
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && ok && s.size > 0 {
		s.content.first = firstBatch{known: true, timestampMs: timestampMs}
	}
	return timestampMs, ok, err
}

// errFound ends a walk early.
var errFound = errors.New("found")

// OffsetForTimestamp is the first record with a timestamp of at least timestampMs and an
// offset of at least from. Errors are Read's, and those of batch.Iterate.
func (s *Segment) OffsetForTimestamp(timestampMs, from int64) (t TimestampOffset, found bool, err error) {
	start, err := s.startForTime(timestampMs, from)
	if err != nil {
		return TimestampOffset{}, false, err
	}
	err = s.ForEachBatch(start, maxOffset, func(v batch.View, _ int64) error {
		if v.MaxTimestamp() < timestampMs || v.LastOffset() < from {
			return nil
		}
		t, found, err = s.firstRecord(v, timestampMs, from)
		if found {
			return errFound
		}
		return err
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return t, found, err
}

// OffsetOfMaxTimestamp is the first record with a timestamp of maxMs, which is the
// segment's largest, in the first batch that says it is its own. A batch of records below
// -1 says -1 and holds none: then there is none, whatever comes behind it
// (RecordBatch.offsetOfMaxTimestamp). Errors are OffsetForTimestamp's.
func (s *Segment) OffsetOfMaxTimestamp(maxMs int64) (t TimestampOffset, found bool, err error) {
	start, err := s.startForTime(maxMs, s.base)
	if err != nil {
		return TimestampOffset{}, false, err
	}
	err = s.ForEachBatch(start, maxOffset, func(v batch.View, _ int64) error {
		if v.MaxTimestamp() < maxMs {
			return nil
		}
		if t, found, err = s.firstRecord(v, maxMs, s.base); err != nil {
			return err
		}
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return t, found, err
}

// maxOffset is larger than any offset.
const maxOffset = 1<<63 - 1

// firstRecord looks into a batch.
func (s *Segment) firstRecord(v batch.View, timestampMs, from int64) (TimestampOffset, bool, error) {
	it := batch.NewIterator(v, s.opts.Codecs)
	defer it.Close()
	for it.Next() {
		if r := &it.Record; r.Timestamp >= timestampMs && r.Offset >= from {
			return TimestampOffset{TimestampMs: r.Timestamp, Offset: r.Offset, LeaderEpoch: v.LeaderEpoch()}, true, nil
		}
	}
	return TimestampOffset{}, false, it.Err()
}
