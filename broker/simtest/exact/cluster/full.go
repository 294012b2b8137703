package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// A disk that stays full. When the faults have ended, in some runs the disk of one broker that
// leads is full and stays so for a while. Others must lead then, and acknowledge what is under way,
// where there are enough of them.

// withoutRoom lets one disk be full, until everything that can be answered is.
func (w *world) withoutRoom() {
	n := w.toStayFull()
	if n == nil || w.failed != nil {
		return
	}
	room, err := n.fs.Space("/")
	if err != nil {
		w.fail("Harness", "space: %v", err)
		return
	}
	w.tracef("the disk of broker %d is full, and stays so", n.id)
	n.full, n.staysFull = true, true
	n.fs.SetCapacity(int64(room.TotalBytes - room.AvailBytes))
	led := w.ledBy(n.id)
	w.calmDown(func() string { return w.unanswered(n.id) })
	for _, p := range led {
		if now := w.partition(p); now != nil && now.Leader != n.id && now.Leader != metadata.NoLeader {
			w.report.HandedOver++
		}
	}
	n.staysFull = false
	w.empty(n)
}

// toStayFull is a broker that leads where somebody waits, nil if that is not to be.
func (w *world) toStayFull() *node {
	if w.opts.Seed%2 == 0 || w.opts.Break != Nothing && w.opts.Break != FullDirsUntold || len(w.damages) > 0 {
		return nil
	}
	for _, p := range w.producers {
		if s := w.partition(p.part); s != nil && len(p.unacked) > 0 && s.Leader > 0 {
			return w.node(s.Leader)
		}
	}
	return nil
}

// partition is what metadata says of one.
func (w *world) partition(p *part) *metadata.Partition {
	return w.quorum.image().Partition(p.id.TopicID, p.id.Partition)
}

// ledBy are the partitions in use that a broker leads.
func (w *world) ledBy(id int32) (led []*part) {
	for _, c := range w.consumers {
		if s := w.partition(c.part); s != nil && s.Leader == id {
			led = append(led, c.part)
		}
	}
	return led
}

// serves tells whether a broker has a replica that others can fetch: where there is no room,
// its log may not have been created yet.
func (w *world) serves(id int32, p *part) bool {
	b := w.node(id).b
	return b != nil && b.parts[p.id] != nil && b.parts[p.id].Failure() == nil
}

// unanswered is what waits although there are enough replicas beside the one without room, and
// that is not the only one in sync and has nothing for the others: then nobody could come into
// the ISR to take over, and who is in the ELR need not (see directoriesFull of the controller).
func (w *world) unanswered(full int32) string {
	var all []string
	for _, p := range w.producers {
		s := w.partition(p.part)
		if len(p.unacked) == 0 || s == nil {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(s.Replicas), func(r int32) bool { return r == full })
		if len(others) >= max(1, w.plan.minISR) && (w.serves(full, p.part) || slices.ContainsFunc(s.ISR, func(r int32) bool { return r != full })) {
			all = append(all, fmt.Sprintf("%s has %d batches unacknowledged, the disk of broker %d is full; leader %d, ISR %v of %v", p.name, len(p.unacked), full, s.Leader, s.ISR, s.Replicas))
		}
	}
	return strings.Join(all, "; ")
}
