package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// retiredDir is a directory named -delete whose files go when its time has come.
type retiredDir struct {
	path  string
	dueMs int64
}

// removeRetry is how long a directory stays that could not be removed.
const removeRetry = time.Minute

// DeleteLogs takes logs out of use and renames their directories to -delete; the files
// go after file.delete.delay.ms. Regions in flight stay readable.
func (d *Dir) DeleteLogs(now time.Time, logs ...*Log) error {
	return d.retireLogs(now, logs, deleteSuffix)
}

// SetAside takes logs out of use and renames their directories to -stray, where nothing
// touches them: partitions that metadata does not know, or that are damaged and about
// to be fetched again.
func (d *Dir) SetAside(now time.Time, logs ...*Log) error {
	return d.retireLogs(now, logs, straySuffix)
}

// retireLogs forgets the logs' marks with one write for all, when they have lost their names
// for good (forgetRenamed).
func (d *Dir) retireLogs(now time.Time, logs []*Log, suffix string) error {
	d.noteTime(now)
	if len(logs) == 0 {
		return nil
	}
	for _, l := range logs {
		l.close()
	}
	if err := d.Err(); err != nil {
		return err
	}
	for _, l := range logs {
		l.abandon()
		renamed, err := l.renameRetired(now, suffix)
		if err != nil {
			return errors.Join(l.ioError("retire", err), d.forgetRenamed())
		}
		d.mu.Lock()
		delete(d.shelf(l), l.id.key())
		if renamed {
			d.renamed = append(d.renamed, l.id)
		}
		d.mu.Unlock()
	}
	return d.forgetRenamed()
}

// renameRetired gives the directory of a log that has been abandoned another name; false if
// it was never born. What is named -delete is removed later.
func (l *Log) renameRetired(now time.Time, suffix string) (renamed bool, err error) {
	if l.isUnborn() {
		return false, nil
	}
	d := l.dir
	l.names.Lock()
	to, err := d.rename(l.path, l.id.Topic, l.id.Partition, suffix)
	l.names.Unlock()
	if err == nil && suffix == deleteSuffix {
		d.mu.Lock()
		d.retired = append(d.retired, retiredDir{path: to, dueMs: now.UnixMilli() + l.Config().FileDeleteDelayMs})
		d.mu.Unlock()
	}
	return err == nil, err
}

// SetAsideFailed does the same for partitions that OpenLogs has reported as failed, so
// that CreateLog may begin them anew. Of a missing one only the marks are left to go.
// Partitions that are not among the failed ones are passed over.
func (d *Dir) SetAsideFailed(now time.Time, ids ...ID) error {
	return d.retireFailed(now, ids, straySuffix)
}

// DeleteFailed is DeleteLogs for partitions that OpenLogs has reported as failed: their
// topics were deleted, and the names of their directories are wanted by the next.
func (d *Dir) DeleteFailed(now time.Time, ids ...ID) error {
	return d.retireFailed(now, ids, deleteSuffix)
}

func (d *Dir) retireFailed(now time.Time, ids []ID, suffix string) error {
	d.noteTime(now)
	var failed []failedDir
	d.mu.Lock()
	for _, id := range ids {
		if f, ok := d.failed[id.key()]; ok {
			failed = append(failed, f)
		}
	}
	d.mu.Unlock()
	if len(failed) == 0 {
		return nil
	}
	for _, f := range failed {
		if err := d.renameFailed(now, f, suffix); err != nil {
			err = fmt.Errorf("retire failed partition %s: %w", f.id, d.checkpointError(err))
			return errors.Join(err, d.forgetRenamed())
		}
	}
	return d.forgetRenamed()
}

// renameFailed is renameRetired of what could not be opened. Of a partition that is missing
// somebody else has made the name go.
func (d *Dir) renameFailed(now time.Time, f failedDir, suffix string) error {
	to, err := "", error(nil)
	if f.path != "" {
		to, err = d.rename(f.path, f.id.Topic, f.id.Partition, suffix)
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.failed, f.id.key())
	d.renamed = append(d.renamed, f.id)
	if f.path != "" && suffix == deleteSuffix {
		d.retired = append(d.retired, retiredDir{path: to, dueMs: now.UnixMilli() + DefaultConfig().FileDeleteDelayMs})
	}
	return nil
}

func (d *Dir) rename(path, topic string, partition int32, suffix string) (string, error) {
	name, err := retiredDirName(d.o.Rand, topic, partition, suffix)
	if err != nil {
		return "", err
	}
	to := filepath.Join(d.o.Path, name)
	d.o.Logger.Info("partition directory renamed", "from", path, "to", to)
	return to, d.o.FS.Rename(path, to)
}

// removeRetired removes the directories whose time has come.
func (d *Dir) removeRetired(now time.Time) {
	d.mu.Lock()
	var due []retiredDir
	var later []retiredDir
	for _, r := range d.retired {
		if r.dueMs <= now.UnixMilli() {
			due = append(due, r)
		} else {
			later = append(later, r)
		}
	}
	d.retired = later
	d.mu.Unlock()
	for _, r := range due {
		if err := d.o.FS.RemoveAll(r.path); err != nil {
			d.notRemoved(now, r, err)
		}
	}
}

// notRemoved has a directory removed later, unless it is the disk that refuses. A network file
// system may keep what is still being read.
func (d *Dir) notRemoved(now time.Time, r retiredDir, err error) {
	if errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EROFS) {
		d.fail(fmt.Errorf("remove %s: %w", r.path, err))
		return
	}
	d.o.Logger.Warn("deleted partition's directory stays for now", "dir", r.path, "err", err)
	r.dueMs = now.UnixMilli() + removeRetry.Milliseconds()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retired = append(d.retired, r)
}

// close makes every use answer ErrClosed.
func (l *Log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// abandon gives the files up without writing anything.
func (l *Log) abandon() {
	l.close()
	l.writer.Lock()
	defer l.writer.Unlock()
	for _, s := range l.segments() {
		s.Abandon()
	}
}

// Abandon closes all files without flushing or marking anything, as a crash would. The
// lock is given up.
func (d *Dir) Abandon() {
	for _, l := range d.everyLog() {
		l.abandon()
	}
	d.release()
}

// Close ends the use of the directory. Committer and keeper have been stopped. It
// flushes everything, moves all recovery points to the log ends, writes the checkpoints
// and, if all of that succeeded for all partitions, the marker of a clean stop.
//
// A directory whose logs were never opened, or not all of them, is left as it is: what an
// earlier crash has left in it has not been looked at, so nobody can vouch for it.
func (d *Dir) Close(now time.Time, brokerEpoch int64) error {
	d.noteTime(now)
	defer d.Abandon()
	if err := d.Err(); err != nil || !d.opened {
		return err
	}
	d.bearAll()
	logs := d.everyLog()
	for _, l := range logs {
		_ = l.settleSwap() // else the next start does
	}
	cutErr := d.cutAheads(logs)
	for _, l := range logs {
		if !l.settled() || l.needsDirSync() {
			d.wantFlush(l)
		}
	}
	d.Flush()
	startErr := d.secureStarts() // while there are segments to read
	err := errors.Join(cutErr, startErr, d.forgetRenamed(), d.finish(now, logs), d.checkpointPromises(), d.checkpointLogStarts(), d.noteSegments(), d.Err())
	if err != nil {
		return fmt.Errorf("close log directory %s: %w", d.o.Path, err)
	}
	if d.hasFailures(logs) {
		d.o.Logger.Warn("no clean stop: some partitions have failed", "dir", d.o.Path)
		return nil
	}
	file := d.file(checkpoint.CleanShutdownFile)
	if err := checkpoint.WriteCleanShutdown(d.o.FS, file, brokerEpoch); err != nil {
		return fmt.Errorf("close log directory %s: %w", d.o.Path, err)
	}
	return nil
}

// finish moves the recovery points to the log ends and closes the segments.
func (d *Dir) finish(now time.Time, logs []*Log) error {
	var behind []*Log
	for _, l := range logs {
		l.settleRecoveryPoint()
		if l.usable() == nil && !l.isUnborn() && (!l.settled() || l.epochs.DirtyBelow(int64(l.LogEnd()))) {
			behind = append(behind, l)
		}
	}
	if err := d.captureRecoveryPoints(now, behind); err != nil {
		return err
	}
	for _, l := range behind {
		if !l.settleRecoveryPoint() {
			return fmt.Errorf("%s is flushed up to %d only, of %d: %w", l.id, l.Flushed(), l.LogEnd(), kafkaerr.KafkaStorageError)
		}
	}
	for _, l := range logs {
		if err := l.closeSegments(); err != nil {
			return fmt.Errorf("close %s: %w", l.id, err)
		}
	}
	return nil
}

func (l *Log) closeSegments() error {
	if l.usable() != nil {
		return nil
	}
	l.writer.Lock()
	defer l.writer.Unlock()
	for _, s := range l.segments() {
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

// hasFailures: a clean stop would vouch for what is damaged.
func (d *Dir) hasFailures(logs []*Log) bool {
	for _, l := range logs {
		if l.Failure() != nil {
			return true
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.failed) > 0
}

func (l *Log) needsDirSync() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.dirUnsynced
}
