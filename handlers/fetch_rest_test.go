package handlers

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
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

// TestUnknownTopicDoesNotHoldUpWhatRests: a follower that knows of a topic before its leader does
// is told at once. While it waited, nobody would tell its fetch of what is appended to partitions
// that rest, so that a produce to one of those would wait for the end of it.
func TestUnknownTopicDoesNotHoldUpWhatRests(t *testing.T) {
	f := newFixture(t)
	f.replicas.fetched = replica.FetchResult{HighWatermark: 10, LogStartOffset: 1}
	ofFollower := func(session, epoch int32) *kmsg.FetchRequest {
		req := fetchRequest(18)
		req.ReplicaState.ID, req.ReplicaState.Epoch = 2, 7
		req.SessionID, req.SessionEpoch = session, epoch
		req.MaxWaitMillis = 500
		return req
	}
	session := ask[*kmsg.FetchResponse](t, f, ofFollower(0, 0)).SessionID
	next := ofFollower(session, 1)
	next.Topics[0].TopicID[0]++
	resp := ask[*kmsg.FetchResponse](t, f, next)
	if asked := &f.replicas.asked; len(asked.Partitions) != 1 || asked.MaxWait != 0 {
		t.Errorf("asked for %+v, and waits for %v", asked.Partitions, asked.MaxWait)
	}
	if len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != kerr.UnknownTopicID.Code {
		t.Errorf("answered %+v", resp.Topics)
	}
}
