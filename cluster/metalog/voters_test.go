package metalog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// votersTest makes nodes that know the first one's address, and nothing of each other.
func votersTest(t *testing.T, nodes int, test func(c *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		c := formed(t, nodes, 0)
		c.bootstrap, c.controllers = []string{c.nodes[0].address()}, &observersOf{}
		defer c.close()
		for _, n := range c.nodes {
			n.start()
		}
		c.eventually("the first node is a cluster", func() bool { return c.nodes[0].has("") || c.nodes[0].ready.Load() != 0 })
		test(c)
	})
}

func (n *node) add(other *node) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return n.log.AddVoter(ctx, other.voter(), n.door.Probe)
}

func (n *node) remove(other *node) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return n.log.RemoveVoter(ctx, other.voter())
}

func (c *cluster) wantMembers(want ...string) {
	c.t.Helper()
	slices.Sort(want)
	text := strings.Join(want, " ")
	c.eventually("the members are "+text, func() bool { return c.leader().members() == text })
}

// A cluster of one becomes one of three while it takes proposals, survives the loss of its
// first node, and becomes one of one again, led by another.
func TestVotersFromOneToThreeAndBack(t *testing.T) {
	votersTest(t, 3, func(c *cluster) {
		one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
		alone := c.leader().mustPropose("alone")
		if !two.log.Empty() {
			t.Fatal("the second node is something before it is added")
		}
		for _, n := range []*node{two, three} {
			if err := one.add(n); err != nil {
				t.Fatal(err)
			}
			if n.log.raft.LastIndex() < alone.Index {
				t.Errorf("node %d counts before it has the log", n.id)
			}
			c.leader().mustPropose("with-" + n.host())
		}
		c.wantConverged()
		one.stop()
		lead := c.leader(one)
		lead.mustPropose("without the first")
		one.start()
		c.wantConverged()

		survivor := one
		if c.leader() == one {
			survivor = two
		}
		for _, n := range c.nodes {
			if n == survivor || n == c.leader() {
				continue
			}
			if err := c.leader().remove(n); err != nil {
				t.Fatal(err)
			}
		}
		if lead := c.leader(); lead != survivor {
			if err := lead.remove(lead); !errors.Is(err, kafkaerr.NotLeaderOrFollower) {
				t.Fatalf("the leader removes itself: %v", err)
			}
			if err := c.leader(lead).remove(lead); err != nil {
				t.Fatal(err)
			}
		}
		c.eventually("the last voter leads", func() bool { return survivor.log.raft.State() == raft.Leader && survivor.ready.Load() != 0 })
		if voters := survivor.log.voters(); len(voters) != 1 {
			t.Errorf("voters %v", voters)
		}
		survivor.mustPropose("alone again")
	})
}

// What is refused, and as what.
func TestVotersRefused(t *testing.T) {
	votersTest(t, 3, func(c *cluster) {
		one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
		if err := one.add(two); err != nil {
			t.Fatal(err)
		}
		lead, follower := c.leader(), one
		if lead == one {
			follower = two
		}
		if err := lead.add(two); !errors.Is(err, kafkaerr.DuplicateVoter) {
			t.Errorf("a voter is added again: %v", err)
		}
		if err := follower.add(three); !errors.Is(err, kafkaerr.NotLeaderOrFollower) {
			t.Errorf("a follower adds a voter: %v", err)
		}
		if err := lead.remove(three); !errors.Is(err, kafkaerr.VoterNotFound) {
			t.Errorf("a stranger is removed: %v", err)
		}
		stranger := three.voter()
		stranger.DirectoryID = uuid.UUID{1}
		if err := lead.log.AddVoter(context.Background(), stranger, lead.door.Probe); !errors.Is(err, kafkaerr.RequestTimedOut) {
			t.Errorf("another disk is added: %v", err)
		}
		three.stop()
		if err := lead.add(three); !errors.Is(err, kafkaerr.RequestTimedOut) {
			t.Errorf("a node that is down is added: %v", err)
		}
		if members := lead.members(); members != one.identity()+" "+two.identity() {
			t.Errorf("members %s", members)
		}
	})
}

// The disk of a dead voter is replaced: by the leader where the node comes back under its
// address, or by removing and adding it.
func TestVoterIsReplaced(t *testing.T) {
	votersTest(t, 3, func(c *cluster) {
		one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
		for _, n := range []*node{two, three} {
			if err := one.add(n); err != nil {
				t.Fatal(err)
			}
		}
		three.stop()
		three.replaceDisk()
		three.start()
		c.wantMembers(one.identity(), two.identity(), three.identity())

		lead := c.leader()
		dead := one
		if lead == one {
			dead = two
		}
		dead.stop()
		if err := lead.remove(dead); err != nil {
			t.Fatal(err)
		}
		dead.replaceDisk()
		dead.start()
		if err := c.leader().add(dead); err != nil {
			t.Fatal(err)
		}
		c.leader().mustPropose("after")
		c.wantConverged()
	})
}

// A controller that is registered has the log before it is a voter; one that is gone is
// forgotten, and comes back.
func TestRegisteredControllersObserve(t *testing.T) {
	votersTest(t, 2, func(c *cluster) {
		one, two := c.nodes[0], c.nodes[1]
		c.controllers.Store(&[]Peer{{two.id, two.address()}})
		c.leader().mustPropose("t")
		c.wantMembers(one.identity(), "("+two.identity()+")")
		two.stop()
		c.wantMembers(one.identity())
		two.start()
		c.wantMembers(one.identity(), "("+two.identity()+")")
		if err := one.add(two); err != nil {
			t.Fatal(err)
		}
		c.wantMembers(one.identity(), two.identity())
		if err := one.remove(two); err != nil {
			t.Fatal(err)
		}
		c.wantMembers(one.identity(), "("+two.identity()+")")
	})
}

// A voter that has registered another address is reached there from then on, if it is there.
func TestVoterMoves(t *testing.T) {
	votersTest(t, 2, func(c *cluster) {
		one, two := c.nodes[0], c.nodes[1]
		if err := one.add(two); err != nil {
			t.Fatal(err)
		}
		nowhere, moved, stranger := two.voter(), two.voter(), two.voter()
		nowhere.Address, moved.Address, stranger.DirectoryID = two.host()+":1", two.host()+":9094", uuid.UUID{1}
		if err := one.log.UpdateVoter(context.Background(), nowhere, one.door.Probe); !errors.Is(err, kafkaerr.RequestTimedOut) {
			t.Errorf("it moves to where it is not: %v", err)
		}
		if err := one.log.UpdateVoter(context.Background(), stranger, one.door.Probe); !errors.Is(err, kafkaerr.VoterNotFound) {
			t.Errorf("a stranger moves: %v", err)
		}
		ln, err := c.net.Host(two.host()).Listen("tcp", moved.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		two.serveDoor(ln)
		c.controllers.Store(&[]Peer{{two.id, moved.Address}})
		c.eventually("the move is noted", func() bool {
			return slices.Contains(one.log.voters(), moved)
		})
		c.leader().mustPropose("after")
		c.wantConverged()
	})
}
