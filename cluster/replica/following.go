package replica

import (
	"errors"
	"fmt"
	"time"

	"github.com/klamm-mq/klamm/logstore"
)

// What a replica does while it follows. A Fetcher asks it where it is, and hands it what
// the leader answers; everything is refused once the replica leads, or follows in another
// leader epoch than the one in which the leader was asked.

// errNotFollowing refuses what a leader of an earlier epoch has answered, or what reaches
// a replica that leads by now. Metadata says what to do next.
var errNotFollowing = errors.New("the replica does not follow in this leader epoch")

// FollowerPosition is where a follower is: what its Fetch says.
type FollowerPosition struct {
	Offset    int64 // the end of its log
	LastEpoch int32 // the newest leader epoch of its log, -1 if there is none
	LogStart  int64
	// Durable says that the log may be vouched for up to Offset: that a fetch at Offset,
	// which is an acknowledgement, may go out.
	Durable bool
}

// FollowerPosition tells where the replica is, if it follows in that leader epoch.
//
// A fetch offset is an acknowledgement. So with durability=fsync a follower may send it
// only when a sync has reported all below it as durable: what it fetched last, and what it
// had written as a leader before.
func (p *Partition) FollowerPosition(epoch int32) (FollowerPosition, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.requireFollowing(epoch); err != nil {
		return FollowerPosition{}, err
	}
	log := p.log()
	at := FollowerPosition{Offset: int64(log.LogEnd()), LastEpoch: NoEpoch, LogStart: int64(log.LogStart())}
	if e, ok := log.LatestEpoch(); ok {
		at.LastEpoch = e
	}
	at.Durable = p.config.Log.Durability != logstore.DurabilityFsync || int64(log.Flushed()) >= at.Offset
	return at, nil
}

// requireFollowing checks that the replica follows in that leader epoch. Caller holds mu.
func (p *Partition) requireFollowing(epoch int32) error {
	switch {
	case p.gone != nil:
		return p.gone
	case p.isLeader || p.leader.Epoch != epoch:
		return errNotFollowing
	}
	return nil
}

// Fetched is what a leader has answered about one partition.
type Fetched struct {
	Epoch         int32 // in which it was asked
	Offset        int64 // at which it was asked
	Records       []byte
	HighWatermark int64
	LogStart      int64
}

// AppendFetched appends what the leader has answered, and takes over its high watermark
// and log start. Batches of a later leader epoch than the replica's own are left out: their
// sender has lost its leadership while it read (KAFKA-18723). It reports how many bytes were
// appended; with an error, some may have been.
func (p *Partition) AppendFetched(now time.Time, f Fetched) (appended int, e Effects, err error) {
	p.lockRole()
	defer p.unlockRole()
	if err := p.mayAppendFetched(f); err != nil {
		return 0, Effects{}, err
	}
	if len(f.Records) > 0 {
		info, err := p.appendBatches(now, f)
		appended, e.FlushWanted = info.AppendedBytes, info.FlushWanted
		e.FlushAlone, e.Forget = info.FlushAlone, p.isFar(f, appended)
		if err != nil {
			return appended, e, fmt.Errorf("append what was fetched to %s-%d: %w", p.opts.Topic, p.opts.ID.Partition, err)
		}
	}
	more, err := p.takeOver(f)
	e.add(more)
	return appended, e, err
}

// farBehind is from where on what a replica takes in is the past, in bytes: nobody will soon read
// it here.
const farBehind = 64 << 20

// isFar judges by the records that have come: what is left of the way has some of the same size.
func (p *Partition) isFar(f Fetched, appended int) bool {
	end := int64(p.log().LogEnd())
	return float64(f.HighWatermark-end)*float64(appended) > farBehind*float64(end-f.Offset)
}

// appendBatches leaves the flush of a throttled replica out of the group commits as long as it is
// not in the ISR: nobody waits for its acknowledgements, and a move has a lot to flush.
func (p *Partition) appendBatches(now time.Time, f Fetched) (logstore.AppendInfo, error) {
	p.mu.RLock()
	behind := !p.inISR && p.config.FollowerThrottled.has(p.opts.ID.Partition)
	p.mu.RUnlock()
	if behind {
		return p.log().AppendBehind(now, f.Records, f.Epoch)
	}
	return p.log().AppendAsFollower(now, f.Records, f.Epoch)
}

func (p *Partition) mayAppendFetched(f Fetched) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.requireFollowing(f.Epoch); err != nil {
		return err
	}
	if int64(p.log().LogEnd()) != f.Offset {
		return errNotFollowing // it was truncated since
	}
	return nil
}

// takeOver follows the leader's high watermark, as far as the own log goes, and its log
// start. The leader's log start is not above the fetch offset, since it answered it, nor
// above its high watermark.
func (p *Partition) takeOver(f Fetched) (Effects, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaderHW.Store(f.HighWatermark)
	var e Effects
	if hw := min(f.HighWatermark, int64(p.log().LogEnd())); hw > p.hw.Load() {
		p.hw.Store(hw)
		e.Wake = true
	}
	if start := min(f.LogStart, p.hw.Load()); start > int64(p.log().LogStart()) {
		if err := p.log().AdvanceLogStart(start); err != nil {
			return e, fmt.Errorf("follow the log start of %s-%d: %w", p.opts.Topic, p.opts.ID.Partition, err)
		}
	}
	return e, nil
}

// Truncation is a truncation for which a follower's role has been locked: Finish or Drop
// must follow.
type Truncation struct {
	p  *Partition
	To int64 // where the log is to end
}

// BeginTruncation finds out where a follower's log stops agreeing with its leader's, which
// has answered where an epoch ends in its own (Kafka's getOffsetTruncationState):
//
//	the epoch is known here   the smaller of the two ends of that epoch
//	it is not                 the end of the last epoch before it that is known here; the
//	                          next fetch, with that epoch, finds the next divergence
//	no epoch is known here    the leader's end
//
// Truncation goes by epochs alone, never by the high watermark: a follower's is behind, so
// what lies above it may have been acknowledged (KIP-101).
func (p *Partition) BeginTruncation(epoch int32, leader EpochEndOffset) (*Truncation, error) {
	return p.beginTruncation(epoch, func() int64 {
		end := int64(p.log().LogEnd())
		own, ok := p.log().EndOffsetForEpoch(leader.Epoch)
		switch {
		case !ok:
			return min(leader.EndOffset, end)
		case own.Epoch != leader.Epoch:
			return min(own.EndOffset, end)
		}
		return min(own.EndOffset, leader.EndOffset, end)
	})
}

// BeginTruncationTo is BeginTruncation for a follower that is beyond the end of its leader.
func (p *Partition) BeginTruncationTo(epoch int32, leaderEnd int64) (*Truncation, error) {
	return p.beginTruncation(epoch, func() int64 { return min(leaderEnd, int64(p.log().LogEnd())) })
}

func (p *Partition) beginTruncation(epoch int32, to func() int64) (*Truncation, error) {
	p.lockRole()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.requireFollowing(epoch); err != nil {
		p.unlockRole()
		return nil, err
	}
	return &Truncation{p: p, To: to()}, nil
}

// Finish cuts the log, durably, after it has lowered what the directory's checkpoints
// promise. It blocks on the disk. The high watermark falls only if a leader was elected
// that lacks what was acknowledged (unclean.leader.election.enable).
func (t *Truncation) Finish() (Effects, error) {
	defer t.p.unlockRole()
	e := t.p.lowerHighWatermark(t.To)
	if err := t.p.log().TruncateTo(t.To); err != nil {
		return e, fmt.Errorf("truncate %s-%d to %d: %w", t.p.opts.Topic, t.p.opts.ID.Partition, t.To, err)
	}
	// A batch that reached over To, or a gap, may have let the log end below it.
	e.add(t.p.lowerHighWatermark(int64(t.p.log().LogEnd())))
	return e, nil
}

// Drop gives the truncation up.
func (t *Truncation) Drop() { t.p.unlockRole() }

func (p *Partition) lowerHighWatermark(to int64) Effects {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hw.Load() <= to {
		return Effects{}
	}
	p.hw.Store(to)
	return Effects{Wake: true}
}

// StartAfresh drops everything and goes on at the leader's log start, which is beyond the
// end of this log: nothing of it is of use any more. It blocks on the disk.
func (p *Partition) StartAfresh(epoch int32, leaderStart int64) (Effects, error) {
	t, err := p.beginTruncation(epoch, func() int64 { return leaderStart })
	if err != nil {
		return Effects{}, err
	}
	defer t.Drop()
	if err := p.log().TruncateFullyAndStartAt(leaderStart); err != nil {
		return Effects{}, fmt.Errorf("start %s-%d at %d: %w", p.opts.Topic, p.opts.ID.Partition, leaderStart, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hw.Store(leaderStart) // the leader's is not below its log start
	return Effects{Wake: true}, nil
}

// lockRole keeps the replica in its role while a follower's log is changed: whoever becomes
// leader must find the log as it will stay. It is a channel, since a truncation holds it
// while a disk syncs; p.mu is taken after it.
func (p *Partition) lockRole()   { p.role <- struct{}{} }
func (p *Partition) unlockRole() { <-p.role }
