package metalog

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// stoppedOptions say where the log of a node is that is down, and who the node is.
func (n *node) stoppedOptions(fsys vfs.FS) Options {
	n.logs++
	return Options{NodeID: n.id, IDs: bytes.NewReader(n.newID()), Address: n.address(), Stream: n.c.named(), Dir: "/metadata", FS: fsys, Stores: FileStores}
}

// named is a stream layer that is there, as far as addresses go.
func (c *cluster) named() StreamLayer { return doorStream{} }

// restored gives what a log begins with that is restored from an image.
func restored(t *testing.T, image *metadata.Image) metadata.Snapshot {
	t.Helper()
	s, err := metadata.Backup{Image: image}.Restored(time.Time{}, rand.NewChaCha8([32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (n *node) restore(image *metadata.Image) {
	n.c.t.Helper()
	if err := Restore(n.stoppedOptions(n.disk.Process()), restored(n.c.t, image)); err != nil {
		n.c.t.Fatal(err)
	}
}

// backedUp runs a cluster, takes a backup of it, and stops it some time later.
func (c *cluster) backedUp() *metadata.Image {
	c.t.Helper()
	for _, n := range c.nodes {
		n.start()
	}
	c.leader().mustPropose("before")
	c.wantConverged()
	image := c.nodes[0].log.Image()
	c.leader().mustPropose("later")
	c.wantConverged()
	for _, n := range c.nodes {
		n.stop()
	}
	return image
}

// Whichever voter the backup is restored on, it leads a log of its own, in a higher term, takes
// in the others, whose logs are gone, and goes on with what was in the backup.
func TestRestore(t *testing.T) {
	for i := range 3 {
		formationTest(t, 3, 3, func(c *cluster) {
			image := c.backedUp()
			first := c.nodes[i]
			for _, n := range c.nodes {
				n.loseLog()
			}
			first.restore(image)
			first.start()
			if lead := c.leader(); lead != first || lead.ready.Load() <= image.Position().Term {
				t.Errorf("node %d leads in term %d", lead.id, lead.ready.Load())
			}
			first.mustPropose("alone")
			for _, n := range c.nodes {
				if n != first {
					n.start()
				}
			}
			c.eventually("all are voters", func() bool { return len(first.log.voters()) == 3 })
			c.wantConverged()
			for _, n := range c.nodes {
				if !n.has("before") || !n.has("alone") || n.has("later") || n.log.Lineage() != first.log.Lineage() || n.log.Lineage().IsZero() {
					t.Errorf("node %d: %v", n.id, n.log.Image().Position())
				}
			}
			first.stop()
			c.leader(first).mustPropose("without it")
			first.start()
			c.wantConverged()
		})
	}
}

// A voter of the lost log is not taken over: it may be one of a majority that lives, and then
// they go on as what they were. When its log is out of the way it is let in.
func TestRestoreLeavesOldVotersAlone(t *testing.T) {
	formationTest(t, 3, 3, func(c *cluster) {
		image := c.backedUp()
		first, second, third := c.nodes[0], c.nodes[1], c.nodes[2]
		first.loseLog()
		first.restore(image)
		for _, n := range c.nodes {
			n.start()
		}
		lead := c.leader(first)
		lead.mustPropose("of those that live")
		first.mustPropose("of the one that was restored")
		c.eventually("both of the old ones have it", func() bool { return second.has("of those that live") && third.has("of those that live") })
		if second.has("of the one that was restored") || third.has("of the one that was restored") || len(first.log.voters()) != 1 {
			t.Error("old voters have been taken over")
		}
		if _, err := first.log.foundAt(c.t.Context(), Peer{second.id, second.address()}, first.door.Probe); !errors.Is(err, errLineage) {
			t.Errorf("the old voter is refused with %v", err)
		}
		for _, n := range []*node{second, third} {
			n.stop()
			n.loseLog()
			n.start()
		}
		c.eventually("all are voters", func() bool { return len(first.log.voters()) == 3 })
		c.wantConverged()
	})
}

// An observer that runs while metadata is restored ends, and tells why: it has acted on what is
// no more. When it starts again its copy is replaced.
func TestRestoreEndsObservers(t *testing.T) {
	formationTest(t, 4, 3, func(c *cluster) {
		observer := c.nodes[3]
		c.observers.Store(&[]Peer{{observer.id, observer.address()}})
		for _, n := range c.nodes {
			n.start()
		}
		c.leader().mustPropose("before")
		c.eventually("the observer has it", func() bool { return observer.has("before") })
		image := observer.log.Image()
		c.leader().mustPropose("later")
		c.eventually("the observer has it", func() bool { return observer.has("later") })
		for _, n := range c.nodes[:3] {
			n.stop()
			n.loseLog()
		}
		c.nodes[0].restore(image)
		for _, n := range c.nodes[:3] {
			n.start()
		}
		select {
		case err := <-observer.fatal:
			if !strings.Contains(err.Error(), "restored from a backup") {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("it goes on")
		}
		if !observer.has("later") {
			t.Error("it has gone back while it ran")
		}
		observer.stop()
		observer.startPublishingAt = c.leader().log.Image().Position()
		observer.start()
		c.eventually("it has what was restored", func() bool { return observer.has("before") && !observer.has("later") })
		c.leader().mustPropose("after")
		c.eventually("the observer has it", func() bool { return observer.has("after") })
	})
}

// Nothing is restored on top of a log. One that a start has made, and that never had an entry,
// is none, and neither is what an earlier attempt has left.
func TestRestoreIntoEmptyDirectoriesOnly(t *testing.T) {
	formationTest(t, 1, 1, func(c *cluster) {
		image := c.backedUp()
		n := c.nodes[0]
		var full *NotEmptyError
		if err := Restore(n.stoppedOptions(n.disk.Process()), restored(t, image)); !errors.As(err, &full) || full.Dir != "/metadata" {
			t.Fatalf("on top of a log: %v", err)
		}
		n.start()
		c.leader().mustPropose("still there")
		n.stop()

		n.loseLog()
		l, err := openStopped(withDefaults(n.stoppedOptions(n.disk.Process())))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.store.Store.Close(); err != nil {
			t.Fatal(err)
		}
		n.restore(image)
		n.start()
		c.leader().mustPropose("after")
	})
}

func withDefaults(o Options) Options {
	o.setDefaults()
	return o
}

// A restore that is cut off anywhere leaves no log that a node could start with, or all of it;
// it can be done again.
func TestRestoreCutOff(t *testing.T) {
	formationTest(t, 1, 1, func(c *cluster) {
		image := c.backedUp()
		n := c.nodes[0]
		for broken := 1; ; broken++ {
			n.loseLog()
			calls := 0
			failing := hookfs.Wrap(n.disk.Process(), true, func(call *hookfs.Call) error {
				if call.Op == hookfs.Read || call.Op == hookfs.Close {
					return nil
				}
				if calls++; calls >= broken {
					return syscall.EIO
				}
				return nil
			})
			err := Restore(n.stoppedOptions(failing), restored(t, image))
			if err == nil && calls < broken {
				break
			}
			n.disk.PowerCut()
			s, readErr := ReadStopped(n.stoppedOptions(n.disk.Process()))
			var full *NotEmptyError
			again := Restore(n.stoppedOptions(n.disk.Process()), restored(t, image))
			switch whole := readErr == nil && s.Image.Topic("before") != nil; {
			case whole && !errors.As(again, &full), !whole && again != nil:
				t.Fatalf("call %d fails with %v: %v is left; again: %v", broken, err, readErr, again)
			}
		}
		n.start()
		c.leader().mustPropose("after")
	})
}

// What a stopped node has on its disk is what it had when it ran, whether in a snapshot or in
// entries after it.
func TestReadStopped(t *testing.T) {
	for name, tune := range map[string]func(*raft.Config){
		"entries": nil,
		"snapshot": func(c *raft.Config) {
			c.SnapshotThreshold, c.SnapshotInterval, c.TrailingLogs = 4, 20*time.Millisecond, 2
		},
	} {
		t.Run(name, func(t *testing.T) {
			formationTest(t, 3, 3, func(c *cluster) {
				c.tune = tune
				for _, n := range c.nodes {
					n.start()
				}
				for _, topic := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"} {
					c.leader().mustPropose(topic)
					c.wantConverged()
					<-time.After(50 * time.Millisecond)
				}
				want := c.nodes[1].log.Image()
				n := c.nodes[1]
				n.stop()
				s, err := ReadStopped(n.stoppedOptions(n.disk.Process()))
				if err != nil {
					t.Fatal(err)
				}
				if taken, err := n.disk.ReadDir("/metadata/snapshots"); err != nil || (len(taken) > 0) != (name == "snapshot") {
					t.Errorf("%d snapshots, %v", len(taken), err)
				}
				if diff := metadata.DiffImages(want, s.Image); diff != "" {
					t.Error(diff)
				}
				if _, err := ReadStopped(Options{Dir: "/nothing", FS: n.disk.Process(), Stores: FileStores}); err == nil {
					t.Error("a log that is not there was read")
				}
				n.logs = 0
				n.start()
				c.wantConverged()
			})
		})
	}
}
