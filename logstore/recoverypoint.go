package logstore

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/logstore/epoch"
	"github.com/klamm-mq/klamm/logstore/producerstate"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// A recovery point says: everything below me is on the disk, the batches, their index
// entries, the leader epochs, and a snapshot of the producers as of exactly here. A
// start after a crash scans from there. It moves in two steps, so that neither appends
// nor group commits wait for it:
//
//	capture   under the log's writer lock: note the end, encode the producers
//	          without that lock: write snapshot, indexes, epochs; one sync for many logs
//	settle    when a round has reported the noted end flushed: that is the new
//	          recovery point; the checkpoint is written afterwards
//
// A truncation below the noted end in between cancels it.
type recoveryState struct {
	point   int64
	pending int64 // noted end that waits to be flushed; noPending if none
	// bytes were appended above point, pendingBytes of them above pending.
	bytes, pendingBytes int64
	// sinceMs is when the first of bytes was appended.
	sinceMs int64
	// due asks for a move at the next occasion: a segment was rolled, or all were scanned.
	due bool
	// bare says that there is no snapshot at point: a truncation has lowered it, or the
	// file is gone. A start would find the producers in older ones and the batches
	// behind, but a clean stop must not leave it at that (see loadProducersUpTo).
	bare bool
	// backed says that there is a snapshot at point, backup that there is one at this point
	// of those that were persisted; noPending if there is none. Both snapshots are kept: the
	// log start may have been persisted because of them (see secureStart).
	backed        bool
	pendingBacked bool
	backup        int64
}

const noPending = -1

// minPointBytes is below what a start scans in no time: a log that got less since its
// recovery point only moves it every slowPointIntervals. With thousands of partitions
// that trickle, the syncs of a move cost more than they ever save.
const (
	minPointBytes      = 64 << 10
	slowPointIntervals = 10
	// maxPointBytesFactor times RecoveryPointBytes is what a start may have to scan
	// in all of a directory.
	maxPointBytesFactor = 4
)

func (r *recoveryState) noteAppended(now time.Time, n int) {
	if r.bytes == 0 {
		r.sinceMs = now.UnixMilli()
	}
	r.bytes += int64(n)
	r.pendingBytes += int64(n)
}

func (r *recoveryState) lowerTo(o int64) {
	if r.point > o {
		r.point, r.bare, r.backed = o, true, false
	}
	if r.backup > o {
		r.backup = noPending
	}
	if r.pending > o {
		r.pending = noPending
	}
}

// restartAt is for a log that was emptied.
func (r *recoveryState) restartAt(o int64) {
	*r = recoveryState{point: o, pending: noPending, backup: noPending}
}

// isDue decides whether it is time to move. The directory's sum of bytes is a reason
// of its own.
func (r *recoveryState) isDue(now time.Time, interval time.Duration, maxBytes int64, crowded bool) bool {
	if r.pending != noPending || r.bytes == 0 && !r.bare {
		return false
	}
	age := now.UnixMilli() - r.sinceMs
	switch {
	case r.due, r.bare, r.bytes >= maxBytes:
		return true
	case r.bytes >= minPointBytes:
		return crowded || age >= interval.Milliseconds()
	default:
		return age >= slowPointIntervals*interval.Milliseconds()
	}
}

// advanceRecoveryPoints settles what was captured and captures what is due, except of
// copies in the making, which is for whoever makes them. It wakes the committer if an end that was noted is not flushed yet.
func (d *Dir) advanceRecoveryPoints(now time.Time, interval time.Duration, maxBytes int64, wake func()) {
	moved := d.movedLogs()
	var total int64
	for _, l := range moved {
		l.settleRecoveryPoint()
		total += l.bytesAbovePoint()
	}
	crowded := total > maxPointBytesFactor*maxBytes
	var due []*Log
	for _, l := range moved {
		l.mu.RLock()
		if !l.closed && l.failure == nil && !l.future && l.recovery.isDue(now, interval, maxBytes, crowded) {
			due = append(due, l)
		}
		l.mu.RUnlock()
	}
	if err := d.captureRecoveryPoints(now, due); err != nil && d.Err() == nil {
		d.o.Logger.Warn("recovery points do not move", "dir", d.o.Path, "err", err)
	}
	for _, l := range due {
		if !l.settleRecoveryPoint() {
			d.wantFlush(l)
			wake()
		}
	}
}

func (l *Log) bytesAbovePoint() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.recovery.bytes
}

// maxCaptures is how many logs share the sync of a capture; each holds up to five
// files open.
const maxCaptures = 100

// captureRecoveryPoints notes the logs' ends and makes everything durable that belongs
// to recovery points there, except the batches. Logs for which there is no room are
// left as they are; the first such error is returned, or the disk's.
func (d *Dir) captureRecoveryPoints(now time.Time, logs []*Log) error {
	if len(logs) == 0 {
		return nil
	}
	// First the log starts: the epochs follow them, and would lack what a crash brings
	// back below a start that it has forgotten.
	first := d.checkpointLogStarts()
	if first != nil {
		return first
	}
	for len(logs) > 0 {
		n := min(len(logs), maxCaptures)
		if err := d.captureSome(now, logs[:n]); err != nil && first == nil {
			first = err
		}
		logs = logs[n:]
	}
	return first
}

func (d *Dir) captureSome(now time.Time, logs []*Log) (first error) {
	var captures []*capture
	var files []vfs.File
	note := func(c *capture, err error) {
		if err != nil && !errors.Is(err, ErrClosed) { // a log that was deleted needs no recovery
			first = cmp.Or(first, c.log.ioError("move recovery point of", err))
		}
	}
	for _, l := range logs {
		c := &capture{log: l}
		if err := l.withNames(func() error { return c.begin(now) }); err != nil {
			note(c, c.finish(err))
			continue
		}
		captures, files = append(captures, c), append(files, c.files...)
	}
	err := d.keeperSyncer.SyncAll(files)
	if err != nil {
		d.fail(err)
	}
	var whole []*capture
	var paths []string // of directories with new names
	for _, c := range captures {
		if err := c.finish(err); err != nil {
			note(c, err)
			continue
		}
		if whole = append(whole, c); c.names {
			paths = append(paths, c.log.path)
		}
	}
	switch err := d.keeperSyncer.SyncDirs(paths); {
	case err == nil:
		for _, c := range whole {
			c.confirm()
		}
	case isOutOfFiles(err):
		first = cmp.Or(first, err)
	default:
		d.fail(err)
	}
	return cmp.Or(d.Err(), first)
}

// capture is a recovery point on its way to the disk.
type capture struct {
	log         *Log
	end         int64
	truncations int64

	snapshot  producerstate.Snapshot
	snapshots []int64 // offsets of those that exist
	backed    bool    // there will be one at end, or nobody to speak of in it
	indexes   []*segment.IndexSync
	epochs    *epoch.PendingFlush
	files     []vfs.File // to be synced
	owned     []vfs.File // of these, to be closed
	names     bool       // the directory has a new name in it
}

// begin notes the end and writes, without sync, what goes with it. Callers hold names, so
// that no truncation comes between: the snapshot would describe records that are gone.
func (c *capture) begin(now time.Time) error {
	segs, hasSnapshot, err := c.note(now)
	if err != nil {
		return err
	}
	l := c.log
	if hasSnapshot {
		err = c.writeSnapshot()
	} else {
		err = c.syncRollSnapshot()
	}
	if err != nil {
		return err
	}
	for _, s := range segs {
		x, err := s.BeginIndexSync()
		if err != nil {
			return err
		}
		c.indexes, c.files = append(c.indexes, x), append(c.files, x.Files()...)
	}
	if c.epochs, err = l.epochs.BeginFlush(); err != nil {
		return err
	}
	if c.epochs != nil {
		c.files, c.names = append(c.files, c.epochs.File()), true
	}
	return nil
}

// note returns the segments whose indexes may have changed since the old recovery point:
// also the one that ends there, since a truncation may have taken entries from it, and
// its seal added one.
func (c *capture) note(now time.Time) (segs []*segment.Segment, hasSnapshot bool, err error) {
	l := c.log
	l.writer.Lock()
	defer l.writer.Unlock()
	if err := l.ready(now); err != nil {
		return nil, false, err
	}
	l.mu.Lock()
	r := &l.recovery
	c.end, c.truncations = l.marks.end, l.marks.truncations
	segs = l.segs[max(floor(l.segs, r.point-1), 0):]
	r.pendingBytes, r.due = 0, false
	l.mu.Unlock()
	c.snapshot, hasSnapshot = l.producers.EncodeSnapshot()
	c.snapshots = slices.Clone(l.producers.Snapshots())
	c.backed = hasSnapshot || slices.Contains(c.snapshots, c.end) || l.producers.IsEmpty()
	return segs, hasSnapshot, nil
}

func (c *capture) writeSnapshot() error {
	name := c.log.file(producerstate.SnapshotName(c.snapshot.Offset))
	f, err := c.log.dir.o.FS.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	c.files, c.owned, c.names = append(c.files, f), append(c.owned, f), true
	if _, err = f.WriteAt(c.snapshot.Data, 0); err != nil {
		_ = c.log.dir.o.FS.Remove(name) // what is left fails its CRC
		return err
	}
	c.log.writer.Lock()
	defer c.log.writer.Unlock()
	c.log.producers.SnapshotWritten(c.snapshot.Offset)
	return nil
}

// syncRollSnapshot takes in the snapshot that a roll has written without sync, if it is
// the one of this recovery point.
func (c *capture) syncRollSnapshot() error {
	if !slices.Contains(c.snapshots, c.end) {
		return nil
	}
	f, err := c.log.dir.o.FS.OpenFile(c.log.file(producerstate.SnapshotName(c.end)), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	c.files, c.owned, c.names = append(c.files, f), append(c.owned, f), true
	return nil
}

// finish reports the sync, closes the files and puts the epochs in place.
func (c *capture) finish(err error) error {
	for _, x := range c.indexes {
		x.Finish(err)
	}
	for _, f := range c.owned {
		_ = f.Close() // synced or lost
	}
	if c.epochs == nil {
		return err
	}
	l := c.log
	l.names.RLock()
	defer l.names.RUnlock()
	if l.isClosed() {
		err = cmp.Or(err, ErrClosed)
	}
	return c.epochs.Finish(err)
}

// confirm makes the captured end wait for its flush, unless a truncation came between:
// then that has removed the snapshot.
func (c *capture) confirm() {
	l := c.log
	if c.epochs != nil {
		c.epochs.Settle()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && l.marks.truncations == c.truncations {
		l.recovery.pending, l.recovery.pendingBacked = c.end, c.backed
	}
}

// settleRecoveryPoint moves the recovery point if the captured end is flushed by now.
// It reports whether nothing is waiting any more.
func (l *Log) settleRecoveryPoint() bool {
	l.mu.Lock()
	r := &l.recovery
	waiting := r.pending != noPending
	ripe := waiting && r.pending <= l.marks.flushed
	if ripe {
		r.point, r.pending, r.bare, r.backed = r.pending, noPending, false, r.pendingBacked
		r.bytes = r.pendingBytes
		r.sinceMs = max(r.sinceMs, l.marks.unflushedSinceMs)
	}
	l.mu.Unlock()
	if ripe {
		l.dropOldSnapshots()
	}
	return !waiting || ripe
}

// dropOldSnapshots keeps the snapshots at the base offsets of segments and the newest, that at
// the log start, and those of the recovery point and of the one before that a crash would
// still go back to: newer ones, which a start from there does not believe, are no substitute.
// The older ones between them served recovery points that have passed.
func (l *Log) dropOldSnapshots() {
	l.writer.Lock()
	defer l.writer.Unlock()
	segs := l.segments()
	bases := make([]int64, 0, len(segs)+3)
	for _, s := range segs {
		bases = append(bases, s.BaseOffset())
	}
	if l.isClosed() {
		return
	}
	l.mu.RLock()
	bases = append(bases, l.marks.securedStart, l.recovery.point, l.recovery.backup)
	l.mu.RUnlock()
	if err := l.producers.DeleteStraySnapshots(bases); err != nil {
		l.dir.o.Logger.Warn("old producer snapshots stay", "log", l.path, "err", l.ioError("remove old producer snapshots of", err))
	}
}

// wantDueFlushes queues the logs whose oldest unflushed record is older than flush.ms,
// and reports whether there are any.
func (d *Dir) wantDueFlushes(now time.Time) bool {
	any := false
	for _, l := range d.movedLogs() {
		c := l.config.Load()
		l.mu.RLock()
		due := l.marks.flushed < l.marks.end && now.UnixMilli()-l.marks.unflushedSinceMs >= c.FlushMs
		l.mu.RUnlock()
		if due {
			d.wantFlush(l)
			any = true
		}
	}
	return any
}
