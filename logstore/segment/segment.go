package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// maxSize is the largest log file: index entries hold positions in 31 bits.
const maxSize = 1<<31 - 1

// maxRelativeOffset is how far above the base offset an index entry can point.
const maxRelativeOffset = 1<<31 - 1

// noTimestamp is the timestamp of a batch without one.
const noTimestamp = -1

// Segment is one piece of a log. Appends, truncations, Seal, Recover and Close are
// serialised by the caller; reads, flushes and the accessors may run at any time beside
// them and each other.
type Segment struct {
	base int64
	opts *Options
	file file

	loadMu  sync.Mutex // held by the goroutine that loads the indexes
	indexMu sync.Mutex // held by the goroutine that writes the index files

	mu         sync.RWMutex
	dir        string
	stages     stages
	createdMs  int64
	modifiedMs int64
	// size is the end of the last batch in the log file. Behind it there may be what a
	// failed write left, if tail is set.
	size  int64
	tail  bool
	ahead ahead
	// generation counts what takes bytes away, so that readers who were overtaken know;
	// indexGeneration counts what takes index entries away.
	generation, indexGeneration uint32

	content  content
	txns     txnIndex
	unsynced [numKinds]bool // index files written since their last sync
	cold     coldBytes
}

// New returns an empty segment that has no files. Until MakeFiles has made them it must not
// be appended to; everything else works on it.
func New(dir string, base int64, now time.Time, o *Options) *Segment {
	s := OpenSized(dir, base, 0, now, now, o)
	s.txns.loaded = true
	s.content.loaded, s.content.known = true, true
	return s
}

// MakeFiles makes the files of a new segment. The error wraps fs.ErrExist if there is a
// log file of that name; index files are emptied. The caller syncs the directory before
// it relies on them. A segment that cannot be made whole leaves no log file.
func (s *Segment) MakeFiles() error {
	if err := createFile(s.opts.FS, s.Path(), os.O_EXCL); err != nil {
		return fmt.Errorf("create segment %d: %w", s.base, err)
	}
	if err := s.makeIndexFiles(); err != nil {
		_ = removeIfExists(s.opts.FS, s.Path()) // what went wrong first is what counts
		return fmt.Errorf("create segment %d: %w", s.base, err)
	}
	return nil
}

// Create is New with files.
func Create(dir string, base int64, now time.Time, o *Options) (*Segment, error) {
	s := New(dir, base, now, o)
	if err := s.MakeFiles(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Segment) makeIndexFiles() error {
	for _, suffix := range []string{IndexSuffix, TimeIndexSuffix} {
		if err := createFile(s.opts.FS, s.path(suffix), os.O_TRUNC); err != nil {
			return err
		}
	}
	return removeIfExists(s.opts.FS, s.path(TxnIndexSuffix))
}

func createFile(fsys vfs.FS, name string, flag int) error {
	f, err := fsys.OpenFile(name, os.O_CREATE|os.O_RDWR|flag, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func removeIfExists(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Open returns a segment whose log file exists, after one Stat. Nothing is opened or
// read before the segment is used.
func Open(dir string, base int64, now time.Time, o *Options) (*Segment, error) {
	info, err := o.FS.Stat(filepath.Join(dir, FileName(base, LogSuffix)))
	if err != nil {
		return nil, fmt.Errorf("open segment %d: %w", base, err)
	}
	return OpenSized(dir, base, info.Size(), info.ModTime(), now, o), nil
}

// OpenSized is Open for a caller who knows size and modification time of the log file.
func OpenSized(dir string, base, size int64, modified, now time.Time, o *Options) *Segment {
	return &Segment{
		base:       base,
		opts:       o,
		dir:        dir,
		createdMs:  now.UnixMilli(),
		modifiedMs: modified.UnixMilli(),
		size:       size,
		content:    emptyContent(base),
		cold:       coldBytes{end: size},
	}
}

// BaseOffset is the lowest offset that the segment may hold, and its name.
func (s *Segment) BaseOffset() int64 { return s.base }

// Size is the number of bytes in the log file that hold batches.
func (s *Segment) Size() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.size
}

// LastModified is when the log file was written last: now of the last Append, or else
// the file's modification time. Retention goes by it where there are no timestamps.
func (s *Segment) LastModified() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return time.UnixMilli(s.modifiedMs)
}

// SetDir follows a rename of the partition directory.
func (s *Segment) SetDir(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dir = dir
}

// Path is the name of the log file.
func (s *Segment) Path() string { return s.path(LogSuffix) }

func (s *Segment) path(suffix string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return filepath.Join(s.dir, FileName(s.base, suffix)+s.stages.of(suffix).suffix())
}

// NextOffset is the offset after the last batch, or the base offset of an empty
// segment. It reads the end of the segment on first use.
func (s *Segment) NextOffset() (int64, error) {
	s.mu.RLock()
	known, next := s.content.known, s.content.nextOffset
	s.mu.RUnlock()
	if known {
		return next, nil
	}
	if err := s.rlockContent(); err != nil {
		return s.base, err
	}
	defer s.mu.RUnlock()
	return s.content.nextOffset, nil
}

// Close writes the indexes, with the last time index entry, and gives the file up; the
// descriptor is closed when the last region is released. Nothing is synced. The segment
// is closed also after an error. A second Close does nothing.
func (s *Segment) Close() error {
	if s.isClosed() {
		return nil
	}
	err := s.finishIndexes()
	if dropErr := s.DropTail(); err == nil {
		err = dropErr
	}
	s.Abandon()
	return err
}

// finishIndexes adds the last time index entry and writes, if anything was loaded.
func (s *Segment) finishIndexes() error {
	if s.opts.ReadOnly {
		return nil
	}
	s.mu.Lock()
	if s.content.loaded && s.content.known {
		s.content.noteLastTime(s.base)
	}
	s.mu.Unlock()
	return s.WriteIndexes()
}

// Abandon is Close without writing: the disk has failed, or the files are about to go.
func (s *Segment) Abandon() { s.closeFile() }

// Delete abandons the segment and removes its files, the log first, so that a crash
// half way leaves index files without a log and nothing worse. Regions in flight stay
// readable. Missing files are not an error. The caller syncs the directory.
func (s *Segment) Delete() error {
	s.Abandon()
	s.indexMu.Lock() // whoever is writing an index would make its file again
	defer s.indexMu.Unlock()
	if err := s.removeFiles(); err != nil {
		return fmt.Errorf("delete segment %d: %w", s.base, err)
	}
	return nil
}

func (s *Segment) removeFiles() error {
	for _, suffix := range suffixes {
		if err := removeIfExists(s.opts.FS, s.path(suffix)); err != nil {
			return err
		}
	}
	return nil
}
