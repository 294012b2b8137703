package cluster

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Moves of replicas between the directories of a node (AlterReplicaLogDirs), step by step as
// replica.Manager makes them: pieces are copied while the replica goes on, the end of it in one
// event, in which the process may die before any call on the disks and in the midst of any
// sync. An administrator may want a replica elsewhere, or back, before it is there.

// moving is a move under way.
type moving struct {
	p         *partition
	to        *directory
	move      *logstore.Move
	piece     int // bytes that are copied at a time
	tail      int // that may be left for the end
	unsettled int
	settled   int // how often
	over      bool
}

// moveSettleBytes is how much is copied before it is made durable, moveTries how often that is
// tried before more may be left for the end.
const (
	moveSettleBytes = 4000
	moveTries       = 4
)

// moveReplica has a replica of a node brought to one of its directories.
func (w *world) moveReplica(n *node) {
	if !n.up() || n.b.image == nil || n.b.stopping || len(n.b.dirs) < 2 || len(n.b.order) == 0 {
		return
	}
	w.running = n
	b, p, to := n.b, n.b.order[w.rand.IntN(len(n.b.order))], n.b.dirs[w.rand.IntN(len(n.b.dirs))]
	if p.Failure() != nil {
		return
	}
	w.tracef("%s-%d is to be in %s", p.topic, p.id.Partition, to.Path())
	if x := b.moves[p.id]; x != nil && x.to != to {
		b.endMove(p)
	} else if x != nil {
		return
	}
	if p.d != to && !n.crashed {
		b.beginMove(p, to)
	}
}

// beginMove begins one; its copy may have been begun by an earlier process.
func (b *broker) beginMove(p *partition, to *directory) {
	move, err := to.BeginMove(b.w.now, p.log)
	if b.n.crashed {
		return
	}
	if err != nil {
		b.moveFailed(p, "begins no copy", err)
		return
	}
	x := &moving{p: p, to: to, move: move, piece: 1 + b.w.rand.IntN(300), tail: b.w.rand.IntN(2000)}
	b.moves[p.id] = x
	b.stepSoon(x, b.w.delay()*2)
}

// moveFailed judges an error of a move. What may pass must pass: see unrest.
func (b *broker) moveFailed(p *partition, what string, err error) {
	b.w.tracef("%s-%d %s: %v", p.topic, p.id.Partition, what, err)
	if !logstore.MayPass(err) && !b.w.damaged(b.n, p.id) && !b.n.crashed {
		b.w.fail("CleanMove", "broker %d: %s-%d %s: %v", b.n.id, p.topic, p.id.Partition, what, err)
	}
}

func (b *broker) stepSoon(x *moving, in time.Duration) {
	b.after(in, "move", func() { b.step(x) })
}

// step copies a piece, or ends the move.
func (b *broker) step(x *moving) {
	if x.over {
		return
	}
	done, err := b.advance(x)
	switch {
	case b.n.crashed || done:
	case err == nil:
		b.stepSoon(x, b.w.delay()*2)
	case logstore.MayPass(err):
		b.moveFailed(x.p, "waits to move on", err)
		b.stepSoon(x, 5*b.w.plan.maxDelay)
	default:
		if x.p.Failure() == nil {
			b.moveFailed(x.p, "does not move", err)
			b.cancel(x)
		}
		b.moveOver(x)
	}
}

func (b *broker) moveOver(x *moving) {
	x.over = true
	delete(b.moves, x.p.id)
}

func (b *broker) advance(x *moving) (done bool, err error) {
	if x.move.Gone() { // an attempt to end it has failed
		if x.move, err = x.to.BeginMove(b.w.now, x.p.log); err != nil {
			return false, err
		}
		x.unsettled = 0
	}
	copied, err := x.move.Copy(b.w.now, x.piece)
	if err != nil {
		return false, err
	}
	x.unsettled += copied
	most := x.tail
	if x.settled >= moveTries {
		most = 1 << 20
	}
	switch tail := x.move.TailBytes(); {
	case (copied >= x.piece || tail > most) && x.unsettled < moveSettleBytes:
		return false, x.move.Flush(x.unsettled%2 == 0)
	case tail+x.unsettled > most:
		if tail <= most {
			x.settled++
		}
		x.unsettled = 0
		return false, x.move.Settle(b.w.now)
	}
	if b.w.opts.Break == WritesDuringMove {
		b.finishLate(x)
		return true, nil
	}
	_, unpark := x.p.ParkWrites()
	defer unpark()
	log, err := b.finish(x)
	if err == nil && !b.n.crashed {
		b.takeOver(x, log)
	}
	return err == nil, err
}

func (b *broker) finish(x *moving) (*logstore.Log, error) {
	b.n.moving = true
	defer func() { b.n.moving = false }()
	return x.move.Finish(b.w.now, x.p.HighWatermark())
}

// takeOver makes the copy the replica's log.
func (b *broker) takeOver(x *moving, log *logstore.Log) {
	p, from := x.p, x.p.d
	if err := p.SwapLog(b.w.brokenLog(log)); err != nil {
		b.moveFailed(p, "does not take its copy", err)
	}
	p.d, p.log = x.to, log
	if leader, leads := p.Leader(); b.fetchedBy[p.id] != nil && !leads {
		b.follow(p, leader.ID, leader.Epoch)
	}
	if err := x.move.Leave(b.w.now); err != nil {
		b.moveFailed(p, "does not leave", err)
	}
	if b.n.crashed {
		return
	}
	b.w.tracef("%s-%d is in %s now", p.topic, p.id.Partition, p.d.Path())
	b.w.report.Moved++
	b.moveOver(x)
	p.left = append(p.left, from)
	if p.Failure() == nil {
		b.assign(p)
	}
	b.after(0, "writes go on", func() { b.carryOut(p, p.FlushDone(b.w.now)) })
}

// endMove stops a move, and throws its copy away.
func (b *broker) endMove(p *partition) {
	if x := b.moves[p.id]; x != nil {
		b.moveOver(x)
		b.cancel(x)
	}
}

func (b *broker) cancel(x *moving) {
	if x.move.Gone() || b.n.crashed {
		return
	}
	if err := b.retire(func() error { return x.move.Cancel(b.w.now) }, x.p.id); err != nil {
		b.moveFailed(x.p, "keeps its copy", err)
	}
}

// resumeMoves goes on with the moves that an earlier process has begun.
func (b *broker) resumeMoves() {
	for _, f := range b.futures {
		p := b.parts[idOf(f.log)]
		switch {
		case b.n.crashed:
		case p != nil && p.log == nil:
			b.w.tracef("%s-%d is offline, there is a copy of it", p.topic, p.id.Partition)
		case p == nil || p.d == f.d || b.moves[p.id] != nil:
			b.dropCopy(f.d, f.log)
		default:
			b.w.report.Resumed++
			b.beginMove(p, f.d)
		}
	}
	b.futures = nil
}

// dropCopies throws away the copies of a replica that nobody makes.
func (b *broker) dropCopies(id replica.TopicIDPartition) {
	b.futures = slices.DeleteFunc(b.futures, func(f placed) bool { return idOf(f.log) == id })
	for _, d := range b.dirs {
		for _, l := range d.Futures() {
			if idOf(l) == id && !b.n.crashed {
				b.dropCopy(d, l)
			}
		}
	}
}

func (b *broker) dropCopy(d *directory, l *logstore.Log) {
	if err := b.retire(func() error { return d.DeleteLogs(b.w.now, l) }, idOf(l)); err != nil && !b.excused(err) {
		b.w.fail("CleanMove", "broker %d throws away %s: %v", b.n.id, l.Path(), err)
	}
}

// chooseDirectory finds the place of a new log: where metadata puts it, else where the fewest are.
func (b *broker) chooseDirectory(id replica.TopicIDPartition) *directory {
	best := b.dirs[0]
	_, assigned := b.placement(b.image, id)
	for _, d := range b.dirs {
		switch {
		case d.DirectoryID() == assigned:
			return d
		case len(d.Logs()) < len(best.Logs()):
			best = d
		}
	}
	return best
}

// settlePlace compares the place of a replica with what metadata says.
func (b *broker) settlePlace(p *partition, state *metadata.Partition) {
	if len(b.dirs) < 2 || p.Failure() != nil {
		return
	}
	if _, dir := b.placement(b.image, p.id); dir != p.d.DirectoryID() {
		b.assign(p)
		return
	}
	for _, d := range p.left {
		if d == p.d {
			continue
		}
		if err := d.ForgetMoved(p.log.ID()); err != nil && !b.excused(err) {
			b.moveFailed(p, "is not forgotten where it was", err)
		}
	}
	p.left = nil
}

// assign tells the controller where a replica is, until it knows.
func (b *broker) assign(p *partition) {
	if p.assigning || b.epoch < 0 {
		return
	}
	p.assigning = true
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	req.BrokerID, req.BrokerEpoch = b.n.id, b.epoch
	dir := kmsg.NewAssignReplicasToDirsRequestDirectory()
	dir.ID = p.d.DirectoryID()
	topic := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
	topic.TopicID = p.id.TopicID
	part := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
	part.Partition = p.id.Partition
	topic.Partitions = append(topic.Partitions, part)
	dir.Topics = append(dir.Topics, topic)
	req.Directories = append(req.Directories, dir)
	b.ask(req, "AssignReplicasToDirs", func(reply kmsg.Response, _ metadata.Position) {
		p.assigning = false
		resp, ok := reply.(*kmsg.AssignReplicasToDirsResponse)
		switch {
		case b.parts[p.id] != p || p.Failure() != nil:
		case !ok || resp.ErrorCode != 0:
			b.after(heartbeatInterval, "assign again", func() { b.assign(p) })
		case uuid.UUID(dir.ID) != p.d.DirectoryID():
			b.assign(p)
		}
	})
}
