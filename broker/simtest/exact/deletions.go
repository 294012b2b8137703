package exact

import (
	"errors"
	"math/rand/v2"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// deletions are the DeleteRecords of a run, in a quarter of the seeds. They are drawn from
// a source of their own, so that the other seeds are what they have always been.
type deletions struct {
	rand *rand.Rand
	on   bool
}

func (w *world) drawDeletions() {
	w.deletions.rand = rand.New(rand.NewPCG(w.opts.Seed, 3))
	w.deletions.on = w.deletions.rand.IntN(4) == 0 || w.opts.Break == DeletionsNotPersisted
	if w.deletions.on {
		w.after(w.plan.maxDelay, "delete records", w.deleteRecords)
	}
}

// deleteRecords moves the log start of some partition, and comes back. That the start be
// durable is asked for later, as between the two steps of replica.Manager anything may
// happen.
func (w *world) deleteRecords() {
	if w.calm {
		return
	}
	r := w.deletions.rand
	w.after(w.plan.maxDelay*3, "delete records", w.deleteRecords)
	if w.broker == nil || len(w.broker.partitions) == 0 {
		return
	}
	p := w.broker.partitions[r.IntN(len(w.broker.partitions))]
	start, hw := int64(p.log.LogStart()), int64(p.HighWatermark())
	upTo, _, promised, err := p.DeleteRecords(start + r.Int64N(max(1, hw-start+1)))
	w.tracef("%s from %d up to %d, high watermark %d: %v", p, start, upTo, hw, err)
	switch {
	case w.crashed, err == nil && !promised:
	case errors.Is(err, kafkaerr.PolicyViolation) && p.config.Compact && !p.config.Delete:
	case err == nil:
		w.inLife(w.delay(), "persist log starts", func() { w.persistLogStarts(p, upTo) })
	case !errors.Is(err, kafkaerr.NotLeaderOrFollower) && !w.excused(err):
		w.fail("CleanDeletion", "delete records of %s: %v", p, err)
	}
}

// persistLogStarts acknowledges a deletion when it is durable. One that fails for a reason
// that passes is sent again.
func (w *world) persistLogStarts(p *partition, upTo int64) {
	if p.deleted || p.Failure() != nil {
		return
	}
	var err error
	if w.opts.Break != DeletionsNotPersisted {
		err = p.d.PersistLogStarts(p.log)
	}
	switch {
	case w.crashed:
	case err == nil:
		w.tracef("%s deleted up to %d", p, upTo)
		w.report.Deletions++
		p.judged.deleted = max(p.judged.deleted, upTo)
	case !w.excused(err):
		w.fail("CleanDeletion", "persist log starts of %s: %v", p, err)
	case logstore.MayPass(err):
		w.inLife(w.plan.maxDelay*5, "persist log starts again", func() { w.persistLogStarts(p, upTo) })
	}
}
