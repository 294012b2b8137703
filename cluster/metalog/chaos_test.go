package metalog

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// TestChaos lets a client create topics through whoever leads while nodes are cut off one
// way or both, killed, and lose power, several at once at times. At the end everything
// heals: each acknowledged topic is on all nodes, and all nodes have had equal images at
// each index (T22, ImagesEqualAtOffset). Not replayed exactly from its seed; a failure
// prints the seed and the history of faults.
func TestChaos(t *testing.T) {
	for seed := range chaosSeeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaos(t, seed) })
		})
	}
}

func chaos(t *testing.T, seed uint64) {
	c := newClusterTimed(t, 3, hasty(), func(c *raft.Config) {
		// Beyond maxInFlight, as in service, but soon reached.
		c.TrailingLogs, c.SnapshotThreshold, c.SnapshotInterval = 300, 100, 500*time.Millisecond
	})
	defer c.close()
	c.leader()
	f := &faults{c: c, rand: rand.New(rand.NewPCG(seed, 1))}
	client := &client{f: f, stop: make(chan struct{}), done: make(chan struct{})}
	go client.run()
	for range 40 {
		f.step()
		<-time.After(time.Duration(f.rand.IntN(700)) * time.Millisecond)
	}
	f.heal()
	c.leader()
	close(client.stop)
	<-client.done
	c.wantConverged()
	for _, n := range c.nodes {
		for _, name := range client.acked {
			if !n.has(name) {
				t.Fatalf("seed %d: node %d has no %s, which was acknowledged; faults:\n%s", seed, n.id, name, f.history)
			}
		}
	}
	if len(client.acked) < 20 {
		t.Errorf("seed %d: only %d proposals were acknowledged", seed, len(client.acked))
	}
	t.Logf("%d acknowledged, %d failed or unknown", len(client.acked), client.failed)
}

// faults changes what is wrong with a cluster, one step at a time. Its lock guards the
// nodes' logs, which come and go.
type faults struct {
	c       *cluster
	rand    *rand.Rand
	mu      sync.Mutex
	history string
}

func (f *faults) note(format string, args ...any) {
	f.history += fmt.Sprintf(format+"\n", args...)
}

func (f *faults) node() *node { return f.c.nodes[f.rand.IntN(len(f.c.nodes))] }

func (f *faults) step() {
	a, b := f.node(), f.node()
	switch f.rand.IntN(8) {
	case 0:
		f.note("isolate %d", a.id)
		f.c.net.Isolate(a.host())
	case 1:
		f.note("cut %d -> %d", a.id, b.id)
		f.c.net.Cut(a.host(), b.host())
	case 2, 3:
		f.note("heal the network")
		f.c.net.HealAll()
	case 4:
		f.note("kill %d", a.id)
		f.crash(a, a.disk.Kill)
	case 5:
		f.note("cut the power of %d", a.id)
		f.crash(a, a.disk.PowerCut)
	case 6, 7:
		f.note("start all")
		f.startAll()
	}
}

// crash ends a node as a process ends: its disk and its connections are gone first.
func (f *faults) crash(n *node, how func()) {
	f.mu.Lock()
	log, stopped := n.log, n.stopped
	n.log = nil
	f.mu.Unlock()
	if log == nil {
		return
	}
	how()
	f.c.net.Crash(n.host())
	close(stopped)
	_ = log.Close() // of a dead process
	n.ready.Store(0)
}

func (f *faults) startAll() {
	for _, n := range f.c.nodes {
		f.mu.Lock()
		if n.log == nil {
			n.start()
		}
		f.mu.Unlock()
	}
}

func (f *faults) heal() {
	f.c.net.HealAll()
	f.startAll()
}

// client proposes one topic after another to whoever seems to lead.
type client struct {
	f          *faults
	stop, done chan struct{}
	acked      []string
	failed     int
}

func (k *client) run() {
	defer close(k.done)
	for i := 0; ; i++ {
		select {
		case <-k.stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
		if n, log := k.leader(); log != nil {
			k.propose(n, log, fmt.Sprint("t", i))
		}
	}
}

func (k *client) leader() (*node, *Log) {
	k.f.mu.Lock()
	defer k.f.mu.Unlock()
	for _, n := range k.f.c.nodes {
		if n.log != nil && n.ready.Load() > 0 {
			return n, n.log
		}
	}
	return nil, nil
}

// propose waits for the outcome for as long as it takes: Raft knows in the end.
func (k *client) propose(n *node, log *Log, name string) {
	if err := create(log, n.ready.Load(), name); err != nil {
		k.failed++
		// A failed proposal asks for a barrier; the next leadership brings one, or this does.
		if now := log.raft.CurrentTerm(); n.ready.Load() == now {
			_, _ = log.Barrier(k.f.c.t.Context(), now)
		}
		return
	}
	k.acked = append(k.acked, name)
}
