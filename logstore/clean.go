package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/logstore/compaction"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// notCleaned is the first dirty offset of a log that has never been cleaned.
const notCleaned = -1

// CleanBounds say up to where a log may be cleaned: what is above them may still be taken
// back, or belongs to a transaction that is open.
type CleanBounds struct {
	HighWatermark offset.HighWatermark
	LastStable    offset.LastStable
}

// CleanParams is one cleaning.
type CleanParams struct {
	Now    time.Time
	Bounds CleanBounds
	// Dirty is what Cleanable has answered.
	Dirty compaction.Dirty
	// Map takes the keys. It is cleared first, and when the cleaning ends.
	Map *compaction.OffsetMap
	// BufferBytes is how much is written at a time; 0 = 256 KiB.
	BufferBytes int
	// Pace is called between batches with the bytes that were read or written since the last
	// time, and may wait. An error of it ends the cleaning, which returns it; nil = no pace.
	Pace func(bytes int) error
}

// CleanStats is what a cleaning has done.
type CleanStats struct {
	// End is the first dirty offset now.
	End     int64
	Indexed compaction.IndexStats
	Kept    compaction.Stats
	// Segments is how many there were of what was cleaned, SegmentsLeft how many there are.
	Segments, SegmentsLeft int
	// MapUtilization is how full the map has become, at most 1.
	MapUtilization float64
}

// ErrOvertaken ends a cleaning whose log was truncated, closed or moved, has lost segments to
// retention, or is no longer to be compacted. What was not put in place has been thrown away.
var ErrOvertaken = fmt.Errorf("the log was changed while it was cleaned: %w", kafkaerr.KafkaStorageError)

// Cleanable tells what of the log can be cleaned now: nothing if CleanableBytes is 0. It
// changes nothing, and looks at the ends of dirty segments at most. The error is the
// storage's.
func (l *Log) Cleanable(now time.Time, b CleanBounds) (d compaction.Dirty, err error) {
	if l.future {
		return compaction.Dirty{}, nil
	}
	err = l.lookUp(func(seen bounds) error {
		s, err := l.cleanState(seen, b)
		if err == nil {
			d = compaction.Judge(s, now.UnixMilli())
		}
		return err
	})
	return d, err
}

// cleanState is what Judge goes by. What replaces segments must be history that no crash and no
// leader takes back: below the high watermark, flushed, and not scanned by the next start.
func (l *Log) cleanState(seen bounds, b CleanBounds) (compaction.State, error) {
	c := l.config.Load()
	l.mu.RLock()
	s := compaction.State{
		LogStart: seen.start, LogEnd: seen.end, Checkpoint: l.marks.cleaned, Bound: l.cleanBound(b),
		MinCompactionLagMs: c.MinCompactionLagMs, MaxCompactionLagMs: c.MaxCompactionLagMs,
		Segments: make([]compaction.SegmentState, len(seen.segs)),
	}
	l.mu.RUnlock()
	dirty := max(floor(seen.segs, max(s.Checkpoint, s.LogStart)), 0)
	for i, seg := range seen.segs {
		s.Segments[i] = compaction.SegmentState{Base: seg.BaseOffset(), Size: seg.Size()}
		if i < dirty || i == len(seen.segs)-1 {
			continue
		}
		if err := lookAtTimes(seg, c, &s.Segments[i]); err != nil {
			return s, err
		}
	}
	return s, nil
}

// cleanBound is the lowest of all that cleaning must not go beyond. Callers hold mu.
func (l *Log) cleanBound(b CleanBounds) int64 {
	return min(int64(b.HighWatermark), int64(b.LastStable), l.marks.flushed, l.recovery.point)
}

func lookAtTimes(seg *segment.Segment, c *Config, s *compaction.SegmentState) error {
	if c.MinCompactionLagMs > 0 {
		largest, err := seg.MaxTimestamp()
		if err != nil {
			return err
		}
		s.LargestTimestampMs = largest.TimestampMs
		if largest.TimestampMs < 0 {
			s.LargestTimestampMs = seg.LastModified().UnixMilli()
		}
	}
	if c.MaxCompactionLagMs < math.MaxInt64 {
		first, _, err := seg.FirstTimestamp()
		if err != nil {
			return err
		}
		s.FirstTimestampMs = first
	}
	return nil
}

// CleanedTo is the first dirty offset as the last cleaning left it, -1 if there was none.
func (l *Log) CleanedTo() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.marks.cleaned
}

// Clean removes from the log the records that newer ones of the same key have replaced, and
// tombstones whose time is over (Kafka's Cleaner.doClean). Neighbouring segments that have become
// small become one. What it has put in place stays, also after an error.
//
// It reads and writes beside everything else, and holds no lock meanwhile. One call at a time.
// Errors: ErrOvertaken; that of Pace; ErrDirFull, ErrClosed and others that may pass; the
// storage's. Any other says that a batch cannot be cleaned.
func (l *Log) Clean(p CleanParams) (CleanStats, error) {
	invariant.Check(l.cleaning.CompareAndSwap(false, true), "%s is cleaned twice at a time", l.path)
	defer l.cleaning.Store(false)
	defer p.Map.Clear()
	p.Map.Clear()
	c := &cleanPass{log: l, p: p, config: l.Config()}
	err := c.run()
	if err != nil {
		err = fmt.Errorf("clean %s: %w", l.id, err)
	}
	return c.stats, err
}

// cleanPass is one call of Clean.
type cleanPass struct {
	log         *Log
	p           CleanParams
	config      Config
	segs        []*segment.Segment // of the log as it was, ended ones that may be cleaned
	next        int64              // where the one behind them begins
	truncations int64
	filter      *compaction.Filter
	buf         []byte
	owed        int // bytes of which Pace has not heard
	stats       CleanStats
}

// cleanStep is how many bytes may be read or written between two looks at whether to go on;
// fewer if the buffer is smaller.
const cleanStep = 32 << 10

func (c *cleanPass) run() error {
	if err := c.begin(); err != nil {
		return err
	}
	if err := c.index(); err != nil {
		return err
	}
	c.stats.End = c.p.Map.Latest() + 1
	c.stats.MapUtilization = c.p.Map.Utilization()
	if err := c.makeFilter(); err != nil {
		return err
	}
	groups, err := c.groups()
	if err != nil {
		return err
	}
	for _, g := range groups {
		err := c.clean(g)
		c.stats.Kept = c.filter.Stats()
		if err != nil {
			return err
		}
	}
	return c.log.dir.checkpointCleaned(c.log, c.stats.End, c.truncations)
}

// begin takes a look at the log that everything that follows goes by.
func (c *cleanPass) begin() error {
	l := c.log
	if err := cmp.Or(l.usable(), l.settleSwap()); err != nil {
		return err
	}
	if l.dir.Full() {
		return ErrDirFull
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	c.truncations = l.marks.truncations
	upTo := c.p.Dirty.FirstUncleanable
	n := floor(l.segs, upTo)
	if n < 1 || l.segs[n].BaseOffset() != upTo || upTo > l.cleanBound(c.p.Bounds) || l.closed || l.future {
		return ErrOvertaken
	}
	c.segs, c.next = l.segs[:n:n], upTo
	return nil
}

// end is where segment i of c.segs ends.
func (c *cleanPass) end(i int) int64 {
	if i+1 < len(c.segs) {
		return c.segs[i+1].BaseOffset()
	}
	return c.next
}

// errEnough ends the walk over batches.
var errEnough = errors.New("enough")

// index fills the map from the dirty segments, as far as it has room.
func (c *cleanPass) index() error {
	from := c.p.Dirty.FirstDirty
	first := max(floor(c.segs, from), 0)
	aborted, err := c.aborted(first, from, c.next)
	if err != nil {
		return err
	}
	x := compaction.NewIndexer(c.p.Map, from, c.log.dir.o.Codecs, aborted)
	defer func() { c.stats.Indexed = x.Stats() }()
	for i, s := range c.segs[first:] {
		err := c.forEachBatch(s, min(from, c.end(first+i)), func(v batch.View, _ int64) error {
			full, err := x.Batch(v)
			if full {
				return errEnough
			}
			return cmp.Or(err, c.progress(len(v)))
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
		c.p.Map.Reach(c.end(first+i) - 1)
	}
	return nil
}

// forEachBatch tells errors of the walk from those of fn.
func (c *cleanPass) forEachBatch(s *segment.Segment, from int64, fn func(v batch.View, pos int64) error) error {
	var own error
	err := s.ForEachBatch(from, math.MaxInt64, func(v batch.View, pos int64) error {
		own = fn(v, pos)
		return own
	})
	if own != nil {
		return own
	}
	return c.readError(err)
}

// readError sorts the error of a read. Whoever has taken the segment away has overtaken us.
func (c *cleanPass) readError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, segment.ErrClosed):
		return cmp.Or(c.log.usable(), ErrOvertaken)
	default:
		return c.log.readError("clean", err)
	}
}

// aborted are the aborted transactions that overlap [from, upTo), which begins in segment i.
func (c *cleanPass) aborted(i int, from, upTo int64) ([]segment.AbortedTxn, error) {
	var all []segment.AbortedTxn
	for _, s := range c.log.segmentsFrom(c.segs[i]) {
		txns, complete, err := s.AbortedTxns(from, upTo)
		if err != nil {
			return nil, c.readError(err)
		}
		if all = append(all, txns...); complete {
			break
		}
	}
	return all, nil
}

// segmentsFrom is the row from a segment on, that one alone if it is not there any more.
func (l *Log) segmentsFrom(s *segment.Segment) []*segment.Segment {
	segs := l.segments()
	if i := indexOf(segs, []*segment.Segment{s}); i >= 0 {
		return segs[i:]
	}
	return []*segment.Segment{s}
}

// progress is called after each batch.
func (c *cleanPass) progress(bytes int) error {
	if c.owed += bytes; c.owed < min(cleanStep, cmp.Or(c.p.BufferBytes, cleanStep)) {
		return nil
	}
	owed := c.owed
	c.owed = 0
	if err := c.overtaken(); err != nil {
		return err
	}
	if c.p.Pace == nil {
		return nil
	}
	return c.p.Pace(owed)
}

// overtaken: nobody should wait for what has become useless.
func (c *cleanPass) overtaken() error {
	if err := c.log.usable(); err != nil {
		return err
	}
	if !c.log.config.Load().Compact {
		return ErrOvertaken
	}
	c.log.mu.RLock()
	defer c.log.mu.RUnlock()
	if m := &c.log.marks; m.truncations != c.truncations || m.ceiling != noCeiling {
		return ErrOvertaken
	}
	return nil
}

// makeFilter takes note of the active producers.
func (c *cleanPass) makeFilter() error {
	l := c.log
	l.writer.Lock()
	defer l.writer.Unlock()
	if err := cmp.Or(l.usable(), l.loadProducers(c.p.Now)); err != nil {
		return err
	}
	active := make(map[int64]compaction.LastRecord, l.producers.Len())
	for p := range l.producers.Producers() {
		last := compaction.LastRecord{LastDataOffset: -1, Epoch: p.Epoch}
		if newest, ok := p.Last(); ok {
			last.LastDataOffset = newest.LastOffset
		}
		active[p.ID] = last
	}
	c.filter = compaction.NewFilter(compaction.FilterOptions{
		Map: c.p.Map, NowMs: c.p.Now.UnixMilli(), DeleteRetentionMs: c.config.DeleteRetentionMs,
		Producers: active, HighWatermark: int64(c.p.Bounds.HighWatermark), Codecs: l.dir.o.Codecs,
	})
	return nil
}

// groups are the segments up to where the map reaches, put together to what becomes one.
func (c *cleanPass) groups() ([][]compaction.Piece, error) {
	var pieces []compaction.Piece
	for i, s := range c.segs {
		if s.BaseOffset() >= c.stats.End {
			break
		}
		offsets, times, err := s.IndexBytes()
		if err != nil {
			return nil, c.readError(err)
		}
		pieces = append(pieces, compaction.Piece{Base: s.BaseOffset(), End: c.end(i), Size: s.Size(), IndexBytes: offsets, TimeIndexBytes: times})
	}
	return compaction.Groups(pieces, int64(c.config.SegmentBytes), int64(c.config.SegmentIndexBytes)), nil
}

// checkpointCleaned persists up to where a log is clean, unless it has been truncated since.
func (d *Dir) checkpointCleaned(l *Log, end, truncations int64) error {
	d.marks.lock()
	defer d.marks.unlock()
	l.mu.Lock()
	switch m := &l.marks; {
	case l.closed:
		l.mu.Unlock()
		return ErrClosed
	case m.truncations != truncations || m.ceiling != noCeiling:
		l.mu.Unlock()
		return ErrOvertaken
	default:
		m.cleaned = end
		l.mu.Unlock()
	}
	d.marks.setCleaned(l.id, end)
	if err := d.marks.write(cleanedMarks); err != nil {
		return d.checkpointError(err)
	}
	return nil
}
