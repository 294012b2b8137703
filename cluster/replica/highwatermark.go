package replica

import (
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/logstore"
)

// advanceHighWatermark moves the high watermark of a leader as far as the replicas that
// matter have acknowledged (Partition.maybeIncrementLeaderHW):
//
//	HW = min(acknowledged end of r)  over r in the maximal ISR, the leader included,
//	                                 and over caught-up replicas that may join it
//
// The acknowledged end of the leader is its flushed end with durability=fsync, its log
// end with replicated. A follower's is its fetch offset, since it fetches again only
// after its own flush.
//
// The maximal ISR counts a replica whose joining is proposed but not yet committed, and
// still counts one whose leaving is: whichever of the two the controller decides, the
// high watermark was right (KIP-497). Caught-up replicas are waited for because one that
// is always a little behind the high watermark could otherwise never join.
//
// The high watermark stands still while the ISR is smaller than the effective
// min.insync.replicas (KIP-966), and never falls while somebody leads: a replica that joins the
// ISR has reached it before. Caller holds mu.
func (p *Partition) advanceHighWatermark(now time.Time) Effects {
	if !p.isLeader || len(p.isr.committed) < p.effectiveMinISR() {
		return Effects{}
	}
	hw := p.acknowledgedEnd()
	for i := range p.followers {
		f := &p.followers[i]
		if f.end < hw && (p.isr.hasMaximal(f.id) || p.mayJoinSoon(now, f)) {
			hw = f.end
		}
	}
	if hw <= p.hw.Load() {
		return Effects{}
	}
	invariant.Check(hw <= int64(p.log().LogEnd()), "high watermark beyond the log end")
	p.hw.Store(hw)
	p.signal()
	// Followers' fetches that wait want to know of it, too.
	return Effects{Wake: true, WakeFetcher: len(p.followers) > 0}
}

// distrustHighWatermark lowers that of a leader whose election was unclean to what it vouches for
// itself. It heard of it from a leader for whom others did, and alone it would acknowledge, and
// show, what a power cut can take. Caller holds mu.
func (p *Partition) distrustHighWatermark(state *metadata.Partition) {
	if state.RecoveryState != metadata.Recovering {
		return
	}
	if vouched := max(int64(p.log().LogStart()), p.acknowledgedEnd()); vouched < p.hw.Load() {
		p.hw.Store(vouched)
	}
}

// acknowledgedEnd is the end of what this replica itself vouches for. A sync that is
// under way counts for nothing: only what logstore reports as flushed does.
func (p *Partition) acknowledgedEnd() int64 {
	if p.config.Log.Durability == logstore.DurabilityFsync {
		return int64(p.log().Flushed())
	}
	return int64(p.log().LogEnd())
}

// effectiveMinISR is min.insync.replicas, but not more than there are replicas.
func (p *Partition) effectiveMinISR() int {
	return min(p.config.MinInSyncCount, len(p.followers)+1)
}

// mayJoinSoon says that f is caught up and nothing but a proposal keeps it from the ISR.
func (p *Partition) mayJoinSoon(now time.Time, f *follower) bool {
	return f.caughtUp(now, int64(p.log().LogEnd()), p.opts.ReplicaLagMax) && p.eligible(f)
}

// FlushDone is called after the log's flushed end has moved.
func (p *Partition) FlushDone(now time.Time) Effects {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone != nil {
		return Effects{}
	}
	e := p.advanceHighWatermark(now)
	e.Wake = true // acks=1 of a leader alone waits for the flush, whatever the high watermark
	return e
}
