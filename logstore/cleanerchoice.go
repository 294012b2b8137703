package logstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/logstore/compaction"
)

// candidate is a log that wants to be cleaned.
type candidate struct {
	log   *Log
	dirty compaction.Dirty
	bound CleanBounds
}

// before orders candidates: those whose max.compaction.lag.ms is over come first, then the one
// with the larger share of dirty bytes; the path decides between equals, so that a
// simulation finds the same order again. Kafka knows the share alone, and so cleans logs that
// are late last, if little of them is dirty.
func (c candidate) before(other candidate) int {
	switch {
	case c.dirty.Now != other.dirty.Now && c.dirty.Now:
		return -1
	case c.dirty.Now != other.dirty.Now:
		return 1
	default:
		return cmp.Or(cmp.Compare(other.dirty.Ratio(), c.dirty.Ratio()), cmp.Compare(c.log.path, other.log.path))
	}
}

// grab takes the log that is to be cleaned next, and nobody else takes it until release
// (LogCleanerManager.grabFilthiestCompactedLog). All logs that may have to be cleaned are
// looked at when those that the last look found are done, or Backoff is over: to look at
// thousands after each of thousands of cleanings would cost more than these.
func (c *Cleaner) grab(now time.Time) (candidate, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.looked) < c.backoff() {
		if found, wanted := c.takeNext(now); wanted {
			return found, true
		}
	}
	c.look(now)
	return c.takeNext(now)
}

// takeNext takes the first of the queue that still wants to be cleaned. Callers hold mu.
func (c *Cleaner) takeNext(now time.Time) (candidate, bool) {
	for len(c.queue) > 0 {
		next := c.queue[0].log
		c.queue = c.queue[1:]
		if _, taken := c.busy[next]; taken {
			continue
		}
		if found, judged := c.judge(now, next); judged && c.isWanted(found) {
			c.busy[next] = struct{}{}
			return found, true
		}
	}
	return candidate{}, false
}

func (c *Cleaner) release(l *Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, l)
}

// look fills the queue. Callers hold mu.
func (c *Cleaner) look(now time.Time) {
	c.looked, c.queue = now, nil
	c.forget(now)
	var seen dirtiness
	for _, d := range c.o.Dirs {
		seen.uncleanableBytes = 0
		if d.Err() == nil {
			d.sortUncleaned(func(l *Log) (left bool) { return c.lookAt(now, l, &seen) })
		}
		c.metrics.lookedInto(d, seen.uncleanableBytes)
	}
	slices.SortFunc(c.queue, candidate.before)
	c.metrics.looked(now, seen)
}

// lookAt queues a log that wants to be cleaned, and tells whether to look at it again. Callers
// hold mu.
func (c *Cleaner) lookAt(now time.Time, l *Log, seen *dirtiness) (again bool) {
	if _, taken := c.busy[l]; taken {
		return true
	}
	if !l.isCompacted() {
		return false
	}
	found, judged := c.judge(now, l)
	if !judged {
		return true
	}
	seen.maxRatio = max(seen.maxRatio, found.dirty.Ratio())
	seen.maxDelayMs = max(seen.maxDelayMs, found.dirty.DelayMs)
	if _, uncleanable := c.uncleanable[l]; uncleanable {
		seen.uncleanableBytes += found.dirty.CleanableBytes
	} else if c.isWanted(found) {
		c.queue = append(c.queue, found)
	}
	return l.mayBeCleaned(found.dirty)
}

// judge finds out what of a log can be cleaned. Callers hold mu.
func (c *Cleaner) judge(now time.Time, l *Log) (candidate, bool) {
	if !l.isCompacted() {
		return candidate{}, false
	}
	bound, known := c.o.Bounds(l)
	if !known {
		return candidate{}, false
	}
	dirty, err := c.work.judge(l, now, bound)
	if err != nil {
		c.failed(now, l, err)
		return candidate{}, false
	}
	return candidate{log: l, dirty: dirty, bound: bound}, true
}

// isWanted applies min.cleanable.dirty.ratio, and leaves out what cannot be cleaned now.
func (c *Cleaner) isWanted(found candidate) bool {
	_, uncleanable := c.uncleanable[found.log]
	_, later := c.later[found.log]
	return !uncleanable && !later && !found.log.dir.Full() && found.dirty.Wanted(found.log.Config().MinCleanableRatio)
}

// dirtiness is what a look has seen of all logs.
type dirtiness struct {
	maxRatio         float64
	maxDelayMs       int64
	uncleanableBytes int64 // of one directory
}
