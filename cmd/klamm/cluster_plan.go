package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
)

// move is a change of the replicas of one partition.
type move struct {
	topicPartition
	from, to []int32
}

func (m move) String() string {
	return fmt.Sprintf("%s from %s to %s", m.topicPartition, nodes(m.from), nodes(m.to))
}

// drainPlan is how a broker becomes empty.
type drainPlan struct {
	moves []move
	// leaving are partitions that are on their way already.
	leaving map[topicPartition]reassignment
	// stuck are partitions that nobody can copy now, with the reason.
	stuck []error
}

func (p *drainPlan) empty() bool { return len(p.moves)+len(p.leaving)+len(p.stuck) == 0 }

// planDrain finds for each replica of a broker another broker:
//
//	on a rack that the partition does not have yet, if there is one, else on any
//	with the fewest replicas, what was planned before counted in
//	and, if the broker was the preferred leader, the member preferred by the fewest becomes it
//
// Without enough brokers it is an error, or with fewer the partition gets a replica less.
// It is a function of the view: two plans from one view are the same.
func planDrain(view *clusterView, id int32, fewer bool) (drainPlan, error) {
	d := drainer{id: id, fewer: fewer, plan: drainPlan{leaving: map[topicPartition]reassignment{}}}
	for i := range view.nodes {
		switch n := &view.nodes[i]; {
		case n.id == id || !n.broker:
		case n.active():
			d.brokers = append(d.brokers, &drainTarget{id: n.id, rack: n.rack})
		default:
			d.down = append(d.down, n.id)
		}
	}
	view.partitions(func(p kadm.PartitionDetail) { d.count(view.target(p)) })
	var failed error
	view.partitions(func(p kadm.PartitionDetail) {
		if err := d.add(view, p); err != nil && failed == nil {
			failed = err
		}
	})
	return d.plan, failed
}

// target is what the replicas of a partition are to be.
func (v *clusterView) target(p kadm.PartitionDetail) []int32 {
	if m, ok := v.moving[topicPartition{p.Topic, p.Partition}]; ok {
		return m.target()
	}
	return p.Replicas
}

// drainer makes a plan.
type drainer struct {
	id      int32
	fewer   bool
	brokers []*drainTarget
	down    []int32 // brokers that may be back soon
	plan    drainPlan
}

// drainTarget is a broker that may get replicas.
type drainTarget struct {
	id                  int32
	rack                string
	replicas, preferred int
}

func (d *drainer) broker(id int32) *drainTarget {
	if i := slices.IndexFunc(d.brokers, func(b *drainTarget) bool { return b.id == id }); i >= 0 {
		return d.brokers[i]
	}
	return nil
}

func (d *drainer) count(replicas []int32) {
	for i, id := range replicas {
		b := d.broker(id)
		if b == nil {
			continue
		}
		b.replicas++
		if i == 0 {
			b.preferred++
		}
	}
}

// add decides one partition.
func (d *drainer) add(view *clusterView, p kadm.PartitionDetail) error {
	name := topicPartition{p.Topic, p.Partition}
	target := view.target(p)
	switch {
	case !slices.Contains(p.Replicas, d.id):
		return nil
	case !slices.Contains(target, d.id):
		d.plan.leaving[name] = view.moving[name]
		return nil
	case p.Leader < 0:
		d.plan.stuck = append(d.plan.stuck, fmt.Errorf("%s has no leader to copy from; its replicas are on %s", name, nodes(target)))
		return nil
	}
	rest := without(target, d.id)
	chosen := d.choose(rest)
	switch {
	case chosen != nil:
		chosen.replicas++
		rest = append(rest, chosen.id)
	case !d.fewer || len(rest) == 0:
		return fmt.Errorf("%s needs %d brokers, and without node %d there are %d%s", name, len(target), d.id, len(d.brokers), d.alsoDown())
	}
	if target[0] == d.id {
		d.prefer(rest)
	}
	d.plan.moves = append(d.plan.moves, move{name, target, rest})
	return nil
}

// alsoDown tells of brokers that do not count now.
func (d *drainer) alsoDown() string {
	if len(d.down) == 0 {
		return ""
	}
	return fmt.Sprintf("; out of service: %s", nodes(d.down))
}

// choose finds the broker for another replica; nil if all have one.
func (d *drainer) choose(replicas []int32) *drainTarget {
	var candidates []*drainTarget
	racks := map[string]bool{}
	for _, b := range d.brokers {
		if slices.Contains(replicas, b.id) {
			racks[b.rack] = true
		} else {
			candidates = append(candidates, b)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	taken := func(b *drainTarget) int {
		if b.rack != "" && racks[b.rack] {
			return 1
		}
		return 0
	}
	return slices.MinFunc(candidates, func(a, b *drainTarget) int {
		return cmp.Or(cmp.Compare(taken(a), taken(b)), cmp.Compare(a.replicas, b.replicas), cmp.Compare(a.id, b.id))
	})
}

// prefer puts the replica first that is preferred by the fewest partitions, the earlier one
// of equals, which has the records already. Who is down is not preferred.
func (d *drainer) prefer(replicas []int32) {
	best := -1
	for i, id := range replicas {
		if b := d.broker(id); b != nil && (best < 0 || b.preferred < d.broker(replicas[best]).preferred) {
			best = i
		}
	}
	if best < 0 {
		return
	}
	d.broker(replicas[best]).preferred++
	first := replicas[best]
	copy(replicas[1:best+1], replicas[:best])
	replicas[0] = first
}
