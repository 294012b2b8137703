package broker

import (
	"time"

	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/handlers"
)

// quorum is the metadata log's quorum in Kafka's terms: an epoch is Raft's term, and an
// end offset is the index after the last entry.
func (b *Broker) quorum() handlers.Quorum {
	state := b.metalog.Quorum()
	return handlers.Quorum{
		Leader: state.Leader, LeaderHere: state.LeaderHere,
		Epoch: int32(state.Term), HighWatermark: int64(state.Committed) + 1,
		Voters: quorumReplicas(state.Voters), Observers: quorumReplicas(heardOf(state.Observers, time.Now())),
	}
}

func quorumReplicas(members []metalog.Member) (list []handlers.QuorumReplica) {
	for _, m := range members {
		r := handlers.QuorumReplica{
			ID: m.NodeID, DirectoryID: m.DirectoryID, LogEndOffset: -1,
			LastFetch: milliseconds(m.Answered), LastCaughtUp: milliseconds(m.CaughtUp),
		}
		if m.LastIndex >= 0 {
			r.LogEndOffset = m.LastIndex + 1
		}
		list = append(list, r)
	}
	return list
}

func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return t.UnixMilli()
}

// observerSession is how long an observer that does not answer is listed, as in Kafka.
const observerSession = 5 * time.Minute

// heardOf are the observers that the leader has heard of lately.
func heardOf(observers []metalog.Member, now time.Time) (list []metalog.Member) {
	for _, o := range observers {
		if !o.Answered.IsZero() && now.Sub(o.Answered) < observerSession {
			list = append(list, o)
		}
	}
	return list
}
