package metalog

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

func TestThreeVoters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		lead := c.leader()
		for i := range 20 {
			pos := lead.mustPropose(fmt.Sprint("t", i))
			if got := lead.log.Image().Position(); got.Index < pos.Index {
				t.Fatalf("proposed at %v, the image is at %v", pos, got)
			}
		}
		c.wantConverged()
		for _, n := range c.nodes {
			if n.log.Image().NumTopics() != 20 || n.log.Image().ClusterID() != "test" {
				t.Errorf("node %d has %d topics of cluster %q", n.id, n.log.Image().NumTopics(), n.log.Image().ClusterID())
			}
			if _, id, ok := n.log.Leader(); !ok || id != lead.id {
				t.Errorf("node %d takes %d for the leader", n.id, id)
			}
		}
	})
}

// D18: a commit reaches the followers within 20 ms. A new leader is there within five seconds
// of the silence of the old one: who notices it first has to wait until another one agrees.
func TestTimingOfAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		lead := c.leader()
		for i := range 10 {
			name := fmt.Sprint("t", i)
			lead.mustPropose(name)
			start := time.Now()
			c.eventually("followers have it", func() bool { return c.followers()[0].has(name) && c.followers()[1].has(name) })
			if took := time.Since(start); took > 20*time.Millisecond {
				t.Errorf("followers learned of a commit after %v", took)
			}
		}
		for range 10 {
			old := c.leader()
			start := time.Now()
			c.net.Isolate(old.host())
			c.leader(old)
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("a new leader after %v", took)
			}
			c.net.Rejoin(old.host())
			c.wantConverged()
		}
	})
}

// The leader is cut off in the middle of its work: what it then proposes fails, the others
// go on under another leader, and nothing of the failed proposal ever shows.
func TestLeaderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		old := c.leader()
		old.mustPropose("before")
		c.net.Isolate(old.host())
		first, err := old.log.Start(context.Background(), old.ready.Load(), newTopic("lost-1"))
		if err != nil {
			t.Fatal(err)
		}
		second, err := old.log.Start(context.Background(), old.ready.Load(), newTopic("lost-2"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []*Proposal{first, second} {
			if _, err := p.Wait(context.Background()); !errors.Is(err, kafkaerr.NotController) {
				t.Errorf("proposal of a leader that was cut off: %v", err)
			}
		}
		next := c.leader(old)
		next.mustPropose("after")
		if _, err := old.propose("refused"); !errors.Is(err, kafkaerr.NotController) {
			t.Errorf("proposal to the old leader: %v", err)
		}
		c.net.Rejoin(old.host())
		c.wantConverged()
		for _, n := range c.nodes {
			if !n.has("before") || !n.has("after") || n.has("lost-1") || n.has("lost-2") || n.has("refused") {
				t.Errorf("node %d: %v", n.id, topics(n.log.Image()))
			}
		}
	})
}

func topics(image *metadata.Image) (names []string) {
	for t := range image.Topics() {
		names = append(names, t.Name)
	}
	return names
}

// A follower that was away for longer than the log reaches back gets a snapshot, and its
// publishers see one change from what they knew to what is.
func TestFollowerIsSentASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, func(c *raft.Config) {
			c.TrailingLogs, c.SnapshotThreshold, c.SnapshotInterval = 8, 16, 50*time.Millisecond
		})
		defer c.close()
		lead := c.leader()
		lead.mustPropose("kept")
		away := c.followers()[0]
		c.eventually("the follower has the topic", func() bool { return away.has("kept") })
		c.net.Isolate(away.host())
		for i := range 100 {
			lead.mustPropose(fmt.Sprint("t", i))
		}
		c.eventually("the leader's log is short", func() bool {
			first, err := lead.log.store.FirstIndex()
			return err == nil && first > away.log.Image().Position().Index+1
		})
		c.net.Rejoin(away.host())
		c.wantConverged()
		if got := away.log.Image().NumTopics(); got != 101 {
			t.Errorf("%d topics after the snapshot", got)
		}
		// And it goes on from there, also after a restart.
		c.leader().mustPropose("later")
		c.wantConverged()
		away.stop()
		c.leader().mustPropose("much later")
		away.start()
		c.wantConverged()
		if !away.has("later") || !away.has("much later") || away.log.Image().NumTopics() != 103 {
			t.Errorf("%d topics after the restart", away.log.Image().NumTopics())
		}
	})
}

// D17: after a failed proposal nothing of the term counts until a barrier.
func TestFailedProposalFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		lead := c.leader()
		ctx, term := context.Background(), lead.ready.Load()
		lead.mustPropose("a")

		// An entry is lost between its numbering and Raft. The two that follow are on their
		// way when that shows; they were computed as if it had succeeded.
		lead.log.proposals.mu.Lock()
		lead.log.proposals.next++
		lead.log.proposals.mu.Unlock()
		b, err := lead.log.Start(ctx, term, newTopic("b"))
		if err != nil {
			t.Fatal(err)
		}
		d, err := lead.log.Start(ctx, term, newTopic("d"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []*Proposal{b, d} {
			if _, err := p.Wait(ctx); !errors.Is(err, kafkaerr.NotController) || !errors.Is(err, errDropped) {
				t.Errorf("entry after a lost one: %v", err)
			}
		}
		if _, err := lead.propose("e"); !errors.Is(err, kafkaerr.NotController) {
			t.Errorf("proposal before a barrier: %v", err)
		}
		image, err := lead.log.Barrier(ctx, term)
		if err != nil {
			t.Fatal(err)
		}
		if image.Topic("a") == nil || image.NumTopics() != 1 {
			t.Errorf("topics after the barrier: %v", topics(image))
		}
		lead.mustPropose("f")
		c.wantConverged()
		for _, n := range c.nodes {
			if got := topics(n.log.Image()); len(got) != 2 || got[1] != "f" {
				t.Errorf("node %d: %v", n.id, got)
			}
		}
	})
}

// A proposal that nobody waited for may yet succeed. What is computed without it must not
// follow it before a barrier.
func TestProposalThatWasNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		lead := c.leader()
		term := lead.ready.Load()
		ctx, cancel := context.WithCancel(context.Background())
		p, err := lead.log.Start(ctx, term, newTopic("a"))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := p.Wait(ctx); !errors.Is(err, kafkaerr.NotController) || !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if _, err := lead.propose("b"); !errors.Is(err, kafkaerr.NotController) {
			t.Errorf("proposal before a barrier: %v", err)
		}
		image, err := lead.log.Barrier(context.Background(), term)
		if err != nil {
			t.Fatal(err)
		}
		if image.Topic("a") == nil || image.Topic("b") != nil {
			t.Errorf("topics after the barrier: %v", topics(image))
		}
		lead.mustPropose("b")
		c.wantConverged()
	})
}

// A record that does not fit is a mistake of the proposer: it is told so, and no node stops.
func TestRecordThatDoesNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		lead := c.leader()
		lead.mustPropose("a")
		if _, err := lead.propose("a"); !errors.Is(err, metadata.ErrInvalid) || !errors.Is(err, kafkaerr.NotController) {
			t.Errorf("second topic of that name: %v", err)
		}
		if _, err := lead.log.Barrier(context.Background(), lead.ready.Load()); err != nil {
			t.Fatal(err)
		}
		lead.mustPropose("b")
		c.wantConverged()
	})
}

// While leadership is handed over in an orderly way proposals fail at once; afterwards the
// new leader's barrier decides.
func TestLeadershipTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		for round := range 5 {
			old := c.leader()
			name := fmt.Sprint("t", round)
			old.mustPropose(name)
			if err := old.log.raft.LeadershipTransfer().Error(); err != nil {
				t.Fatal(err)
			}
			next := c.leader(old)
			if !next.has(name) {
				t.Errorf("the new leader passed its barrier without %s", name)
			}
			if _, err := old.propose("late"); !errors.Is(err, kafkaerr.NotController) {
				t.Errorf("proposal to the old leader: %v", err)
			}
		}
		c.wantConverged()
	})
}

// Proposals need a barrier in their term, and a barrier needs the leadership of its term.
func TestBarrierComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		lead, ctx := c.leader(), context.Background()
		term := lead.ready.Load()
		follower := c.followers()[0]
		for name, err := range map[string]error{
			"propose in another term": second(lead.log.Propose(ctx, term+1, newTopic("x"))),
			"propose in term 0":       second(lead.log.Propose(ctx, 0, newTopic("x"))),
			"propose to a follower":   second(follower.log.Propose(ctx, term, newTopic("x"))),
			"barrier in another term": second(lead.log.Barrier(ctx, term+1)),
			"barrier on a follower":   second(follower.log.Barrier(ctx, term)),
		} {
			if !errors.Is(err, kafkaerr.NotController) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// A node that is alone with the majority gone notices, and says that it leads no more.
func TestLeaderWithoutQuorumSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		lead := c.leader()
		for _, n := range c.followers() {
			n.stop()
		}
		c.eventually("it says so", func() bool { return lead.ready.Load() == 0 })
		if _, err := lead.propose("x"); !errors.Is(err, kafkaerr.NotController) {
			t.Errorf("proposal: %v", err)
		}
		for _, n := range c.nodes {
			if n.log == nil {
				n.start()
			}
		}
		c.leader().mustPropose("y")
		c.wantConverged()
	})
}
