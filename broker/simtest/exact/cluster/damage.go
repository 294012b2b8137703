package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Damage of one replica (D24), after a kill or a clean stop: a bit of a batch that flips, a
// segment that has lost its end, or its file, or a whole directory that is gone, below what was
// persisted as flushed; above it nobody could tell it from what a power cut leaves. Whoever
// meets it reports the replica, which is fetched again once it is in neither ISR nor ELR.
// The last copy stays as it is, offline, until somebody brings the files back.

// damage is one that was done, and how it is undone.
type damage struct {
	node *node
	id   replica.TopicIDPartition
	name string // of the file, or directory
	undo func() error
}

// damageOne ends the process of a node and damages one of its logs.
func (w *world) damageOne(n *node) {
	p := w.toDamage(n)
	if p == nil {
		return
	}
	w.tracef("broker %d is killed, to be damaged", n.id)
	w.report.Kills++
	n.fs.Kill()
	n.crashed = true
	w.damageLog(n, p)
}

// damageStopped damages a log of a process that has just stopped.
func (w *world) damageStopped(n *node) {
	if p := w.toDamage(n); p != nil && !w.calm && w.rand.IntN(3) == 0 {
		w.tracef("broker %d is damaged", n.id)
		w.damageLog(n, p)
	}
}

// toDamage draws one of a node's replicas, nil if that is not to be damaged.
func (w *world) toDamage(n *node) *partition {
	if n.b == nil || len(n.b.order) == 0 {
		return nil
	}
	p := n.b.order[w.rand.IntN(len(n.b.order))]
	if p.log == nil || p.Failure() != nil && !n.b.stopping || p.log.Failure() != nil || w.damaged(n, p.id) {
		return nil
	}
	return p
}

// quietly does something to a disk that no process does.
func (n *node) quietly(do func()) {
	sync, call := n.dieAtSync, n.dieAtCall
	n.dieAtSync, n.dieAtCall = 0, 0
	do()
	n.dieAtSync, n.dieAtCall = sync, call
}

// damaged tells whether a replica was damaged, and not fetched again since.
func (w *world) damaged(n *node, id replica.TopicIDPartition) bool {
	return slices.ContainsFunc(w.damages, func(d damage) bool { return d.node == n && d.id == id })
}

// mended says that a replica has been begun anew, or is gone.
func (w *world) mended(n *node, id replica.TopicIDPartition) {
	w.damages = slices.DeleteFunc(w.damages, func(d damage) bool { return d.node == n && d.id == id })
}

// forgetDamage is mended for what was damaged in a directory where the replica is no more.
func (w *world) forgetDamage(n *node, id replica.TopicIDPartition, dir string) {
	w.damages = slices.DeleteFunc(w.damages, func(d damage) bool {
		return d.node == n && d.id == id && strings.HasPrefix(d.name, dir+"/")
	})
}

// replicaOf is a replica on a node.
type replicaOf struct {
	node *node
	id   replica.TopicIDPartition
}

// rescue brings back the files of replicas that are the last of their partition.
func (w *world) rescue() {
	for _, d := range slices.Clone(w.damages) {
		p := w.quorum.image().Partition(d.id.TopicID, d.id.Partition)
		if p == nil || d.node.b == nil || !d.node.b.failed(d.id) || slices.ContainsFunc(append(slices.Clone(p.ISR), p.ELR...), func(r int32) bool { return r != d.node.id }) {
			continue
		}
		w.tracef("%s of broker %d is brought back", d.name, d.node.id)
		w.mended(d.node, d.id)
		w.rescued[replicaOf{d.node, d.id}] = w.quorum.image().Broker(d.node.id).Epoch
		d.node.fs.Kill()
		d.node.crashed = true
		d.node.quietly(func() {
			if err := d.undo(); err != nil {
				w.fail("LastCopyStays", "bring back %s: %v", d.name, err)
			}
		})
	}
	w.bury()
}

// noticeFailures ends the replicas whose logs turned out to be damaged, as
// replica.Manager.LogFailed does.
func (b *broker) noticeFailures() {
	for _, p := range b.order {
		if p.log == nil || p.Failure() != nil || p.log.Failure() == nil {
			continue
		}
		b.w.tracef("%s-%d fails: %v", p.topic, p.id.Partition, p.log.Failure())
		if !b.w.damaged(b.n, p.id) {
			b.w.fail("CleanRecovery", "broker %d: %s-%d fails without a fault: %v", b.n.id, p.topic, p.id.Partition, p.log.Failure())
		}
		b.fail(p, p.log.Failure())
	}
}

// fail ends a replica.
func (b *broker) fail(p *partition, err error) {
	b.leave(p)
	b.carryOut(p, p.Retire(fmt.Errorf("%w: %w", kafkaerr.KafkaStorageError, err)))
}

// failed tells whether the process has a replica, and cannot use it.
func (b *broker) failed(id replica.TopicIDPartition) bool {
	p := b.parts[id]
	return p != nil && p.Failure() != nil
}

// failedReplicas are those that a heartbeat reports.
func (b *broker) failedReplicas() (ids []replica.TopicIDPartition) {
	for _, p := range b.order {
		if p.remains || p.log != nil && p.log.Failure() != nil {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// repair begins a damaged replica anew where metadata allows it, as replica.Manager does.
func (b *broker) repair(p *partition, state *metadata.Partition) {
	if leader, _ := p.Leader(); leader.Epoch >= state.LeaderEpoch {
		return
	}
	if p.Failure() == nil || !p.remains && (p.log == nil || p.log.Failure() == nil) ||
		state.Leader == metadata.NoLeader || state.Leader == b.n.id ||
		slices.Contains(state.ISR, b.n.id) || slices.Contains(state.ELR, b.n.id) {
		return
	}
	b.endMove(p)
	b.dropCopies(p.id)
	err := b.retire(func() (err error) {
		if p.log != nil && !b.n.crashed {
			err = p.d.SetAside(b.w.now, p.log)
		}
		for _, d := range b.dirs {
			if !b.n.crashed {
				err = errors.Join(err, d.SetAsideFailed(b.w.now, logstore.ID{Topic: p.topic, TopicID: p.id.TopicID, Partition: p.id.Partition}))
			}
		}
		return err
	}, p.id)
	if b.n.crashed {
		return
	}
	if err != nil {
		if !b.excused(err) {
			b.w.fail("CleanRecovery", "broker %d sets %s-%d aside: %v", b.n.id, p.topic, p.id.Partition, err)
		}
		return
	}
	b.w.tracef("%s-%d is fetched again", p.topic, p.id.Partition)
	b.w.report.Repaired++
	b.w.mended(b.n, p.id)
	b.forget(p)
	b.begin(p.id, p.topic, state)
}
