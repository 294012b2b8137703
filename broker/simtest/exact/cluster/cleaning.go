package cluster

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/klamm-mq/klamm/broker/simtest/compacted"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/logstore/compaction"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// Cleanings of replicas (cleanup.policy=compact), in a third of the runs. Every replica is
// cleaned by its own broker, when that comes to it; between any two batches that a cleaning
// reads or writes other things happen, to that replica, too. Replicas are then the same but
// for what cleanings may take: see package compacted.
//
// A replica that has fallen behind for longer than delete.retention.ms may miss a tombstone,
// and keep what that deleted; Kafka's does, too. What would be found of that is left out.

// cleanings are those of a run. They are drawn from a source of their own, so that the other
// seeds are what they have always been.
type cleanings struct {
	rand  *rand.Rand
	on    bool
	keys  int
	under bool // one is under way
}

// drawCleanings makes the topics of a run compacted ones.
func (w *world) drawCleanings() {
	c := &w.cleanings
	c.rand = rand.New(rand.NewPCG(w.opts.Seed, 5))
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
	o.SegmentBytes = int32(200 + r.IntN(1000))
	w.plan.keeper.RecoveryPointInterval = time.Duration(2+r.IntN(100)) * time.Millisecond
	o.DeleteRetentionMs = int64(r.IntN(2000))
	if r.IntN(4) == 0 {
		o.MinCompactionLagMs = int64(r.IntN(100))
	}
}

func (w *world) startCleanings() {
	if w.cleanings.on {
		w.after(20*w.plan.maxDelay, "clean", w.clean)
	}
}

// clean cleans some replica, and comes back.
func (w *world) clean() {
	c := &w.cleanings
	if w.calm {
		return
	}
	w.after(time.Duration(1+c.rand.Int64N(int64(w.plan.maxDelay)*6)), "clean", w.clean)
	n := w.nodes[c.rand.IntN(len(w.nodes))]
	if c.under || !n.up() || n.b.stopping {
		return
	}
	w.running = n
	for _, i := range c.rand.Perm(len(n.b.order)) {
		if w.cleanReplica(n, n.b.order[i]) {
			return
		}
	}
}

// cleanReplica cleans a replica if there is something to clean.
func (w *world) cleanReplica(n *node, p *partition) (begun bool) {
	v := w.judge.parts[p.id]
	if v == nil || p.log == nil || p.Failure() != nil || p.log.Failure() != nil || n.crashed {
		return false
	}
	hw := p.HighWatermark()
	bounds := logstore.CleanBounds{HighWatermark: hw, LastStable: p.log.LastStable(hw)}
	committed := int64(bounds.LastStable)
	if w.opts.Break == CleanedUncommitted {
		bounds = logstore.CleanBounds{HighWatermark: offset.HighWatermark(p.log.LogEnd()), LastStable: offset.LastStable(p.log.LogEnd())}
	}
	dirty, err := p.log.Cleanable(w.now, bounds)
	if err != nil {
		n.b.cleaningFailed(p, err)
		return false
	}
	if dirty.CleanableBytes == 0 {
		return false
	}
	before, ok := w.judge.contents(p)
	if !ok || !w.judge.cleaning(p, v, before, committed) {
		return false
	}
	w.cleanOne(n, p, v, bounds, dirty, len(before))
	return true
}

// cleanOne cleans a replica, while other things happen.
func (w *world) cleanOne(n *node, p *partition, v *verdicts, bounds logstore.CleanBounds, dirty compaction.Dirty, records int) {
	c, life, log := &w.cleanings, n.life, p.log
	w.tracef("clean %s from %d to %d, high watermark %d", v.part, dirty.FirstDirty, dirty.FirstUncleanable, bounds.HighWatermark)
	c.under = true
	restore := w.breakCleaning(n, p)
	stats, err := log.Clean(logstore.CleanParams{
		Now: w.now, Bounds: bounds, Dirty: dirty,
		Map:         compaction.NewOffsetMap(int64(24*(2+c.rand.IntN(30))), 0.9),
		BufferBytes: 1 + c.rand.IntN(300),
		Pace: func(int) error {
			if n.crashed || n.life != life {
				return nil
			}
			w.meanwhile(n)
			return nil
		},
	})
	restore()
	c.under, w.running = false, n
	w.tracef("%s was cleaned up to %d: %v", v.part, stats.End, err)
	switch {
	case n.crashed, n.life != life:
	case errors.Is(err, logstore.ErrOvertaken), errors.Is(err, logstore.ErrClosed) && (p.log != log || n.b.parts[p.id] != p):
		w.report.Overtaken++
	case err != nil:
		n.b.cleaningFailed(p, err)
	case p.log == log && p.Failure() == nil && w.judge.parts[p.id] == v:
		w.judge.cleanedUp(p, v, stats, records)
	}
}

// meanwhile lets some events happen in the midst of a cleaning.
func (w *world) meanwhile(n *node) {
	for w.cleanings.rand.IntN(3) > 0 && w.failed == nil && w.events.Len() > 0 && !n.crashed {
		cleaning := n.cleaning
		n.cleaning = false
		w.step()
		n.cleaning = cleaning
	}
	w.running = n
}

// cleaningFailed judges an error of a cleaning. What may pass may.
func (b *broker) cleaningFailed(p *partition, err error) {
	b.w.tracef("%s-%d is not cleaned: %v", p.topic, p.id.Partition, err)
	if !logstore.MayPass(err) && !b.w.damaged(b.n, p.id) && !b.n.crashed && p.Failure() == nil && b.parts[p.id] == p {
		b.w.fail("CleanCleaning", "broker %d: %s-%d: %v", b.n.id, p.topic, p.id.Partition, err)
	}
}

// cleaning notes that a replica is about to be cleaned, up to what is committed at most.
func (j *judge) cleaning(p *partition, v *verdicts, before map[int64]compacted.Record, committed int64) bool {
	v.cleaned.Retention = time.Duration(j.w.plan.config.DeleteRetentionMs) * time.Millisecond
	if !v.counts(p) {
		v.cleaned.Excuse(before, committed)
		return true
	}
	late := j.w.plan.directories > 1 || v.branch > 0
	for _, r := range j.w.partition(v.part).Replicas {
		late = late || v.held[r] < committed
	}
	if err := v.cleaned.Begin(before, committed, j.w.now); err != nil {
		j.w.fail("NewestOfEachKey", "%s on %d: %v", v.part, p.d.b.n.id, err)
		return false
	}
	if late {
		v.cleaned.Forsake()
	}
	return true
}

// cleanedUp looks at what is left.
func (j *judge) cleanedUp(p *partition, v *verdicts, stats logstore.CleanStats, records int) {
	after, ok := j.contents(p)
	if !ok {
		return
	}
	j.w.report.Cleaned++
	j.w.report.Removed += max(0, records-len(after))
	j.newest(p, v, after, int64(p.HighWatermark()), "was cleaned") // above it the log may differ until it is cut
	if !v.counts(p) {
		return
	}
	start, end := int64(p.log.LogStart()), int64(p.log.LogEnd())
	if err := v.cleaned.End(after, start, min(stats.End, end)); err != nil {
		j.w.fail("NewestOfEachKey", "%s on %d: %v", v.part, p.d.b.n.id, err)
	}
}

// newest holds the log of a replica, up to end, against what cleanings of any have met.
func (j *judge) newest(p *partition, v *verdicts, values map[int64]compacted.Record, end int64, when string) {
	if !j.w.cleanings.on || !v.counts(p) {
		return
	}
	if err := v.cleaned.Check(values, int64(p.log.LogStart()), end); err != nil {
		j.w.fail("NewestOfEachKey", "%s on %d, which %s: %v", v.part, p.d.b.n.id, when, err)
	}
}

// agreeOnRecords compares records that have come below a replica's high watermark with what
// any replica had there before, and returns the end of what it has looked at.
func (j *judge) agreeOnRecords(n *node, p *partition, v *verdicts, at int64, views []batch.View) int64 {
	missed := func(to int64) {
		for ; at < to; at++ {
			if was, ok := v.same[at]; ok && !v.cleaned.MayMiss(at, at+1) {
				j.w.fail("ReplicasAgreeBelowHW", "%s: broker %d has nothing at %d, where there was %s of epoch %d", v.part, n.id, at, was.value, was.epoch)
			}
		}
	}
	for _, b := range views {
		_ = batch.Iterate(b, j.w.codecs, func(r batch.Record) error {
			missed(r.Offset)
			now := seen{compacted.Of(&r).ID, b.LeaderEpoch()}
			if was, ok := v.same[r.Offset]; ok && was != now && r.Offset == at {
				j.w.fail("ReplicasAgreeBelowHW", "%s at %d: broker %d has %v, there was %v", v.part, at, n.id, now, was)
			}
			v.same[r.Offset] = now
			at = max(at, r.Offset+1)
			return nil
		})
		missed(b.NextOffset())
	}
	return at
}

// breakCleaning makes a cleaning do what it must not.
func (w *world) breakCleaning(n *node, p *partition) (restore func()) {
	switch w.opts.Break {
	case CleanedUnsynced:
		n.cleaning = true
		return func() { n.cleaning = false }
	case EarlyTombstones:
		broken, log := w.plan.config, p.log
		broken.DeleteRetentionMs = -1 << 40
		log.UpdateConfig(broken)
		return func() { log.UpdateConfig(w.plan.config) }
	default:
		return func() {}
	}
}
