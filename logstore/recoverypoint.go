package logstore

import (
	"time"

	"github.com/klamm-mq/klamm/logstore/producerstate"
	"github.com/klamm-mq/klamm/logstore/segment"
)

// A recovery point says: everything below me is on the disk, the batches, their index
// entries, the leader epochs, and a snapshot of the producers as of exactly here. A
// start after a crash scans from there. It moves in two steps, so that neither appends
// nor group commits wait for it:
//
//	capture   under the log's writer lock: note the end, encode the producers
//	          without a lock: write and sync snapshot, indexes, epochs
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
	// due asks for a move at the next occasion: a segment was rolled.
	due bool
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
	r.point = min(r.point, o)
	if r.pending > o {
		r.pending = noPending
	}
}

// restartAt is for a log that was emptied.
func (r *recoveryState) restartAt(o int64) {
	*r = recoveryState{point: o, pending: noPending}
}

// isDue decides whether it is time to move. The directory's sum of bytes is a reason
// of its own.
func (r *recoveryState) isDue(now time.Time, interval time.Duration, maxBytes int64, crowded bool) bool {
	if r.pending != noPending || r.bytes == 0 {
		return false
	}
	age := now.UnixMilli() - r.sinceMs
	switch {
	case r.due, r.bytes >= maxBytes:
		return true
	case r.bytes >= minPointBytes:
		return crowded || age >= interval.Milliseconds()
	default:
		return age >= slowPointIntervals*interval.Milliseconds()
	}
}

// advanceRecoveryPoints settles what was captured and captures what is due. It wakes
// the committer if an end that was noted is not flushed yet.
func (d *Dir) advanceRecoveryPoints(now time.Time, interval time.Duration, maxBytes int64, wake func()) {
	moved := d.movedLogs()
	var total int64
	for _, l := range moved {
		l.settleRecoveryPoint()
		total += l.bytesAbovePoint()
	}
	crowded := total > maxPointBytesFactor*maxBytes
	for _, l := range moved {
		l.mu.RLock()
		due := !l.closed && l.failure == nil && l.recovery.isDue(now, interval, maxBytes, crowded)
		l.mu.RUnlock()
		if !due {
			continue
		}
		if err := l.captureRecoveryPoint(now); err != nil {
			d.o.Logger.Warn("recovery point does not move", "log", l.path, "err", err)
			continue
		}
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

// captureRecoveryPoint notes the end and makes everything durable that belongs to a
// recovery point there, except the batches.
func (l *Log) captureRecoveryPoint(now time.Time) error {
	c, err := l.noteRecoveryPoint(now)
	if err != nil {
		return err
	}
	if c.hasSnapshot {
		if err := c.snapshot.Write(l.dir.o.FS, l.path, true); err != nil {
			return l.ioError("move recovery point of", err)
		}
	}
	for _, s := range c.segs {
		if err := s.SyncIndexes(); err != nil {
			return l.ioError("move recovery point of", err)
		}
	}
	if err := l.epochs.Flush(); err != nil {
		return l.ioError("move recovery point of", err)
	}
	return l.confirmCapture(c)
}

// capture is a recovery point on its way to the disk.
type capture struct {
	end         int64
	truncations int64
	segs        []*segment.Segment // with entries above the old recovery point
	snapshot    producerstate.Snapshot
	hasSnapshot bool
}

func (l *Log) noteRecoveryPoint(now time.Time) (capture, error) {
	l.writer.Lock()
	defer l.writer.Unlock()
	if err := l.ready(now); err != nil {
		return capture{}, err
	}
	var c capture
	l.mu.Lock()
	r := &l.recovery
	c.end, c.truncations = l.marks.end, l.marks.truncations
	c.segs = l.segs[max(floor(l.segs, r.point), 0):]
	r.pendingBytes, r.due = 0, false
	l.mu.Unlock()
	c.snapshot, c.hasSnapshot = l.producers.EncodeSnapshot()
	return c, nil
}

// confirmCapture makes the captured end wait for its flush, unless a truncation came
// between: then the snapshot describes records that are gone.
func (l *Log) confirmCapture(c capture) error {
	l.writer.Lock()
	defer l.writer.Unlock()
	if l.isClosed() {
		return ErrClosed
	}
	if c.hasSnapshot {
		l.producers.SnapshotWritten(c.snapshot.Offset)
	}
	l.mu.Lock()
	same := l.marks.truncations == c.truncations
	if same {
		l.recovery.pending = c.end
	}
	l.mu.Unlock()
	if same || !c.hasSnapshot {
		return nil
	}
	if err := l.producers.DeleteSnapshot(c.snapshot.Offset); err != nil {
		return l.ioError("move recovery point of", err)
	}
	return nil
}

// settleRecoveryPoint moves the recovery point if the captured end is flushed by now.
// It reports whether nothing is waiting any more.
func (l *Log) settleRecoveryPoint() bool {
	l.mu.Lock()
	r := &l.recovery
	waiting := r.pending != noPending
	ripe := waiting && r.pending <= l.marks.flushed
	if ripe {
		r.point, r.pending = r.pending, noPending
		r.bytes = r.pendingBytes
		r.sinceMs = max(r.sinceMs, l.marks.unflushedSinceMs)
	}
	l.mu.Unlock()
	if ripe {
		l.dropOldSnapshots()
	}
	return !waiting || ripe
}

// dropOldSnapshots keeps the snapshots at the base offsets of segments and the newest.
// The older ones between them served recovery points that have passed.
func (l *Log) dropOldSnapshots() {
	l.writer.Lock()
	defer l.writer.Unlock()
	segs := l.segments()
	bases := make([]int64, len(segs))
	for i, s := range segs {
		bases[i] = s.BaseOffset()
	}
	if l.isClosed() {
		return
	}
	if err := l.producers.DeleteStraySnapshots(bases); err != nil {
		l.dir.o.Logger.Warn("old producer snapshots stay", "log", l.path, "err", err)
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
