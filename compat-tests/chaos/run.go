package chaos

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"
)

// clusterRun is a cluster under load and faults.
type clusterRun struct {
	*cluster
	load     *load
	watcher  *watcher
	schedule *schedule
	costs    []cost
	unhealed bool // the last fault was hasty
}

func startCluster(t *testing.T, faults []*faultKind, seed uint64, topic map[string]string, producer []string, clients []kind) *clusterRun {
	t.Helper()
	r := prepareCluster(t, faults, seed)
	r.begin(t, topic, producer, clients)
	return r
}

func prepareCluster(t *testing.T, faults []*faultKind, seed uint64) *clusterRun {
	t.Helper()
	r := &clusterRun{schedule: newSchedule(seed, faults)}
	r.cluster = newCluster(t, r.schedule.has("disk"))
	return r
}

// begin starts nodes and clients.
func (r *clusterRun) begin(t *testing.T, topic map[string]string, producer []string, clients []kind) {
	t.Helper()
	r.start(r.nodes...)
	r.loadUp(t, topic, producer, clients)
}

// loadUp starts the clients of nodes that run.
func (r *clusterRun) loadUp(t *testing.T, topic map[string]string, producer []string, clients []kind) {
	t.Helper()
	r.watcher = newWatcher(r.cluster)
	r.watcher.passDoors()
	r.load = startLoad(t, loadOptions{
		bootstrap: r.bootstrap(), kinds: clients, replication: nodes, topic: topic, dial: r.dial, producer: producer, watched: true,
	})
}

// finish stops the load and the nodes, and judges. It returns how many replicas were compared.
func (r *clusterRun) finish() int {
	r.t.Helper()
	r.load.stopProducers()
	r.load.awaitReaders()
	r.awaitWhole()
	all, faults := r.load.judge()
	for _, m := range r.load.members {
		m.end(syscall.SIGTERM)
	}
	placement := r.watcher.placement()
	for _, n := range r.nodes {
		r.stop(n)
	}
	differences, compared := r.replicas(all, placement)
	r.load.report(append(append(faults, differences...), r.unsoundness()...))
	r.t.Log(tables(r.producers(), r.costs))
	return compared
}

func (r *clusterRun) producers() (names []string) {
	for _, k := range r.load.kinds {
		names = append(names, k.name)
	}
	return names
}

// strike lets a fault happen, waits until everybody has gone on, and notes what it cost.
func (r *clusterRun) strike(s strike) {
	r.t.Helper()
	if r.unhealed && s.kind.name == "damage" {
		r.awaitWhole() // it must not be the last good copy
	}
	r.load.t.Logf("%s", s)
	c := cost{strike: s, controller: r.watcher.controller() == s.node, unhealed: r.unhealed}
	givenUp := r.load.total(func(h *history) int { return h.failed })
	r.lap()
	over := make(chan struct{})
	var watching sync.WaitGroup
	if r.watcher.leads(s.node, s.other) > 0 {
		watching.Go(func() { c.moved = r.watcher.awaitMoved(s.node, over) })
	}
	s.kind.begin(r.cluster, s)
	r.load.wait(s.lasts)
	close(over)
	watching.Wait()
	s.kind.end(r.cluster, s)
	since := time.Now()
	var ill error
	if !s.hasty {
		watching.Go(func() { c.whole, ill = r.watcher.awaitWhole(healBound) })
	}
	r.load.wait(settle)
	r.load.goOn(fmt.Sprintf("going on after fault %d", s.number), since, bound)
	watching.Wait()
	if ill != nil {
		r.t.Fatal(ill)
	}
	c.gaps, c.ofOne = r.lap()
	r.costs = append(r.costs, c)
	r.t.Log(c.line(r.producers()))
	if n := r.load.total(func(h *history) int { return h.failed }) - givenUp; n > 0 {
		r.t.Logf("%d records were given up", n)
	}
	if bad := r.unsoundness(); len(bad) > 0 {
		r.t.Fatal(bad)
	}
	if r.unhealed = s.hasty; !s.hasty {
		r.load.electPreferred() // a node that leads nothing is hit by nothing
	}
}

func (r *clusterRun) awaitWhole() {
	r.t.Helper()
	if _, err := r.watcher.awaitWhole(healBound); err != nil {
		r.t.Fatal(err)
	}
}

// lap tells the longest silences of each producer since the lap before, in all and of one
// partition.
func (r *clusterRun) lap() (gaps, ofOne []time.Duration) {
	now := time.Now()
	for _, h := range r.load.histories {
		gap, one := h.lap(now)
		gaps, ofOne = append(gaps, gap), append(ofOne, one)
	}
	return gaps, ofOne
}
