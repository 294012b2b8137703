package cluster

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// Elections that are unclean on purpose. In some runs a topic allows them, in others an
// administrator asks for them. Where one was decided, and only there, what the elected replica
// lacks may be lost. A branch begins, named by the leader epoch of the election:
//
//	epochs   0   1   2 │ 5   6
//	log      ──────┬───┘ what the elected one has not
//	               └─────── the branch: what it has when it begins to lead, and what comes then
//
// Who is on the branch must keep to it like to everything before. That is the replica that
// leads in it, and one that has a record of it, or is in the ISR that its leaders have made. Others
// may still have the end that is lost, show it to consumers, and acknowledge what they add to
// it, until they hear of the election.
type unclean int8

const (
	neverUnclean unclean = iota
	uncleanByTopic
	uncleanByRequest
)

const uncleanKey = "unclean.leader.election.enable"

// drawUnclean tells what a run allows.
func (w *world) drawUnclean() unclean {
	switch {
	case w.opts.Break == NoComparing:
		return uncleanByTopic
	case w.opts.Break != Nothing:
		return neverUnclean
	}
	return []unclean{neverUnclean, neverUnclean, uncleanByTopic, neverUnclean, neverUnclean, uncleanByRequest, neverUnclean}[w.opts.Seed%7]
}

// allowsUnclean tells whether a topic does.
func (w *world) allowsUnclean(topic string) bool {
	return w.plan.unclean == uncleanByTopic && topic == "t0"
}

// electUncleanly asks for leaders of all partitions that have none.
func (w *world) electUncleanly() {
	if w.quorum.core == nil || w.plan.unclean != uncleanByRequest {
		return
	}
	w.tracef("whoever is there is to lead")
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.TimeoutMillis, req.ElectionType = 2, 60_000, 1
	w.administer(req)
}

// strand leaves a leader alone in the ISR, since the others have no room, and has it away when
// they have. It may be back with what it has acknowledged meanwhile.
func (w *world) strand() {
	if w.plan.unclean == neverUnclean || w.quorum.core == nil || len(w.consumers) == 0 || w.fragile != nil {
		return
	}
	part := w.consumers[w.rand.IntN(len(w.consumers))].part
	p := w.partition(part)
	w.tracef("the leader of %s is to be alone", part)
	for _, r := range p.Replicas {
		if r != p.Leader {
			w.fill(w.node(r))
		}
	}
	w.after(time.Duration(100+w.rand.IntN(400))*time.Millisecond, "the leader goes", func() {
		p := w.partition(part)
		if w.calm || p == nil || p.Leader < 0 || w.node(p.Leader).b == nil {
			return
		}
		away := sessionTimeout + time.Duration(w.rand.IntN(300))*time.Millisecond
		w.after(away-time.Duration(w.rand.IntN(100))*time.Millisecond, "ask for elections", w.electUncleanly)
		n := w.node(p.Leader)
		switch w.rand.IntN(5) {
		case 0, 1:
			w.pauseFor(n, away)
			return
		case 2: // it is back at once, and what it had cannot be read
			away = 0
			w.forsake(n, part)
		}
		n.away = away
		n.crash()
		w.bury()
	})
}

// forsake damages the log of a replica, from the outside, when its process has ended.
func (w *world) forsake(n *node, part *part) {
	p := n.b.parts[part.id]
	if p == nil || p.log == nil || p.Failure() != nil || p.log.Failure() != nil || w.damaged(n, part.id) {
		return
	}
	n.crash()
	w.damageLog(n, p)
}

// asksUnclean tells whether a request is electUncleanly's.
func asksUnclean(req kmsg.Request) bool {
	elect, ok := req.(*kmsg.ElectLeadersRequest)
	return ok && elect.ElectionType == 1
}

// uncleanElection looks at the election of a replica that may lack records.
func (j *judge) uncleanElection(id replica.TopicIDPartition, name string, old, p *metadata.Partition) {
	for _, r := range append(slices.Clone(old.ISR), old.ELR...) {
		if j.couldLead(id, r, p) {
			j.w.fail("LeaderWasInSync", "%s: %d leads, though %d could; ISR was %v, ELR %v", name, p.Leader, r, old.ISR, old.ELR)
		}
	}
	if p.RecoveryState != metadata.Recovering {
		j.w.fail("LeaderWasInSync", "%s: nothing tells that the election of %d was unclean", name, p.Leader)
	}
	j.w.report.Unclean++
	if slices.ContainsFunc(slices.Concat(old.ISR, old.ELR), func(r int32) bool {
		return j.w.node(r).up() && j.w.damaged(j.w.node(r), id)
	}) {
		j.w.report.Forsaken++
	}
	j.w.tracef("%s: the election was unclean", name)
	if v := j.parts[id]; v != nil {
		v.branch, v.begun = p.LeaderEpoch, false
	}
}

// couldLead tells whether a replica is in service, and whole as far as the controller can know: of
// one that was brought back it hears when its broker registers again.
func (j *judge) couldLead(id replica.TopicIDPartition, r int32, p *metadata.Partition) bool {
	b, i := j.w.quorum.image().Broker(r), slices.Index(p.Replicas, r)
	if told, rescued := j.w.rescued[replicaOf{j.w.node(r), id}]; rescued && b != nil && b.Epoch == told {
		return false
	}
	return b != nil && !b.Fenced && !b.InControlledShutdown && i >= 0 && b.HasOnlineDir(p.Directories[i]) && !j.w.damaged(j.w.node(r), id)
}

// settle takes a replica in that is on the branch now.
func (j *judge) settle(n *node, p *partition, v *verdicts) {
	if p.judged.branch == v.branch || p.epoch() < v.branch {
		return
	}
	if _, leads := p.Leader(); leads && !v.begun {
		v.begun = j.rebase(p, v)
	}
	if !v.begun {
		return
	}
	latest, _ := p.log.LatestEpoch()
	now := j.w.partition(v.part)
	if _, leads := p.Leader(); leads || latest >= v.branch || now.LeaderEpoch >= v.branch && slices.Contains(now.ISR, n.id) {
		p.judged.branch, p.judged.seen = v.branch, 0
	}
}

// rebase makes what a replica has the beginning of the branch; false if that could not be read.
// What it has not flushed it may still lose, as long as nobody is shown that.
func (j *judge) rebase(p *partition, v *verdicts) bool {
	values, ok := j.contents(p)
	if !ok {
		return false
	}
	start, end := int64(p.log.LogStart()), p.reliable()
	prints := map[int64]print{}
	for at := start; at < end; {
		views := j.batches(p, at, int64(p.log.LogEnd()))
		if len(views) == 0 {
			return false
		}
		for _, b := range views {
			if at = b.NextOffset(); at <= end {
				prints[b.BaseOffset()] = printOf(b)
			}
		}
	}
	v.shown = 0
	known := len(v.lost)
	for o, value := range v.promised {
		if _, there := values[o]; o < start || o < end && (values[o].ID == value || !there && v.cleaned.MayMiss(o, o+1)) {
			v.shown = max(v.shown, o+1)
			continue
		}
		delete(v.promised, o)
		v.lost[value] = true
	}
	for base, of := range v.agreed {
		if base >= start && prints[base] != of {
			delete(v.agreed, base)
		}
	}
	for o, was := range v.same {
		if _, there := values[o]; o >= end || o >= start && values[o].ID != was.value && (there || !v.cleaned.MayMiss(o, o+1)) {
			delete(v.same, o)
		}
	}
	v.cleaned.Rebase(values, start, end)
	lost := len(v.lost) - known
	j.w.report.Lost += lost
	j.w.tracef("%s begins a branch in epoch %d: log %d to %d, %d promises are lost", v.part, v.branch, start, end, lost)
	return true
}

func printOf(b batch.View) print { return print{b.NextOffset(), b.LeaderEpoch(), b.CRC()} }

// counts tells whether a replica is on the branch that is the last.
func (v *verdicts) counts(p *partition) bool {
	return p.judged.branch == v.branch && (v.branch == 0 || v.begun)
}

// seen is a record that a consumer has read.
type seen struct {
	value string
	epoch int32
}

// compare looks at what a consumer has read before it came to a branch, when a replica of that
// finds nothing wrong with it.
func (j *judge) compare(p *partition, c *consumer, v *verdicts) {
	values, ok := j.contents(p)
	if !ok {
		return
	}
	for o, was := range c.history {
		if _, there := values[o]; was.value == "" || !there && v.cleaned.MayMiss(o, o+1) {
			continue
		}
		if o >= int64(p.log.LogStart()) && values[o].ID != was.value {
			j.w.fail("ConsumersNeverDiverge", "%s: a consumer at %d, epoch %d, has read %s at %d, and broker %d, which has %q there, does not tell",
				c.part, c.position, c.epoch, was.value, o, p.d.b.n.id, values[o].ID)
			return
		}
	}
	if c.position <= int64(p.HighWatermark()) {
		c.branch = v.branch
	}
}

// cutTo takes a consumer back to where it has read what a leader of the branch has (KIP-320).
func (c *consumer) cutTo(to *replica.EpochEndOffset) {
	at := min(c.position, to.EndOffset)
	for last, ok := c.history[at-1]; ok && last.epoch > to.Epoch; last, ok = c.history[at-1] {
		at--
	}
	for o := range c.history {
		if o >= at {
			delete(c.history, o)
		}
	}
	c.w.report.Diverged++
	c.w.tracef("a consumer of %s at %d goes back to %d", c.part, c.position, at)
	c.position, c.epoch = at, replica.NoEpoch
	if last, ok := c.history[at-1]; ok {
		c.epoch = last.epoch
	}
}
