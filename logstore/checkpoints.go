package logstore

import (
	"errors"
	"fmt"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// noteMoved puts a log on the list of those whose persisted promises may be behind.
func (d *Dir) noteMoved(l *Log) {
	if l.moved.Swap(true) {
		return
	}
	d.mu.Lock()
	d.moved[l] = struct{}{}
	d.mu.Unlock()
}

func (d *Dir) movedLogs() []*Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	return sortedLogs(d.moved)
}

// noteSettled takes a log off the list. The race: an append publishes its end, finds
// moved still set and leaves it; then moved is cleared here. So the log is looked at
// once more afterwards.
func (d *Dir) noteSettled(l *Log) {
	d.mu.Lock()
	delete(d.moved, l)
	l.moved.Store(false)
	d.mu.Unlock()
	if !l.settled() {
		d.noteMoved(l)
	}
}

// settled: nothing is left that a checkpoint could say of the log, nor zeros to be cut off.
func (l *Log) settled() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.closed || l.failure != nil ||
		!l.ahead.Load() && l.marks.flushed == l.marks.end && l.recovery.point == l.marks.end &&
			l.recovery.pending == noPending && !l.recovery.bare
}

// checkpointPromises persists the flushed offsets and recovery points of the logs that
// moved, and before them where those logs begin. The values are read while the turn is held,
// so that a truncation, which lowers them under the same turn, is never undone.
func (d *Dir) checkpointPromises() error {
	d.marks.lock()
	defer d.marks.unlock()
	moved := d.movedLogs()
	backups := make([]int64, len(moved))
	for i, l := range moved {
		l.mu.RLock()
		flushed, point, closed := l.marks.flushed, l.recovery.point, l.closed
		if backups[i] = noPending; l.recovery.backed {
			backups[i] = point
		}
		l.mu.RUnlock()
		if !closed {
			d.marks.setStart(l.id, l.belowCut(l.securedLogStart()))
			d.marks.setFlushed(l.id, flushed)
			d.marks.setRecovery(l.id, point)
		}
	}
	if err := d.marks.raise(); err != nil {
		return d.checkpointError(err)
	}
	if !d.marks.startsTold {
		d.marks.note(segmentMarks, true)
		if err := d.marks.write(segmentMarks); err != nil {
			return d.checkpointError(err)
		}
	}
	for i, l := range moved {
		l.mu.Lock()
		l.recovery.backup = backups[i]
		l.mu.Unlock()
		if l.settled() {
			d.noteSettled(l)
		}
	}
	return nil
}

// belowCut bounds what a checkpoint says by the log end, also by one to come: a truncation
// has lowered the marks for it, and one that rose again before the cut would be believed
// when the log has grown past it.
func (l *Log) belowCut(o int64) int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return min(o, l.marks.end, l.marks.ceiling)
}

// PersistLogStarts makes durable where those logs begin: no crash brings back what
// AdvanceLogStart has taken away before the call. Callers at the same time share one write,
// and without news there is none.
func (d *Dir) PersistLogStarts(logs ...*Log) error {
	if err := d.Err(); err != nil {
		return err
	}
	for _, l := range logs {
		if err := l.secureStartNow(); err != nil {
			return fmt.Errorf("persist the log start of %s: %w", l.id, err)
		}
	}
	return d.checkpointLogStarts()
}

// secureStartNow is secureStart of a log that loses no segment.
func (l *Log) secureStartNow() error {
	wrote, err := l.secureStart(nil)
	if err == nil && wrote {
		err = l.unlessGone(l.dir.o.FS.SyncDir(l.path))
	}
	if err != nil {
		return l.ioError("persist the log start of", err)
	}
	return nil
}

// checkpointAllLogStarts persists where every log begins.
func (d *Dir) checkpointAllLogStarts() error {
	return errors.Join(d.secureStarts(), d.checkpointLogStarts())
}

func (d *Dir) secureStarts() error {
	var failed error
	for _, l := range d.everyLog() {
		if l.usable() == nil {
			failed = errors.Join(failed, l.secureStartNow())
		}
	}
	return failed
}

// checkpointLogStarts persists where each log begins, as far as that is secured.
func (d *Dir) checkpointLogStarts() error {
	d.marks.lock()
	defer d.marks.unlock()
	for _, l := range d.everyLog() {
		if !l.isClosed() {
			d.marks.setStart(l.id, l.belowCut(l.securedLogStart()))
		}
	}
	if err := d.marks.write(startMarks); err != nil {
		return d.checkpointError(err)
	}
	return nil
}

// securedLogStart is the log start that may be persisted, see secureStart. It does not fall
// behind again when the recovery point does.
func (l *Log) securedLogStart() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &l.marks
	m.securedStart = max(m.securedStart, min(m.start, l.recovery.backup))
	return min(m.start, m.securedStart)
}

// checkpointHighWatermarks persists what is told of the logs' high watermarks.
func (d *Dir) checkpointHighWatermarks(of func(*Log) (offset.HighWatermark, bool)) error {
	d.marks.lock()
	defer d.marks.unlock()
	for _, l := range d.Logs() {
		if hw, ok := of(l); ok && !l.isClosed() {
			d.marks.setHighWatermark(l.id, l.belowCut(int64(hw)))
		}
	}
	if err := d.marks.write(highWatermarkMarks); err != nil {
		return d.checkpointError(err)
	}
	return nil
}

// checkpointError sorts the error of a checkpoint's write: without room the old
// checkpoint stays and the write is tried again; anything else is the disk's failure.
func (d *Dir) checkpointError(err error) error {
	if isNoSpace(err) {
		d.noteNoSpace(err)
		return fmt.Errorf("%w: %w", ErrDirFull, err)
	}
	if isBusy(err) {
		return fmt.Errorf("%w: %w", kafkaerr.KafkaStorageError, err)
	}
	d.fail(err)
	return fmt.Errorf("%w: %w", ErrDirOffline, err)
}
