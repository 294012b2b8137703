package handlers

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/replica"
)

// TestFollowersPartitionsRest: in a follower's session what rests is not read until there is
// news of it.
func TestFollowersPartitionsRest(t *testing.T) {
	f := newFixture(t)
	f.replicas.fetched = replica.FetchResult{HighWatermark: 10, LogStartOffset: 1}
	session := int32(0)
	fetch := func(epoch int32) *kmsg.FetchResponse {
		req := fetchRequest(18)
		req.ReplicaState.ID, req.ReplicaState.Epoch = 2, 7
		req.SessionID, req.SessionEpoch = session, epoch
		if epoch > 0 {
			req.Topics = nil
		}
		return ask[*kmsg.FetchResponse](t, f, req)
	}
	session = fetch(0).SessionID
	fetch(1)
	asked := f.replicas.asked.Partitions
	if len(asked) != 1 || asked[0].Watch == nil || asked[0].KnownHighWatermark != 10 || asked[0].KnownLogStart != 1 {
		t.Fatalf("asked for %+v", asked)
	}
	watch := asked[0].Watch
	watch.Rest()
	fetch(2)
	if asked := &f.replicas.asked; len(asked.Partitions) != 0 || asked.Again == nil {
		t.Errorf("at rest, asked for %+v", asked.Partitions)
	}
	watch.Signal()
	fetch(3)
	if asked := &f.replicas.asked; len(asked.Partitions) != 1 || len(asked.News) != 1 {
		t.Errorf("with news, asked for %+v", asked.Partitions)
	}
}
