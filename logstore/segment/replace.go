package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// Stage says whether a segment's files have their names already. One that is to replace others
// is written under names of its own; so is one of Kafka's.
//
//	00000000000000004711.log.cleaned   being written
//	00000000000000004711.log.swap      whole: whatever lies in its range is to be removed
//	00000000000000004711.log           in place
type Stage int8

// The stages, in their order.
const (
	InPlace Stage = iota
	Cleaned
	Swap
)

// Suffixes of the names of files that are not in place; those of Kafka.
const (
	CleanedSuffix = ".cleaned"
	SwapSuffix    = ".swap"
)

func (t Stage) suffix() string {
	switch t {
	case Cleaned:
		return CleanedSuffix
	case Swap:
		return SwapSuffix
	default:
		return ""
	}
}

// ParseStagedName is ParseFileName for names of all stages.
func ParseStagedName(name string) (base int64, suffix string, stage Stage, ok bool) {
	for _, t := range []Stage{Cleaned, Swap} {
		if head, cut := strings.CutSuffix(name, t.suffix()); cut {
			name, stage = head, t
			break
		}
	}
	base, suffix, ok = ParseFileName(name)
	return base, suffix, stage, ok
}

// StagedName is FileName at a stage.
func StagedName(base int64, suffix string, stage Stage) string {
	return FileName(base, suffix) + stage.suffix()
}

// stages are those of a segment's files: the indexes get their names before the log does.
type stages struct{ log, indexes Stage }

func (t stages) of(suffix string) Stage {
	if suffix == LogSuffix {
		return t.log
	}
	return t.indexes
}

// CreateCleaned is Create for a segment that is to replace others. Files of that stage are left
// over from an attempt before, and are replaced. All four files are written in the end, also
// the transaction index where it is empty: each has to take the place of one. The log file
// stays open until it is in place.
func CreateCleaned(dir string, base int64, now time.Time, o *Options) (*Segment, error) {
	s := New(dir, base, now, o)
	s.stages = stages{Cleaned, Cleaned}
	if err := s.removeFiles(); err != nil {
		return nil, fmt.Errorf("create segment %d: %w", base, err)
	}
	if err := s.MakeFiles(); err != nil {
		_ = s.removeFiles() // what went wrong first is what counts
		return nil, err
	}
	s.txns.shrunk = true
	s.hold(true)
	return s, nil
}

// OpenSwap returns a segment whose log file is at the stage Swap, to be looked at: its options
// must be ReadOnly.
func OpenSwap(dir string, base, size int64, now time.Time, o *Options) *Segment {
	s := OpenSized(dir, base, size, now, now, o)
	s.stages = stages{Swap, Swap}
	return s
}

// SetModified sets when the log file was written last. After an error it is so in memory.
func (s *Segment) SetModified(t time.Time) error {
	s.mu.Lock()
	s.modifiedMs = t.UnixMilli()
	s.mu.Unlock()
	if err := s.opts.FS.SetModTime(s.Path(), t); err != nil {
		return fmt.Errorf("set time of segment %d: %w", s.base, err)
	}
	return nil
}

// MoveIndexes renames the index files to their names at a stage. What cannot be renamed leaves
// the rest to the next call. The caller syncs the directory.
func (s *Segment) MoveIndexes(to Stage) error {
	s.indexMu.Lock() // whoever is writing an index would make its file again
	defer s.indexMu.Unlock()
	if s.isClosed() {
		return ErrClosed
	}
	from := s.stagesNow().indexes
	for _, suffix := range []string{IndexSuffix, TimeIndexSuffix, TxnIndexSuffix} {
		err := s.move(suffix, from, to)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it was moved before an error
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stages.indexes = to
	return nil
}

// MoveLog renames the log file. When it is in place, it may be closed again.
func (s *Segment) MoveLog(to Stage) error {
	if err := s.move(LogSuffix, s.stagesNow().log, to); err != nil {
		return err
	}
	s.mu.Lock()
	s.stages.log = to
	s.mu.Unlock()
	if to == InPlace {
		s.hold(false)
	}
	return nil
}

func (s *Segment) stagesNow() stages {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.stages
}

func (s *Segment) move(suffix string, from, to Stage) error {
	s.mu.RLock()
	dir := s.dir
	s.mu.RUnlock()
	old, name := StagedName(s.base, suffix, from), StagedName(s.base, suffix, to)
	if err := s.opts.FS.Rename(filepath.Join(dir, old), filepath.Join(dir, name)); err != nil {
		return fmt.Errorf("rename %s to %s: %w", old, name, err)
	}
	return nil
}

// DropEmptyTxnIndex removes the file of a transaction index without entries.
func (s *Segment) DropEmptyTxnIndex() error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	s.mu.RLock()
	empty := s.txns.loaded && s.txns.len() == 0
	s.mu.RUnlock()
	if !empty || s.isClosed() {
		return nil
	}
	return removeIfExists(s.opts.FS, s.path(TxnIndexSuffix))
}

// hold keeps the log file open, or no longer does. It is called while the file is open, or by
// a caller who knows that nobody else uses the segment.
func (s *Segment) hold(held bool) {
	p := s.opts.Pool
	p.mu.Lock()
	s.file.held = held
	v := p.park(s)
	p.mu.Unlock()
	v.close()
}

// Discard is Delete for one that has not come as far as to have its log at the stage Swap: the
// indexes may be at that stage, some of them.
func (s *Segment) Discard() error {
	s.Abandon()
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	for _, stage := range []Stage{Cleaned, Swap} {
		s.mu.Lock()
		s.stages.indexes = stage
		s.mu.Unlock()
		if err := s.removeFiles(); err != nil {
			return fmt.Errorf("discard segment %d: %w", s.base, err)
		}
	}
	return nil
}

// IndexBytes are the sizes of the offset and the time index.
func (s *Segment) IndexBytes() (offsets, times int64, err error) {
	if err := s.rlockContent(); err != nil {
		return 0, 0, err
	}
	defer s.mu.RUnlock()
	return int64(len(s.content.offsets.raw)), int64(len(s.content.times.raw)), nil
}
