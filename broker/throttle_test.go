package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fill writes about that many bytes into partition 0 of a topic, as fast as they are taken.
func (c *nodes) fill(topic string, size int) {
	c.t.Helper()
	c.fillBatches(topic, size, 64<<10)
}

// fillBatches is fill with batches that are nearly as large as is said.
func (c *nodes) fillBatches(topic string, size, batchSize int) {
	c.t.Helper()
	client := c.client(1, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(int32(batchSize)), kgo.ProducerLinger(50*time.Millisecond))
	defer client.Close()
	value := make([]byte, 10<<10)
	for i := range value {
		value[i] = byte(rand.IntN(256))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range size / len(value) {
		client.Produce(ctx, &kgo.Record{Topic: topic, Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				c.t.Errorf("produce: %v", err)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		c.t.Errorf("flush: %v", err)
	}
}

// throttle sets what kafka-reassign-partitions does: a rate on all brokers, and the replicas of
// topics.
func (c *nodes) throttle(bytesPerSecond int, replicas map[string]string) {
	c.t.Helper()
	set := func(prefixes []string, key, value string) (changes []kadm.AlterConfig) {
		for _, prefix := range prefixes {
			changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: prefix + key, Value: &value})
		}
		return changes
	}
	check := func(answers kadm.AlterConfigsResponses, err error) {
		for _, a := range answers {
			err = errors.Join(err, a.Err)
		}
		if err != nil {
			c.t.Error(err)
		}
	}
	sides := []string{"leader.replication.throttled.", "follower.replication.throttled."}
	c.admin(1, func(ctx context.Context, adm *kadm.Client) {
		check(adm.AlterBrokerConfigs(ctx, set(sides, "rate", fmt.Sprint(bytesPerSecond))))
		for topic, which := range replicas {
			check(adm.AlterTopicConfigs(ctx, set(sides, "replicas", which), topic))
		}
	})
}

// move gives partition 0 of topics to other brokers.
func (c *nodes) move(to map[string][]int32) {
	c.t.Helper()
	c.admin(1, func(ctx context.Context, adm *kadm.Client) {
		var req kadm.AlterPartitionAssignmentsReq
		for topic, replicas := range to {
			req.Assign(topic, 0, replicas)
		}
		answers, err := adm.AlterPartitionAssignments(ctx, req)
		if err == nil {
			err = answers.Error()
		}
		if err != nil {
			c.t.Error(err)
		}
	})
}

// moved waits until partition 0 of a topic is on these brokers alone.
func (c *nodes) moved(topic string, replicas ...int32) time.Duration {
	c.t.Helper()
	return c.eventually(topic+" has moved", time.Minute, func() bool {
		p := c.all[1].B.Image().Topic(topic).Partitions[0]
		return len(p.AddingReplicas)+len(p.RemovingReplicas) == 0 && slices.Equal(p.Replicas, replicas)
	})
}

// TestThrottledReassignment: what is throttled takes as long as the throttle says, whichever
// side it is set on; what is not moves meanwhile as ever. Without the throttle the rest goes
// at once.
func TestThrottledReassignment(t *testing.T) {
	const size, rate = 12 << 20, 1 << 20
	for name, which := range map[string]string{
		"both sides": "0:1,0:2,0:3", "leader": "0:1", "follower": "0:3", "all": "*",
	} {
		t.Run(name, func(t *testing.T) {
			clusterTest(t, threeCombined, func(c *nodes) {
				c.start(1, 2, 3)
				for _, topic := range []string{"slow", "free"} {
					c.place(topic, 1)
					c.fill(topic, size)
				}
				c.throttle(rate, map[string]string{"slow": which})
				c.move(map[string][]int32{"slow": {3}, "free": {3}})
				begin := time.Now()
				if took := c.moved("free", 3); took > time.Second {
					t.Errorf("what is not throttled took %v", took)
				}
				c.moved("slow", 3)
				want := time.Duration(float64(size) / rate * float64(time.Second))
				took := time.Since(begin)
				t.Logf("%d bytes at %d in a second took %v", size, rate, took)
				if took < want*9/10 || took > want*11/10 {
					t.Errorf("want %v", want)
				}
				c.move(map[string][]int32{"slow": {2}})
				<-time.After(time.Second)
				c.throttle(100<<20, nil)
				if took := c.moved("slow", 2); took > 3*time.Second {
					t.Errorf("%v after the throttle was lifted", took)
				}
			})
		})
	}
}

// TestThrottleOfLargeBatches: an answer that ends in the midst of a batch would send most of it
// twice, and count it, so that the replica gets less than the throttle lets through.
func TestThrottleOfLargeBatches(t *testing.T) {
	const size, rate = 40 << 20, 4 << 20
	for _, batchSize := range []int{400 << 10, 600 << 10, 1_000_000, 2 << 20} {
		t.Run(fmt.Sprint(batchSize), func(t *testing.T) {
			clusterTest(t, threeCombined, func(c *nodes) {
				c.start(1, 2, 3)
				c.place("t", 1)
				c.admin(1, func(ctx context.Context, adm *kadm.Client) {
					_, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: kadm.StringPtr("10000000")}}, "t")
					if err != nil {
						t.Error(err)
					}
				})
				c.fillBatches("t", size, batchSize)
				c.throttle(rate, map[string]string{"t": "*"})
				c.move(map[string][]int32{"t": {3}})
				want := time.Duration(float64(size) / rate * float64(time.Second))
				took := c.moved("t", 3)
				t.Logf("%d bytes at %d in a second took %v", size, rate, took)
				if took < want*9/10 || took > want*11/10 {
					t.Errorf("want %v", want)
				}
			})
		})
	}
}

// TestThrottleSparesTheInSync: members of the ISR are sent all that there is, however low the
// throttle.
func TestThrottleSparesTheInSync(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.start(1, 2, 3)
		c.place("t", 1, 2, 3)
		c.fill("t", 1<<20)
		c.throttle(1, map[string]string{"t": "*"})
		begin := time.Now()
		c.fill("t", 4<<20)
		if took := time.Since(begin); took > time.Second {
			t.Errorf("acks=all of replicas in sync took %v", took)
		}
		if p := c.all[1].B.Image().Topic("t").Partitions[0]; len(p.ISR) != 3 {
			t.Errorf("in sync are %v", p.ISR)
		}
	})
}

// place makes a topic of one partition on these brokers.
func (c *nodes) place(name string, replicas ...int32) {
	c.t.Helper()
	client := c.client(1)
	defer client.Close()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
	topic.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: replicas}}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = 10_000, []kmsg.CreateTopicsRequestTopic{topic}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	resp, err := req.RequestWith(ctx, client)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		c.t.Fatalf("create %s: %v %v", name, err, resp)
	}
}
