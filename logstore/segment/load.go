package segment

import (
	"errors"
	"fmt"
)

// lockContent takes the lock, with the indexes in memory and the end known. After an
// error the lock is not held.
func (s *Segment) lockContent() error {
	for {
		s.mu.Lock()
		if s.content.loaded && s.content.known {
			return nil
		}
		s.mu.Unlock()
		if err := s.load(); err != nil {
			return err
		}
	}
}

// rlockContent is lockContent for a reader.
func (s *Segment) rlockContent() error {
	for {
		s.mu.RLock()
		if s.content.loaded && s.content.known {
			return nil
		}
		s.mu.RUnlock()
		if err := s.load(); err != nil {
			return err
		}
	}
}

// load reads the indexes and finds the end of the segment, if no other goroutine has.
func (s *Segment) load() error {
	s.loadMu.Lock()
	defer s.loadMu.Unlock()
	s.mu.RLock()
	done := s.content.loaded && s.content.known
	s.mu.RUnlock()
	if done {
		return nil
	}
	f, err := s.acquire()
	if err != nil {
		return fmt.Errorf("load segment %d: %w", s.base, err)
	}
	defer s.release(f)
	return s.loadFrom(f, s.readInto)
}

// rebuildIndexes throws the indexes away and builds them from the log.
func (s *Segment) rebuildIndexes(f *openFile) error {
	s.loadMu.Lock()
	defer s.loadMu.Unlock()
	s.mu.Lock()
	s.content.loaded, s.content.known = false, false // lets nobody add to what goes away
	s.indexGeneration++                              // nor say that it is written
	s.mu.Unlock()
	return s.loadFrom(f, func(c *content, f *openFile, size int64) (bool, error) {
		c.offsets, c.times = offsetIndex{entries{shrunk: true}}, timeIndex{entries{shrunk: true}}
		c.loaded = true
		return true, s.walkEnd(c, f, size)
	})
}

// loadFrom puts what read finds in place. Called with loadMu held.
func (s *Segment) loadFrom(f *openFile, read func(*content, *openFile, int64) (rebuilt bool, err error)) error {
	for {
		s.mu.RLock()
		size, generation, c := s.size, s.generation, s.content
		s.mu.RUnlock()
		rebuilt, err := read(&c, f, size)
		s.mu.Lock()
		if s.generation != generation {
			s.mu.Unlock()
			continue // a truncation has overtaken us
		}
		if err == nil {
			s.content = c
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
		if rebuilt && !s.opts.ReadOnly {
			// What cannot be written now is written by whoever writes next.
			_ = s.WriteIndexes()
		}
		s.countIndex()
		return nil
	}
}

// errUnfit says that the indexes do not fit the log.
var errUnfit = errors.New("index does not fit the log")

// readInto reads the index files and, unless it is known already, finds the end by
// walking over the batches behind the last entry. rebuilt says that the files lacked
// entries or had wrong ones.
func (s *Segment) readInto(c *content, f *openFile, size int64) (rebuilt bool, err error) {
	if err := s.readIndexFiles(c, size); err != nil {
		return false, fmt.Errorf("load segment %d: %w", s.base, err)
	}
	if s.isClosed() {
		return false, ErrClosed // the files may have been those of whatever bears the name now
	}
	err = s.checkLastTime(c, f, size)
	if err == nil && !c.known {
		err = s.walkEnd(c, f, size)
	}
	if errors.Is(err, errUnfit) {
		c.clearIndexes()
		err = s.walkEnd(c, f, size)
	}
	return c.offsets.pending() || c.times.pending(), err
}

// readIndexFiles reads the two indexes, as far as they can be right. A time index that
// is missing or wrong cannot be completed from the batches behind the last offset index
// entry; then both are built again from the first batch on.
func (s *Segment) readIndexFiles(c *content, size int64) error {
	maxEntries := size/minBatchSize + 1
	offsets, err := readEntries(s.opts.FS, s.path(IndexSuffix), maxEntries*offsetEntrySize)
	if err != nil {
		return err
	}
	times, err := readEntries(s.opts.FS, s.path(TimeIndexSuffix), maxEntries*timeEntrySize)
	if err != nil {
		return err
	}
	c.offsets, c.times = offsetIndex{offsets}, timeIndex{times}
	c.offsets.cutInvalid(size)
	c.times.cutInvalid()
	if c.times.shrunk || (c.times.len() == 0 && c.offsets.len() > 0) {
		c.clearIndexes()
	}
	c.known = c.known && !c.offsets.shrunk && !c.times.shrunk
	c.loaded = true
	return nil
}

func (c *content) clearIndexes() {
	c.offsets.cut(0)
	c.times.cut(0)
}

// walkEnd notes the batches from the one with the last index entry on.
func (s *Segment) walkEnd(c *content, f *openFile, size int64) error {
	indexed := s.startAtLastEntry(c)
	w := s.walkFrom(f, c.indexedPos, size, s.base)
	defer w.close()
	for {
		v, pos, err := w.next()
		if indexed >= 0 && (isCorrupt(err) || v != nil && v.LastOffset() != indexed) {
			return errUnfit
		}
		if err != nil {
			return err
		}
		if v == nil {
			break
		}
		indexed = -1
		c.note(v, pos, s.base, s.opts.IndexIntervalBytes)
	}
	if c.times.len() > 0 && c.max.Offset >= c.nextOffset {
		return errUnfit
	}
	c.known = true
	return nil
}

// startAtLastEntry sets what is known to what the indexes tell, and returns the last
// offset of the batch in the last entry, which is the next to be noted; -1 if there is
// no entry.
func (s *Segment) startAtLastEntry(c *content) (indexed int64) {
	fresh := emptyContent(s.base)
	c.known, c.nextOffset, c.max, c.indexedPos, c.recent = false, fresh.nextOffset, fresh.max, 0, nil
	if ms, relative := c.times.last(); ms != noTimestamp {
		c.max = TimestampOffset{TimestampMs: ms, Offset: s.base + relative, LeaderEpoch: -1}
	}
	n := c.offsets.len()
	if n == 0 {
		return -1
	}
	relative, pos := c.offsets.entry(n - 1)
	c.indexedPos = pos
	return s.base + relative
}

func isCorrupt(err error) bool {
	if err == nil {
		return false // without allocating c
	}
	var c *CorruptionError
	return errors.As(err, &c)
}

// walkFrom returns a walker over the headers from pos, the start of a batch, up to end.
func (s *Segment) walkFrom(f *openFile, pos, end, nextOffset int64) *walker {
	return &walker{
		bounds:  bounds{file: f.Name(), pos: pos, end: end, base: s.base, nextOffset: nextOffset},
		f:       f,
		buffers: &s.opts.Pool.buffers,
	}
}

// dropIndex gives the indexes up, unless they have entries that are not in their files.
func (s *Segment) dropIndex() {
	s.mu.Lock()
	if s.content.loaded && !s.content.offsets.pending() && !s.content.times.pending() {
		s.content.loaded = false
		s.content.offsets.raw, s.content.times.raw, s.content.recent = nil, nil, nil
	}
	bytes := s.content.memory()
	s.mu.Unlock()
	p := s.opts.Pool
	p.mu.Lock()
	p.setIndexBytes(s, bytes)
	p.mu.Unlock()
}

// countIndex tells the pool how much memory the indexes take.
func (s *Segment) countIndex() {
	s.mu.RLock()
	bytes := s.content.memory()
	s.mu.RUnlock()
	s.opts.Pool.countIndex(s, bytes)
}

// memory is what the indexes and the recent batches take, in bytes.
func (c *content) memory() int64 {
	return int64(cap(c.offsets.raw) + cap(c.times.raw) + cap(c.recent)*recentBatchSize)
}
