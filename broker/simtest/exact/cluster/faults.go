package cluster

import (
	"fmt"
	"time"
)

// The faults that a cluster must survive here, and what it must keep:
//
//	kill            between two events, in the     everything that was acknowledged or read,
//	                middle of any sync, before any  with either durability
//	                other call on the disk
//	power cut       at the same moments, and       the same, with durability=fsync; with
//	                after a kill before the next    replicated it is not promised
//	                start; of all nodes at once
//	pause           a process stands still, and    the same: what it acknowledges afterwards
//	                goes on as if nothing were      is not lost
//	clean stop      leaders move first             the same
//	cut             a link loses everything, in    the same
//	                one direction
//	controller      another one, which loses part  the same
//	                of what was proposed
//	messages        delayed, lost, duplicated

// fault draws the next misfortune, and comes back.
func (w *world) fault() {
	if w.calm {
		return
	}
	w.after(w.plan.maxDelay*4, "fault", w.fault)
	n := w.nodes[w.rand.IntN(len(w.nodes))]
	switch r := w.rand.IntN(64); {
	case r < 4:
		w.tracef("write back on %d", n.id)
		n.fs.Writeback()
	case r < 6 && n.b != nil:
		n.crash()
		w.bury()
	case r == 6:
		n.dieAtSync = 1 + w.rand.IntN(8)
	case r == 7:
		n.dieAtCall = 1 + w.rand.IntN(60)
	case r == 8 && n.b != nil && n.b.epoch >= 0:
		w.tracef("broker %d is asked to stop", n.id)
		n.b.stopping = true
	case r < 11 && n.b != nil:
		w.report.Pauses++
		d := time.Duration(w.rand.IntN(600)) * time.Millisecond
		w.tracef("broker %d stands still for %s", n.id, d)
		if until := w.now.Add(d); until.After(n.pausedUntil) {
			n.pausedUntil = until // what waits for the end keeps its order
		}
	case r < 14:
		w.cutLink()
	case r == 14:
		w.tracef("the controller changes")
		w.quorum.elect()
	case r == 15 && w.rand.IntN(3) == 0:
		w.blackout()
	case r == 20 && w.rand.IntN(2) == 0:
		w.deleteTopic(fmt.Sprintf("t%d", w.rand.IntN(w.plan.topics)))
	case r < 20:
		w.killLeaders(1 + w.rand.IntN(3))
	}
}

// killLeaders ends the leader of a partition, and soon after that the one that comes next,
// and so on: what a leader has just acknowledged, the next may hardly know of.
func (w *world) killLeaders(n int) {
	if len(w.consumers) == 0 || n == 0 || w.calm {
		return
	}
	id := w.consumers[w.rand.IntN(len(w.consumers))].part.id
	if p := w.quorum.image().Partition(id.TopicID, id.Partition); p.Leader > 0 && w.node(p.Leader).b != nil {
		w.tracef("the leader of a partition dies: %d", p.Leader)
		w.node(p.Leader).crash()
		w.bury()
	}
	w.after(w.delay()*time.Duration(1+w.rand.IntN(8)), "and the next", func() { w.killLeaders(n - 1) })
}

// cutLink cuts one direction of a link, or all of a node, for a while.
func (w *world) cutLink() {
	w.report.Cuts++
	from, to := int32(w.rand.IntN(len(w.nodes)+1)), int32(w.rand.IntN(len(w.nodes)+1))
	links := []link{{from, to}}
	if w.rand.IntN(3) == 0 {
		for i := range w.nodes {
			links = append(links, link{from, int32(i)}, link{int32(i), from})
		}
	}
	for _, l := range links {
		if l.from != l.to {
			w.net.cut[l] = true
		}
	}
	w.tracef("cut of %v", links)
	w.after(time.Duration(w.rand.IntN(500))*time.Millisecond, "links are mended", func() {
		for _, l := range links {
			delete(w.net.cut, l)
		}
	})
}

// blackout ends all processes at once.
func (w *world) blackout() {
	w.tracef("all nodes die")
	for _, n := range w.nodes {
		if n.b != nil {
			n.crash()
		}
	}
	w.bury()
}
