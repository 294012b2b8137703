package segment

import (
	"cmp"
	"errors"
)

// The time index has no checksum, and what an entry says shows in nothing but its order: by
// a flipped bit in one, a look-up would skip records, and retention delete a segment that is
// still young. So an entry is compared with the log before it is believed: the last one when
// the index is loaded, since it tells how old the segment is, and each when a look-up begins
// there. That costs a read of the headers between two offset index entries. It does not show an
// entry that leads to a later batch of the same timestamp, with smaller ones before that: a
// look-up for exactly that timestamp then finds the later one.

// checkLastTime compares the last entry of the time index with the log.
func (s *Segment) checkLastTime(c *content, f *openFile, size int64) error {
	if c.times.len() == 0 {
		return nil
	}
	return s.checkTime(c, c.times.len()-1, f, size)
}

// cutTimes drops the time index entries from an offset on, before the offset index is cut. The
// first that goes is compared with the log, lest it should have stayed, and so is the last that
// stays. Errors are checkTime's; damage in what goes is none.
func (s *Segment) cutTimes(c *content, f *openFile, size, from int64) error {
	n := c.times.firstFrom(from - s.base)
	if n < c.times.len() {
		err := s.checkTime(c, n, f, size)
		if isCorrupt(err) {
			return errUnfit
		}
		if err != nil {
			return err
		}
	}
	c.times.cut(n * timeEntrySize)
	return s.checkLastTime(c, f, size)
}

// checkTime compares an entry of the time index with the log: the batch that holds the offset
// has the timestamp, and those from the offset index entry before it on have smaller ones.
// Kafka has written entries with offsets amid a batch. errUnfit means that they differ, a
// *CorruptionError that the batch is to blame, whose header the index would be built from.
func (s *Segment) checkTime(c *content, i int, f *openFile, size int64) error {
	ms, relative := c.times.entry(i)
	offset := s.base + relative
	start, indexed := c.lastIndexedBelow(relative, s.base)
	w := s.walkFrom(f, start, size, s.base)
	defer w.close()
	for {
		v, pos, err := w.next()
		if err != nil && !isCorrupt(err) {
			return err
		}
		if err != nil || v == nil || indexed >= 0 && v.LastOffset() != indexed {
			return errUnfit // building the indexes tells what is wrong with the log, if anything is
		}
		indexed = -1
		holds := v.BaseOffset() <= offset && offset <= v.LastOffset()
		if holds && v.MaxTimestamp() == ms {
			return nil
		}
		if v.LastOffset() >= offset || v.MaxTimestamp() >= ms {
			return cmp.Or(s.verify(f, pos, pos+int64(v.Size())), errUnfit)
		}
	}
}

// lastIndexedBelow is the last index entry below a relative offset: the position and the last
// offset of the batch; 0 and -1 if there is none.
func (c *content) lastIndexedBelow(relative, base int64) (pos, last int64) {
	i := c.offsets.floor(relative - 1)
	if i < 0 {
		return 0, -1
	}
	last, pos = c.offsets.entry(i)
	return pos, base + last
}

// startForTime is the offset from which to look: what lies before has smaller
// timestamps, or offsets.
func (s *Segment) startForTime(timestampMs, from int64) (start int64, err error) {
	start = s.base
	err = s.reading(func(f *openFile) error {
		start, err = s.checkedStart(f, timestampMs)
		return err
	})
	return max(from, start), err
}

// checkedStart is the offset of the last time index entry that is not above a timestamp. If
// that differs from the log, the indexes are built again.
func (s *Segment) checkedStart(f *openFile, timestampMs int64) (int64, error) {
	for rebuilt := false; ; {
		if err := s.rlockContent(); err != nil {
			return 0, err
		}
		c, size, generation := s.content, s.size, s.generation
		s.mu.RUnlock()
		i := c.times.floor(timestampMs)
		if i < 0 {
			return s.base, nil
		}
		err := s.checkTime(&c, i, f, size)
		if err == nil {
			_, relative := c.times.entry(i)
			return s.base + relative, nil
		}
		if s.currentGeneration() != generation {
			continue
		}
		if !errors.Is(err, errUnfit) {
			return 0, err
		}
		if rebuilt {
			return 0, &CorruptionError{File: f.Name(), Pos: 0, Reason: "timestamps are not where the rebuilt index says"}
		}
		if err := s.rebuildIndexes(f); err != nil {
			return 0, err
		}
		rebuilt = true
	}
}
