package compaction

// SegmentState is what Judge needs of a segment.
type SegmentState struct {
	Base, Size int64
	// LargestTimestampMs is that of its records. Only looked at if MinCompactionLagMs > 0.
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
func Judge(s State, nowMs int64) Dirty { return Dirty{} }
