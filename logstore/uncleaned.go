package logstore

import (
	"slices"

	"github.com/klamm-mq/klamm/logstore/compaction"
)

// Who looks for logs to clean must not walk all of them: of ten thousand most are not
// compacted, and of most of the others nothing has ended since they were cleaned. So each
// directory lists the logs of which something may be cleaned now or later. A log comes onto
// the list when a segment of it ends, when it is opened with several, or when it gets another
// configuration; it leaves it when the cleaner has found that all that has ended is clean.

// noteUncleaned puts the log on the list, unless it is not compacted or has but one segment.
// Callers do not hold Log.mu.
func (l *Log) noteUncleaned() {
	if l.future || !l.config.Load().Compact || l.NumSegments() < 2 || l.uncleaned.Swap(true) {
		return
	}
	d := l.dir
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.uncleaned) >= d.uncleanedMost { // where there is no cleaner, nobody else takes deleted ones out
		d.uncleaned = slices.DeleteFunc(d.uncleaned, (*Log).isClosed)
		d.uncleanedMost = 2*len(d.uncleaned) + 64
	}
	d.uncleaned = append(d.uncleaned, l)
}

// sortUncleaned has judge look at each log of the list, in the order in which they came, and
// keeps those of which it says that something is left. One caller at a time. A segment that
// ends meanwhile puts its log back if judge has not seen it.
func (d *Dir) sortUncleaned(judge func(*Log) (left bool)) {
	d.mu.Lock()
	logs := d.uncleaned
	d.uncleaned = nil
	d.mu.Unlock()
	kept := logs[:0]
	for _, l := range logs {
		l.uncleaned.Store(false)
		if !judge(l) || l.uncleaned.Swap(true) {
			continue
		}
		kept = append(kept, l)
	}
	clear(logs[len(kept):])
	d.mu.Lock()
	d.uncleaned = append(kept, d.uncleaned...)
	d.mu.Unlock()
}

// isCompacted tells whether the log can be used, and is to be compacted.
func (l *Log) isCompacted() bool {
	return l.config.Load().Compact && !l.isClosed() && l.Failure() == nil
}

// mayBeCleaned tells whether something of the log has ended and is dirty: it can be cleaned,
// or could be if its time had come and others had replicated it.
func (l *Log) mayBeCleaned(d compaction.Dirty) bool {
	segs := l.segments()
	return d.FirstDirty < segs[len(segs)-1].BaseOffset()
}
