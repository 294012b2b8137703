package replica

import (
	"cmp"
	"slices"
	"time"
)

// Racks tells where brokers stand, as far as a consumer can reach them: "" for one that has
// no rack, is fenced, or has no listener like the one that the consumer uses.
type Racks func(broker int32) string

// preferred is the replica from which a consumer had better read: one in its rack, unless the
// leader is there (KIP-392, Kafka's findPreferredReadReplica with RackAwareReplicaSelector).
// Only a member of the ISR that has the record is named, and of several the one that has
// most, then that which had everything last, then that with the highest id. A follower names
// nobody.
func (p *Partition) preferred(now time.Time, r *Reader, want *FetchPartition) (id int32, found bool) {
	if r.isFollower() || r.Rack == "" || r.Racks == nil {
		return 0, false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.isLeader || r.Racks(p.opts.BrokerID) == r.Rack {
		return 0, false
	}
	var best *follower
	for i := range p.followers {
		f := &p.followers[i]
		if f.end < want.FetchOffset || f.logStart > want.FetchOffset || !slices.Contains(p.isr.committed, f.id) || r.Racks(f.id) != r.Rack {
			continue
		}
		if best == nil || best.behind(f, now) {
			best = f
		}
	}
	if best == nil {
		return 0, false
	}
	return best.id, true
}

// behind compares two followers, as Kafka's ReplicaView does.
func (f *follower) behind(other *follower, now time.Time) bool {
	return cmp.Or(
		cmp.Compare(f.end, other.end),
		cmp.Compare(now.Sub(other.everythingAt()), now.Sub(f.everythingAt())),
		cmp.Compare(f.id, other.id),
	) < 0
}

// redirect is the answer that names another replica: offsets without records. The range is not
// looked at, nor whether the logs agree.
func (p *Partition) redirect(r *Reader, want *FetchPartition, to int32) (FetchResult, error) {
	at, err := p.admit(r, want)
	if err != nil {
		return FetchResult{}, err
	}
	return FetchResult{
		HighWatermark: at.highWatermark, LastStableOffset: at.lastStable, LogStartOffset: at.logStart,
		CurrentLeader: noLeader, PreferredReplica: &to,
	}, nil
}
