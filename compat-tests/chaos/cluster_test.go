package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

// TestThreeBrokersUnderFaults runs for MINUTES (3) with the faults of a SEED.
func TestThreeBrokersUnderFaults(t *testing.T) {
	kinds, seed := chosenFaults(t), seed(t)
	r := startCluster(t, kinds, seed, map[string]string{"min.insync.replicas": "2"}, nil, chosen(t))
	begin := time.Now()
	for end := begin.Add(time.Duration(number(t, "MINUTES", 3)) * time.Minute); time.Now().Before(end); {
		r.strike(r.schedule.next())
	}
	r.load.stopProducers()
	r.load.awaitReaders()
	r.awaitWhole()
	all, faults := r.load.judge()
	for _, m := range r.load.members {
		m.end(syscall.SIGTERM)
	}
	for _, n := range r.nodes {
		r.stop(n)
	}
	differences, compared := r.replicas(all)
	r.load.report(append(append(faults, differences...), r.unsoundness()...))
	t.Logf("seed %d: %d replicas compared\n%s", seed, compared, tables(r.producers(), r.costs))
	harness.Evidence(t, "commit=%s seed=%d faults=%d replicas=%d %s duration=%s result=%s", harness.Commit(), seed, len(r.costs), compared,
		r.load.counts(), time.Since(begin).Round(time.Second), result(t))
}

// seed is SEED, or one that nobody has chosen.
func seed(t testing.TB) uint64 {
	t.Helper()
	chosen := rand.Uint64() >> 1
	if text := os.Getenv("SEED"); text != "" {
		var err error
		if chosen, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("SEED=%s is not a number", text)
		}
	}
	t.Logf("seed %d", chosen)
	return chosen
}

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
	r := &clusterRun{schedule: newSchedule(seed, faults)}
	r.cluster = newCluster(t, r.schedule.has("disk"))
	r.start(r.nodes...)
	r.watcher = newWatcher(r.cluster)
	r.watcher.passDoors()
	r.load = startLoad(t, loadOptions{
		bootstrap: r.bootstrap(), kinds: clients, replication: nodes, topic: topic, dial: r.dial, producer: producer, watched: true,
	})
	return r
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
