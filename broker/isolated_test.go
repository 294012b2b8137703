package broker_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/batch"
)

// TestIsolatedLeader is cut off from the other brokers for a while, not from clients, and
// knows nothing of it. What it takes meanwhile is not acknowledged to those who want all
// in-sync replicas to have it; when it is back it gives that up and follows (T21, T26).
func TestIsolatedLeader(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.start(1, 2, 3)
		c.createTopic(1, "t", 3)
		s := c.produce("t")
		var lost []string
		for _, victim := range []int32{2, 3, 1} {
			led := c.leadsPreferred(victim, "t")
			lost = append(lost, c.isolated(victim, led)...)
			c.inSync(victim%3+1, "t")
		}
		s.end()
		// Whoever was isolated leads again: what it has is what is read.
		for id := range int32(3) {
			c.leadsPreferred(id+1, "t")
		}
		have := c.readAll("t")
		for _, value := range lost {
			if have[value] {
				t.Errorf("%s is there, which only an isolated leader has had", value)
			}
		}
	})
}

// isolated cuts a leader off until the others do without it, for three seconds at least, and
// tells what it was sent meanwhile. If it was their controller, too, they need two times as long.
func (c *nodes) isolated(victim, partition int32) (sent []string) {
	c.t.Helper()
	for _, m := range c.all {
		c.net.CutBoth(c.all[victim].Machine.Name, m.Machine.Name)
	}
	defer c.net.HealAll()
	end := time.After(3 * time.Second)
	for _, acks := range []int16{1, -1} {
		value := fmt.Sprintf("sent to %d alone, acks %d", victim, acks)
		sent = append(sent, value)
		err := c.produceTo(victim, "t", partition, acks, value)
		if acks == 1 && err != nil {
			c.t.Errorf("%s: %v, before it could know", value, err)
		}
		if acks == -1 && err == nil {
			c.t.Errorf("%s: acknowledged", value)
		}
	}
	<-end
	c.eventually(fmt.Sprintf("%d neither leads nor is in sync", victim), 12*time.Second, func() bool {
		p := c.all[victim%3+1].B.Image().Topic("t").Partitions[partition]
		return p.Leader != victim && !slices.Contains(p.ISR, victim)
	})
	return sent
}

// leadsPreferred has every partition led by its first replica, and tells one that a broker
// leads.
func (c *nodes) leadsPreferred(id int32, topic string) (partition int32) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%d leads what it should", id), 30*time.Second, func() bool {
		t := c.all[id].B.Image().Topic(topic)
		if t == nil {
			return false // it was made elsewhere a moment ago
		}
		set := kadm.TopicsSet{}
		done := true
		for i, p := range t.Partitions {
			set.Add(topic, int32(i))
			done = done && p.Leader == p.Replicas[0]
			if p.Leader == id {
				partition = int32(i)
			}
		}
		if !done {
			c.admin(id, func(ctx context.Context, adm *kadm.Client) {
				if _, err := adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, set); err != nil {
					c.t.Error(err)
				}
			})
		}
		return done
	})
	return partition
}

// produceTo sends one record to a broker, whoever leads.
func (c *nodes) produceTo(id int32, topic string, partition int32, acks int16, value string) error {
	c.t.Helper()
	required := map[int16]kgo.Acks{1: kgo.LeaderAck(), -1: kgo.AllISRAcks()}[acks] // the client's, not the request's, are sent
	client := c.client(id, kgo.RequiredAcks(required), kgo.DisableIdempotentWrite())
	defer client.Close()
	req := kmsg.NewPtrProduceRequest()
	req.TimeoutMillis = 3000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition = partition
	part.Records = batch.New(batch.BuilderOptions{}, batch.NewRecord{Value: []byte(value)})
	top := kmsg.NewProduceRequestTopic()
	top.Topic, top.TopicID = topic, c.all[id].B.Image().Topic(topic).ID
	top.Partitions = append(top.Partitions, part)
	req.Topics = append(req.Topics, top)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	resp, err := client.Broker(int(id)).Request(ctx, req)
	if err != nil {
		c.t.Errorf("produce to %d: %v", id, err)
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
}

// readAll is every value of a topic.
func (c *nodes) readAll(topic string) map[string]bool {
	c.t.Helper()
	var end int64
	c.admin(1, func(ctx context.Context, adm *kadm.Client) {
		offsets, err := adm.ListEndOffsets(ctx, topic)
		if err != nil {
			c.t.Fatal(err)
		}
		offsets.Each(func(o kadm.ListedOffset) { end += o.Offset })
	})
	client := c.client(1, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	values := map[string]bool{}
	for read := int64(0); read < end; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			c.t.Fatalf("after %d of %d: %v", read, end, err)
		}
		read += int64(fetches.NumRecords())
		fetches.EachRecord(func(r *kgo.Record) { values[string(r.Value)] = true })
	}
	return values
}
