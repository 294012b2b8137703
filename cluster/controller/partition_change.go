package controller

import (
	"slices"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// election is how a leader is chosen when a partition changes.
type election int8

const (
	// electOnline keeps the leader if it may lead, else takes the first member of the
	// ISR in replica order.
	electOnline election = iota
	// electPreferred takes the first replica if it may lead, else as electOnline.
	electPreferred
	// electUnclean is electOnline, and then takes any live replica: records may be lost.
	electUnclean
)

// partitionChange works out what a partition becomes when its ISR, the set of live
// brokers or its directories change (Kafka's PartitionChangeBuilder, with eligible leader
// replicas of KIP-966 on).
//
// A leader comes from the ISR, or, when nobody in the ISR may lead, from the ELR: the replicas
// that left the ISR while it was below min ISR. Since the high watermark stands still
// then, they hold every committed record. In Kafka the ISR is empty by then. Here a broker that
// was restarted when nobody else could lead stays in it while it is fenced.
type partitionChange struct {
	old        *metadata.Partition
	acceptable func(replica int32) bool // registered, unfenced, its directory online
	waitFor    func(member int32) bool  // of the ISR, before anybody leads from the ELR: acceptable
	election   election
	minISR     int32   // effective: at most the number of replicas
	byLogs     []int32 // who comes first if records may be lost: the most in its log

	isr      []int32                // what the ISR should be
	unclean  []int32                // lost what they had: neither ISR nor ELR
	empty    []int32                // of these, have nothing: never the last known leader
	recovery metadata.RecoveryState // what it should be
	elr      []int32
	newEpoch bool // the leader epoch rises whoever leads

	// What the assignment should be. dirs belong to replicas, in their order.
	replicas, adding, removing []int32
	dirs                       []uuid.UUID
}

func newPartitionChange(old *metadata.Partition, minISR int32, acceptable func(int32) bool) *partitionChange {
	return &partitionChange{
		old:        old,
		acceptable: acceptable,
		waitFor:    acceptable,
		minISR:     min(minISR, int32(len(old.Replicas))),
		isr:        old.ISR,
		recovery:   old.RecoveryState,
		elr:        old.ELR,
		replicas:   old.Replicas,
		adding:     old.AddingReplicas,
		removing:   old.RemovingReplicas,
		dirs:       old.Directories,
	}
}

// without takes replicas out of the target ISR.
func (c *partitionChange) without(replicas ...int32) *partitionChange {
	c.isr = exclude(c.isr, replicas)
	return c
}

// lost takes replicas out of ISR and ELR: they can no longer vouch for what they had.
func (c *partitionChange) lost(replicas ...int32) *partitionChange {
	c.unclean = append(c.unclean, replicas...)
	return c.without(replicas...)
}

// gone is lost, for replicas whose directory no longer exists: they would lead with an
// empty log.
func (c *partitionChange) gone(replicas ...int32) *partitionChange {
	c.empty = append(c.empty, replicas...)
	return c.lost(replicas...)
}

// build gives the partition's next state: its partition epoch rises if anything differs,
// its leader epoch if the leader does or may have lost records, or a replica is gone or
// begins anew. To be called once.
func (c *partitionChange) build() *metadata.Partition {
	c.completeReassignment()
	c.populateELR()
	p := *c.old
	p.Replicas, p.Directories = c.replicas, c.dirs
	p.AddingReplicas, p.RemovingReplicas = c.adding, c.removing
	p.RecoveryState = c.recovery
	leader, unclean := c.elect()
	switch {
	case leader == metadata.NoLeader || slices.Contains(c.isr, leader):
	case unclean:
		// The rest of the ISR may hold records that this leader lacks.
		c.isr, c.elr = []int32{leader}, nil
		p.RecoveryState = metadata.Recovering
	default: // from the ELR; who is in the ISR has as much
		c.elr = exclude(slices.Concat(c.elr, c.isr), []int32{leader})
		slices.Sort(c.elr)
		c.isr = []int32{leader}
	}
	p.Leader, p.ISR, p.ELR = leader, c.isr, c.elr
	p.LastKnownELR = c.lastKnown(leader)
	newLeadership := leader != c.old.Leader || unclean || c.newEpoch || len(exclude(c.old.Replicas, c.replicas)) > 0
	if newLeadership {
		p.LeaderEpoch++
	}
	if newLeadership || !samePartition(&p, c.old) {
		p.PartitionEpoch++
	}
	return &p
}

// populateELR moves members that leave an ISR below min ISR to the ELR, unless they lost
// what they had, and empties the ELR when the ISR is back at min ISR.
func (c *partitionChange) populateELR() {
	if int32(len(c.isr)) >= c.minISR {
		c.elr = nil
		return
	}
	candidates := exclude(c.old.ISR, c.old.ELR)
	candidates = append(slices.Clone(c.old.ELR), candidates...)
	elr := exclude(exclude(candidates, c.isr), c.unclean)
	elr = slices.DeleteFunc(elr, func(r int32) bool { return !slices.Contains(c.replicas, r) })
	slices.Sort(elr) // a set; sorted so that equal sets are equal records
	c.elr = elr
}

// lastKnown remembers the last leader of a partition that loses its leader for the first
// time, and forgets it when there is a leader again, or it has no replica any more.
func (c *partitionChange) lastKnown(leader int32) []int32 {
	known := c.old.LastKnownELR
	switch {
	case leader >= 0 && leader != c.old.Leader:
		known = nil
	case leader == metadata.NoLeader && c.old.Leader >= 0 && len(known) == 0:
		known = []int32{c.old.Leader}
	}
	return slices.DeleteFunc(exclude(known, c.empty), func(r int32) bool { return !slices.Contains(c.replicas, r) })
}

func (c *partitionChange) elect() (leader int32, unclean bool) {
	if c.election == electPreferred && len(c.replicas) > 0 && c.validLeader(c.replicas[0]) {
		return c.replicas[0], false
	}
	if c.validLeader(c.old.Leader) {
		return c.old.Leader, false
	}
	if i := slices.IndexFunc(c.replicas, c.validLeader); i >= 0 {
		return c.replicas[i], false
	}
	// Case last known leader: ISR and ELR are both empty, so nobody is known to be
	// complete; the one that led last is the best guess.
	if len(c.isr) == 0 && len(c.elr) == 0 && len(c.old.LastKnownELR) == 1 && c.acceptable(c.old.LastKnownELR[0]) {
		return c.old.LastKnownELR[0], true
	}
	if c.election == electUnclean {
		candidates := slices.Concat(c.byLogs, c.replicas)
		if i := slices.IndexFunc(candidates, c.acceptable); i >= 0 {
			return candidates[i], true
		}
	}
	return metadata.NoLeader, false
}

func (c *partitionChange) validLeader(replica int32) bool {
	if replica < 0 || !c.acceptable(replica) {
		return false
	}
	return slices.Contains(c.isr, replica) || slices.Contains(c.elr, replica) && !slices.ContainsFunc(c.isr, c.waitFor)
}

// exclude gives the members of from that are not in out, in their order, as a new slice.
func exclude(from, out []int32) []int32 {
	left := make([]int32, 0, len(from))
	for _, r := range from {
		if !slices.Contains(out, r) {
			left = append(left, r)
		}
	}
	return left
}

func samePartition(a, b *metadata.Partition) bool {
	return a.Leader == b.Leader && a.RecoveryState == b.RecoveryState &&
		slices.Equal(a.Replicas, b.Replicas) && slices.Equal(a.Directories, b.Directories) &&
		slices.Equal(a.ISR, b.ISR) && slices.Equal(a.ELR, b.ELR) &&
		slices.Equal(a.LastKnownELR, b.LastKnownELR) &&
		slices.Equal(a.AddingReplicas, b.AddingReplicas) &&
		slices.Equal(a.RemovingReplicas, b.RemovingReplicas)
}
