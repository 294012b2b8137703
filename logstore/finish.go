package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/logstore/producerstate"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// copyStep is how much Finish copies at a time.
const copyStep = 1 << 20

// Finish copies the rest and makes the copy the log of the partition, which can be read from
// then on. The caller has seen to it that nobody appends to the original or deletes records
// from it; what retention takes from it meanwhile, the copy may still have. hw is the high
// watermark for the new directory's checkpoint. Leave must follow before the first append.
//
// After an error the original is in use as before, and so is the copy unless it is Gone.
func (m *Move) Finish(now time.Time, hw offset.HighWatermark) (*Log, error) {
	l, err := m.finish(now, hw)
	if errors.Is(err, ErrGivenUp) && !m.Gone() {
		err = errors.Join(err, m.Cancel(now)) // who was told that it may go on has changed the original
	}
	if err != nil {
		return nil, fmt.Errorf("finish copy of %s: %w", m.from.id, err)
	}
	l.dir.mu.Lock()
	delete(l.dir.futures, l.id.key())
	l.dir.mu.Unlock()
	l.dir.register(l)
	l.noteUncleaned()
	l.dir.o.Logger.Info("partition moved", "from", m.from.path, "to", l.path, "end", l.LogEnd())
	return l, nil
}

func (m *Move) finish(now time.Time, hw offset.HighWatermark) (*Log, error) {
	if err := m.finishCopy(now); err != nil {
		return nil, err
	}
	if err := m.seal(now, hw); err != nil {
		return nil, err
	}
	if m.isGivenUp() {
		return nil, ErrGivenUp
	}
	l, err := m.putInPlace(now)
	if err != nil {
		return nil, fmt.Errorf("put it in place: %w", err)
	}
	return l, nil
}

// ErrGivenUp is returned by a Finish that came too late.
var ErrGivenUp = errors.New("the move was given up meanwhile")

// GiveUp has a Finish that is under way, or comes later, fail, however long it still waits for a disk. From
// then on the original may be used as if there were no copy. false if the copy has become
// the log. It waits for nobody, and may be called at any time.
func (m *Move) GiveUp() bool {
	return m.fate.CompareAndSwap(undecided, givenUp) || m.isGivenUp()
}

func (m *Move) isGivenUp() bool { return m.fate.Load() == givenUp }

// Gone tells that there is no copy any more to go on with.
func (m *Move) Gone() bool { return m.future.isClosed() }

// finishCopy copies until nothing is left.
func (m *Move) finishCopy(now time.Time) error {
	for {
		if m.isGivenUp() {
			return ErrGivenUp
		}
		if _, err := m.Copy(now, copyStep); err != nil {
			return err
		}
		if m.Lag() == 0 && m.from.truncationCount() == m.truncations {
			return nil
		}
	}
}

// seal makes the copy whole and durable: producers, epochs, records, indexes, names and
// marks.
func (m *Move) seal(now time.Time, hw offset.HighWatermark) error {
	l := m.future
	if err := m.takeOverProducers(now); err != nil {
		return err
	}
	if entries := m.from.epochs.Entries(); !slices.Equal(entries, l.epochs.Entries()) {
		l.epochs.Clear()
		for _, e := range entries {
			l.epochs.Assign(e.Epoch, e.StartOffset)
		}
	}
	if err := m.Settle(now); err != nil {
		return err
	}
	l.dir.marks.lock()
	defer l.dir.marks.unlock()
	end := int64(l.LogEnd())
	l.dir.marks.setFlushed(l.id, end)
	l.dir.marks.setRecovery(l.id, end)
	l.dir.marks.setStart(l.id, int64(l.LogStart()))
	l.dir.marks.setHighWatermark(l.id, int64(hw))
	l.dir.marks.setCleaned(l.id, m.cleaned())
	if err := l.dir.marks.raise(highWatermarkMarks, cleanedMarks); err != nil {
		return l.dir.checkpointError(err)
	}
	return nil
}

// cleaned is up to where the copy is clean. If the original was cleaned while it was copied, the copy
// has records of before: it must not lose the tombstones among them before what they delete, so
// all of it is cleaned again.
func (m *Move) cleaned() int64 {
	if m.from.swapCount() != m.swaps {
		return 0
	}
	return max(m.from.CleanedTo(), 0)
}

// takeOverProducers gives the copy the producers of the original. Its snapshot at the end is
// theirs, also if that is empty: without any, a start would look for producers in all of
// the log.
func (m *Move) takeOverProducers(now time.Time) error {
	state := producerstate.New(producerstate.Options{})
	if err := m.from.copyProducers(now, state); err != nil {
		return err
	}
	l := m.future
	l.writer.Lock()
	defer l.writer.Unlock()
	if err := l.producers.DeleteSnapshotsAbove(l.end() - 1); err != nil {
		return l.ioError("take over producers of", err)
	}
	l.producers.CopyFrom(state)
	l.producers.SetEndOffset(l.end())
	l.loaded = true
	l.noteProducers()
	return nil
}

func (l *Log) copyProducers(now time.Time, into *producerstate.Manager) error {
	l.writer.Lock()
	defer l.writer.Unlock()
	if l.unborn { // no producers are known, and the disk that it is to leave may be full
		return l.usable()
	}
	if err := l.ready(now); err != nil {
		return err
	}
	into.CopyFrom(l.producers)
	return nil
}

// putInPlace gives the copy's directory the partition's name, durably, and opens the log in
// it as a start would. It is not in use yet. If that fails it is thrown away.
func (m *Move) putInPlace(now time.Time) (*Log, error) {
	l, d := m.future, m.future.dir
	path := d.file(partitionDirName(l.id.Topic, l.id.Partition))
	if _, err := d.o.FS.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil, cmp.Or(err, fs.ErrExist)
	}
	l.abandon()
	l.names.Lock()
	err := d.o.FS.Rename(l.path, path)
	l.names.Unlock()
	if err != nil {
		return nil, errors.Join(l.ioError("put in place", err), d.undo(now, l, l.path))
	}
	if err := d.o.FS.SyncDir(d.o.Path); err != nil {
		return nil, errors.Join(l.ioError("put in place", err), d.undo(now, l, path))
	}
	opened, err := m.reopen(now, path)
	if err == nil && !m.fate.CompareAndSwap(undecided, taken) {
		opened.abandon()
		err = ErrGivenUp
	}
	if err != nil {
		return nil, errors.Join(err, d.undo(now, l, path))
	}
	return opened, nil
}

// reopen opens what has become of the copy, and compares.
func (m *Move) reopen(now time.Time, path string) (*Log, error) {
	d, want := m.future.dir, m.future
	d.marks.lock()
	o := &opening{d: d, now: now, unknown: d.marks.flushedUnknown}
	o.known, _ = want.ended(true)
	o.l = d.newLog(want.id, path, m.from.Config())
	err := o.open()
	d.marks.unlock()
	if err != nil {
		return nil, err
	}
	if err := m.compare(now, o.l); err != nil {
		o.abandon()
		return nil, err
	}
	return o.l, nil
}

// compare checks what was opened, and gives it the producers, which it need not read again.
func (m *Move) compare(now time.Time, l *Log) error {
	want := m.future
	if l.LogEnd() != want.LogEnd() || l.LogStart() != want.LogStart() || int64(l.Flushed()) != int64(l.LogEnd()) {
		return fmt.Errorf("the copy was [%d, %d), and is [%d, %d), flushed up to %d",
			want.LogStart(), want.LogEnd(), l.LogStart(), l.LogEnd(), l.Flushed())
	}
	for _, s := range l.segments() {
		if err := syncSegment(s); err != nil { // opening it has pinned its file until a sync
			return l.ioError("put in place", err)
		}
	}
	if err := m.from.copyProducers(now, l.producers); err != nil {
		return err
	}
	end := int64(l.LogEnd())
	for _, e := range m.from.epochs.Entries() {
		if e.StartOffset >= end { // no record is there yet that a start would know it by
			l.epochs.Assign(e.Epoch, e.StartOffset)
		}
	}
	l.producers.SetEndOffset(end)
	l.producers.SnapshotWritten(end)
	l.loaded = true
	l.noteProducers()
	return nil
}

// undo throws away what has been put in place, before the original is used again. Should a
// power cut bring it back, it has nothing that the original lacks (see Log.Outdoes).
func (d *Dir) undo(now time.Time, l *Log, path string) error {
	d.mu.Lock()
	delete(d.futures, l.id.key())
	d.mu.Unlock()
	to, err := d.rename(path, l.id.Topic, l.id.Partition, deleteSuffix)
	if err != nil {
		return l.ioError("throw away", err)
	}
	d.mu.Lock()
	d.renamed = append(d.renamed, l.id)
	d.retired = append(d.retired, retiredDir{path: to, dueMs: now.UnixMilli()})
	d.mu.Unlock()
	return d.forgetRenamed()
}

// Leave takes the original out of use and renames its directory to -delete, durably. Its
// flushed offset stays in the checkpoint. An error means that the disk which the log was to
// leave has failed; the log is where it was to go.
func (m *Move) Leave(now time.Time) error {
	l, d := m.from, m.from.dir
	if err := l.leaveTrace(); err != nil {
		d.o.Logger.Warn("directory does not remember that it has had a partition", "log", l.path, "err", err)
	}
	l.abandon()
	renamed, err := l.renameRetired(now, deleteSuffix)
	d.mu.Lock()
	delete(d.logs, l.id.key())
	d.mu.Unlock()
	if err != nil {
		return l.ioError("leave", err)
	}
	if !renamed {
		return d.Err()
	}
	return d.syncRetired()
}

// syncRetired makes the new name of a directory durable, or leaves that to the next round.
func (d *Dir) syncRetired() error {
	err := d.o.FS.SyncDir(d.o.Path)
	switch {
	case err == nil:
	case isOutOfFiles(err):
		d.noteRootUnsynced()
	default:
		d.fail(err)
	}
	return d.Err()
}

// leaveTrace sees to it that the checkpoint has a flushed offset of the log, if there are
// records.
func (l *Log) leaveTrace() error {
	d := l.dir
	d.marks.lock()
	known := d.marks.flushed[l.id.key()] > 0 && !d.marks.stale[flushedMarks]
	d.marks.unlock()
	if known || l.LogEnd() == 0 {
		return nil
	}
	if err := l.flushAlone(l.syncEverySegment, true); err != nil {
		return err
	}
	d.marks.lock()
	defer d.marks.unlock()
	d.marks.setFlushed(l.id, int64(l.Flushed()))
	if err := d.marks.raise(); err != nil {
		return d.checkpointError(err)
	}
	return nil
}

// ForgetMoved ends the memory of a partition that was moved out of this directory, when
// metadata no longer names it as the place.
func (d *Dir) ForgetMoved(id ID) error {
	if d.bears(id) {
		return nil
	}
	d.mu.Lock()
	f, failed := d.failed[id.key()]
	if failed && f.path == "" {
		delete(d.failed, id.key())
	}
	d.mu.Unlock()
	if failed && f.path != "" {
		return nil // damaged, not moved
	}
	if err := d.forgetStale(id); err != nil {
		return d.checkpointError(err)
	}
	return nil
}

// Outdoes compares two logs of one partition: +1 if l has records that the other lacks, -1
// if it is the other way round, 0 if neither has. Leaders of a later epoch have had all that
// was acknowledged in earlier ones. Of one without any epoch nothing but its end is known.
func (l *Log) Outdoes(other *Log) int {
	if l.lastBatchEpoch() < 0 || other.lastBatchEpoch() < 0 {
		return cmp.Compare(l.LogEnd(), other.LogEnd())
	}
	return cmp.Or(cmp.Compare(l.lastBatchEpoch(), other.lastBatchEpoch()), cmp.Compare(l.LogEnd(), other.LogEnd()))
}

// Contains tells whether l has, or once had, all that the other has.
func (l *Log) Contains(other *Log) bool {
	if int64(other.LogEnd()) == int64(other.LogStart()) {
		return true
	}
	last := other.lastBatchEpoch()
	end, ok := l.EndOffsetForEpoch(last)
	return ok && end.Epoch == last && end.EndOffset >= int64(other.LogEnd())
}

// lastBatchEpoch is the epoch of the last batch, also after retention has taken all; -1 if
// there was none, or none is known.
func (l *Log) lastBatchEpoch() int32 {
	start, end := int64(l.LogStart()), int64(l.LogEnd())
	at := end - 1
	if start == end && start > 0 {
		at = end
	}
	e, ok := l.EpochForOffset(at)
	if !ok {
		return -1
	}
	return e
}
