package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// Flush is one segment's part in a group commit: what is written now becomes durable
// with the sync that follows.
//
//	f, err := s.BeginFlush()   // nil: nothing to do
//	err = f.File().Sync()      // or with others, by vfs.Syncer
//	f.Finish(err)
type Flush struct {
	s       *Segment
	file    *openFile
	changes uint64
}

// BeginFlush holds the file for a sync; nil if everything is flushed. What was appended
// before the call is durable after the sync. The caller syncs File and calls Finish
// exactly once.
func (s *Segment) BeginFlush() (*Flush, error) {
	if !s.Unflushed() {
		return nil, nil
	}
	file, err := s.acquire()
	if err != nil {
		return nil, fmt.Errorf("flush segment %d: %w", s.base, err)
	}
	p := s.opts.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	return &Flush{s: s, file: file, changes: s.file.changes}, nil
}

// File is what must be synced.
func (f *Flush) File() vfs.File { return f.file.File }

// Forget has the system drop what has been synced from its page cache.
func (f *Flush) Forget() { vfs.DontNeed(f.File(), 0, f.s.Size()&^(smallestPage-1)) }

// smallestPage is that of any system: the page that is not full yet will be written to.
const smallestPage = 4 << 10

// Finish reports the sync. With nil, and if nothing has begun to change the file since
// BeginFlush, it need no longer stay open. After an error it stays pinned.
func (f *Flush) Finish(err error) {
	if err == nil {
		f.s.flushed(f.changes)
	}
	f.s.release(f.file)
}

// WriteIndexes writes what is new in the indexes to their files, without sync. Errors are
// ErrClosed or the file system's.
func (s *Segment) WriteIndexes() error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if s.isClosed() {
		return ErrClosed // its files may be gone, and must not come back
	}
	for _, kind := range indexKinds {
		if err := s.writeIndex(kind); err != nil {
			return fmt.Errorf("write indexes of segment %d: %w", s.base, err)
		}
	}
	s.countIndex()
	return nil
}

// indexKind numbers the index files.
type indexKind int

const (
	offsetKind indexKind = iota
	timeKind
	txnKind
	numKinds
)

var indexKinds = [...]indexKind{offsetKind, timeKind, txnKind}

func (k indexKind) suffix() string { return suffixes[1+k] }

// entries of a kind. Called with mu held.
func (s *Segment) entries(kind indexKind) *entries {
	switch kind {
	case offsetKind:
		return &s.content.offsets.entries
	case timeKind:
		return &s.content.times.entries
	default:
		return &s.txns.entries
	}
}

// writeIndex writes one file, if it differs from what is in memory. Entries may be added
// meanwhile; if any were taken away, the file is written again next time.
func (s *Segment) writeIndex(kind indexKind) error {
	s.mu.RLock()
	noted, generation := *s.entries(kind), s.indexGeneration
	s.mu.RUnlock()
	if !noted.pending() {
		return nil
	}
	if err := noted.write(s.opts.FS, s.path(kind.suffix())); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsynced[kind] = true
	if s.indexGeneration == generation {
		e := s.entries(kind)
		e.written, e.shrunk = len(noted.raw), false
	}
	return nil
}

// SyncIndexes writes what is new in the indexes and syncs the files that were written
// since the last sync. It holds no lock while the disk works.
func (s *Segment) SyncIndexes() error {
	b, err := s.BeginIndexSync()
	if err != nil {
		return err
	}
	for _, f := range b.Files() {
		if err = f.Sync(); err != nil {
			break
		}
	}
	b.Finish(err)
	if err != nil {
		return fmt.Errorf("sync indexes of segment %d: %w", s.base, err)
	}
	return nil
}

// IndexSync is a segment's part in a sync of many index files.
type IndexSync struct {
	s     *Segment
	kinds []indexKind
	files []vfs.File
}

// BeginIndexSync writes what is new in the indexes and opens the files that were written
// since the last sync. The caller syncs Files and calls Finish exactly once.
func (s *Segment) BeginIndexSync() (*IndexSync, error) {
	if err := s.WriteIndexes(); err != nil {
		return nil, err
	}
	b := &IndexSync{s: s}
	for _, kind := range indexKinds {
		if err := b.add(kind); err != nil {
			b.Finish(err)
			return nil, fmt.Errorf("sync indexes of segment %d: %w", s.base, err)
		}
	}
	return b, nil
}

// add opens a file that has to be synced. The mark is taken away now and put back if the
// sync fails, so that one that is set meanwhile stays.
func (b *IndexSync) add(kind indexKind) error {
	b.s.mu.Lock()
	unsynced := b.s.unsynced[kind]
	b.s.unsynced[kind] = false
	b.s.mu.Unlock()
	if !unsynced {
		return nil
	}
	b.kinds = append(b.kinds, kind)
	f, err := b.s.opts.FS.OpenFile(b.s.path(kind.suffix()), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) && b.s.isClosed() {
		return ErrClosed
	}
	if err != nil {
		return err
	}
	b.files = append(b.files, f)
	return nil
}

// Files are what must be synced; none if everything is.
func (b *IndexSync) Files() []vfs.File { return b.files }

// Finish reports the sync and closes the files.
func (b *IndexSync) Finish(err error) {
	for _, f := range b.files {
		_ = f.Close() // synced or lost
	}
	if err == nil {
		return
	}
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	for _, kind := range b.kinds {
		b.s.unsynced[kind] = true
	}
}
