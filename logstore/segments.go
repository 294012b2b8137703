package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/segment"
)

// What a start finds out about the segments that it does not read.
//
// A segment must reach up to where the next one begins, and the last one, after a clean stop,
// up to where the log ended. To see that in the files is to open two of each segment, which
// takes minutes where there are many and the disk is slow. So the directory notes how long
// the log files are whose ends are known, a minute after a segment has ended and at a clean
// stop, and a start looks only into those that are not as they were noted:
//
//	in the checkpoint        in the directory       what is done
//	base 0, 900 bytes, 40    0.log, 900 bytes       nothing
//	base 40, 800 bytes, 77   40.log, 512 bytes      it is read: does it end at 77?
//	                         77.log, next to last   it is read: does it end at 90?
//	base 90, 100 bytes, 95   90.log, the last       nothing if the stop was clean and the log ended at 95
//
// What was cut off, emptied, deleted from between others, or replaced by an older copy is
// damage then, before anybody reads the log, follows or elects this replica. So is a log
// that begins above a segment that was noted and that nobody has deleted, or above the log start
// that is in the checkpoint: retention moves that first. The checkpoint of segments itself
// promises nothing: where it is missing, or older than the files, they are looked into.
//
// Where it is missing, the log starts prove nothing either: Kafka writes none of a log that
// begins with its first segment, and on a disk without any room retention goes on without (see
// deleteSegments). And where Kafka has written the offsets beside it, it has served the directory
// since, and removed what it liked: then the checkpoint is removed.
//
// Where topics are compacted, a segment of Kafka's may end below the next one, or have nothing
// left in it. Those that have come after the last one that was noted are not Kafka's.

func (m *marks) loadSegments(warn func(err error)) error {
	var bad *checkpoint.FormatError
	segments, err := checkpoint.ReadSegments(m.fs, m.file(checkpoint.SegmentsFile))
	if errors.As(err, &bad) {
		warn(err)
		segments, err = map[checkpoint.TopicIDPartition][]checkpoint.Segment{}, nil
	}
	m.segments = segments
	if err == nil && len(segments) > 0 {
		err = m.voidOutdatedSegments(warn)
	}
	if err == nil && bad == nil {
		_, err = m.fs.Stat(m.file(checkpoint.SegmentsFile))
		m.startsTold = err == nil
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// errOutdated is told to the operator, once.
var errOutdated = errors.New(checkpoint.SegmentsFile + " is not believed: another broker, or an early release, has served the directory since; all segments are looked into")

// voidOutdatedSegments removes the checkpoint if Kafka has written one of those beside it,
// which it does every few seconds.
func (m *marks) voidOutdatedSegments(warn func(err error)) error {
	for _, name := range []string{checkpoint.RecoveryPointFile, checkpoint.LogStartFile, checkpoint.HighWatermarkFile} {
		foreign, err := checkpoint.LacksSum(m.fs, m.file(name))
		if err != nil {
			return err
		}
		if foreign {
			warn(errOutdated)
			clear(m.segments)
			return m.voidSegments()
		}
	}
	return nil
}

// writeSegments writes the segment checkpoint, after the log starts, see startsTold.
func (m *marks) writeSegments() error {
	if err := m.write(startMarks); err != nil {
		return err
	}
	m.startsTold = true // also if it fails: the file may be there
	return checkpoint.WriteSegments(m.fs, m.file(checkpoint.SegmentsFile), m.segments)
}

func (m *marks) setSegments(id ID, ended []checkpoint.Segment) {
	if slices.Equal(m.segments[id.key()], ended) {
		return
	}
	if len(ended) == 0 {
		drop(m, segmentMarks, m.segments, id.key())
		return
	}
	m.note(segmentMarks, true)
	m.segments[id.key()] = ended
}

// pruneSegments forgets those of partitions that are not here.
func (m *marks) pruneSegments(have map[checkpoint.TopicIDPartition]bool) {
	dropOthers(m, segmentMarks, m.segments, have)
}

// voidSegments removes the file where there is no room to write it.
func (m *marks) voidSegments() error {
	m.note(segmentMarks, true)
	m.startsTold = false
	if err := m.fs.Remove(m.file(checkpoint.SegmentsFile)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return m.fs.SyncDir(m.dir)
}

// ended is what is known of the log's segments. The last one has ended only when the log is
// closed. false if the log is about to be cut, or has a segment put in place.
func (l *Log) ended(closed bool) ([]checkpoint.Segment, bool) {
	l.mu.RLock()
	b := bounds{segs: l.segs, end: l.marks.end}
	steady := l.marks.ceiling == noCeiling && l.swap == nil
	l.mu.RUnlock()
	n := len(b.segs)
	if !closed {
		n--
	}
	ended := make([]checkpoint.Segment, 0, n)
	for i, s := range b.segs[:n] {
		if size := s.Size(); size > 0 {
			ended = append(ended, checkpoint.Segment{Base: s.BaseOffset(), Size: size, End: b.upperBound(i)})
		}
	}
	return ended, steady
}

// checkpointSegments notes the segments that have ended since the last time, all of them when
// the logs are closed. Nobody is promised anything, so a log that has failed is left out.
func (d *Dir) checkpointSegments(closed bool) error {
	d.marks.lock()
	defer d.marks.unlock()
	for _, l := range d.everyLog() {
		if !closed && !l.resegmented.Load() || l.isClosed() || l.Failure() != nil {
			continue
		}
		l.resegmented.Store(false)
		ended, steady := l.ended(closed)
		if !steady {
			l.resegmented.Store(true)
			continue
		}
		d.marks.setSegments(l.id, ended)
	}
	if err := d.marks.write(segmentMarks); err != nil {
		return d.checkpointError(err)
	}
	return nil
}

// noteSegments is for a clean stop, which does without where there is no room.
func (d *Dir) noteSegments() error {
	err := d.checkpointSegments(true)
	if err != nil && d.Err() == nil {
		d.o.Logger.Warn("the next start looks into every segment", "dir", d.o.Path, "err", err)
		return nil
	}
	return err
}

// forgetSegments makes durable that nothing is known, before a segment goes of which the log
// start does not say so.
func (d *Dir) forgetSegments() error {
	d.marks.lock()
	defer d.marks.unlock()
	if err := d.marks.voidSegments(); err != nil {
		return d.checkpointError(err)
	}
	return nil
}

// checkSegments looks at the first n segments and what was there before them; all of them,
// if the stop was clean, with the last one. It returns how many there are of the n.
func (o *opening) checkSegments(start int64, n int) (int, error) {
	if err := o.checkBeginning(start); err != nil {
		return n, err
	}
	for i := 0; i < min(n, len(o.segs)-1); i++ {
		covered, err := o.checkNext(i)
		if err != nil {
			return n, err
		}
		n -= covered
	}
	if n < len(o.segs) {
		return n, nil
	}
	last := o.segs[len(o.segs)-1]
	if last.Size() == 0 { // and the log ends at its base
		return n, nil
	}
	return n, o.checkEnd(last, o.from)
}

// checkNext: segment i must reach up to the next one, if it is not beyond that.
func (o *opening) checkNext(i int) (covered int, err error) {
	s := o.segs[i]
	damage := o.checkEnd(s, o.segs[i+1].BaseOffset())
	if damage == nil {
		return 0, nil
	}
	next, err := s.NextOffset()
	if err != nil {
		return 0, damage
	}
	if covered, err = o.dropCovered(i, next); err != nil || covered > 0 {
		return covered, err
	}
	return 0, damage
}

// dropCovered removes the segments whose offsets all lie in segment i, which ends at end, where
// another one begins. It has replaced them, and a failing disk has lost that they were removed.
func (o *opening) dropCovered(i int, end int64) (n int, err error) {
	j := slices.IndexFunc(o.segs, func(s *segment.Segment) bool { return s.BaseOffset() >= end })
	if j <= i+1 || o.segs[j].BaseOffset() != end {
		return 0, nil
	}
	for _, s := range o.segs[i+1 : j] {
		o.d.o.Logger.Warn("segment was replaced by a cleaned one, and is removed", "log", o.l.path, "base", s.BaseOffset(), "by", o.segs[i].BaseOffset())
		if err := s.Delete(); err != nil {
			return 0, err
		}
	}
	o.segs = slices.Delete(o.segs, i+1, j)
	o.dirInDoubt = true
	o.l.resegmented.Store(true)
	return j - i - 1, nil
}

// checkBeginning: whatever is missing between the log start and the first segment, retention has
// deleted, or a truncation, both of which say so before they do.
func (o *opening) checkBeginning(start int64) error {
	first, m := o.segs[0].BaseOffset(), o.d.marks
	for _, k := range o.known {
		if m.startUnknown == nil && k.End > start && k.End <= min(first, o.persisted) {
			return o.damage(o.l.file(segment.FileName(k.Base, segment.LogSuffix)), -1, max(k.Base, start),
				fmt.Errorf("the segment that reaches from offset %d to %d is missing; the log starts at %d", k.Base, k.End, start))
		}
	}
	if m.startUnknown == nil && m.startsTold && start < min(first, o.persisted) {
		return o.damage(o.l.path, -1, start,
			fmt.Errorf("what lies below offset %d is missing; the log starts at %d, and was flushed up to %d", first, start, o.persisted))
	}
	return nil
}

// checkEnd: s must reach up to an offset.
func (o *opening) checkEnd(s *segment.Segment, end int64) error {
	i, noted := slices.BinarySearchFunc(o.known, s.BaseOffset(), func(k checkpoint.Segment, base int64) int {
		return int(max(-1, min(1, k.Base-base)))
	})
	if noted && o.known[i] == (checkpoint.Segment{Base: s.BaseOffset(), Size: s.Size(), End: end}) {
		return nil
	}
	o.l.resegmented.Store(true)
	next, err := s.NextOffset()
	if err != nil {
		return unreadable(s.Path(), err)
	}
	if next == end || !noted && o.mayEndEarly(s, next, end) {
		return nil
	}
	return o.damage(s.Path(), s.Size(), min(next, end), fmt.Errorf("the segment has to end at offset %d, but it ends at %d", end, next))
}

// mayEndEarly: Kafka has compacted the last records of s away, if not all of them, or its leader
// has, and the gap is wider than one segment can express (see Log.roll).
func (o *opening) mayEndEarly(s *segment.Segment, next, end int64) bool {
	if !o.l.Config().Compact || next >= end {
		return false
	}
	n := len(o.known)
	return n == 0 || s.BaseOffset() < o.known[n-1].End || end-next > math.MaxInt32/2
}
