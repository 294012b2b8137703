package replica

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// highWatermark is an offset.HighWatermark that may be read beside its writer.
type highWatermark = atomic.Int64

// Partition is this broker's replica of one partition: Kafka's cluster.Partition as a
// core. It has no goroutine, clock or timer; methods take now, and return the Effects
// that their caller carries out after they have returned.
//
// Methods are safe for concurrent use. Those that change the log or the replica's role
// exclude each other and all others; reads share.
type Partition struct {
	opts PartitionOptions

	role chan struct{} // see lockRole; taken before mu
	mu   sync.RWMutex

	// gone is set once the replica is of no use: its topic deleted, its log damaged, its
	// directory offline. Everything then fails with it.
	gone error

	config         TopicConfig
	leader         Leader
	partitionEpoch int32
	isLeader       bool
	// leadership counts how often this replica became leader after having been none. An
	// append that waits remembers it: the log may have been truncated between two
	// leaderships, and its offsets then belong to other records.
	leadership uint64

	// hw never falls. See highwatermark.go. It changes under mu only; those who ask for
	// nothing else read it without.
	hw highWatermark

	// current is the log; it changes under mu when the replica moves to another directory
	// (see SwapLog). parked is open while it is about to: nobody writes then.
	current atomic.Pointer[Log]
	parked  chan struct{}

	// Of a leader only.
	epochStart int64 // log end when the leader epoch began
	isr        isrState
	followers  []follower // the other replicas of the assignment
	// reassigning: replicas are being added or removed.
	reassigning bool

	// inISR of a follower: metadata has it in the ISR.
	inISR bool
	// Of a follower only, for metrics: the leader's high watermark as it last told, and
	// whether fetching was given up until metadata brings a new leader epoch.
	leaderHW    atomic.Int64
	fetchFailed atomic.Bool
}

// PartitionOptions describe a replica.
type PartitionOptions struct {
	ID       TopicIDPartition
	Topic    string
	BrokerID int32
	Log      Log // at first; nil with Failed
	Config   TopicConfig
	Brokers  Brokers
	// ReplicaLagMax is replica.lag.time.max.ms: a follower that has not caught up for
	// longer leaves the ISR.
	ReplicaLagMax time.Duration
	// Failed says that the log cannot be used.
	Failed error
}

// TopicConfig is what a replica needs of its topic's configuration.
type TopicConfig struct {
	Log            logstore.Config
	MinInSyncCount int // min.insync.replicas
	// Those whose replica on this broker is throttled as a leader, and as a follower.
	LeaderThrottled, FollowerThrottled Throttled
}

// Log is what a Partition does with its *logstore.Log. Appends are serialised by the
// Partition; reads and look-ups run beside them.
type Log interface {
	AppendAsLeader(logstore.AppendParams) (logstore.AppendInfo, error)
	AppendAsFollower(now time.Time, records []byte, leaderEpoch int32) (logstore.AppendInfo, error)
	AppendBehind(now time.Time, records []byte, leaderEpoch int32) (logstore.AppendInfo, error)
	TruncateTo(o int64) error
	TruncateFullyAndStartAt(o int64) error
	AssignEpoch(epoch int32, startOffset int64) error
	AdvanceLogStart(o int64) error
	UpdateConfig(logstore.Config)

	Read(logstore.ReadParams) (logstore.ReadInfo, error)
	Producers(now time.Time) ([]logstore.ProducerInfo, error)
	ProducerCount() int
	LogStart() offset.LogStart
	LogEnd() offset.LogEnd
	Flushed() offset.Flushed
	LastStable(offset.HighWatermark) offset.LastStable
	CheckpointedHighWatermark() offset.HighWatermark
	OffsetForTimestamp(ms int64) (logstore.TimestampOffset, bool, error)
	OffsetOfMaxTimestamp() (logstore.TimestampOffset, bool, error)
	EndOffsetForEpoch(epoch int32) (logstore.EpochEnd, bool)
	EpochForOffset(o int64) (int32, bool)
	LatestEpoch() (int32, bool)
	PositionOf(o int64) (logstore.Position, error)
}

// Brokers is what a leader asks the metadata about the brokers of its followers.
type Brokers interface {
	// BrokerEpoch is the epoch of a broker's registration, -1 if it is fenced or unknown.
	// eligible is false for one that must not join an ISR: fenced or shutting down.
	BrokerEpoch(id int32) (epoch int64, eligible bool)
	// HasOnlineDir is false if a log directory of a broker has failed.
	HasOnlineDir(id int32, dir uuid.UUID) bool
}

// Effects is what a change of a partition asks its driver to do when all locks are
// released.
type Effects struct {
	FlushWanted bool // wake the committer of the log's directory
	FlushAlone  bool // before that, call FlushAlone of the log, which blocks
	Forget      bool // with its argument
	Wake        bool // produces, consumers' fetches and deletions of records that wait here may be done
	WakeFetcher bool // followers' fetches that wait here may be done
	// AlterPartition is a change of the ISR to propose to the controller; the answer goes
	// to AlterPartitionDone.
	AlterPartition *ISRChange
}

func (e *Effects) add(o Effects) {
	e.FlushWanted = e.FlushWanted || o.FlushWanted
	e.FlushAlone, e.Forget = e.FlushAlone || o.FlushAlone, e.Forget || o.Forget
	e.Wake = e.Wake || o.Wake
	e.WakeFetcher = e.WakeFetcher || o.WakeFetcher
	if o.AlterPartition != nil {
		invariant.Check(e.AlterPartition == nil, "two ISR changes of one partition at once")
		e.AlterPartition = o.AlterPartition
	}
}

// roleChanged is for changes after which everything that waits must look again.
var roleChanged = Effects{Wake: true, WakeFetcher: true}

// NewPartition makes a replica that neither leads nor follows yet. Its high watermark is
// what the last run checkpointed, within what the log holds.
func NewPartition(o PartitionOptions) *Partition {
	p := &Partition{opts: o, config: o.Config, leader: noLeader, partitionEpoch: -1, gone: o.Failed, role: make(chan struct{}, 1)}
	p.current.Store(&o.Log)
	if o.Failed == nil {
		start, end := int64(o.Log.LogStart()), int64(o.Log.LogEnd())
		p.hw.Store(min(max(int64(o.Log.CheckpointedHighWatermark()), start), end))
	}
	return p
}

// BecomeLeader makes the replica what metadata says: the leader, with that ISR. It is
// also called while it leads already, when anything about the partition changes
// (Partition.makeLeader).
func (p *Partition) BecomeLeader(now time.Time, state *metadata.Partition) (Effects, error) {
	p.lockRole()
	defer p.unlockRole()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone != nil || state.PartitionEpoch < p.partitionEpoch {
		return Effects{}, p.gone // an answer to AlterPartition was faster than metadata
	}
	newEpoch := state.LeaderEpoch > p.leader.Epoch
	if newEpoch {
		// The epoch is noted before the first record is written in it, and even if none
		// ever is: followers whose last epoch lies between need an answer (KIP-101).
		p.epochStart = int64(p.log().LogEnd())
		if err := p.log().AssignEpoch(state.LeaderEpoch, p.epochStart); err != nil {
			return Effects{}, fmt.Errorf("begin leader epoch %d of %s-%d: %w", state.LeaderEpoch, p.opts.Topic, p.opts.ID.Partition, err)
		}
	}
	p.signal()
	wasLeader := p.isLeader
	p.setAssignment(state)
	if newEpoch {
		p.resetFollowers(now, !wasLeader)
		p.distrustHighWatermark(state)
	}
	if !wasLeader {
		p.leadership++
	}
	p.isLeader = true
	p.advanceHighWatermark(now)
	return roleChanged, nil
}

// BecomeFollower makes the replica a follower, of the leader in state or of none.
func (p *Partition) BecomeFollower(state *metadata.Partition) Effects {
	p.lockRole()
	defer p.unlockRole()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone != nil || state.PartitionEpoch < p.partitionEpoch {
		return Effects{}
	}
	p.signal()
	p.isLeader = false
	p.leader = Leader{ID: state.Leader, Epoch: state.LeaderEpoch}
	p.partitionEpoch = state.PartitionEpoch
	p.isr, p.followers = isrState{}, nil
	p.inISR = slices.Contains(state.ISR, p.opts.BrokerID)
	return roleChanged
}

// setAssignment takes over the controller's view of a partition that is led here.
func (p *Partition) setAssignment(state *metadata.Partition) {
	old := p.followers
	p.followers = make([]follower, 0, len(state.Replicas))
	for i, id := range state.Replicas {
		if id == p.opts.BrokerID {
			continue
		}
		f := newFollower(id)
		for j := range old {
			if old[j].id == id {
				f = old[j]
			}
		}
		if f.dir = uuid.DirUnassigned; i < len(state.Directories) {
			f.dir = state.Directories[i]
		}
		p.followers = append(p.followers, f)
	}
	// A proposal that is based on this very state may be committed yet.
	if p.leader.Epoch != state.LeaderEpoch || p.partitionEpoch != state.PartitionEpoch {
		p.isr.pending = nil
	}
	p.isr.committed = state.ISR
	p.reassigning = len(state.AddingReplicas)+len(state.RemovingReplicas) > 0
	p.leader = Leader{ID: state.Leader, Epoch: state.LeaderEpoch}
	p.partitionEpoch = state.PartitionEpoch
}

// UpdateConfig takes over changed topic configuration. A durability that asks for less,
// or a smaller min.insync.replicas, may let the high watermark move.
func (p *Partition) UpdateConfig(now time.Time, c TopicConfig) Effects {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone != nil {
		return Effects{}
	}
	p.config = c
	p.log().UpdateConfig(c.Log)
	return p.advanceHighWatermark(now)
}

// Retire ends the replica: every request, waiting ones included, gets err from now on.
// The first reason wins.
func (p *Partition) Retire(err error) Effects {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone == nil {
		p.gone = err
		p.isLeader = false
	}
	p.signal()
	return roleChanged
}

// ID names the partition; Topic is its topic's name.
func (p *Partition) ID() TopicIDPartition { return p.opts.ID }

// Topic is the name of the partition's topic.
func (p *Partition) Topic() string { return p.opts.Topic }

// Leader is the leader this replica knows, and whether it is this replica.
func (p *Partition) Leader() (l Leader, isHere bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.leader, p.isLeader
}

// HighWatermark is the first offset not yet acknowledged by every in-sync replica. It
// takes no lock, since the directory's keeper asks for it while it holds its own.
func (p *Partition) HighWatermark() offset.HighWatermark { return offset.HighWatermark(p.hw.Load()) }

// Failure is why the replica is of no use, nil if it is.
func (p *Partition) Failure() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.gone
}

// LeadsFollowers tells whether the replica leads others.
func (p *Partition) LeadsFollowers() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.isLeader && len(p.followers) > 0
}

// Health is a partition as its metrics see it; the counts are a leader's.
type Health struct {
	Leads, Offline              bool
	InSync, Replicas, MinInSync int
	Reassigning                 bool  // and led here
	Producers                   int   // known ids, of followers too
	Lag                         int64 // of a follower: records below its leader's high watermark that it lacks
	FetchFailed                 bool  // of a follower: fetching was given up until metadata brings a new leader epoch
}

// Health tells how the partition is.
func (p *Partition) Health() Health {
	p.mu.RLock()
	defer p.mu.RUnlock()
	health := Health{
		Leads: p.isLeader, Offline: p.gone != nil,
		Reassigning: p.isLeader && p.reassigning,
		InSync:      len(p.isr.committed), Replicas: len(p.followers) + 1, MinInSync: p.effectiveMinISR(),
	}
	if log := p.log(); log != nil { // there is none if it could not be opened
		health.Producers = log.ProducerCount()
		if p.gone == nil && !p.isLeader {
			health.Lag, health.FetchFailed = max(0, p.leaderHW.Load()-int64(log.LogEnd())), p.fetchFailed.Load()
		}
	}
	return health
}

// requireLeader checks that the replica can do what only a leader may. Caller holds mu.
func (p *Partition) requireLeader() error {
	switch {
	case p.gone != nil:
		return p.gone
	case !p.isLeader:
		return kafkaerr.NotLeaderOrFollower
	}
	return nil
}

// checkEpoch compares a reader's leader epoch with this replica's (KIP-320). Caller
// holds mu and has dealt with epochs that are not to be checked.
func (p *Partition) checkEpoch(epoch int32) error {
	switch {
	case epoch < p.leader.Epoch:
		return kafkaerr.FencedLeaderEpoch
	case epoch > p.leader.Epoch:
		return kafkaerr.UnknownLeaderEpoch
	}
	return nil
}
