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
//	messages        delayed, lost, duplicated; fetches also by     the same
//	                so much that their sender has died
//	full disk       for a while                     the same; appends are refused until
//	                                                there is room again, or others lead
//	damage          of one replica below what was   the same: it is fetched again, unless
//	                flushed; see damage.go          it is the last; then it stays as it is
//	unclean         where a topic or a request      what the elected replica has
//	elections       allows them; see unclean.go
//	administrators  delete topics, give partitions  the same
//	                other replicas, throttle them,
//	                elect leaders,
//	                bring replicas to other log
//	                directories; see move.go
//
// With durability=replicated the power fails on one node at a time, while all others are
// up and in sync: more is not promised.

// fault draws the next misfortune, and comes back.
func (w *world) fault() {
	if w.calm {
		return
	}
	w.after(w.plan.maxDelay*4, "fault", w.fault)
	n := w.nodes[w.rand.IntN(len(w.nodes))]
	r := w.rand.IntN(64)
	if w.endFragile() && r >= 4 && r < 30 {
		return
	}
	switch {
	case r < 4:
		w.tracef("write back on %d", n.id)
		n.fs.Writeback()
	case r < 14:
		w.faultOf(n, r-4)
	case r < 17:
		w.cutLink()
	case r == 17:
		w.split()
	case r == 18:
		w.tracef("the controller changes")
		w.quorum.elect()
	case r == 19 && w.rand.IntN(3) == 0:
		w.blackout()
	case r < 24:
		w.killLeaders(1 + w.rand.IntN(3))
	case r == 24 && w.rand.IntN(2) == 0:
		w.deleteTopic(fmt.Sprintf("t%d", w.rand.IntN(w.plan.topics)))
	case r < 28:
		w.reassign()
	case r == 28:
		w.electLeaders()
	case r == 29:
		w.damageOne(n)
		w.bury()
	case r < 34:
		w.moveReplica(n)
	case r < 37:
		w.electUncleanly()
	case r < 41:
		w.strand()
	}
}

// faultOf draws one of a single node.
func (w *world) faultOf(n *node, r int) {
	switch {
	case r < 2 && n.b != nil:
		n.crash()
		w.bury()
	case r == 2:
		n.dieAtSync = 1 + w.rand.IntN(8)
	case r == 3:
		n.dieAtCall = 1 + w.rand.IntN(60)
	case r == 4 && n.b != nil && n.b.epoch >= 0:
		w.tracef("broker %d is asked to stop", n.id)
		n.b.stopping = true
	case r < 8 && n.b != nil:
		w.pause(n, 600)
	case r == 8:
		w.fill(n)
	case r == 9:
		w.loseUnsynced(n)
		w.bury()
	}
}

// pause lets a process stand still for so many milliseconds at most.
func (w *world) pause(n *node, most int) {
	w.pauseFor(n, time.Duration(w.rand.IntN(most))*time.Millisecond)
}

func (w *world) pauseFor(n *node, d time.Duration) {
	w.report.Pauses++
	w.tracef("broker %d stands still for %s", n.id, d)
	if until := w.now.Add(d); until.After(n.pausedUntil) {
		n.pausedUntil = until
	}
}

// fill leaves little room on a disk, for a while.
func (w *world) fill(n *node) {
	if n.full || w.opts.Break != Nothing && w.opts.Break != NoComparing {
		return
	}
	room, err := n.fs.Space("/")
	if err != nil {
		w.fail("Harness", "space: %v", err)
		return
	}
	w.tracef("the disk of broker %d fills", n.id)
	w.report.Full++
	n.full = true
	n.fs.SetCapacity(int64(room.TotalBytes-room.AvailBytes) + int64(w.rand.IntN(1500)))
	w.after(time.Duration(w.rand.IntN(500))*time.Millisecond, "room again", func() { w.empty(n) })
}

// empty ends that. The broker is excused for as long as it may need to notice.
func (w *world) empty(n *node) {
	if n.full && !n.staysFull {
		n.full = false
		n.wellAt = w.now.Add(2 * w.plan.keeper.SpaceInterval)
		n.fs.SetCapacity(0)
	}
}

// loseUnsynced cuts the power of one node where durability=replicated promises no more
// than that: all others are up and in sync, and nothing kills them before it is back. What it
// has fetched last, and acknowledges, is late on its way to its leaders; another one may stand
// still meanwhile, so that high watermarks do.
func (w *world) loseUnsynced(n *node) {
	if w.plan.fsync || !w.healthy() {
		return
	}
	w.tracef("the fetches of broker %d are late", n.id)
	w.fragile, n.doomed = n, true
	for _, n := range w.nodes {
		n.dieAtSync, n.dieAtCall = 0, 0
	}
	life := n.life
	w.after(w.plan.maxDelay*2, "the power fails on one node", func() {
		n.doomed = false
		if n.b == nil || n.life != life || !w.healthy() {
			w.fragile = nil
			return
		}
		n.powerCut()
		n.crashed, n.lost = true, true
		w.bury()
		if other := w.nodes[w.rand.IntN(len(w.nodes))]; other != n {
			w.pause(other, 200)
		}
	})
}

// healthy tells whether every node is up, and every replica in its ISR.
func (w *world) healthy() bool {
	if len(w.net.cut) > 0 || w.plan.loss > 0 {
		return false
	}
	for _, n := range w.nodes {
		if !n.up() || n.full || n.b.stopping || !n.b.inService {
			return false
		}
	}
	for id := range w.judge.parts {
		if p := w.quorum.image().Partition(id.TopicID, id.Partition); p == nil || len(p.ISR) < len(p.Replicas) {
			return false
		}
	}
	return len(w.damages) == 0
}

// endFragile tells whether a node has yet to come back that has lost what it had not
// synced. When it has registered, it is out of every ISR that has somebody else.
func (w *world) endFragile() bool {
	if n := w.fragile; n != nil && n.b != nil && !n.doomed && !n.lost && n.b.inService {
		w.fragile = nil
	}
	return w.fragile != nil
}

// split parts the nodes in two, for a while. Clients reach both sides.
func (w *world) split() {
	w.report.Cuts++
	order := w.rand.Perm(len(w.nodes))
	few := order[:1+w.rand.IntN(len(order)/2)]
	var links []link
	for _, a := range few {
		for _, b := range order[len(few):] {
			links = append(links, link{int32(a + 1), int32(b + 1)}, link{int32(b + 1), int32(a + 1)})
		}
	}
	w.cutLinks(links, time.Duration(w.rand.IntN(800))*time.Millisecond)
}

func (w *world) cutLinks(links []link, d time.Duration) {
	for _, l := range links {
		if l.from != l.to {
			w.net.cut[l] = true
		}
	}
	w.tracef("cut of %v", links)
	w.after(d, "links are mended", func() {
		for _, l := range links {
			delete(w.net.cut, l)
		}
	})
}

// killLeaders ends the leader of a partition, and soon after that the one that comes next,
// and so on: what a leader has just acknowledged, the next may hardly know of.
func (w *world) killLeaders(n int) {
	if len(w.consumers) == 0 || n == 0 || w.calm || w.fragile != nil {
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
			links = append(links, link{from, int32(i + 1)}, link{int32(i + 1), from})
		}
	}
	w.cutLinks(links, time.Duration(w.rand.IntN(500))*time.Millisecond)
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
