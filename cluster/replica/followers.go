package replica

import (
	"slices"
	"time"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// follower is what a leader knows of another replica (Kafka's Replica, ReplicaState).
type follower struct {
	id          int32
	end         int64 // its acknowledged end, -1 before its first fetch
	logStart    int64
	brokerEpoch int64 // of its last fetch; unknownBrokerEpoch before it
	noRoom      bool  // its log directory was full at its last fetch
	dir         uuid.UUID

	// caughtUpAt is a time at whose log end it is by now. It need never be at the log end
	// when a fetch arrives: one that asks for what was the log end at the previous fetch
	// had everything of the time of that one. And one that is several fetches behind, which
	// a load that fills its producers' buffers is enough for, has everything of the time of
	// mark when it gets there.
	caughtUpAt     time.Time
	lastFetchAt    time.Time
	endAtLastFetch int64 // the leader's log end
	mark           logEndAt

	watch Watch // of the session that fetched last, nil for none; see rest.go
	rests bool
}

// logEndAt is where the leader's log ended, and when; at is zero for none.
type logEndAt struct {
	end int64
	at  time.Time
}

const (
	unknownOffset      int64 = -1
	unknownBrokerEpoch int64 = -2
	// anyBrokerEpoch is that of a follower whose request has none: it is not checked.
	anyBrokerEpoch int64 = -1
)

func newFollower(id int32) follower {
	return follower{id: id, end: unknownOffset, logStart: unknownOffset, brokerEpoch: unknownBrokerEpoch, endAtLastFetch: unknownOffset}
}

// caughtUp tells whether the follower has everything, or had not long ago.
func (f *follower) caughtUp(now time.Time, leaderEnd int64, lagMax time.Duration) bool {
	return f.end == leaderEnd || now.Sub(f.everythingAt()) <= lagMax
}

// resetFollowers begins a leader epoch: members of the ISR are taken to be caught up
// now, the others not at all, so that they don't hold the high watermark back
// (Replica.resetReplicaState). A new leader forgets what it knew when it led before.
func (p *Partition) resetFollowers(now time.Time, newLeader bool) {
	for i := range p.followers {
		f := &p.followers[i]
		f.rests = false
		var since time.Time
		if slices.Contains(p.isr.committed, f.id) {
			since = now
		}
		if newLeader {
			dir := f.dir
			*f = newFollower(f.id)
			f.dir = dir
		} else {
			f.endAtLastFetch = p.epochStart
			f.lastFetchAt = since
			f.mark = logEndAt{}
		}
		f.caughtUpAt = since
	}
}

// FollowerFetch is a follower's fetch as far as it says something about the follower.
type FollowerFetch struct {
	ReplicaID   int32
	LeaderEpoch int32 // in which the fetch was read
	BrokerEpoch int64 // -1: not checked
	Offset      int64 // where it fetches: the end of what it has, flushed if need be
	LogStart    int64
	LeaderEnd   int64 // this log's end when the fetch was read
	NoRoom      bool  // its log directory is full

	// Watch, if there is one, is how the follower's session hears of news. Of the partition's
	// offsets it has been told the Known ones; HighWatermark is what it says that it knows.
	Watch                                            Watch
	KnownHighWatermark, KnownLogStart, HighWatermark int64
}

// FollowerFetched notes how far a follower is. It is called only for a fetch that passed
// the epoch and divergence checks: the offset of any other is no acknowledgement
// (Partition.updateFollowerFetchState).
func (p *Partition) FollowerFetched(now time.Time, r FollowerFetch) (Effects, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.requireEpoch(r.LeaderEpoch); err != nil {
		return Effects{}, err // the offset was right in a log that may since have been cut
	}
	f := p.follower(r.ReplicaID)
	if f == nil {
		return Effects{}, kafkaerr.NotLeaderOrFollower
	}
	if registered, _ := p.opts.Brokers.BrokerEpoch(f.id); r.BrokerEpoch != anyBrokerEpoch && r.BrokerEpoch < max(registered, f.brokerEpoch) {
		// A request of the broker's previous life, delayed on the way: what it
		// acknowledges may not have survived. The new one may be heard of here before
		// metadata shows it.
		return Effects{}, kafkaerr.NotLeaderOrFollower
	}
	moved, startMoved := f.end != r.Offset || f.noRoom != r.NoRoom, f.logStart != r.LogStart
	f.watched(r.Watch)
	f.fetched(now, r)
	e := p.expandISR(f)
	if f.noRoom {
		e = p.dismiss(f)
	}
	e.Wake = startMoved && p.log().LogStart() > 0 // else nobody waits for it
	if moved {
		e.add(p.advanceHighWatermark(now))
	}
	p.letRest(f, &r)
	return e, nil
}

// fetched notes a fetch. By Kafka's rule, which knows no mark, a follower that keeps pace many
// fetches behind its leader is not in sync (ReplicaState.updateFetchStateOrThrow).
func (f *follower) fetched(now time.Time, r FollowerFetch) {
	reached := true
	switch {
	case r.Offset >= r.LeaderEnd:
		f.caughtUpAt = latest(f.caughtUpAt, now)
	case r.Offset >= f.endAtLastFetch:
		f.caughtUpAt = latest(f.caughtUpAt, f.lastFetchAt)
	case r.Offset >= f.mark.end:
		f.caughtUpAt = latest(f.caughtUpAt, f.mark.at)
	default:
		reached = false
	}
	if reached || f.mark.at.IsZero() {
		f.mark = logEndAt{r.LeaderEnd, now}
	}
	f.end, f.logStart, f.brokerEpoch, f.noRoom = r.Offset, r.LogStart, r.BrokerEpoch, r.NoRoom
	f.endAtLastFetch = max(f.endAtLastFetch, r.LeaderEnd)
	f.lastFetchAt = now
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (p *Partition) follower(id int32) *follower {
	for i := range p.followers {
		if p.followers[i].id == id {
			return &p.followers[i]
		}
	}
	return nil
}

// isrState is the in-sync replicas of a led partition: what the controller has
// committed, and the change that was proposed and not answered.
type isrState struct {
	committed []int32
	pending   *ISRChange
}

// has tells whether id is a member.
func (s isrState) has(id int32) bool { return slices.Contains(s.committed, id) }

// hasMaximal tells whether id counts for the high watermark. Members that are proposed
// to leave are in committed still.
func (s isrState) hasMaximal(id int32) bool {
	return slices.Contains(s.committed, id) || s.pending != nil && s.pending.Joining == id
}

// maximalSize is the number of replicas that hasMaximal is true for.
func (s isrState) maximalSize() int {
	if s.pending != nil && s.pending.Joining != nobody {
		return len(s.committed) + 1
	}
	return len(s.committed)
}

// nobody is no replica's id.
const nobody int32 = -1

// ISRChange is one AlterPartition for one partition (KIP-497).
type ISRChange struct {
	ID             TopicIDPartition
	LeaderEpoch    int32
	PartitionEpoch int32 // on which the change is based
	ISR            []ISRMember
	Joining        int32 // the replica that is new in ISR, -1 if the ISR shrinks
}

// ISRMember is a replica with the broker epoch under which it is known (KIP-903).
type ISRMember struct {
	ID          int32
	BrokerEpoch int64 // -1 if it has not fetched from this leader yet
}

// expandISR proposes f as a member if it is in sync: it has everything below the high
// watermark, and everything of earlier leader epochs. Without the second, a follower
// could join at a high watermark that is behind, be elected, and miss records that were
// acknowledged before this epoch. Caller holds mu.
func (p *Partition) expandISR(f *follower) Effects {
	if p.isr.pending != nil || slices.Contains(p.isr.committed, f.id) ||
		f.end < p.hw.Load() || f.end < p.epochStart || !p.eligible(f) {
		return Effects{}
	}
	return p.propose(append(slices.Clone(p.isr.committed), f.id), f.id)
}

// dismiss proposes that f leaves the ISR, since it cannot take the next record. Caller holds
// mu.
func (p *Partition) dismiss(f *follower) Effects {
	if p.isr.pending != nil || !slices.Contains(p.isr.committed, f.id) {
		return Effects{}
	}
	return p.propose(slices.DeleteFunc(slices.Clone(p.isr.committed), func(id int32) bool { return id == f.id }), nobody)
}

// eligible tells whether f may join: metadata says that it is not fenced and not shutting
// down, nor its log directory offline; the very incarnation that fetched is the registered
// one, and it has room.
//
// Kafka does not look at the directory, so that a leader waits for what is gone until
// replica.lag.time.max.ms has passed, although it is in the ISR no more.
func (p *Partition) eligible(f *follower) bool {
	registered, ok := p.opts.Brokers.BrokerEpoch(f.id)
	return ok && !f.noRoom && p.opts.Brokers.HasOnlineDir(f.id, f.dir) && (f.brokerEpoch == anyBrokerEpoch || f.brokerEpoch == registered)
}

// Tick proposes to drop members that have not caught up for longer than ReplicaLagMax
// (Partition.maybeShrinkIsr). Half of that time is often enough to call it.
func (p *Partition) Tick(now time.Time) Effects {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone != nil || !p.isLeader || p.isr.pending != nil {
		return Effects{}
	}
	end := int64(p.log().LogEnd())
	stay := make([]int32, 0, len(p.isr.committed))
	for _, id := range p.isr.committed {
		f := p.follower(id)
		if id == p.opts.BrokerID || f != nil && f.caughtUp(now, end, p.opts.ReplicaLagMax) {
			stay = append(stay, id)
		}
	}
	if len(stay) == len(p.isr.committed) {
		// Nobody leaves, but a follower outside the ISR that was waited for may have
		// fallen so far behind that it is waited for no longer.
		return p.advanceHighWatermark(now)
	}
	return p.propose(stay, nobody)
}

func (p *Partition) propose(isr []int32, joining int32) Effects {
	change := &ISRChange{ID: p.opts.ID, LeaderEpoch: p.leader.Epoch, PartitionEpoch: p.partitionEpoch, Joining: joining}
	for _, id := range isr {
		epoch := anyBrokerEpoch
		if id == p.opts.BrokerID {
			epoch, _ = p.opts.Brokers.BrokerEpoch(id)
		} else if f := p.follower(id); f != nil && f.brokerEpoch != unknownBrokerEpoch {
			epoch = f.brokerEpoch
		}
		change.ISR = append(change.ISR, ISRMember{ID: id, BrokerEpoch: epoch})
	}
	p.isr.pending = change
	return Effects{AlterPartition: change}
}

// ISRResult is the controller's answer to an ISRChange: Err, or the partition as it now
// is.
type ISRResult struct {
	Err            error
	LeaderEpoch    int32
	PartitionEpoch int32
	ISR            []int32
}

// AlterPartitionDone takes the controller's answer to change. retry asks for the same
// change to be sent again (Partition.handleAlterPartitionError, …Update).
//
// An ISR that somebody has left is not taken over before metadata shows it, a moment later.
// Who left is an eligible leader replica if the ISR is below min.insync.replicas, which the
// controller may know to be larger than this leader does: it must not move the high
// watermark by the number from before.
func (p *Partition) AlterPartitionDone(now time.Time, change *ISRChange, r ISRResult) (e Effects, retry bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone != nil || !p.isLeader || p.isr.pending != change {
		return Effects{}, false // metadata was faster
	}
	if r.Err != nil {
		return p.alterPartitionFailed(now, r.Err)
	}
	if r.LeaderEpoch != p.leader.Epoch || r.PartitionEpoch < p.partitionEpoch {
		return Effects{}, false
	}
	invariant.Check(slices.Contains(r.ISR, p.opts.BrokerID), "controller committed an ISR without its leader")
	if r.PartitionEpoch > p.partitionEpoch && !includes(r.ISR, p.isr.committed) {
		return Effects{}, false
	}
	p.isr = isrState{committed: r.ISR}
	p.partitionEpoch = r.PartitionEpoch
	p.signal()
	return p.advanceHighWatermark(now), false
}

// includes tells whether all members of an ISR are in another one.
func includes(isr, members []int32) bool {
	return !slices.ContainsFunc(members, func(id int32) bool { return !slices.Contains(isr, id) })
}

// alterPartitionFailed forgets the proposal only where the controller says that it was
// not and will not be applied. After the other refusals the proposal stays pending, so
// that the maximal ISR covers both outcomes, until metadata tells what is true.
func (p *Partition) alterPartitionFailed(now time.Time, err error) (e Effects, retry bool) {
	switch kafkaerr.Code(err) {
	case kafkaerr.IneligibleReplica.Code, kafkaerr.OperationNotAttempted.Code:
		p.isr.pending = nil
		return p.advanceHighWatermark(now), false
	case kafkaerr.UnknownTopicOrPartition.Code, kafkaerr.UnknownTopicID.Code,
		kafkaerr.FencedLeaderEpoch.Code, kafkaerr.InvalidUpdateVersion.Code,
		kafkaerr.InvalidRequest.Code, kafkaerr.NewLeaderElected.Code:
		return Effects{}, false
	}
	return Effects{}, true
}
