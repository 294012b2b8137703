package raftstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// maxSegmentBytes is the size at which a segment of the file store is full.
const maxSegmentBytes = 1 << 20

// fileStore is a Store in plain files: the log in segments, "log-" and the index of the
// first entry, and term and vote in "stable", replaced as a whole.
type fileStore struct {
	fsys   vfs.FS
	dir    string
	lock   io.Closer
	bounds bounds
	vote   pendingVote

	// writing is held by whoever changes files: raft appends on one goroutine and deletes
	// on another. A channel, since holders wait for the disk.
	writing chan struct{}
	failed  error // of a deletion that was not completed: nothing may be written any more

	mu       sync.Mutex // guards what follows; never held across file operations
	segments []*segment // in order; the last one is written to
	stable   map[string][]byte
}

// OpenFiles opens or creates a store in dir on fsys, which only it uses.
func OpenFiles(fsys vfs.FS, dir string) (_ Store, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open raft store in %s: %w", dir, err)
		}
	}()
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := fsys.SyncDir(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	s := &fileStore{fsys: fsys, dir: dir, writing: make(chan struct{}, 1)}
	if s.lock, err = fsys.Lock(filepath.Join(dir, "lock")); err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *fileStore) load() error {
	if err := s.loadStable(); err != nil {
		return err
	}
	bases, err := listSegments(s.fsys, s.dir)
	if err != nil {
		return err
	}
	for i, base := range bases {
		seg, err := openSegment(s.fsys, s.dir, base, i == len(bases)-1)
		if err != nil {
			return err
		}
		s.segments = append(s.segments, seg)
		if i > 0 && s.segments[i-1].next() != base {
			return fmt.Errorf("raft log entries %d to %d are missing", s.segments[i-1].next(), base-1)
		}
		if seg.len() > 0 {
			s.bounds.appended(base, seg.next()-1)
		}
	}
	return s.syncLoaded()
}

// syncLoaded makes durable what was found: after a crash of the process alone it may be
// in the page cache only, and from now on it counts as stored.
func (s *fileStore) syncLoaded() error {
	for _, seg := range s.segments {
		if err := seg.file.Sync(); err != nil {
			return err
		}
	}
	return s.fsys.SyncDir(s.dir)
}

// IsMonotonic tells raft that the log has no gaps.
func (s *fileStore) IsMonotonic() bool { return true }

func (s *fileStore) FirstIndex() (uint64, error) {
	first, _ := s.bounds.get()
	return first, nil
}

func (s *fileStore) LastIndex() (uint64, error) {
	_, last := s.bounds.get()
	return last, nil
}

// write runs an operation that changes files.
func (s *fileStore) write(op func() error) error {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	if s.failed != nil {
		return fmt.Errorf("given up after: %w", s.failed)
	}
	return op()
}

func (s *fileStore) GetLog(index uint64, l *raft.Log) error {
	seg, from, to, ok := s.find(index)
	if !ok {
		return raft.ErrLogNotFound
	}
	err := seg.read(index, from, to, l)
	if _, _, _, ok := s.find(index); err != nil && !ok {
		return raft.ErrLogNotFound // deleted meanwhile, with the file under our hands
	}
	return err
}

// find tells where an entry lies.
func (s *fileStore) find(index uint64) (seg *segment, from, to int64, ok bool) {
	first, last := s.bounds.get()
	if index == 0 || index < first || index > last {
		return nil, 0, 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.segments) - 1; i >= 0; i-- {
		if seg = s.segments[i]; seg.base <= index && index < seg.next() {
			from, to = seg.extent(index)
			return seg, from, to, true
		}
	}
	return nil, 0, 0, false
}

func (s *fileStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs appends entries to the last segment, one write and one sync.
func (s *fileStore) StoreLogs(logs []*raft.Log) error {
	_, last := s.bounds.get()
	if err := checkAppend(last, logs); err != nil || len(logs) == 0 {
		return err
	}
	first, end := logs[0].Index, logs[len(logs)-1].Index
	if err := s.write(func() error { return s.append(logs) }); err != nil {
		return fmt.Errorf("store raft log entries %d to %d: %w", first, end, err)
	}
	s.bounds.appended(first, end)
	return nil
}

func (s *fileStore) append(logs []*raft.Log) error {
	seg, err := s.writable(logs[0].Index)
	if err != nil {
		return err
	}
	pos, err := seg.append(logs)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seg.extend(pos)
	return nil
}

// writable is the segment to append entry index to: the last one, or a new one if that is
// full or there is none. A full one is synced, so its tail cannot be torn.
func (s *fileStore) writable(index uint64) (*segment, error) {
	if n := len(s.segments); n > 0 {
		last := s.segments[n-1]
		if last.next() == index && last.size < maxSegmentBytes {
			return last, nil
		}
		if last.len() == 0 { // made for another place in the log, never written to
			if err := s.removeSegment(n - 1); err != nil {
				return nil, err
			}
		}
	}
	seg, err := createSegment(s.fsys, s.dir, index)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments = append(s.segments, seg)
	return seg, nil
}

func (s *fileStore) DeleteRange(lo, hi uint64) error {
	lo, hi, ok, err := s.bounds.clip(lo, hi)
	if err != nil || !ok {
		return err
	}
	err = s.write(func() error {
		s.failed = s.deleteRange(lo, hi)
		return s.failed
	})
	if err != nil {
		return fmt.Errorf("delete raft log entries %d to %d: %w", lo, hi, err)
	}
	return nil
}

func (s *fileStore) deleteRange(lo, hi uint64) error {
	first, last := s.bounds.get()
	s.bounds.deleted(lo, hi)
	switch {
	case hi < last:
		return s.deletePrefix(hi)
	case lo == first:
		return s.deleteSuffix(0) // with what deletePrefix left in place
	default:
		return s.deleteSuffix(lo)
	}
}

// deletePrefix removes the segments that end at or below hi, the first one first. The
// others keep their files whole: entries below bounds reappear after the next opening,
// which raft does not mind.
func (s *fileStore) deletePrefix(hi uint64) error {
	for len(s.segments) > 0 && s.segments[0].next() <= hi+1 {
		if err := s.removeSegment(0); err != nil {
			return err
		}
	}
	return nil
}

// deleteSuffix removes the entries from lo on, the last segment first.
func (s *fileStore) deleteSuffix(lo uint64) error {
	for n := len(s.segments); n > 0 && s.segments[n-1].base >= lo; n-- {
		if err := s.removeSegment(n - 1); err != nil {
			return err
		}
	}
	n := len(s.segments)
	if n == 0 || s.segments[n-1].next() <= lo {
		return nil
	}
	seg := s.segments[n-1]
	s.mu.Lock()
	seg.shrink(lo)
	s.mu.Unlock()
	return seg.cut()
}

// removeSegment takes segment i out of the list and deletes its file.
func (s *fileStore) removeSegment(i int) error {
	s.mu.Lock()
	seg := s.segments[i]
	s.segments = slices.Delete(slices.Clone(s.segments), i, i+1)
	s.mu.Unlock()
	return seg.remove()
}

// Compact has nothing to do: deleted segments are gone at once.
func (s *fileStore) Compact(uint64) error { return nil }

func (s *fileStore) Close() error {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	var errs []error
	for _, seg := range s.segments {
		errs = append(errs, seg.file.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

func (s *fileStore) stableName() string { return filepath.Join(s.dir, "stable") }

func (s *fileStore) loadStable() error {
	b, err := vfs.ReadFile(s.fsys, s.stableName())
	if errors.Is(err, fs.ErrNotExist) {
		s.stable = map[string][]byte{}
		return nil
	}
	if err != nil {
		return err
	}
	s.stable, err = parsePairs(b)
	if err != nil {
		return fmt.Errorf("%s: %w", s.stableName(), err)
	}
	return nil
}

func (s *fileStore) Set(key, value []byte) error {
	pairs := s.vote.set(key, value)
	if len(pairs) == 0 {
		return nil
	}
	if err := s.write(func() error { return s.setStable(pairs) }); err != nil {
		return fmt.Errorf("store raft's %s: %w", key, err)
	}
	return nil
}

func (s *fileStore) setStable(pairs map[string][]byte) error {
	next := maps.Clone(s.stable) // only writers change it
	maps.Copy(next, pairs)
	if err := vfs.WriteFileAtomic(s.fsys, s.stableName(), appendPairs(nil, next)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stable = next
	return nil
}

func (s *fileStore) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stable[string(key)], nil
}

func (s *fileStore) SetUint64(key []byte, v uint64) error { return s.Set(key, uint64Value(v)) }

func (s *fileStore) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	return parseUint64(value)
}
