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
	now := time.Now().UnixMilli()
	return handlers.Quorum{
		Leader: state.Leader, LeaderHere: state.LeaderHere,
		Epoch: int32(state.Term), HighWatermark: int64(state.Committed) + 1,
		Voters: quorumReplicas(state.Voters, now), Observers: quorumReplicas(state.Observers, now),
	}
}

func quorumReplicas(members []metalog.Member, now int64) (list []handlers.QuorumReplica) {
	for _, m := range members {
		r := handlers.QuorumReplica{ID: m.NodeID, DirectoryID: m.DirectoryID, LogEndOffset: -1, LastFetch: -1, LastCaughtUp: -1}
		if m.LastIndex >= 0 {
			r.LogEndOffset = m.LastIndex + 1
		}
		if m.Self {
			r.LastFetch, r.LastCaughtUp = now, now
		}
		list = append(list, r)
	}
	return list
}
