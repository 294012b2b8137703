package compaction

import (
	"math"
	"sort"
)

// SegmentState is what Judge needs of a segment.
type SegmentState struct {
	Base, Size int64
	// LargestTimestampMs is that of its records, or when it was last written if they have
	// none. Only looked at if MinCompactionLagMs > 0, and not of the active segment.
	LargestTimestampMs int64
	// FirstTimestampMs is the max timestamp of its first batch, 0 or less if there is
	// none. Only looked at if MaxCompactionLagMs < math.MaxInt64, and not of the active
	// segment.
	FirstTimestampMs int64
}

// State is what is known of a log whose cleaning is considered.
type State struct {
	LogStart, LogEnd int64
	// Checkpoint is the first dirty offset as the last cleaning left it, -1 for none.
	Checkpoint int64
	// Bound is where cleaning has to end in any case: the last stable offset, or what
	// has been flushed, if that is lower.
	Bound                                  int64
	MinCompactionLagMs, MaxCompactionLagMs int64
	// Segments are all in order; the last is the active one.
	Segments []SegmentState
}

// Dirty is the part of a log that can be cleaned (Kafka's LogToClean).
type Dirty struct {
	// FirstDirty is where indexing begins, FirstUncleanable the base of the first segment
	// that must be left alone. Nothing can be cleaned if they are equal, or
	// CleanableBytes is 0.
	FirstDirty, FirstUncleanable int64
	// CleanBytes are those of segments that begin below FirstDirty, CleanableBytes those
	// of segments from FirstDirty to FirstUncleanable; one that FirstDirty divides counts
	// in both.
	CleanBytes, CleanableBytes int64
	// Now: max.compaction.lag.ms of the oldest dirty record is over, by DelayMs.
	Now     bool
	DelayMs int64
	// Reset: the checkpoint cannot be right, FirstDirty replaces it.
	Reset bool
}

// Total is the size of the clean and the cleanable part; a log with none is passed over.
func (d Dirty) Total() int64 { return d.CleanBytes + d.CleanableBytes }

// Ratio is the share of cleanable bytes in Total, 0 if that is 0.
func (d Dirty) Ratio() float64 {
	if d.Total() == 0 {
		return 0
	}
	return float64(d.CleanableBytes) / float64(d.Total())
}

// Wanted reports whether the log is to be cleaned with this min.cleanable.dirty.ratio.
func (d Dirty) Wanted(minCleanableRatio float64) bool {
	return d.Now && d.CleanableBytes > 0 || d.Ratio() > minCleanableRatio
}

// Judge finds out what can be cleaned (LogCleanerManager.cleanableOffsets,
// maxCompactionDelay and calculateCleanableBytes).
func Judge(s State, nowMs int64) Dirty {
	var d Dirty
	d.FirstDirty, d.Reset = s.firstDirty()
	d.FirstUncleanable = s.segmentOf(max(d.FirstDirty, s.bound(d.FirstDirty, nowMs)))
	for _, seg := range s.Segments {
		if seg.Base < d.FirstDirty {
			d.CleanBytes += seg.Size
		}
	}
	for _, seg := range s.dirtyFrom(d.FirstDirty) {
		if seg.Base < d.FirstUncleanable {
			d.CleanableBytes += seg.Size
		}
	}
	d.DelayMs = s.delayMs(d.FirstDirty, nowMs)
	d.Now = d.DelayMs > 0
	return d
}

// firstDirty is the checkpoint, unless it lies outside of the log, as it does after
// retention, or if the log has lost its end: then all is dirty, and the checkpoint is to be
// replaced.
func (s *State) firstDirty() (offset int64, reset bool) {
	switch {
	case s.Checkpoint < 0:
		return s.LogStart, false
	case s.Checkpoint < s.LogStart || s.Checkpoint > s.LogEnd:
		return s.LogStart, true
	default:
		return s.Checkpoint, false
	}
}

// bound is where cleaning has to end, unless it comes to the active segment before: at Bound,
// or at the first dirty segment that is younger than min.compaction.lag.ms.
func (s *State) bound(firstDirty, nowMs int64) int64 {
	if s.MinCompactionLagMs <= 0 {
		return s.Bound
	}
	for _, seg := range s.dirtyFrom(firstDirty) {
		if seg.LargestTimestampMs > nowMs-s.MinCompactionLagMs {
			return min(s.Bound, seg.Base)
		}
	}
	return s.Bound
}

// dirtyFrom are the segments from the one that holds offset to the one before the active one.
func (s *State) dirtyFrom(offset int64) []SegmentState {
	n := len(s.Segments) - 1
	return s.Segments[min(s.indexOf(offset), n):n]
}

// indexOf is the segment that holds offset, the first one if that lies before them all.
func (s *State) indexOf(offset int64) int {
	i := sort.Search(len(s.Segments), func(i int) bool { return s.Segments[i].Base > offset })
	return max(i-1, 0)
}

// segmentOf is the base of the segment that holds offset.
func (s *State) segmentOf(offset int64) int64 { return s.Segments[s.indexOf(offset)].Base }

// delayMs is by how much the first batch of some dirty segment is older than
// max.compaction.lag.ms.
func (s *State) delayMs(firstDirty, nowMs int64) int64 {
	oldest := int64(math.MaxInt64)
	for _, seg := range s.dirtyFrom(firstDirty) {
		if seg.FirstTimestampMs > 0 {
			oldest = min(oldest, seg.FirstTimestampMs)
		}
	}
	cleanUntilMs := nowMs - s.MaxCompactionLagMs
	if oldest >= cleanUntilMs { // also where the difference would overflow
		return 0
	}
	return cleanUntilMs - oldest
}
