package segment

import (
	"errors"
	"slices"
)

// coldBytes are those that were in the file when the segment was opened, [0, end): the
// CRC of each batch in them is checked the first time that it is read. What is appended
// later was checked before.
type coldBytes struct {
	end int64
	// verified are the ranges that were checked since: disjoint, rising, beginning and
	// ending with batches.
	verified []extent
}

type extent struct{ from, to int64 }

// maxExtents bounds what is remembered of reads here and there; beyond it the smallest
// range is forgotten, and checked again if it is read again.
const maxExtents = 16

// gap is the first range in [from, to) that has to be checked.
func (c *coldBytes) gap(from, to int64) (extent, bool) {
	to = min(to, c.end)
	for _, e := range c.verified {
		if e.to <= from {
			continue
		}
		if e.from > from {
			return extent{from, min(to, e.from)}, from < to
		}
		from = e.to
	}
	return extent{from, to}, from < to
}

// add remembers a range as checked.
func (c *coldBytes) add(e extent) {
	if e.from >= e.to {
		return
	}
	i := 0
	for i < len(c.verified) && c.verified[i].to < e.from {
		i++
	}
	j := i
	for j < len(c.verified) && c.verified[j].from <= e.to {
		e = extent{min(e.from, c.verified[j].from), max(e.to, c.verified[j].to)}
		j++
	}
	c.verified = slices.Replace(c.verified, i, j, e)
	if len(c.verified) > maxExtents {
		c.forgetSmallest()
	}
}

func (c *coldBytes) forgetSmallest() {
	smallest := 0
	for i, e := range c.verified {
		if s := c.verified[smallest]; e.to-e.from < s.to-s.from {
			smallest = i
		}
	}
	c.verified = slices.Delete(c.verified, smallest, smallest+1)
}

// cut follows a truncation.
func (c *coldBytes) cut(size int64) {
	c.end = min(c.end, size)
	for i, e := range c.verified {
		c.verified[i].to = min(e.to, size)
	}
	c.verified = slices.DeleteFunc(c.verified, func(e extent) bool { return e.from >= size })
}

// verify checks the batches that lie whole in [from, to), as far as that was not done.
// from is the start of a batch. A batch that is cut off at to is left unchecked: nobody
// can use it.
func (s *Segment) verify(f *openFile, from, to int64) error {
	for {
		s.mu.RLock()
		gap, cold := s.cold.gap(from, to)
		size, generation := s.size, s.generation
		s.mu.RUnlock()
		if !cold || gap.to > size {
			return nil
		}
		reached, err := s.verifyExtent(f, gap, min(to, size), size)
		s.mu.Lock()
		if s.generation == generation {
			s.cold.add(extent{gap.from, reached})
		}
		s.mu.Unlock()
		if err != nil || reached < gap.to {
			return err
		}
		from = reached
	}
}

// verifyExtent checks batches from the start of a gap to at least its end, unless a batch
// would end behind stop. It returns where it stopped.
func (s *Segment) verifyExtent(f *openFile, gap extent, stop, size int64) (reached int64, err error) {
	sc := s.scanFrom(f, gap.from, stop, size, s.base)
	defer sc.close()
	for sc.pos < gap.to {
		v, pos, err := sc.next()
		if err != nil || v == nil {
			return pos, err
		}
	}
	return sc.pos, nil
}

// verifyGap is for an offset that no batch holds, as far as headers tell that nobody has
// checked: in one with a flipped bit a batch ends too early, or begins too late. Whatever lies
// before the gap is checked, and that what comes behind it follows.
func (s *Segment) verifyGap(f *openFile, offset int64) error {
	start, indexed, err := s.indexedBelow(offset)
	if err != nil {
		return err
	}
	end, err := s.walkOverGap(f, start, indexed, offset)
	if errors.Is(err, errUnfit) {
		start = 0
		end, err = s.walkOverGap(f, start, -1, offset)
	}
	if err != nil {
		return err
	}
	return s.verify(f, start, end)
}

// indexedBelow is the last index entry at or below an offset; position 0 and -1 if there is none.
func (s *Segment) indexedBelow(offset int64) (pos, last int64, err error) {
	if err := s.rlockContent(); err != nil {
		return 0, -1, err
	}
	defer s.mu.RUnlock()
	i := s.content.offsets.floor(offset - s.base)
	if i < 0 {
		return 0, -1, nil
	}
	last, pos = s.content.offsets.entry(i)
	return pos, s.base + last, nil
}

// walkOverGap walks to the second batch behind a gap, or the end, and returns where it is.
func (s *Segment) walkOverGap(f *openFile, start, indexed, offset int64) (end int64, err error) {
	w := s.walkFrom(f, start, s.Size(), s.base)
	defer w.close()
	for behind := 0; behind < 2; {
		v, pos, err := w.next()
		if indexed >= 0 && (isCorrupt(err) || v != nil && v.LastOffset() != indexed) {
			return 0, errUnfit
		}
		if err != nil || v == nil {
			return pos, err
		}
		indexed, end = -1, pos
		if v.BaseOffset() > offset {
			behind++
		}
	}
	return end, nil
}

// scanFrom returns a scanner over the batches from pos, the start of one, up to stop,
// in a log that ends at end.
func (s *Segment) scanFrom(f *openFile, pos, stop, end, nextOffset int64) *scanner {
	return &scanner{
		bounds:  bounds{file: f.Name(), pos: pos, end: end, base: s.base, nextOffset: nextOffset},
		stop:    stop,
		short:   stop-pos <= windowSize,
		f:       f,
		buffers: &s.opts.Pool.buffers,
	}
}
