package logstore

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// marks is what a directory's checkpoint files hold: the offsets that survive a crash.
// Two of them carry the promise of durability.
//
//	flushed-offset-checkpoint         flushed   raised after the sync it reports
//	recovery-point-offset-checkpoint  recovery  raised after log, indexes, epochs and
//	                                            producer snapshot below it were synced
//
// Both are lowered before a truncation begins, and removed before a log is started afresh: a
// mark above what the files hold would turn a lawful end of the log into damage. They are
// removed after a log has lost its name (see forget.go). The others are hints:
//
//	log-start-offset-checkpoint       start     a lost one lets deleted records reappear
//	replication-offset-checkpoint     hw        a lost one lets the high watermark be
//	                                            found again from the followers
//	segment-checkpoint                segments  a lost one lets the next start look into
//	                                            every segment (see segments.go)
//	cleaner-offset-checkpoint         cleaned   a lost one has all of a log cleaned again
//
// What is cleaned is lowered before a truncation as well: what is appended above the cut is not
// known to the cleaner, and a tombstone among it would go before what it deletes.
//
// The maps are those of the files, also for partitions that could not be opened.
type marks struct {
	fs  vfs.FS
	dir string

	// turn is held while marks are compared and written. It is a channel, not a mutex,
	// because whoever waits for it waits for a disk.
	turn chan struct{}

	flushed  map[checkpoint.TopicIDPartition]int64
	recovery map[checkpoint.TopicPartition]int64
	start    map[checkpoint.TopicPartition]int64
	hw       map[checkpoint.TopicPartition]int64
	cleaned  map[checkpoint.TopicPartition]int64
	segments map[checkpoint.TopicIDPartition][]checkpoint.Segment

	stale [numMarkFiles]bool // the map holds what the file does not, or the other way round
	// dropped are keys that have left the map, and not yet the file: it may not be written for
	// lack of room.
	dropped [numMarkFiles]map[any]bool

	// startsTold says that there is a segment checkpoint on the disk. It is written only when
	// that of the log starts says of each log that it does not begin at 0: so what a log lacks
	// above its log start was not deleted.
	startsTold bool

	// flushedUnknown says that the flushed offsets could not be read: then nobody can
	// tell a torn tail from damage, so bad bytes count as damage.
	flushedUnknown error
	// startUnknown says the same of the log starts: then nobody can tell whether retention
	// has removed what a log may begin with.
	startUnknown error
}

func newMarks(fs vfs.FS, dir string) *marks {
	return &marks{fs: fs, dir: dir, turn: make(chan struct{}, 1)}
}

func (m *marks) lock()   { m.turn <- struct{}{} }
func (m *marks) unlock() { <-m.turn }

func (m *marks) file(name string) string { return filepath.Join(m.dir, name) }

// load reads all files. One in a bad format is reported to warn and counts as
// empty: recovery then scans from the first segment, the log start is the first
// segment's.
func (m *marks) load(warn func(err error)) error {
	var bad *checkpoint.FormatError
	flushed, err := checkpoint.ReadFlushed(m.fs, m.file(checkpoint.FlushedFile))
	if errors.As(err, &bad) {
		warn(err)
		m.flushedUnknown = err
		flushed, err = map[checkpoint.TopicIDPartition]int64{}, nil
	}
	if err != nil {
		return err
	}
	m.flushed = flushed
	for name, into := range map[string]*map[checkpoint.TopicPartition]int64{
		checkpoint.RecoveryPointFile: &m.recovery,
		checkpoint.LogStartFile:      &m.start,
		checkpoint.HighWatermarkFile: &m.hw,
		checkpoint.CleanerFile:       &m.cleaned,
	} {
		offsets, err := checkpoint.ReadOffsets(m.fs, m.file(name))
		if errors.As(err, &bad) {
			warn(err)
			if name == checkpoint.LogStartFile {
				m.startUnknown = err
			}
			offsets, err = map[checkpoint.TopicPartition]int64{}, nil
		}
		if err != nil {
			return err
		}
		*into = offsets
	}
	return m.loadSegments(warn)
}

// persisted is the offset below which the files of a partition must be whole: a
// recovery point says as much as a flushed offset.
func (m *marks) persisted(id ID) int64 {
	return max(m.flushed[id.key()], m.recovery[id.name()])
}

// markFile is one of the files.
type markFile int8

// A recovery point also vouches for what is flushed, so flushed offsets are written first when
// both rise.
const (
	flushedMarks markFile = iota
	recoveryMarks
	startMarks
	highWatermarkMarks
	segmentMarks
	cleanedMarks
	numMarkFiles
)

// set replaces one mark and reports whether that was news; a missing one counts as 0.
func set[K comparable](into map[K]int64, key K, o int64) bool {
	if into[key] == o {
		return false
	}
	into[key] = o
	return true
}

// drop takes a key out of the map of a file.
func drop[K comparable, V any](m *marks, file markFile, from map[K]V, key K) {
	if _, ok := from[key]; !ok {
		return
	}
	delete(from, key)
	if m.dropped[file] == nil {
		m.dropped[file] = map[any]bool{}
	}
	m.dropped[file][key] = true
	m.stale[file] = true
}

// dropOthers takes those keys out that are not among the ones to keep.
func dropOthers[K comparable, V any](m *marks, file markFile, from map[K]V, keep map[K]bool) {
	for key := range from {
		if !keep[key] {
			drop(m, file, from, key)
		}
	}
}

// note marks a file as behind its map, if news.
func (m *marks) note(file markFile, news bool) {
	m.stale[file] = m.stale[file] || news
}

func (m *marks) setFlushed(id ID, o int64)  { m.note(flushedMarks, set(m.flushed, id.key(), o)) }
func (m *marks) setRecovery(id ID, o int64) { m.note(recoveryMarks, set(m.recovery, id.name(), o)) }
func (m *marks) setStart(id ID, o int64)    { m.note(startMarks, set(m.start, id.name(), o)) }
func (m *marks) setHighWatermark(id ID, o int64) {
	m.note(highWatermarkMarks, set(m.hw, id.name(), o))
}
func (m *marks) setCleaned(id ID, o int64) { m.note(cleanedMarks, set(m.cleaned, id.name(), o)) }

// lower brings all marks of each log down to where it is about to be cut, durably. The
// promises must not lie above the cut; a start or a high watermark left above it would
// be believed again when the log has grown past it.
func (m *marks) lower(ts []Truncation) error {
	for _, t := range ts {
		id := t.Log.id
		m.setFlushed(id, min(t.To, m.flushed[id.key()]))
		m.setRecovery(id, min(t.To, m.recovery[id.name()]))
		m.setStart(id, min(t.To, m.start[id.name()]))
		m.setHighWatermark(id, min(t.To, m.hw[id.name()]))
		m.setCleaned(id, min(t.To, m.cleaned[id.name()]))
	}
	return m.write(flushedMarks, recoveryMarks, startMarks, highWatermarkMarks, cleanedMarks)
}

// knows tells whether anything is known under the id or name of a partition, here or in a file.
func (m *marks) knows(id ID) bool {
	return has(m, flushedMarks, m.flushed, id.key()) || has(m, segmentMarks, m.segments, id.key()) ||
		has(m, recoveryMarks, m.recovery, id.name()) || has(m, startMarks, m.start, id.name()) ||
		has(m, highWatermarkMarks, m.hw, id.name()) || has(m, cleanedMarks, m.cleaned, id.name())
}

func has[K comparable, V any](m *marks, file markFile, in map[K]V, key K) bool {
	_, ok := in[key]
	return ok || m.dropped[file][key]
}

// remove forgets partitions, durably; but not what is known under names that others bear.
func (m *marks) remove(ids []ID, others map[checkpoint.TopicPartition]bool) error {
	for _, id := range ids {
		drop(m, flushedMarks, m.flushed, id.key())
		drop(m, segmentMarks, m.segments, id.key())
		if others[id.name()] {
			continue
		}
		drop(m, recoveryMarks, m.recovery, id.name())
		drop(m, startMarks, m.start, id.name())
		drop(m, highWatermarkMarks, m.hw, id.name())
		drop(m, cleanedMarks, m.cleaned, id.name())
	}
	return m.write(flushedMarks, recoveryMarks, startMarks, highWatermarkMarks, segmentMarks, cleanedMarks)
}

// byName are the marks that are kept under names.
func (m *marks) byName() map[markFile]map[checkpoint.TopicPartition]int64 {
	return map[markFile]map[checkpoint.TopicPartition]int64{
		recoveryMarks: m.recovery, startMarks: m.start, highWatermarkMarks: m.hw, cleanedMarks: m.cleaned,
	}
}

// knowsOthers tells whether prune and pruneSegments would find anything.
// keepLost counts logs as there that are missing though they were flushed, on a disk that is not
// mounted say: when they are back, all that is known of them has to be. Without its log start
// one would seem to have lost its beginning. A flushed offset does not tell the name, so all
// names with its partition's number stay.
func (m *marks) keepLost(names map[checkpoint.TopicPartition]bool, have map[checkpoint.TopicIDPartition]bool) {
	lost := map[int32]bool{}
	for key, flushed := range m.flushed {
		if flushed > 0 && !have[key] {
			lost[key.Partition], have[key] = true, true
		}
	}
	for _, of := range m.byName() {
		for name := range of {
			if lost[name.Partition] {
				names[name] = true
			}
		}
	}
}

func (m *marks) knowsOthers(names map[checkpoint.TopicPartition]bool, have map[checkpoint.TopicIDPartition]bool) bool {
	for _, of := range m.byName() {
		for name := range of {
			if !names[name] {
				return true
			}
		}
	}
	for key := range m.segments {
		if !have[key] {
			return true
		}
	}
	return false
}

// prune forgets the marks under names that no directory bears. Flushed offsets stay:
// what they say about a missing directory is not forgotten by itself.
func (m *marks) prune(names map[checkpoint.TopicPartition]bool) {
	for file, of := range m.byName() {
		dropOthers(m, file, of, names)
	}
}

// raise writes what has risen. A log start comes before the promises of what lies above it,
// also if both were forgotten with a log that starts afresh: else the log would seem to have
// lost its beginning.
func (m *marks) raise(more ...markFile) error {
	return m.write(append([]markFile{startMarks, flushedMarks, recoveryMarks}, more...)...)
}

// write brings those files up to date that are behind. A file whose write failed stays
// behind, so that nobody mistakes a mark that was lowered in vain for a lowered one.
func (m *marks) write(files ...markFile) error {
	for _, f := range files {
		if !m.stale[f] {
			continue
		}
		if err := m.writeOne(f); err != nil {
			return fmt.Errorf("write checkpoint of %s: %w", m.dir, err)
		}
		m.stale[f], m.dropped[f] = false, nil
	}
	return nil
}

func (m *marks) writeOne(f markFile) error {
	switch f {
	case flushedMarks:
		return checkpoint.WriteFlushed(m.fs, m.file(checkpoint.FlushedFile), m.flushed)
	case recoveryMarks:
		return checkpoint.WriteOffsets(m.fs, m.file(checkpoint.RecoveryPointFile), m.recovery)
	case startMarks:
		return checkpoint.WriteOffsets(m.fs, m.file(checkpoint.LogStartFile), m.start)
	case segmentMarks:
		return m.writeSegments()
	case cleanedMarks:
		return checkpoint.WriteOffsets(m.fs, m.file(checkpoint.CleanerFile), m.cleaned)
	default:
		return checkpoint.WriteOffsets(m.fs, m.file(checkpoint.HighWatermarkFile), m.hw)
	}
}

func (id ID) key() checkpoint.TopicIDPartition {
	return checkpoint.TopicIDPartition{TopicID: id.TopicID, Partition: id.Partition}
}

func (id ID) name() checkpoint.TopicPartition {
	return checkpoint.TopicPartition{Topic: id.Topic, Partition: id.Partition}
}
