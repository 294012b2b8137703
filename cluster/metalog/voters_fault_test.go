package metalog

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// observe makes others observers of the log and waits until they have it.
func (c *cluster) observe(others ...*node) {
	c.t.Helper()
	var list []Peer
	for _, n := range others {
		list = append(list, Peer{n.id, n.address()})
	}
	c.controllers.Store(&list)
	lead := c.leader()
	lead.mustPropose("observed")
	for _, n := range others {
		c.eventually("it observes", func() bool { return n.has("observed") })
	}
}

// A voter votes for one that it does not know to be one: what made it one is in the log that
// the other one has, and not here.
func TestVoterThatMissedAnotherOneVotesForIt(t *testing.T) {
	votersTest(t, 3, func(c *cluster) {
		one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
		if err := one.add(two); err != nil {
			t.Fatal(err)
		}
		c.observe(two, three)
		c.net.Cut(one.host(), two.host())
		if err := one.add(three); err != nil {
			t.Fatal(err)
		}
		one.mustPropose("by one and three")
		one.kill()
		c.net.Heal(one.host(), two.host())
		c.leader(one) // three, unless what was on its way to two when one died has come after all
		c.eventually("all of it is there", func() bool { return two.has("by one and three") })
		one.start()
		c.wantConverged()
	})
}

// A leader hands over before it is taken out: else, if what takes it out reaches nobody, it
// may not stand for election any more, and nobody else can win.
func TestLeaderHandsOverBeforeItIsRemoved(t *testing.T) {
	votersTest(t, 2, func(c *cluster) {
		one, two := c.nodes[0], c.nodes[1]
		if err := one.add(two); err != nil {
			t.Fatal(err)
		}
		c.observe(one, two)
		err := one.remove(one)
		if !errors.Is(err, kafkaerr.NotLeaderOrFollower) {
			t.Errorf("the leader removes itself: %v", err)
		}
		c.wantMembers(one.identity(), two.identity())
		if lead := c.leader(); lead != two {
			t.Fatalf("node %d leads", lead.id)
		}
		if err := two.remove(one); err != nil {
			t.Fatal(err)
		}
		c.wantMembers(two.identity(), "("+one.identity()+")")
		if err := two.remove(two); !errors.Is(err, kafkaerr.VoterNotFound) {
			t.Errorf("the last voter is removed: %v", err)
		}
		two.mustPropose("after")
		c.wantConverged()
	})
}

// The last moment of the only other voter: the leader is not taken out, and leads on, or
// again.
func TestLeaderIsNotRemovedWhileTheOthersAreGone(t *testing.T) {
	votersTest(t, 2, func(c *cluster) {
		one, two := c.nodes[0], c.nodes[1]
		if err := one.add(two); err != nil {
			t.Fatal(err)
		}
		two.kill()
		if err := one.remove(one); err == nil {
			t.Error("the leader is removed although nobody else is there")
		}
		two.start()
		c.leader().mustPropose("after")
		c.wantConverged()
	})
}

// Who takes out a voter that lives, while another one is dead, would be left without a
// majority for good.
func TestVoterIsNotRemovedIfTheRestIsNoMajority(t *testing.T) {
	votersTest(t, 3, func(c *cluster) {
		one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
		for _, n := range []*node{two, three} {
			if err := one.add(n); err != nil {
				t.Fatal(err)
			}
		}
		lead := c.leader()
		others := c.followers()
		others[1].stop()
		c.eventually("it is known to be gone", func() bool { return lead.log.isSilent(serverID(others[1].voter())) })
		if err := lead.remove(others[0]); !errors.Is(err, kafkaerr.RequestTimedOut) {
			t.Errorf("the living voter is removed: %v", err)
		}
		lead.mustPropose("goes on")
		if err := lead.remove(others[1]); err != nil {
			t.Errorf("the dead one stays: %v", err)
		}
		lead.mustPropose("goes on, too")
	})
}

// Who was silent and is back under another membership is not silent any more.
func TestSilenceEndsWithTheNextAnswer(t *testing.T) {
	votersTest(t, 2, func(c *cluster) {
		one, two := c.nodes[0], c.nodes[1]
		c.observe(two)
		two.stop()
		c.wantMembers(one.identity())
		two.start()
		c.wantMembers(one.identity(), "("+two.identity()+")")
		c.eventually("nobody is silent", func() bool { return one.log.silentMembers() == 0 })
	})
}

// A disk of another cluster does not become a voter, whoever names it.
func TestVoterOfAnotherClusterIsNotAdded(t *testing.T) {
	votersTest(t, 2, func(c *cluster) {
		one, two := c.nodes[0], c.nodes[1]
		foreign := func(context.Context, string) (State, error) {
			return State{NodeID: two.id, DirectoryID: two.voter().DirectoryID, ClusterID: "another"}, nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := one.log.AddVoter(ctx, two.voter(), foreign); !errors.Is(err, kafkaerr.RequestTimedOut) {
			t.Errorf("it is added: %v", err)
		}
		if servers := one.log.servers(); len(servers) != 1 {
			t.Errorf("members %v", servers)
		}
	})
}

// withNewDisk makes three voters of which one is stopped, with another disk than it had as
// old; lead leads.
func withNewDisk(t *testing.T, c *cluster) (lead, third *node, old Voter) {
	t.Helper()
	for _, n := range c.nodes[1:3] {
		if err := c.nodes[0].add(n); err != nil {
			t.Fatal(err)
		}
	}
	c.leader().mustPropose("t")
	c.wantConverged()
	lead, third = c.leader(), c.followers()[1]
	old = third.voter()
	third.stop()
	third.replaceDisk()
	return lead, third, old
}

// replacing is a cluster of three of which one comes back with another disk.
func replacing(t *testing.T, test func(c *cluster, lead, third *node, old Voter)) {
	votersTest(t, 3, func(c *cluster) {
		lead, third, old := withNewDisk(t, c)
		test(c, lead, third, old)
		c.wantMembers(c.nodes[0].identity(), c.nodes[1].identity(), c.nodes[2].identity())
		c.leader().mustPropose("after")
		c.wantConverged()
	})
}

// succeed notes, as the leader would, what is to become of a voter's new disk.
func (n *node) succeed(other *node) {
	n.c.t.Helper()
	v := other.voter()
	if err := n.log.addAt(v, n.log.successorAddress(v), raft.Nonvoter); err != nil {
		n.c.t.Fatal(err)
	}
}

// The leader goes away when it has noted the new disk of a voter: the next one takes the old
// one out and the new one in.
func TestReplacedVoterIsFinishedByTheNextLeader(t *testing.T) {
	replacing(t, func(c *cluster, lead, third *node, _ Voter) {
		lead.succeed(third)
		third.start()
		lead.kill()
		lead.start()
	})
}

// The leader goes away between taking the old disk of a voter out and the new one in.
func TestReplacedVoterIsNotForgotten(t *testing.T) {
	replacing(t, func(c *cluster, lead, third *node, old Voter) {
		third.start()
		lead.succeed(third)
		if err := lead.log.forget(old); err != nil {
			c.t.Fatal(err)
		}
		if voters := lead.log.voters(); len(voters) != 2 {
			c.t.Fatalf("voters %v", voters)
		}
		lead.kill()
		lead.start()
	})
}

// The new disk of a voter is replaced, too, before it counts.
func TestReplacedVoterIsReplacedAgain(t *testing.T) {
	replacing(t, func(c *cluster, lead, third *node, old Voter) {
		lead.succeed(third)
		if err := lead.log.forget(old); err != nil {
			c.t.Fatal(err)
		}
		third.replaceDisk()
		third.start()
	})
}

// The old disk of a voter is back before the new one has taken its place.
func TestReplacedVoterIsBack(t *testing.T) {
	replacing(t, func(c *cluster, lead, third *node, _ Voter) {
		lead.succeed(third)
		third.disk, third.wipe = third.lost, third.wipe-1
		third.start()
	})
}

// A voter is taken out while its new disk is about to take its place: it stays out.
func TestReplacedVoterIsRemoved(t *testing.T) {
	votersTest(t, 3, func(c *cluster) {
		lead, third, old := withNewDisk(t, c)
		lead.succeed(third)
		if err := lead.log.RemoveVoter(context.Background(), old); err != nil {
			t.Fatal(err)
		}
		third.start()
		c.eventually("it is in nothing", func() bool { return len(lead.log.servers()) == 2 })
		clock := time.NewTimer(5 * time.Second)
		<-clock.C
		if members := lead.members(); len(lead.log.servers()) != 2 {
			t.Errorf("members %s", members)
		}
	})
}

// A node that observed has another disk, and becomes a voter with that at once: what it was is
// forgotten, although a node of that id is registered.
func TestFormerObserverIsForgotten(t *testing.T) {
	votersTest(t, 2, func(c *cluster) {
		one, two := c.nodes[0], c.nodes[1]
		c.observers.Store(&[]Peer{{two.id, two.address()}})
		c.observe(two)
		two.stop()
		two.replaceDisk()
		two.start()
		if err := one.add(two); err != nil {
			t.Fatal(err)
		}
		c.leader().mustPropose("t")
		c.wantMembers(one.identity(), two.identity())
		c.leader().mustPropose("after")
		c.wantConverged()
	})
}

// A node observes, and nobody is registered as it, when it is found that it is to be removed. By
// then it votes.
func TestObserverThatVotesByNowStays(t *testing.T) {
	votersTest(t, 2, func(c *cluster) {
		one, two := c.nodes[0], c.nodes[1]
		if err := one.add(two); err != nil {
			t.Fatal(err)
		}
		if err := one.log.removeObserver(context.Background(), serverID(two.voter())); err != nil {
			t.Fatal(err)
		}
		if voters := one.log.voters(); len(voters) != 2 {
			t.Errorf("voters %v", voters)
		}
	})
}
