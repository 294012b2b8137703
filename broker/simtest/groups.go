package simtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Group is a consumer group that reads a topic from its start. Members come and go; each
// commits what it has read.
type Group struct {
	c     *Cluster
	name  string
	topic string

	mu        sync.Mutex
	committed []int64              // by partition: the highest that was acknowledged
	seen      []map[int64]struct{} // by partition: offsets above low that some member has read
	low       []int64              // by partition: everything below has been read
	owners    map[ownership]string // members by what they own
}

// ownership is a partition in one generation of its group.
type ownership struct {
	generation int32
	partition  int32
}

// Group starts a group of so many members.
func (c *Cluster) Group(name, topicName string, members int) *Group {
	c.mu.Lock()
	partitions := c.topics[topicName].partitions
	c.mu.Unlock()
	g := &Group{
		c: c, name: name, topic: topicName,
		committed: make([]int64, partitions), low: make([]int64, partitions), owners: map[ownership]string{},
	}
	for range partitions {
		g.seen = append(g.seen, map[int64]struct{}{})
	}
	c.mu.Lock()
	c.groups = append(c.groups, g)
	c.mu.Unlock()
	for range members {
		c.Go(func() {
			for c.over.Err() == nil {
				g.life()
			}
		})
	}
	return g
}

// life is that of one member: it joins, reads and commits for a while, and leaves.
func (g *Group) life() {
	balancers := []kgo.GroupBalancer{kgo.RangeBalancer(), kgo.RoundRobinBalancer(), kgo.StickyBalancer()}
	client := g.c.client(
		kgo.ConsumerGroup(g.name), kgo.ConsumeTopics(g.topic), kgo.DisableAutoCommit(), kgo.Balancers(balancers...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.SessionTimeout(10*time.Second), kgo.RebalanceTimeout(10*time.Second), kgo.HeartbeatInterval(time.Second),
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, assigned map[string][]int32) {
			g.owns(client, assigned[g.topic])
		}),
	)
	defer func() {
		g.c.tracef("%s: a member leaves", g.name)
		client.Close()
		g.c.tracef("%s: a member has left", g.name)
	}()
	g.c.tracef("%s: a member joins", g.name)
	ctx, cancel := context.WithTimeout(g.c.over, time.Second+g.c.pause(time.Minute))
	defer cancel()
	for ctx.Err() == nil {
		g.read(ctx, client)
	}
}

// owns is told of a member's assignment, all of it.
func (g *Group) owns(client *kgo.Client, partitions []int32) {
	member, generation := client.GroupMetadata()
	g.c.tracef("%s: %s has %v in generation %d", g.name, member, partitions, generation)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range partitions {
		at := ownership{generation, p}
		if other, ok := g.owners[at]; ok && other != member {
			g.c.violated("OneOwnerPerGeneration", "%s: partition %d belongs to %s and %s in generation %d", g.name, p, other, member, generation)
		}
		g.owners[at] = member
	}
}

// read polls once and commits what it brought.
func (g *Group) read(ctx context.Context, client *kgo.Client) {
	fetches := client.PollRecords(ctx, 1+g.c.draw(200))
	next := map[int32]int64{}
	g.mu.Lock()
	fetches.EachRecord(func(r *kgo.Record) {
		g.seen[r.Partition][r.Offset] = struct{}{}
		next[r.Partition] = r.Offset + 1
	})
	g.mu.Unlock()
	if len(next) == 0 {
		return
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		g.c.tracef("%s: commit of %v: %v", g.name, next, err)
		return
	}
	g.c.tracef("%s: committed %v", g.name, next)
	g.mu.Lock()
	defer g.mu.Unlock()
	for p, o := range next {
		g.acked(p, o)
	}
}

// acked notes a commit that is there: everything below it must have been read by somebody.
// Caller holds mu.
func (g *Group) acked(p int32, o int64) {
	for seen := g.seen[p]; ; g.low[p]++ {
		if _, ok := seen[g.low[p]]; !ok {
			break
		}
		delete(seen, g.low[p])
	}
	if g.low[p] < o {
		g.c.violated("GroupSkipsNothing", "%s has committed %d in partition %d, and nobody has read %d", g.name, o, p, g.low[p])
	}
	g.committed[p] = max(g.committed[p], o)
}

// CaughtUp is closed when the group has committed up to the ends that the topic has then,
// by what the broker says: an answer may have been lost.
func (g *Group) CaughtUp() <-chan struct{} {
	done := make(chan struct{})
	admin := kadm.NewClient(g.c.client())
	g.c.Go(func() {
		for g.c.sleep(time.Second) {
			ends, err := admin.ListEndOffsets(g.c.over, g.topic)
			if err != nil {
				continue
			}
			committed, err := admin.FetchOffsets(g.c.over, g.name)
			if err == nil && g.reached(ends, committed) {
				close(done)
				return
			}
		}
	})
	return done
}

func (g *Group) reached(ends kadm.ListedOffsets, committed kadm.OffsetResponses) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range int32(len(g.committed)) {
		end, known := ends.Lookup(g.topic, p)
		at, some := committed.Lookup(g.topic, p)
		if !known || end.Err != nil || end.Offset > 0 && (!some || at.At < end.Offset) {
			return false
		}
		g.acked(p, end.Offset)
	}
	return true
}

// judge compares what the broker has with what was acknowledged. A commit may be under
// way, so there may be more.
func (g *Group) judge(ctx context.Context, admin *kadm.Client) {
	g.mu.Lock()
	want := append([]int64{}, g.committed...)
	g.mu.Unlock()
	offsets, err := admin.FetchOffsets(ctx, g.name)
	g.c.require(fmt.Sprintf("fetch the offsets of %s", g.name), err)
	for p, o := range want {
		if o == 0 {
			continue
		}
		at, ok := offsets.Lookup(g.topic, int32(p))
		if !ok || at.Err != nil || at.At < o {
			g.c.violated("CommittedOffsetsKept", "%s had %d committed in partition %d; now %d, %v", g.name, o, p, at.At, at.Err)
		}
	}
}
