package simtest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/broker/simtest/evidence"
)

// Options describe the runs of a scenario.
type Options struct {
	// Seeds is how many runs there are, with seeds from 1 on. The environment variables
	// KLAMM_SEEDS and KLAMM_FIRST give others, and KLAMM_SEED=n runs that seed alone.
	Seeds int
	// Brokers is how many there are; 1 if 0. Several are controllers as well.
	Brokers int
	// Growing has the first broker found the cluster alone; the others vote when Grow lets them.
	Growing bool
	// Settings of each broker, each key=value.
	Settings []string
	// SyncTime is the longest that a sync of the disk takes; 5 ms if 0.
	SyncTime time.Duration
	// Limit is the virtual time in which a run must end; an hour if 0.
	Limit time.Duration
	// KillsOnly leaves the power on and the disk whole.
	KillsOnly bool
	// Break is a way in which the broker is broken on purpose.
	Break Break
}

func (o Options) withDefaults() Options {
	if o.SyncTime == 0 {
		o.SyncTime = 5 * time.Millisecond
	}
	if o.Limit == 0 {
		o.Limit = time.Hour
	}
	return o
}

// tier is what evidence calls these runs.
func (o Options) tier() string {
	if o.Brokers > 1 {
		return "real-cluster"
	}
	return "real"
}

// Report is what a run came to.
type Report struct {
	Seed       uint64
	Violations []string // none in a good run
	Trace      []string // schedule and history
	Faults     int      // lives that ended by a fault
	Acked      int      // records that were acknowledged
}

// traceLines is how much of a failing run is printed: its end.
const traceLines = 300

// String is what a failing run prints.
func (r *Report) String() string {
	trace := r.Trace
	if len(trace) > traceLines {
		trace = append([]string{fmt.Sprintf("… %d lines before", len(trace)-traceLines)}, trace[len(trace)-traceLines:]...)
	}
	return fmt.Sprintf("seed %d: %d faults, %d records acknowledged\n%s\nschedule and history:\n%s",
		r.Seed, r.Faults, r.Acked, strings.Join(r.Violations, "\n"), strings.Join(trace, "\n"))
}

// Run plays a scenario with every seed. A violation fails the test, and so do seeds that
// hardly test anything: with less than two faults and ten acknowledgements each.
func Run(t *testing.T, o Options, scenario func(*Cluster)) {
	t.Helper()
	var faults, acked int
	seeds := seedsToRun(t, o.Seeds)
	line := evidence.Line{Begin: time.Now(), Tier: o.tier(), Test: t.Name(), First: seeds[0]}
	whole := false // a panic is no failure yet
	defer func() {
		line.Faults, line.Acked, line.Passed = faults, acked, whole && !t.Failed()
		if err := line.Write(time.Now()); err != nil {
			t.Error(err)
		}
	}()
	for _, seed := range seeds {
		line.Seeds++
		r := play(t, o, seed, scenario)
		if len(r.Violations) > 0 {
			t.Fatal(r)
		}
		if len(seeds) == 1 {
			t.Logf("schedule and history:\n%s", strings.Join(r.Trace, "\n"))
		}
		faults += r.Faults
		acked += r.Acked
	}
	whole = true
	t.Logf("%d seeds: %d faults, %d records acknowledged", len(seeds), faults, acked)
	if len(seeds) > 1 && (faults < 2*len(seeds) || acked < 10*len(seeds)) {
		t.Error("these seeds do not cover much")
	}
}

// Find plays a scenario until a seed breaks an invariant, and returns that run; nil if
// none does.
func Find(t *testing.T, o Options, scenario func(*Cluster)) *Report {
	t.Helper()
	for seed := range uint64(o.Seeds) {
		if r := play(t, o, seed+1, scenario); len(r.Violations) > 0 {
			return r
		}
	}
	return nil
}

func seedsToRun(t *testing.T, count int) (seeds []uint64) {
	if text := os.Getenv("KLAMM_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("KLAMM_SEED=%s: %v", text, err)
		}
		return []uint64{n}
	}
	for seed := range uint64(evidence.Seeds(count)) {
		seeds = append(seeds, evidence.First()+seed)
	}
	return seeds
}

// play is one run in a bubble of its own.
func play(t *testing.T, o Options, seed uint64, scenario func(*Cluster)) (r *Report) {
	t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, o.withDefaults(), seed)
			c.play(scenario)
			r = c.report()
		})
	})
	return r
}
