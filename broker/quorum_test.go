package broker_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// DescribeQuorum through a broker tells how far every controller and broker has come, in each
// version what it has room for. An observer that is gone is told of for five minutes; a
// controller that does not lead says just that.
func TestQuorumThroughBroker(t *testing.T) {
	clusterTest(t, []string{"controller", "controller", "controller", "broker", "broker"}, func(c *nodes) {
		c.start(1, 2, 3, 4, 5)
		c.eventually("both brokers are observers in step with the log", 10*time.Second, func() bool {
			p := c.describeQuorum(4, 2).Topics[0].Partitions[0]
			return len(p.Observers) == 2 && p.Observers[0].LogEndOffset == p.HighWatermark && p.Observers[1].LogEndOffset == p.HighWatermark
		})
		for version := range int16(3) {
			c.checkQuorum(c.describeQuorum(4, version), version)
		}

		begin := time.Now()
		c.kill(5)
		c.eventually("a broker that is gone is an observer no more", 6*time.Minute, func() bool {
			<-time.After(time.Second)
			return len(c.describeQuorum(4, 2).Topics[0].Partitions[0].Observers) == 1
		})
		if took := time.Since(begin); took < 5*time.Minute || took > 5*time.Minute+10*time.Second {
			c.t.Errorf("after %v", took)
		}
		leader := c.leader(4)
		for id := int32(1); id <= 3; id++ {
			want := int16(0)
			if id != leader {
				want = kafkaerr.NotLeaderOrFollower.Code
			}
			if got := c.quorumAtController(id); got != want {
				c.t.Errorf("controller %d, %d leads: error %d", id, leader, got)
			}
		}
	})
}

func (c *nodes) checkQuorum(resp *kmsg.DescribeQuorumResponse, version int16) {
	p := resp.Topics[0].Partitions[0]
	if len(p.CurrentVoters) != 3 || p.LeaderEpoch < 1 || (len(resp.Nodes) == 3) != (version == 2) {
		c.t.Errorf("version %d: %+v", version, resp)
	}
	now := time.Now().UnixMilli()
	for _, v := range append(p.CurrentVoters, p.Observers...) {
		if v.LogEndOffset != p.HighWatermark {
			c.t.Errorf("version %d: high watermark %d, %+v", version, p.HighWatermark, v)
		}
		if version == 0 && (v.LastFetchTimestamp != -1 || v.LastCaughtUpTimestamp != -1) ||
			version > 0 && (now-v.LastFetchTimestamp > 1000 || now-v.LastCaughtUpTimestamp > 1000) {
			c.t.Errorf("version %d at %d: %+v", version, now, v)
		}
		if (v.ReplicaDirectoryID != uuid.UUID{}) != (version == 2) {
			c.t.Errorf("version %d: %+v", version, v)
		}
	}
}

func quorumRequest() *kmsg.DescribeQuorumRequest {
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic, topic.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{{}}
	req.Topics = append(req.Topics, topic)
	return req
}

func (c *nodes) describeQuorum(through int32, version int16) *kmsg.DescribeQuorumResponse {
	c.t.Helper()
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(55, version)
	client := c.client(through, kgo.MaxVersions(versions))
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	reply, err := client.Broker(int(through)).Request(ctx, quorumRequest())
	if err != nil {
		c.t.Fatal(err)
	}
	resp := reply.(*kmsg.DescribeQuorumResponse)
	if resp.Version != version || len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		c.t.Fatalf("%+v", resp)
	}
	return resp
}

// quorumAtController is the error that a controller answers with.
func (c *nodes) quorumAtController(id int32) int16 {
	c.t.Helper()
	client := c.controllerClient(id)
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	reply, err := client.SeedBrokers()[0].Request(ctx, quorumRequest())
	if err != nil {
		c.t.Fatal(err)
	}
	return reply.(*kmsg.DescribeQuorumResponse).Topics[0].Partitions[0].ErrorCode
}
