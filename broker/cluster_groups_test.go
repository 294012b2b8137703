//go:build synctests

package broker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// coordinator is the broker that a group's members are sent to.
func (c *nodes) coordinator(at int32, group string) int32 {
	c.t.Helper()
	client := c.client(at)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = []string{group}
	resp, err := req.RequestWith(ctx, client)
	if err != nil || resp.Coordinators[0].ErrorCode != 0 {
		c.t.Fatalf("coordinator of %s: %+v, %v", group, resp, err)
	}
	return resp.Coordinators[0].NodeID
}

// consume polls until so many records have come, and commits them.
func (c *nodes) consume(client *kgo.Client, want int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for got := 0; got < want; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			c.t.Fatalf("%d of %d records within a minute", got, want)
		}
		got += fetches.NumRecords()
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		c.t.Errorf("commit: %v", err)
	}
}

// A group goes on when the broker that coordinates it dies: another one has its offsets and
// its members.
func TestGroupOutlivesItsCoordinator(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.start(1, 2, 3)
		c.createTopic(1, "t", 3)
		producer := c.client(1, kgo.DefaultProduceTopic("t"))
		defer producer.Close()
		produce := func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			for i := range 30 {
				if err := producer.ProduceSync(ctx, &kgo.Record{Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
					c.t.Fatal(err)
				}
			}
		}
		produce()
		member := c.client(2, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer member.CloseAllowingRebalance()
		c.consume(member, 30)
		dead := c.coordinator(3, "g")
		c.kill(dead)
		produce()
		c.consume(member, 30)
		other := dead%3 + 1
		if now := c.coordinator(other, "g"); now == dead {
			c.t.Errorf("broker %d is dead and coordinates", now)
		}
		c.start(dead)
		c.admin(dead, func(ctx context.Context, adm *kadm.Client) {
			offsets, err := adm.FetchOffsets(ctx, "g")
			sum := int64(0)
			offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
			if err != nil || sum != 60 {
				c.t.Errorf("committed %d, %v", sum, err)
			}
		})
	})
}
