package logstore

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// noCeiling is the ceiling of a log that is not about to be truncated.
const noCeiling = math.MaxInt64

// Truncation is a truncation about to happen.
type Truncation struct {
	Log *Log
	To  int64
}

// PrepareTruncations lowers the flushed offsets and recovery points of many logs, in
// memory and durably, with one write of each file. TruncateTo must follow for each of
// them; until then no round reports anything above To as flushed. If the two differ, the
// lower one counts until a round has covered what lies between. It blocks on the disk:
// call it without a lock that others wait for.
//
// Why before: a crash between the truncation and a later lowering would leave a
// checkpoint that vouches for records which were lawfully cut off, and the start would
// call that damage.
func (d *Dir) PrepareTruncations(ts ...Truncation) error {
	if err := d.Err(); err != nil {
		return err
	}
	cuts := make([]Truncation, len(ts))
	for i, t := range ts {
		cut, err := t.Log.prepareCut(t.To)
		if err != nil {
			for _, t := range ts[:i+1] {
				t.Log.liftCeiling()
			}
			return err
		}
		cuts[i] = Truncation{Log: t.Log, To: cut}
	}
	d.marks.lock()
	defer d.marks.unlock()
	for _, c := range cuts {
		c.Log.lowerTo(c.To)
	}
	if err := d.marks.lower(cuts); err != nil {
		for _, c := range cuts { // nothing will be truncated: let rounds raise it again
			c.Log.liftCeiling()
		}
		return d.checkpointError(err)
	}
	return nil
}

// prepareCut is cutFor after which no cleaning changes the answer: in a cleaned segment the log
// might end before.
func (l *Log) prepareCut(o int64) (int64, error) {
	l.mu.Lock()
	l.marks.ceiling = min(l.marks.ceiling, o)
	l.mu.Unlock()
	if err := l.settleSwap(); err != nil {
		return o, err
	}
	return l.cutFor(o)
}

// cutFor is where the log will end if it is truncated to o: after the last batch that
// ends at or below o. That may be less than o, in the middle of a batch or where
// compaction has left a gap.
func (l *Log) cutFor(o int64) (int64, error) {
	b := l.bounds()
	i := floor(b.segs, o)
	if i < 0 || o >= b.end {
		return o, nil
	}
	cut, err := lastEndBelow(b.segs[i], o)
	if err != nil {
		return o, l.readError("truncate", err)
	}
	return cut, nil
}

// lastEndBelow is the end of the last batch of a segment that ends at or below o, or
// the segment's base offset. Batches that touch are the rule, so the one that holds o-1
// is tried first.
func lastEndBelow(s *segment.Segment, o int64) (int64, error) {
	for _, from := range []int64{o - 1, s.BaseOffset()} {
		end := int64(-1)
		err := s.ForEachBatch(from, o, func(v batch.View, _ int64) error {
			if v.NextOffset() <= o {
				end = v.NextOffset()
			}
			return nil
		})
		if err != nil || end >= 0 {
			return end, err
		}
	}
	return s.BaseOffset(), nil
}

// lowerTo makes sure that nothing above o counts as flushed from now on.
func (l *Log) lowerTo(o int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &l.marks
	m.flushed, m.noted, m.ceiling = min(m.flushed, o), min(m.noted, o), min(m.ceiling, o)
	m.cleaned = min(m.cleaned, o)
	m.truncations++
	l.recovery.lowerTo(o)
}

// TruncateTo drops all records at or above o, and batches that reach over it, durably.
// The log then ends after the last batch that is left, which in a compacted log may lie
// below o.
// At or above the log end it only forgets leader epochs that begin there (Kafka's
// UnifiedLog.truncateTo).
//
// Why durably: what is appended next may begin a new segment. If a power cut then
// undid the cut and kept the new segment, old records would stand before new ones as if
// they had always done so, and nothing would ever find out:
//
//	cut at 26 │ 20..25 | 26..28 epoch 2 |     26.. is to be replaced by epoch 3
//	roll      │ 20..25 | 26..28 epoch 3 | 29.. epoch 3
//	power cut │ 20..25 | 26..28 epoch 2 | 29.. epoch 3
func (l *Log) TruncateTo(o int64) error {
	if o < 0 {
		return fmt.Errorf("truncate %s to %d: %w", l.id, o, kafkaerr.OffsetOutOfRange)
	}
	if err := l.usable(); err != nil {
		return err
	}
	if o < int64(l.LogEnd()) {
		if err := l.dir.PrepareTruncations(Truncation{Log: l, To: o}); err != nil {
			return fmt.Errorf("truncate %s: %w", l.id, err)
		}
	}
	if l.segments()[0].BaseOffset() > o {
		return l.TruncateFullyAndStartAt(o)
	}
	now := l.dir.clock()
	if err := l.lockAlone(); err != nil {
		l.liftCeiling()
		return err
	}
	removed, err := l.truncateTo(now, o)
	active := l.active()
	l.unlockAlone()
	if err != nil {
		return err
	}
	if err := syncSegment(active); err != nil {
		return l.syncError("truncate", err)
	}
	if !removed {
		return nil
	}
	return l.syncDir()
}

func syncSegment(s *segment.Segment) error {
	f, err := s.BeginFlush()
	if err != nil || f == nil {
		return err
	}
	err = f.File().Sync()
	f.Finish(err)
	return err
}

// syncDir makes the removal of files durable.
func (l *Log) syncDir() error {
	if err := l.unlessGone(l.dir.o.FS.SyncDir(l.path)); err != nil {
		return l.ioError("truncate", err)
	}
	return nil
}

// truncateTo reports whether files were removed. Callers hold writer.
func (l *Log) truncateTo(now time.Time, o int64) (removed bool, err error) {
	defer l.liftCeiling()
	if l.unborn { // and so empty: it needs no files to stay so
		l.epochs.TruncateFromEnd(0)
		return false, l.usable()
	}
	if err := l.ready(now); err != nil {
		return false, err
	}
	if end := l.end(); o >= end {
		l.epochs.TruncateFromEnd(end)
		return false, nil
	}
	segs := l.segments()
	keep := floor(segs, o) + 1
	l.setSegments(segs[:keep:keep])
	if err := l.cutActive(now, o); err != nil {
		l.setSegments(segs)
		return false, err
	}
	for _, s := range segs[keep:] {
		if err := s.Delete(); err != nil {
			return false, l.ioError("truncate", err)
		}
	}
	end, err := l.active().NextOffset()
	if err != nil {
		return false, l.readError("truncate", err)
	}
	snapshots := len(l.producers.Snapshots())
	l.cutEnd(end)
	l.epochs.TruncateFromEnd(end)
	if err := l.reloadProducers(now); err != nil {
		return false, err
	}
	l.dir.noteMoved(l)
	l.dir.o.Logger.Info("truncated", "log", l.path, "to", o, "end", end)
	return keep < len(segs) || len(l.producers.Snapshots()) < snapshots, nil
}

// cutActive cuts the segment that stays. It goes first, because it may lack a descriptor:
// then the log is as it was, and can be truncated again. One that was cut in memory alone
// is of no use before it has been recovered.
func (l *Log) cutActive(now time.Time, o int64) error {
	removed, err := l.active().TruncateTo(now, o)
	if err == nil {
		return nil
	}
	err = l.ioError("truncate", err)
	if removed > 0 {
		l.fail(err)
	}
	return err
}

// cutEnd moves the log end down. It may lie below the offset asked for, if a batch
// reached over that.
func (l *Log) cutEnd(end int64) {
	size := l.active().Size()
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &l.marks
	m.end, m.endPos = end, size
	m.start, m.securedStart = min(m.start, end), min(m.securedStart, end)
	m.flushed, m.noted = min(m.flushed, end), min(m.noted, end)
	m.cleaned = min(m.cleaned, end)
	m.truncations++
	l.recovery.lowerTo(end)
}

// reloadProducers goes back to the newest snapshot below the end. Snapshots above it
// are deleted. After an error the state is loaded before the next change.
func (l *Log) reloadProducers(now time.Time) (err error) {
	defer func() {
		if err != nil {
			l.loaded, l.openedClean = false, false
			l.unstable.Store(txnsUnknown)
		}
	}()
	l.mu.RLock()
	start, end := l.marks.start, l.marks.end
	l.mu.RUnlock()
	none := l.producers.IsEmpty() // nobody has produced with an id, so nobody has below the cut
	if err := l.producers.Load(start, end, now); err != nil {
		return l.readError("load producers of", err)
	}
	if none {
		l.producers.SetEndOffset(end)
	} else if err := l.replayProducers(l.producers.EndOffset(), end); err != nil {
		return err
	}
	l.noteProducers()
	return nil
}

// liftCeiling ends a truncation, or the preparation of one. What is left above the flushed
// end (the truncation went less deep than the one that was prepared, or did not come to
// pass) is on the disk, but no round is under way that would say so.
func (l *Log) liftCeiling() {
	l.mu.Lock()
	l.marks.ceiling = noCeiling
	unflushed := !l.closed && l.marks.flushed < l.marks.end
	l.mu.Unlock()
	if unflushed {
		l.dir.wantFlush(l)
	}
}

func (l *Log) setSegments(segs []*segment.Segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segs = segs
	l.dirUnsynced = true
	l.resegmented.Store(true)
}

// TruncateFullyAndStartAt drops everything and goes on at o, as a follower does whose
// leader no longer has what it would need next. The log's entries leave the
// checkpoints first: a log that starts afresh owes nothing.
func (l *Log) TruncateFullyAndStartAt(o int64) error {
	if o < 0 {
		return fmt.Errorf("start %s at %d: %w", l.id, o, kafkaerr.OffsetOutOfRange)
	}
	if err := l.usable(); err != nil {
		return err
	}
	if err := l.dir.forget(l); err != nil {
		l.liftCeiling() // nothing will be truncated: let rounds raise the flushed end again
		return fmt.Errorf("start %s at %d: %w", l.id, o, err)
	}
	now := l.dir.clock()
	if err := l.lockAlone(); err != nil { // a segment that retention is about to remove may get its name again
		l.liftCeiling()
		return err
	}
	err := l.startAt(now, o)
	l.unlockAlone()
	if err != nil {
		return err
	}
	before := l.truncationCount()
	if err := l.syncAsNew(); err != nil {
		return l.ioError("truncate", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.marks.truncations == before {
		l.marks.flushed = max(l.marks.flushed, o) // the empty log is durable now
		l.nameless = false
	}
	return nil
}

// syncAsNew makes an empty log durable: the log may never have seen a round.
func (l *Log) syncAsNew() error {
	f, err := l.openOwnMetadata()
	if err != nil {
		return err
	}
	return l.syncBirth(f)
}

// syncBirth makes durable that there is such a log, and whose it is.
func (l *Log) syncBirth(metadata vfs.File) error {
	if err := errors.Join(metadata.Sync(), metadata.Close()); err != nil {
		return err
	}
	if err := l.dir.o.FS.SyncDir(l.path); err != nil {
		return l.unlessGone(err)
	}
	return l.dir.o.FS.SyncDir(l.dir.o.Path)
}

func (l *Log) truncationCount() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.marks.truncations
}

// startAt replaces all segments by an empty one. Callers hold writer.
func (l *Log) startAt(now time.Time, o int64) error {
	defer l.liftCeiling()
	if err := l.usable(); err != nil {
		return err
	}
	if err := l.bear(); err != nil {
		return err
	}
	for _, s := range l.segments() {
		if err := s.Delete(); err != nil {
			return l.ioError("truncate", err)
		}
	}
	l.epochs.Clear()
	if err := l.producers.TruncateFully(o); err != nil {
		return l.ioError("truncate", err)
	}
	seg, err := l.createSegment(o, now)
	if err != nil {
		err = l.ioError("truncate", err)
		l.fail(fmt.Errorf("no segment is left: %w", err))
		return err
	}
	l.loaded, l.tailKnown = true, true
	l.noteProducers()
	l.mu.Lock()
	l.segs = []*segment.Segment{seg}
	l.marks.start, l.marks.end, l.marks.endPos = o, o, 0
	l.marks.securedStart, l.marks.cleaned = o, notCleaned
	l.recovery.restartAt(o)
	l.dirUnsynced, l.nameless = true, true
	l.mu.Unlock()
	l.dir.noteMoved(l)
	l.dir.o.Logger.Info("started afresh", "log", l.path, "at", o)
	return nil
}

// AdvanceLogStart makes everything below o unreadable (DeleteRecords, or a follower
// whose leader did so). It is durable after Dir.PersistLogStarts. Whole segments below it go
// with the next Retain. The caller has checked that o is not above the high watermark.
func (l *Log) AdvanceLogStart(o int64) error {
	if err := l.usable(); err != nil {
		return err
	}
	l.writer.Lock()
	defer l.writer.Unlock()
	if end := l.end(); o > end {
		return fmt.Errorf("log start %d of %s is above its end %d: %w", o, l.id, end, kafkaerr.OffsetOutOfRange)
	}
	l.advanceStart(o)
	return nil
}

// advanceStart reports whether the log start moved. Callers hold writer.
func (l *Log) advanceStart(o int64) bool {
	l.mu.Lock()
	moved := o > l.marks.start
	if moved {
		l.marks.start = o
	}
	l.mu.Unlock()
	if !moved {
		return false
	}
	l.epochs.TruncateFromStart(o)
	if l.loaded {
		l.producers.AdvanceLogStart(o)
		l.noteProducers()
	}
	return true
}
