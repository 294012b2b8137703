package broker_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// stream is a producer that goes on and on, and remembers what was acknowledged.
type stream struct {
	c      *nodes
	topic  string
	client *kgo.Client
	stop   chan struct{}
	ended  chan struct{}
	acked  []string
	gap    time.Duration // the longest time between two acknowledgements
}

// produce sends one record after the other with acks=all.
func (c *nodes) produce(topic string) *stream {
	s := &stream{c: c, topic: topic, stop: make(chan struct{}), ended: make(chan struct{})}
	s.client = c.client(1, kgo.SeedBrokers(c.addresses()...), kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond })) // the broker's gaps, not the client's
	go s.run()
	return s
}

func (c *nodes) addresses() (list []string) {
	for _, m := range c.all {
		list = append(list, m.Machine.Addr())
	}
	return list
}

func (s *stream) run() {
	defer close(s.ended)
	defer s.client.Close()
	last := time.Now()
	for i := 0; ; i++ {
		select {
		case <-s.stop:
			return
		case <-time.After(time.Millisecond):
		}
		value := fmt.Sprintf("%s-%d", s.topic, i)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := s.client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr()
		cancel()
		if err != nil {
			s.c.t.Errorf("produce %s: %v", value, err)
			return
		}
		now := time.Now()
		s.gap = max(s.gap, now.Sub(last))
		last = now
		s.acked = append(s.acked, value)
	}
}

// end ends the stream, and checks that everything acknowledged can be read, once.
func (s *stream) end() {
	s.c.t.Helper()
	close(s.stop)
	<-s.ended
	client := s.c.client(1, kgo.SeedBrokers(s.c.addresses()...), kgo.ConsumeTopics(s.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	seen := map[string]int{}
	for len(seen) < len(s.acked) {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			break
		}
		fetches.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
	}
	for _, value := range s.acked {
		if seen[value] != 1 {
			s.c.t.Fatalf("%s, which was acknowledged, is there %d times; %d of %d are", value, seen[value], len(seen), len(s.acked))
		}
	}
	s.c.t.Logf("%d records acknowledged and read, longest gap %v", len(s.acked), s.gap)
}

// inSync waits until all replicas of a topic are in sync.
func (c *nodes) inSync(at int32, topic string) {
	c.t.Helper()
	took := c.eventually("all replicas in sync", 30*time.Second, func() bool {
		t := c.all[at].B.Image().Topic(topic)
		if t == nil {
			return false
		}
		for _, p := range t.Partitions {
			if len(p.ISR) < len(p.Replicas) {
				return false
			}
		}
		return true
	})
	c.t.Logf("in sync after %v", took)
}

// TestLeaderIsKilled under a producer with acks=all: others go on, and when it is back it
// follows, and nothing that was acknowledged is missing.
func TestLeaderIsKilled(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.start(1, 2, 3)
		c.createTopic(1, "t", 3)
		s := c.produce("t")
		for _, victim := range []int32{2, 3, 1} {
			<-time.After(2 * time.Second)
			c.kill(victim)
			<-time.After(3 * time.Second)
			c.start(victim)
			c.inSync(victim, "t")
		}
		s.end()
	})
}

// TestStopMovesLeadersFirst: a broker that stops in good order hands its partitions over.
func TestStopMovesLeadersFirst(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.start(1, 2, 3)
		c.createTopic(1, "t", 3)
		s := c.produce("t")
		for _, id := range []int32{1, 2, 3} {
			<-time.After(time.Second)
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			if err := c.all[id].B.Stop(ctx); err != nil {
				t.Errorf("stop of %d: %v", id, err)
			}
			cancel()
			c.all[id].B = nil
			<-time.After(time.Second)
			c.start(id)
			c.inSync(id, "t")
		}
		s.end()
		if s.gap > 300*time.Millisecond {
			t.Errorf("nothing was acknowledged for %v", s.gap)
		}
	})
}

// TestPreferredLeaders take their partitions back when they are asked to.
func TestPreferredLeaders(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.start(1, 2, 3)
		c.createTopic(1, "t", 3)
		c.kill(2)
		<-time.After(3 * time.Second)
		c.start(2)
		c.inSync(1, "t")
		c.admin(1, func(ctx context.Context, adm *kadm.Client) {
			if _, err := adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, nil); err != nil {
				t.Error(err)
			}
		})
		c.eventually("preferred leaders", time.Second, func() bool { // another node may have answered
			return !slices.ContainsFunc(c.all[1].B.Image().Topic("t").Partitions, func(p *metadata.Partition) bool {
				return p.Leader != p.Replicas[0]
			})
		})
	})
}

// TestDamagedFile: one bit of one file flips on one of three nodes while it is down. The
// replica is set aside, fetched again from the others, and nothing is lost (T19).
func TestDamagedFile(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.start(1, 2, 3)
		c.createTopic(1, "t", 3)
		s := c.produce("t")
		<-time.After(3 * time.Second)
		c.kill(2)
		<-time.After(2 * time.Second)
		c.flip(2, "/data/t-0/00000000000000000000.log", 100)
		c.start(2)
		c.inSync(2, "t")
		if n := c.strays(2); n != 1 {
			t.Errorf("%d partitions were set aside, want 1", n)
		}
		<-time.After(time.Second)
		c.kill(1)
		c.kill(3) // what is left is what was fetched again
		<-time.After(time.Second)
		c.start(1, 3)
		s.end()
	})
}

// flip changes one bit of a file.
func (c *nodes) flip(id int32, name string, at int64) {
	c.t.Helper()
	f, err := c.all[id].Disk.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		c.t.Fatal(err)
	}
	b[0] ^= 4
	if _, err := f.WriteAt(b, at); err != nil {
		c.t.Fatal(err)
	}
}

func (c *nodes) strays(id int32) (n int) {
	c.t.Helper()
	entries, err := c.all[id].Disk.ReadDir("/data")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "-stray") {
			n++
		}
	}
	return n
}

// TestReassignment moves partitions to other brokers under a producer.
func TestReassignment(t *testing.T) {
	clusterTest(t, []string{"broker,controller", "broker,controller", "broker,controller", "broker", "broker"}, func(c *nodes) {
		c.start(1, 2, 3, 4, 5)
		c.createTopic(1, "t", 3)
		s := c.produce("t")
		<-time.After(time.Second)
		c.admin(1, func(ctx context.Context, adm *kadm.Client) {
			var req kadm.AlterPartitionAssignmentsReq
			req.Assign("t", 0, []int32{4, 5, 1})
			req.Assign("t", 1, []int32{5, 4, 2})
			req.Assign("t", 2, []int32{3, 4, 5})
			if _, err := adm.AlterPartitionAssignments(ctx, req); err != nil {
				t.Error(err)
			}
		})
		c.eventually("the partitions have moved", 30*time.Second, func() bool {
			for _, p := range c.all[1].B.Image().Topic("t").Partitions {
				if len(p.AddingReplicas)+len(p.RemovingReplicas) > 0 || !slices.Contains(p.Replicas, 4) || !slices.Contains(p.Replicas, 5) || len(p.ISR) < 3 {
					return false
				}
			}
			return true
		})
		<-time.After(time.Second)
		s.end()
	})
}
