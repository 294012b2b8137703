//go:build synctests

package broker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestGroupsMoveWithTheirCoordinator: a consumer group goes on from its committed offsets when
// the broker that coordinates it is killed.
func TestGroupsMoveWithTheirCoordinator(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.start(1, 2, 3)
		c.createTopic(1, "t", 3)
		s := c.produce("t")
		g := c.consume("g", "t")
		<-time.After(5 * time.Second)
		coordinator := c.coordinator("g")
		c.kill(coordinator)
		<-time.After(5 * time.Second)
		if now := c.coordinator("g"); now == coordinator {
			t.Errorf("the group is still coordinated by %d, which is dead", now)
		}
		c.start(coordinator)
		<-time.After(2 * time.Second)
		s.end()
		g.end(s.acked)
	})
}

// groupMember is a consumer of a group that remembers what it has read.
type groupMember struct {
	c      *nodes
	client *kgo.Client
	cancel context.CancelFunc
	ended  chan struct{}
	seen   map[string]bool
	mu     sync.Mutex
}

func (c *nodes) consume(group, topic string) *groupMember {
	g := &groupMember{c: c, ended: make(chan struct{}), seen: map[string]bool{}}
	g.client = c.client(1, kgo.SeedBrokers(c.addresses()...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.AutoCommitInterval(100*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	go func() {
		defer close(g.ended)
		for ctx.Err() == nil {
			g.client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.seen[string(r.Value)] = true
			})
		}
	}()
	return g
}

// end waits until the member has read everything.
func (g *groupMember) end(all []string) {
	g.c.t.Helper()
	g.c.eventually("everything is read", 30*time.Second, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.seen) >= len(all)
	})
	for _, value := range all {
		if !g.seen[value] {
			g.c.t.Fatalf("the group has never seen %s", value)
		}
	}
	g.cancel()
	<-g.ended
	g.client.Close()
}

// coordinator is the broker that coordinates a group.
func (c *nodes) coordinator(group string) (id int32) {
	c.t.Helper()
	for at, m := range c.all {
		if m.b == nil {
			continue
		}
		c.admin(at, func(ctx context.Context, adm *kadm.Client) {
			r := adm.FindGroupCoordinators(ctx, group)[group]
			if r.Err != nil {
				c.t.Error(r.Err)
			}
			id = r.NodeID
		})
		break
	}
	return id
}
