package segment

import (
	"errors"
	"fmt"
	"time"
)

// TruncateTo drops all batches that hold or follow the offset, from the log file and
// the indexes, and returns how many bytes. If the segment ends below the offset, nothing
// changes. Regions in flight may end early. Nothing is synced; the file counts as
// unflushed.
func (s *Segment) TruncateTo(now time.Time, offset int64) (removed int64, err error) {
	f, err := s.acquireToWrite()
	if err != nil {
		return 0, fmt.Errorf("truncate segment %d: %w", s.base, err)
	}
	defer s.releaseWritten(f)
	from, found, err := s.find(f, offset)
	if err != nil || !found {
		return 0, err
	}
	if err := s.loadTxns(); err != nil {
		return 0, err
	}
	rest, err := s.contentBelow(f, from)
	if err != nil {
		return 0, err
	}
	removed = s.endBefore(now, from, rest)
	s.countIndex()
	if err := s.dropTail(f); err != nil {
		return removed, fmt.Errorf("truncate segment %d: %w", s.base, err)
	}
	return removed, nil
}

// contentBelow is what the content will be when the batch and all behind it are gone.
func (s *Segment) contentBelow(f *openFile, from BatchPos) (content, error) {
	if err := s.rlockContent(); err != nil {
		return content{}, err
	}
	c, size := s.content, s.size
	s.mu.RUnlock()
	err := s.cutTimes(&c, f, size, from.BaseOffset)
	c.offsets.cut(offsetEntrySize * c.offsets.after(from.Pos))
	if errors.Is(err, errUnfit) {
		c.clearIndexes()
	} else if err != nil {
		return content{}, err
	}
	// What is added goes into memory of its own: readers still use the old content.
	c.offsets.raw = c.offsets.raw[:len(c.offsets.raw):len(c.offsets.raw)]
	c.times.raw = c.times.raw[:len(c.times.raw):len(c.times.raw)]
	if from.Pos == 0 {
		c.first = firstBatch{}
	}
	err = s.walkEnd(&c, f, from.Pos)
	return c, err
}

// endBefore makes the segment end before a batch. From then on no reader goes beyond,
// although the bytes are still in the file.
func (s *Segment) endBefore(now time.Time, from BatchPos, rest content) (removed int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	removed = s.size - from.Pos
	s.generation++
	s.indexGeneration++
	s.size, s.tail = from.Pos, true
	s.content = rest
	s.txns.cutFrom(from.BaseOffset)
	s.cold.cut(s.size)
	if s.size == 0 {
		s.createdMs = now.UnixMilli()
	}
	return removed
}
