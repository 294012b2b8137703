package exact

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/logstore/compaction"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// cleanings are those of a run, in a third of the seeds. They are drawn from a source of their
// own, so that the other seeds are what they have always been.
type cleanings struct {
	rand     *rand.Rand
	on       bool
	keys     int
	under    bool // one is under way
	unsynced bool // see CleanedUnsynced
}

// drawCleanings makes the topics of a run compacted ones.
func (w *world) drawCleanings() {
	c := &w.cleanings
	c.rand = rand.New(rand.NewPCG(w.opts.Seed, 4))
	r := c.rand
	switch w.opts.Break {
	case CleanedUncommitted, CleanedUnsynced, EarlyTombstones:
		c.on = true
	default:
		c.on = r.IntN(3) == 0
	}
	if !c.on {
		return
	}
	c.keys = 1 + r.IntN(12)
	o := &w.plan.config
	o.Compact, o.Delete = true, r.IntN(2) == 0
	o.SegmentBytes = int32(150 + r.IntN(500))
	o.MinCleanableRatio = max(0, float64(r.IntN(6)-2)/10)
	w.plan.keeper.RecoveryPointInterval = time.Duration(2+r.IntN(60)) * time.Millisecond
	o.DeleteRetentionMs = int64(r.IntN(300))
	if r.IntN(4) == 0 {
		o.MinCompactionLagMs = int64(r.IntN(100))
	}
	if r.IntN(4) == 0 {
		o.MaxCompactionLagMs = int64(100 + r.IntN(300))
	}
}

func (w *world) startCleanings() {
	if w.cleanings.on {
		w.after(w.plan.maxDelay, "clean", w.clean)
	}
}

// clean cleans some log, and comes back.
func (w *world) clean() {
	c := &w.cleanings
	if w.calm {
		return
	}
	w.after(time.Duration(1+c.rand.Int64N(int64(w.plan.maxDelay)*4)), "clean", w.clean)
	if w.broker == nil || c.under {
		return
	}
	for _, i := range c.rand.Perm(len(w.broker.partitions)) {
		if w.cleanPartition(w.broker.partitions[i]) {
			return
		}
	}
}

// cleanPartition cleans a log if there is something to clean, and reports whether it has begun.
func (w *world) cleanPartition(p *partition) (begun bool) {
	if p.Failure() != nil || p.log == nil || w.crashed {
		return false
	}
	hw := p.HighWatermark()
	bounds := logstore.CleanBounds{HighWatermark: hw, LastStable: p.log.LastStable(hw)}
	committed := min(int64(bounds.LastStable), int64(p.log.RecoveryPoint()))
	if w.opts.Break == CleanedUncommitted {
		bounds = logstore.CleanBounds{HighWatermark: offset.HighWatermark(p.log.LogEnd()), LastStable: offset.LastStable(p.log.LogEnd())}
	}
	dirty, err := p.log.Cleanable(w.wall(), bounds)
	if w.crashed || err != nil && w.excused(err) {
		return false
	}
	if err != nil {
		w.fail("CleanCleaning", "%s: %v", p, err)
		return false
	}
	if dirty.CleanableBytes == 0 || !dirty.Now && dirty.Ratio() <= p.config.MinCleanableRatio {
		return false
	}
	before, ok := w.judge.contents(p)
	if !ok {
		return false
	}
	p.judged.cleaned.Retention = time.Duration(p.config.DeleteRetentionMs) * time.Millisecond
	if err := p.judged.cleaned.Begin(before, committed, w.wall()); err != nil && !p.weak {
		w.fail("NewestOfEachKey", "%s: %v", p, err)
		return false
	}
	w.cleanOne(p, bounds, dirty, len(before))
	return true
}

// cleanOne cleans a log, while other things happen.
func (w *world) cleanOne(p *partition, bounds logstore.CleanBounds, dirty compaction.Dirty, records int) {
	c, life := &w.cleanings, w.life
	w.tracef("clean %s from %d to %d", p, dirty.FirstDirty, dirty.FirstUncleanable)
	c.under = true
	restore := w.breakCleaning(p)
	stats, err := p.log.Clean(logstore.CleanParams{
		Now: w.wall(), Bounds: bounds, Dirty: dirty,
		Map:         compaction.NewOffsetMap(int64(24*(2+c.rand.IntN(30))), 0.9),
		BufferBytes: 1 + c.rand.IntN(300),
		Pace: func(int) error {
			for c.rand.IntN(3) > 0 && !w.crashed && w.failed == nil && w.events.Len() > 0 {
				w.step()
			}
			return nil
		},
	})
	restore()
	c.under = false
	w.tracef("%s was cleaned up to %d: %v", p, stats.End, err)
	switch {
	case w.crashed, w.life != life:
	case errors.Is(err, logstore.ErrOvertaken), errors.Is(err, logstore.ErrClosed) && p.deleted:
		w.report.Overtaken++
	case err != nil && !w.excused(err) && p.Failure() == nil && !p.deleted:
		w.fail("CleanCleaning", "%s: %v", p, err)
	case err == nil:
		w.cleaned(p, stats, records)
	}
}

// cleaned looks at what is left.
func (w *world) cleaned(p *partition, stats logstore.CleanStats, records int) {
	after, ok := w.judge.contents(p)
	if !ok {
		return
	}
	w.report.Cleanings++
	w.report.Removed += max(0, records-len(after))
	start, end := int64(p.log.LogStart()), int64(p.log.LogEnd())
	err := w.judge.cleaned(p, after, start, end)
	if err == nil && !p.weak {
		err = p.judged.cleaned.End(after, start, min(stats.End, end))
	}
	if err != nil {
		w.fail("NewestOfEachKey", "%s: %v", p, err)
	}
}

// breakCleaning makes a cleaning do what it must not.
func (w *world) breakCleaning(p *partition) (restore func()) {
	switch w.opts.Break {
	case CleanedUnsynced:
		w.cleanings.unsynced = true
		return func() { w.cleanings.unsynced = false }
	case EarlyTombstones:
		broken := p.config
		broken.DeleteRetentionMs = -1 << 40
		p.log.UpdateConfig(broken)
		return func() { p.log.UpdateConfig(p.config) }
	default:
		return func() {}
	}
}
