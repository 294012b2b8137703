package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/klamm-mq/klamm/logstore/epoch"
	"github.com/klamm-mq/klamm/logstore/producerstate"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// ID names the partition that a log holds.
type ID struct {
	Topic     string
	TopicID   uuid.UUID
	Partition int32
}

func (id ID) String() string { return partitionDirName(id.Topic, id.Partition) }

// Log is one partition's log: a row of segments of which the last, the active one,
// grows. It is Kafka's UnifiedLog without the high watermark, which belongs to whoever
// replicates the log.
//
//	start      recovery       flushed      end
//	  |------------|--------------|---------|
//	  segment 0    segment 1      segment 2 (active)
//
// All methods are safe for concurrent use. What changes the log is serialised by the
// log itself; whoever needs an order between an append and anything else, keeps it.
// Reads and look-ups run beside changes.
type Log struct {
	dir  *Dir
	id   ID
	path string
	// future is set for good if the log is a copy in the making (see Move).
	future bool

	config atomic.Pointer[Config]
	epochs *epoch.Cache // changed under writer, read at any time
	// unstable tells LastStable whether transactions matter.
	unstable atomic.Int32
	// producerCount is for ProducerCount.
	producerCount atomic.Int64

	// names is held, shared, by whoever makes, opens or removes files by their names
	// without holding writer; alone, while the directory is renamed, the log truncated, or
	// segments are replaced by a cleaned one.
	// It is taken before writer, and never held while a disk syncs.
	names sync.RWMutex

	// writer serialises changes. It is held while files are written, never while one
	// is synced.
	writer      sync.Mutex
	producers   *producerstate.Manager
	loaded      bool // producers holds the state, not only the names of the snapshots
	tailKnown   bool // the bytes of the active segment were seen to end at end
	openedClean bool
	torn        bool             // files of an attempt to be born are left
	segOptions  *segment.Options // of the segments to come

	// mu guards what follows. It is held for a few instructions only.
	mu       sync.RWMutex
	segs     []*segment.Segment // by base offset, never empty; replaced, not changed
	marks    logMarks
	recovery recoveryState
	closed   bool
	failure  error
	// dirUnsynced says that files were created or removed since the directory was
	// synced; metaUnsynced that partition.metadata was written and not synced.
	dirUnsynced  bool
	metaUnsynced bool
	// nameless says that no sync has covered the name of the first segment yet. Until then
	// no second one is begun (see maybeRoll).
	nameless bool
	// unborn says that there are no files yet (see birth.go). It changes under writer, too.
	unborn bool
	// swap puts a cleaned segment in place, nil if none does (cleanswap.go). While there is one,
	// nobody else takes segments away. It changes under writer, too.
	swap *swap
	// swaps counts those that readers have seen.
	swaps int64

	// onRegionError is regionFailed, made once.
	onRegionError func(error)

	// queued is set while the log is in the directory's list of wanted flushes, moved
	// while it is in its list of logs whose promises may be behind.
	queued, moved atomic.Bool
	// ahead is set while there may be zeros behind the end of the active segment (ahead.go).
	// Changed under writer.
	ahead atomic.Bool
	// resegmented is set when segments have come, ended or gone since they were noted in the
	// directory's segment checkpoint.
	resegmented atomic.Bool
	// uncleaned is set while the log is in the directory's list of logs that may have to be
	// cleaned (uncleaned.go).
	uncleaned atomic.Bool
	// cleaning is set while Clean runs.
	cleaning atomic.Bool
}

// logMarks are the offsets of a log, all guarded by Log.mu.
type logMarks struct {
	start int64
	end   int64
	// endPos is the size of the active segment when it ended at end.
	endPos  int64
	flushed int64
	// noted is the end that the round in flight will report as flushed. A truncation
	// lowers it: what is appended afterwards was not covered by that round's sync.
	noted int64
	// ceiling bounds noted between the lowering of the durable marks and the
	// truncation they were lowered for, which would otherwise be raised again.
	ceiling int64
	// unflushedSinceMs is when the first record above flushed was appended.
	unflushedSinceMs int64
	truncations      int64 // counts truncations, so that others notice one in between
	checkpointedHW   int64
	// cleaned is the first dirty offset as the last cleaning left it, notCleaned if there was
	// none.
	cleaned int64
	// securedStart is the log start up to which secureStart has been, or which was
	// persisted by an earlier run.
	securedStart int64
}

func (l *Log) ID() ID       { return l.id }
func (l *Log) Dir() *Dir    { return l.dir }
func (l *Log) Path() string { return l.path }

// LogStart is the first offset that may be read.
func (l *Log) LogStart() offset.LogStart {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return offset.LogStart(l.marks.start)
}

// LogEnd is the offset that the next record gets.
func (l *Log) LogEnd() offset.LogEnd {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return offset.LogEnd(l.marks.end)
}

// Flushed is the end of what a sync has reported durable.
func (l *Log) Flushed() offset.Flushed {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return offset.Flushed(l.marks.flushed)
}

// RecoveryPoint is from where a start after a crash would scan.
func (l *Log) RecoveryPoint() offset.RecoveryPoint {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return offset.RecoveryPoint(l.recovery.point)
}

// CheckpointedHighWatermark is the high watermark that was checkpointed last before the
// log was opened, within the log's bounds.
func (l *Log) CheckpointedHighWatermark() offset.HighWatermark {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return offset.HighWatermark(min(max(l.marks.checkpointedHW, l.marks.start), l.marks.end))
}

// SizeBytes is the size of all segments' .log files.
func (l *Log) SizeBytes() int64 {
	var n int64
	for _, s := range l.segments() {
		n += s.Size()
	}
	return n
}

// NumSegments is the number of segments, at least 1.
func (l *Log) NumSegments() int { return len(l.segments()) }

// Config is the configuration in force.
func (l *Log) Config() Config { return *l.config.Load() }

// UpdateConfig puts another configuration in force. Sizes of indexes apply to the
// segments that begin later.
func (l *Log) UpdateConfig(c Config) {
	l.writer.Lock()
	defer l.writer.Unlock()
	l.config.Store(&c)
	l.segOptions = l.dir.segmentOptions(c)
	l.noteUncleaned()
}

// Failure is why the log cannot be used, usually a *CorruptionError; nil if it can.
func (l *Log) Failure() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.failure
}

func (l *Log) isClosed() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.closed
}

// withNames runs fn while the names of the log's files are its own: after a deletion they
// may be those of the next topic of the same name. ErrClosed if that has come.
func (l *Log) withNames(fn func() error) error {
	l.names.RLock()
	defer l.names.RUnlock()
	if l.isClosed() {
		return ErrClosed
	}
	return fn()
}

// unlessGone is err, or ErrClosed if what is missing was renamed with a log that has been
// deleted: that is no failure of the disk.
func (l *Log) unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) && l.isClosed() {
		return ErrClosed
	}
	return err
}

// segments is the current row. The slice is not changed by anybody.
func (l *Log) segments() []*segment.Segment {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.segs
}

// active is the segment that grows. Callers hold writer.
func (l *Log) active() *segment.Segment {
	segs := l.segments()
	return segs[len(segs)-1]
}

// floor is the index of the segment that would hold o: the last one that begins at or
// below it, -1 if o is below them all.
func floor(segs []*segment.Segment, o int64) int {
	i, found := slices.BinarySearchFunc(segs, o, func(s *segment.Segment, o int64) int {
		switch {
		case s.BaseOffset() < o:
			return -1
		case s.BaseOffset() > o:
			return 1
		default:
			return 0
		}
	})
	if found {
		return i
	}
	return i - 1
}

// usable is nil while the log may be read and changed.
func (l *Log) usable() error {
	if err := l.dir.Err(); err != nil {
		return err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.failure != nil {
		return l.failure
	}
	if l.closed {
		return ErrClosed
	}
	return nil
}

// ioError sorts the error of a change. No room, or no descriptor left, are states that
// pass; a log that is gone answers so; damage makes this log useless; anything else is
// the end of the directory, since nobody knows what is on its disk. It returns what the
// caller reports.
func (l *Log) ioError(doing string, err error) error {
	switch err = l.unlessGone(err); {
	case isNoSpace(err):
		l.dir.noteNoSpace(err)
		return fmt.Errorf("%s %s: %w: %w", doing, l.id, ErrDirFull, err)
	case l.isAnswered(err):
		return l.answered(doing, err)
	default:
		l.dir.fail(fmt.Errorf("%s %s: %w", doing, l.path, err))
		return fmt.Errorf("%s %s: %w: %w", doing, l.id, ErrDirOffline, err)
	}
}

// syncError is ioError for a sync. If that found no room for what was written before, the next one
// may take for written what is lost: that does not pass.
func (l *Log) syncError(doing string, err error) error {
	if !isNoSpace(err) {
		return l.ioError(doing, err)
	}
	l.dir.fail(fmt.Errorf("%s %s: %w", doing, l.path, err))
	return fmt.Errorf("%s %s: %w: %s", doing, l.id, ErrDirOffline, err.Error()) // whose kind would say that it passes
}

// readError sorts the error of a read. A sector that cannot be read is this log's
// failure and not the directory's: one bad file does not take the others down (decision
// D24).
func (l *Log) readError(doing string, err error) error {
	if err = l.unlessGone(err); l.isAnswered(err) {
		return l.answered(doing, err)
	}
	failure := &CorruptionError{File: l.path, Pos: -1, Offset: -1, Err: err}
	l.fail(failure)
	return fmt.Errorf("%s %s: %w", doing, l.id, failure)
}

// regionFailed hears of a region that could not be read when it was sent, long after Read
// had returned. It means what it would have meant there.
func (l *Log) regionFailed(err error) { _ = l.readError("send from", err) }

// isAnswered: the error means the same whether it met a read or a change.
func (l *Log) isAnswered(err error) bool {
	var damage *segment.CorruptionError
	var failure *CorruptionError
	return errors.As(err, &damage) || errors.As(err, &failure) || isBusy(err) ||
		errors.Is(err, segment.ErrClosed) || errors.Is(err, ErrClosed) || errors.Is(err, ErrDirOffline) || errors.Is(err, ErrDirFull)
}

func (l *Log) answered(doing string, err error) error {
	var damage *segment.CorruptionError
	switch {
	case errors.As(err, &damage):
		failure := damaged(damage)
		l.fail(failure)
		return fmt.Errorf("%s %s: %w", doing, l.id, failure)
	case isBusy(err):
		return fmt.Errorf("%s %s: %w: %w", doing, l.id, kafkaerr.KafkaStorageError, err)
	case errors.Is(err, segment.ErrClosed):
		return fmt.Errorf("%s %s: %w", doing, l.id, ErrClosed)
	default:
		return err
	}
}

// isBusy: the process or the machine has run out of descriptors or memory. Nothing was
// done, and it can be tried again.
func isBusy(err error) bool { return isOutOfFiles(err) || errors.Is(err, syscall.ENOMEM) }

// isOutOfFiles: no descriptor is left. Unlike any other error of a sync it says nothing
// about the disk: something could not be opened in order to be synced.
func isOutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// fail takes the log out of use for the rest of the process's life.
func (l *Log) fail(err error) {
	l.mu.Lock()
	first := l.failure == nil && !l.closed
	if first {
		l.failure = err
	}
	l.mu.Unlock()
	if !first {
		return
	}
	l.dir.o.Logger.Error("partition log failed", "log", l.path, "err", err)
	if l.dir.o.OnLogFailed != nil && !l.future {
		go l.dir.o.OnLogFailed(l, err)
	}
}

func (l *Log) file(name string) string { return filepath.Join(l.path, name) }
