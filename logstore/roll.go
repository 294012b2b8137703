package logstore

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io/fs"
	"math"
	"time"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/logstore/segment"
)

// maybeRoll begins a new segment if the run does not fit the active one (Kafka's
// LogSegment.shouldRoll).
func (l *Log) maybeRoll(now time.Time, c *Config, r run) (bool, error) {
	seg := l.active()
	roll, err := seg.ShouldRoll(segment.RollParams{
		Now:            now,
		SegmentBytes:   int64(c.SegmentBytes),
		SegmentMs:      c.SegmentMs - l.jitterMs(c, seg.BaseOffset()),
		AppendBytes:    int64(len(r.bytes)),
		LastOffset:     r.last,
		MaxTimestampMs: r.maxTimestampMs,
	})
	if err != nil {
		return false, l.readError("append to", err)
	}
	fits := r.last-seg.BaseOffset() <= math.MaxInt32 && seg.Size()+int64(len(r.bytes)) <= math.MaxInt32
	if !roll || fits && (seg.Size() == 0 || l.isNameless()) {
		return false, nil
	}
	base := l.end()
	if r.last-base > math.MaxInt32 {
		base = r.first
	}
	return true, l.roll(now, base)
}

// isNameless: a power cut could still take the first segment's name and leave that of a
// second one. The log would then begin with the second, as if retention had been there, and
// what its producers have sent before would be out of order for ever. A first segment that
// is full before its first round, which takes milliseconds, waits for it and grows.
func (l *Log) isNameless() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.nameless
}

// jitterMs is the segment's share of segment.jitter.ms, so that segments that began
// together do not roll together. Kafka draws it; here it follows from the partition and
// the base offset, so that a restart does not change it.
func (l *Log) jitterMs(c *Config, base int64) int64 {
	bound := min(c.SegmentJitterMs, c.SegmentMs)
	if bound <= 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write(l.id.TopicID[:])
	var b [12]byte
	binary.BigEndian.PutUint32(b[:], uint32(l.id.Partition))
	binary.BigEndian.PutUint64(b[4:], uint64(base))
	h.Write(b[:])
	return int64(h.Sum64() % uint64(bound))
}

// Roll begins a new segment at the log end, unless the active one is empty.
func (l *Log) Roll(now time.Time) error {
	if err := l.usable(); err != nil {
		return err
	}
	l.writer.Lock()
	defer l.writer.Unlock()
	if err := l.ready(now); err != nil {
		return err
	}
	if l.active().Size() == 0 {
		return nil
	}
	if err := l.roll(now, l.end()); err != nil {
		return err
	}
	if l.appended(now, l.config.Load(), true) {
		l.dir.wantFlush(l)
	}
	return nil
}

// roll begins a segment at base and gives the old one up for writing. Segments follow
// each other without a gap (base is the log end even where the next batch begins above
// it), so that recovery can tell a segment that a power cut has taken from a gap that
// compaction made; the exception is a gap that one segment cannot express.
func (l *Log) roll(now time.Time, base int64) error {
	old := l.active()
	invariant.Check(base > old.BaseOffset(), "roll %s to %d, active segment begins at %d", l.path, base, old.BaseOffset())
	if err := l.cutAhead(old); err != nil {
		return err
	}
	seg, err := l.createSegment(base, now)
	if err != nil {
		return l.ioError("roll", err)
	}
	if err := old.Seal(); err != nil && !isNoSpace(err) {
		// An empty segment that is not the last one would look like the loss of what
		// belongs there.
		return l.ioError("roll", cmp.Or(seg.Delete(), err))
	}
	l.mu.Lock()
	segs := l.segs
	l.segs = append(segs[:len(segs):len(segs)], seg)
	l.marks.endPos = 0
	l.dirUnsynced = true
	l.recovery.due = true
	l.mu.Unlock()
	l.resegmented.Store(true)
	l.noteUncleaned()
	l.producers.SetEndOffset(base)
	if _, err := l.producers.TakeSnapshot(false); err != nil && !isNoSpace(err) {
		return l.ioError("roll", err)
	}
	l.dir.o.Logger.Debug("rolled a new segment", "log", l.path, "base", base)
	return nil
}

// createSegment makes a new segment's files. Files of that name are left over from a
// roll that failed or was cut off; nothing in them was ever part of the log.
func (l *Log) createSegment(base int64, now time.Time) (*segment.Segment, error) {
	seg, err := segment.Create(l.path, base, now, l.segOptions)
	if !errors.Is(err, fs.ErrExist) {
		return seg, err
	}
	l.dir.o.Logger.Warn("new segment's file exists already: it is replaced", "log", l.path, "base", base)
	left, err := segment.Open(l.path, base, now, l.segOptions)
	if err != nil {
		return nil, err
	}
	if err := left.Delete(); err != nil {
		return nil, err
	}
	return segment.Create(l.path, base, now, l.segOptions)
}
