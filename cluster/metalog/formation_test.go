package metalog

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

// doorStream is a Door behind a listener of its own, on which every connection begins with
// a preface.
type doorStream struct {
	*Door
	ln net.Listener
}

func (d doorStream) Close() error {
	_ = d.ln.Close()
	return d.Door.Close()
}

func (n *node) serveDoor(ln net.Listener) StreamLayer {
	door := n.door
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go door.Take(conn)
		}
	}()
	return doorStream{door, ln}
}

// observersOf is who is registered, in tests: it changes while the nodes run.
type observersOf struct{ atomic.Pointer[[]Peer] }

func (o *observersOf) list() []Peer {
	if p := o.Load(); p != nil {
		return *p
	}
	return nil
}

// keep does what a broker does beside its log: it says who it is, forms the cluster and
// keeps its members.
func (n *node) keep(log *Log) {
	door := n.door
	door.Open(func() State {
		return State{NodeID: n.id, DirectoryID: log.DirectoryID(), ClusterID: log.Image().ClusterID(), Empty: log.Empty(), Lineage: log.Lineage(), Votes: log.Votes()}
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-log.closing
		cancel()
	}()
	peers, observers := n.c.peers, n.c.observers
	if bootstrap, controllers := n.c.bootstrap, n.c.controllers; bootstrap != nil {
		go func() {
			if err := log.FormAlone(ctx, bootstrap, door.Probe); err == nil {
				log.KeepMembers(ctx, Members{Controllers: controllers.list, Observers: observers.list, Probe: door.Probe})
			}
		}()
		return
	}
	go func() {
		if slices.ContainsFunc(peers, func(p Peer) bool { return p.NodeID == n.id }) {
			if err := log.Form(ctx, peers, door.Probe); err != nil {
				return
			}
			log.KeepMembers(ctx, Members{Voters: peers, Observers: observers.list, Probe: door.Probe})
		}
	}()
}

// formed makes n nodes that find each other, the first voters of them as voters.
func formed(t *testing.T, n, voters int) *cluster {
	c := &cluster{t: t, net: memnet.New(), doors: true, observers: &observersOf{}}
	for i := range n {
		c.nodes = append(c.nodes, &node{
			c: c, id: int32(i + 1), disk: vfs.NewCrash(rand.NewPCG(1, uint64(i))), images: map[uint64]*metadata.Image{},
		})
	}
	for _, n := range c.nodes[:voters] {
		c.peers = append(c.peers, Peer{n.id, n.address()})
	}
	return c
}

// configured are the voters where the configuration names them.
func (c *cluster) configured() []Peer {
	if c.doors && c.bootstrap == nil {
		return slices.Clone(c.peers)
	}
	return nil
}

func (n *node) replaceDisk() {
	n.wipe++
	n.lost = n.disk
	n.disk = vfs.NewCrash(rand.NewPCG(2, uint64(n.id)))
}

// loseLog takes the log away from a disk that stays.
func (n *node) loseLog() {
	n.logs++
	n.disk = vfs.NewCrash(rand.NewPCG(3, uint64(n.id)))
}

// servers are those that a node's log names, as node id/directory id, observers in
// parentheses.
func (n *node) members() string {
	var list []string
	for _, s := range n.log.servers() {
		text := string(s.ID)
		if s.Suffrage != raft.Voter {
			text = "(" + text + ")"
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func (n *node) identity() string { return string(serverID(n.log.self())) }

func formationTest(t *testing.T, nodes, voters int, test func(c *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		c := formed(t, nodes, voters)
		defer c.close()
		test(c)
	})
}

// Three empty voters become one cluster, in whatever order they start; two of them alone
// are none, however long they wait.
func TestEmptyVotersFormACluster(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		formationTest(t, 3, 3, func(c *cluster) {
			for _, i := range order[:2] {
				c.nodes[i].start()
			}
			<-time.After(time.Minute)
			for _, i := range order[:2] {
				if !c.nodes[i].log.Empty() {
					t.Errorf("node %d began a cluster without the others", i+1)
				}
			}
			begin := time.Now()
			c.nodes[order[2]].start()
			c.leader().mustPropose("t")
			c.wantConverged()
			if took := time.Since(begin); took > time.Second {
				t.Errorf("the cluster took %v", took)
			}
		})
	}
}

// lossTest takes everything, or only the log, from a node that is stopped.
func lossTest(t *testing.T, test func(t *testing.T, lose func(*node))) {
	t.Run("disk", func(t *testing.T) { test(t, (*node).replaceDisk) })
	t.Run("log", func(t *testing.T) { test(t, (*node).loseLog) })
}

// One that has lost its disk, or the log on it, be it the smallest, is not taken for a new
// cluster: the old one goes on and takes it in as another member. Its old self cannot come
// back.
func TestWipedVoterIsReplaced(t *testing.T) {
	lossTest(t, func(t *testing.T, lose func(*node)) {
		for wiped := range 3 {
			formationTest(t, 3, 3, func(c *cluster) {
				for _, n := range c.nodes {
					n.start()
				}
				c.leader().mustPropose("before")
				c.wantConverged()
				n := c.nodes[wiped]
				old := n.identity()
				n.stop()
				c.leader().mustPropose("meanwhile")
				lose(n)
				n.start()
				replacement := n.identity()
				n.stop() // it stays who it is from now on
				n.start()
				c.eventually("the new disk is a member", func() bool {
					members := c.leader().members()
					return strings.Contains(members, n.identity()) && !strings.Contains(members, old)
				})
				c.leader().mustPropose("after")
				c.wantConverged()
				if !n.has("before") || !n.has("after") {
					t.Error("the new disk has not all topics")
				}
				n.stop()
				n.start()
				if n.identity() != replacement {
					t.Errorf("it was %s, and is %s", replacement, n.identity())
				}
				c.leader().mustPropose("restarted")
				c.wantConverged()
			})
		}
	})
}

// Two of three disks are lost at once: what is left is no quorum, and nobody founds another
// cluster. (With the smallest among the wiped ones, that one would have to.)
func TestTwoWipedVotersDoNotBeginAnew(t *testing.T) {
	formationTest(t, 3, 3, func(c *cluster) {
		for _, n := range c.nodes {
			n.start()
		}
		c.leader().mustPropose("before")
		c.wantConverged()
		for _, n := range c.nodes[:2] {
			n.stop()
			n.replaceDisk()
		}
		for _, n := range c.nodes[:2] {
			n.start()
		}
		<-time.After(time.Minute)
		for _, n := range c.nodes {
			if n.ready.Load() != 0 && n.log.raft.State() == raft.Leader {
				t.Errorf("node %d leads", n.id)
			}
		}
		if !c.nodes[2].has("before") || !c.nodes[0].log.Empty() {
			t.Error("the metadata that is left is not what it was")
		}
	})
}

// A wiped voter has forgotten whom it voted for. It gives nobody a vote that is meant for the
// one it was.
func TestWipedVoterDoesNotVote(t *testing.T) {
	lossTest(t, func(t *testing.T, lose func(*node)) {
		formationTest(t, 3, 3, func(c *cluster) {
			for _, n := range c.nodes {
				n.start()
			}
			c.leader().mustPropose("before")
			c.wantConverged()
			c.nodes[2].stop()
			lead := c.leader(c.nodes[2])
			other := c.nodes[0]
			if lead == other {
				other = c.nodes[1]
			}
			lead.stop() // the others have no quorum now
			lose(c.nodes[2])
			c.nodes[2].start()
			<-time.After(time.Minute)
			if other.log.raft.State() == raft.Leader {
				t.Error("a leader has the vote of a disk that was wiped")
			}
		})
	})
}

// Brokers that are registered get the log without a vote, and are dropped when they are not
// any more.
func TestObservers(t *testing.T) {
	formationTest(t, 4, 3, func(c *cluster) {
		for _, n := range c.nodes {
			n.start()
		}
		observer := c.nodes[3]
		c.leader().mustPropose("before")
		c.observers.Store(&[]Peer{{observer.id, observer.address()}})
		c.eventually("the observer has the topic", func() bool { return observer.has("before") })
		if members := c.leader().members(); !strings.Contains(members, "("+observer.identity()+")") {
			t.Errorf("members %s", members)
		}
		old := observer.identity()
		observer.stop()
		observer.replaceDisk()
		observer.start()
		c.eventually("its new disk has the topic", func() bool { return observer.has("before") })
		c.observers.Store(&[]Peer{})
		c.eventually("it is no member any more", func() bool {
			members := c.leader().members()
			return !strings.Contains(members, old) && !strings.Contains(members, observer.identity())
		})
	})
}

// A node of another cluster at a member's address is not taken in.
func TestForeignNodeIsRefused(t *testing.T) {
	formationTest(t, 2, 1, func(c *cluster) {
		c.nodes[0].start()
		c.leader().mustPropose("t")
		foreign := c.nodes[1]
		foreign.start()
		foreign.door.Open(func() State {
			return State{NodeID: foreign.id, DirectoryID: foreign.voter().DirectoryID, ClusterID: "another"}
		})
		c.observers.Store(&[]Peer{{foreign.id, foreign.address()}})
		<-time.After(time.Minute)
		if members := c.leader().members(); members != c.nodes[0].identity() {
			t.Errorf("members %s", members)
		}
		if foreign.has("t") {
			t.Error("it has got metadata")
		}
	})
}

// TestVotersThatMoveTogether are found where they are configured to be: nobody leads who could
// note that one has moved.
func TestVotersThatMoveTogether(t *testing.T) {
	formationTest(t, 3, 3, func(c *cluster) {
		for _, n := range c.nodes {
			n.start()
		}
		c.leader().mustPropose("before")
		c.wantConverged()
		for i, n := range c.nodes {
			n.stop()
			n.moved++
			c.peers[i].Address = n.address()
		}
		for _, n := range c.nodes {
			n.start()
		}
		c.leader().mustPropose("after")
		c.wantConverged()
		// One of them again: the others seek it in vain where they believe it to be.
		c.nodes[0].stop()
		c.nodes[0].moved++
		c.peers[0].Address = c.nodes[0].address()
		c.nodes[0].start()
		c.leader().mustPropose("again")
		c.wantConverged()
	})
}
