package logstore

import (
	"context"
	"errors"
	"time"

	"github.com/klamm-mq/klamm/logstore/compaction"
)

// clean cleans a log that grab has taken.
func (c *Cleaner) clean(now time.Time, chosen candidate) {
	l, began := chosen.log, time.Now()
	stats, err := c.work.clean(l, c.params(now, chosen))
	took := time.Since(began)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.failed(now, l, err)
		return
	}
	c.metrics.cleaned(stats, took)
	k := stats.Kept
	c.o.Logger.Info("log cleaned", "log", l.path, "dirtyFrom", chosen.dirty.FirstDirty, "dirtyTo", stats.End,
		"bytesBefore", k.BytesRead, "bytesAfter", k.BytesKept, "recordsBefore", k.MessagesRead, "recordsAfter", k.MessagesKept,
		"segmentsBefore", stats.Segments, "segmentsAfter", stats.SegmentsLeft, "seconds", took.Seconds())
	if k.Invalid > 0 {
		c.o.Logger.Warn("records without a key were dropped from a compacted log", "log", l.path, "records", k.Invalid)
	}
}

// params shares the memory between the threads.
func (c *Cleaner) params(now time.Time, chosen candidate) CleanParams {
	c.tuning.Lock()
	s := c.settings
	c.tuning.Unlock()
	return CleanParams{
		Now: now, Bounds: chosen.bound, Dirty: chosen.dirty,
		Map:         compaction.NewOffsetMap(s.DedupeBytes/int64(s.Threads), s.LoadFactor),
		BufferBytes: s.IOBufferBytes / s.Threads / 2,
		Pace:        func(bytes int) error { return c.pace.pass(c.ctx, bytes) },
	}
}

// failed decides what becomes of a log that was not cleaned. Callers hold mu.
func (c *Cleaner) failed(now time.Time, l *Log, err error) {
	switch {
	case c.ctx.Err() != nil && errors.Is(err, context.Canceled), errors.Is(err, ErrClosed), errors.Is(err, ErrOvertaken):
		// It has been deleted, moved or cut: if it is still there, it is judged again.
		c.later[l] = now.Add(overtakenPause)
		c.o.Logger.Debug("cleaning given up", "log", l.path, "err", err)
	case errors.Is(err, ErrDirOffline), l.Failure() != nil:
		// Whoever is concerned has heard of it.
	case errors.Is(err, ErrDirFull), isBusy(err):
		c.later[l] = now.Add(cleanRetryPause)
		c.o.Logger.Warn("log not cleaned, it is tried again", "log", l.path, "err", err)
	default:
		c.uncleanable[l] = struct{}{}
		c.o.Logger.Error("log cannot be cleaned: it grows until the broker is started again, if the reason is gone then", "log", l.path, "err", err)
	}
	c.metrics.uncleanableAre(c.uncleanable)
}

// forget lets go of logs that are gone, and of those whose time to be tried again has come.
// Callers hold mu.
func (c *Cleaner) forget(now time.Time) {
	for l, due := range c.later {
		if l.isClosed() || !now.Before(due) {
			delete(c.later, l)
		}
	}
	for l := range c.uncleanable {
		if l.isClosed() {
			delete(c.uncleanable, l)
		}
	}
	c.metrics.uncleanableAre(c.uncleanable)
}
