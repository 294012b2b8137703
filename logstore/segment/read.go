package segment

import (
	"errors"
	"fmt"
	"sort"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// ReadParams bound a read.
type ReadParams struct {
	Offset   int64
	MaxPos   int64 // exclusive bound in the file; Size() for no bound
	MaxBytes int
	MinOne   bool // the first batch comes whole even if larger than MaxBytes (KIP-74)
	Whole    bool // no batch but the first is cut short by MaxBytes
	Prefetch bool // have all of it read at once, and no more (see vfs.WillNeed)
	// OnReadError hears of the file system's errors when somebody copies from the region;
	// nil = nobody does. That a truncation has cut a region short is none.
	OnReadError func(error)
}

// ReadResult is what a read found.
type ReadResult struct {
	// Found is false if every batch of the segment ends below the offset: the reader
	// goes on with the next segment.
	Found bool
	// Region holds batches, the last of which may be cut short by MaxBytes. It is
	// nil if MaxPos or MaxBytes leave nothing; else the caller releases it.
	Region wire.Region
	// First is the batch that holds the offset, or else the first one above it.
	First BatchPos
	// FirstIncomplete says that MaxBytes is smaller than First, without MinOne.
	FirstIncomplete bool
}

// BatchPos is where a batch lies.
type BatchPos struct {
	BaseOffset int64
	Pos        int64 // in the log file
	Size       int64
}

// Read returns the region that begins with the batch that holds the offset. Batches that
// were there when the segment was opened have their CRC checked the first time that they
// are read. Errors are *CorruptionError, ErrClosed or the file system's.
func (s *Segment) Read(p ReadParams) (ReadResult, error) {
	f, err := s.acquire()
	if err != nil {
		return ReadResult{}, fmt.Errorf("read segment %d: %w", s.base, err)
	}
	for {
		before := s.currentGeneration()
		r, err := s.read(f, p)
		if s.overtaken(before, err) {
			continue
		}
		if r.Region == nil {
			s.release(f)
		}
		return r, err
	}
}

// overtaken reports that the damage that a reader met was a truncation's work, with new
// bytes being written over old ones: it has to look again.
func (s *Segment) overtaken(before uint32, err error) bool {
	return isCorrupt(err) && s.currentGeneration() != before
}

func (s *Segment) currentGeneration() uint32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.generation
}

func (s *Segment) read(f *openFile, p ReadParams) (ReadResult, error) {
	first, found, err := s.find(f, p.Offset)
	if err == nil && (!found || first.BaseOffset > p.Offset) {
		err = s.verifyGap(f, p.Offset)
	}
	if err != nil || !found {
		return ReadResult{}, err
	}
	r := ReadResult{Found: true, First: first}
	want := int64(max(0, p.MaxBytes))
	if p.MinOne {
		want = max(want, first.Size)
	}
	r.FirstIncomplete = want < first.Size
	n := min(min(p.MaxPos, s.Size())-first.Pos, want)
	if n <= 0 && p.MaxPos <= first.Pos {
		// The batch that holds the offset reaches to where the reader must stop: by its
		// header, which the walk has believed.
		return r, s.verify(f, first.Pos, min(first.Pos+first.Size, s.Size()))
	}
	if n <= 0 {
		return r, nil
	}
	if p.Prefetch {
		vfs.WillNeed(f.File, first.Pos, n+minBatchSize) // with the header behind it
	}
	if p.Whole && n > first.Size {
		if n, err = s.wholeBatches(f, first, n); err != nil {
			return ReadResult{}, err
		}
	}
	if err := s.verify(f, first.Pos, first.Pos+n); err != nil {
		return ReadResult{}, err
	}
	r.Region = &region{s: s, file: f, pos: first.Pos, n: int(n), failed: p.OnReadError}
	return r, nil
}

// WillNeed has the system read n bytes of the log file from a position on, and what the search for
// the batch behind them looks at (see vfs.WillNeed).
func (s *Segment) WillNeed(from, n int64) {
	s.advise(func(f vfs.File) { vfs.WillNeed(f, from, min(n+windowSize, s.Size()-from)) })
}

// Forget has the system drop the whole pages of a range of the log file from its page cache, as
// far as they have been synced.
func (s *Segment) Forget(from, to int64) {
	from, to = max(from, 0)&^(smallestPage-1), max(to, 0)&^(smallestPage-1)
	s.advise(func(f vfs.File) { vfs.DontNeed(f, from, to-from) })
}

func (s *Segment) advise(do func(f vfs.File)) {
	if f, err := s.acquire(); err == nil {
		do(f.File)
		s.release(f)
	}
}

// wholeBatches is how many of the n bytes from a batch on are batches that end there.
func (s *Segment) wholeBatches(f *openFile, first BatchPos, n int64) (int64, error) {
	end := first.Pos + n
	w := s.walkFrom(f, first.Pos, s.Size(), s.base)
	w.ahead = end
	defer w.close()
	for w.pos < end {
		v, pos, err := w.next()
		if err != nil {
			return 0, err
		}
		if pos+int64(v.Size()) > end {
			return pos - first.Pos, nil
		}
	}
	return n, nil
}

// Lookup finds the batch that holds an offset, or else the first one above it; found is
// false if there is none.
func (s *Segment) Lookup(offset int64) (pos BatchPos, found bool, err error) {
	err = s.reading(func(f *openFile) error {
		pos, found, err = s.find(f, offset)
		return err
	})
	return pos, found, err
}

// reading calls fn with the file, again if a truncation has overtaken it. There is nothing
// to read in an empty segment, which may have no file yet.
func (s *Segment) reading(fn func(f *openFile) error) error {
	if s.Size() == 0 {
		return nil
	}
	f, err := s.acquire()
	if err != nil {
		return fmt.Errorf("read segment %d: %w", s.base, err)
	}
	defer s.release(f)
	for {
		before := s.currentGeneration()
		if err := fn(f); !s.overtaken(before, err) {
			return err
		}
	}
}

// find is Lookup with the file. Among the recent batches it touches memory only.
func (s *Segment) find(f *openFile, offset int64) (BatchPos, bool, error) {
	for rebuilt := false; ; {
		at, err := s.findInMemory(offset)
		if err != nil || at.done {
			return at.batch, at.found, err
		}
		pos, found, err := s.walkTo(f, at, offset)
		if !errors.Is(err, errUnfit) {
			return pos, found, err
		}
		if s.currentGeneration() != at.generation {
			continue
		}
		if rebuilt {
			return BatchPos{}, false, &CorruptionError{File: f.Name(), Pos: at.start, Reason: "no batch begins where the index says"}
		}
		if err := s.rebuildIndexes(f); err != nil {
			return BatchPos{}, false, err
		}
		rebuilt = true
	}
}

// lead is what memory tells about the place of an offset.
type lead struct {
	done, found bool     // the answer, and whether there is one
	batch       BatchPos // if found
	start, size int64    // else, where to look
	indexed     int64    // the last offset of the batch at start, by the index; -1 if not indexed
	generation  uint32
}

func (s *Segment) findInMemory(offset int64) (lead, error) {
	if err := s.rlockContent(); err != nil {
		return lead{}, err
	}
	defer s.mu.RUnlock()
	c := &s.content
	if offset >= c.nextOffset {
		return lead{done: true}, nil
	}
	if b, ok := c.recent.find(offset-s.base, s.size, s.base); ok {
		return lead{done: true, found: true, batch: b}, nil
	}
	l := lead{indexed: -1, size: s.size, generation: s.generation}
	if i := c.offsets.floor(offset - s.base); i >= 0 {
		l.indexed, l.start = c.offsets.entry(i)
		l.indexed += s.base
	}
	return l, nil
}

// find looks for the first batch that ends at or above a relative offset. It answers
// false if that may lie before the recent batches.
func (r recentBatches) find(relative, size, base int64) (BatchPos, bool) {
	if len(r) == 0 || (relative < int64(r[0].base) && r[0].pos > 0) {
		return BatchPos{}, false
	}
	i := sort.Search(len(r), func(i int) bool { return int64(r[i].last) >= relative })
	if i == len(r) {
		return BatchPos{}, false
	}
	end := size
	if i+1 < len(r) {
		end = int64(r[i+1].pos)
	}
	return BatchPos{BaseOffset: base + int64(r[i].base), Pos: int64(r[i].pos), Size: end - int64(r[i].pos)}, true
}

// walkTo walks to the first batch that ends at or above an offset. errUnfit means that
// the batch at the indexed position is not the one that the index says.
func (s *Segment) walkTo(f *openFile, from lead, offset int64) (BatchPos, bool, error) {
	w := s.walkFrom(f, from.start, from.size, s.base)
	defer w.close()
	for first := true; ; first = false {
		v, pos, err := w.next()
		if first && from.indexed >= 0 && (isCorrupt(err) || v != nil && v.LastOffset() != from.indexed) {
			return BatchPos{}, false, errUnfit
		}
		if err != nil || v == nil {
			return BatchPos{}, false, err
		}
		if v.LastOffset() >= offset {
			return BatchPos{BaseOffset: v.BaseOffset(), Pos: pos, Size: int64(v.Size())}, true, nil
		}
	}
}

// ForEachBatch calls fn with each batch that ends at or above from and begins below upTo,
// in order, reading sequentially and checking each CRC. The view is valid during the call.
// An error of fn ends the walk and is returned; others are Read's.
func (s *Segment) ForEachBatch(from, upTo int64, fn func(v batch.View, pos int64) error) error {
	invariant.Check(from <= upTo, "walk from %d up to %d", from, upTo)
	next := from
	return s.reading(func(f *openFile) error {
		first, found, err := s.find(f, next)
		if err != nil || !found {
			return err
		}
		size := s.Size()
		sc := s.scanFrom(f, first.Pos, size, size, s.base)
		defer sc.close()
		for {
			v, pos, err := sc.next()
			if err != nil || v == nil || v.BaseOffset() >= upTo {
				return err
			}
			if err := fn(v, pos); err != nil {
				return err
			}
			next = v.NextOffset()
		}
	})
}
