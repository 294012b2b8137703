package exact

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/broker/simtest/evidence"
)

var (
	seeds = flag.Int("seeds", evidence.Seeds(1000), "number of seeds to run")
	first = flag.Uint64("first", evidence.First(), "the first of them")
	seed  = flag.Uint64("seed", 0, "run this seed alone and print its trace")
)

// traceLines is how much of a failing run is printed: its end.
const traceLines = 80

func report(v *Violation) string {
	trace := v.Trace
	if len(trace) > traceLines {
		trace = append([]string{fmt.Sprintf("… %d events before", len(trace)-traceLines)}, trace[len(trace)-traceLines:]...)
	}
	return fmt.Sprintf("%v\nreplay: go test ./broker/simtest/exact -run TestSeeds -seed=%d\n%s", v, v.Seed, strings.Join(trace, "\n"))
}

// TestSeeds runs an intact broker: no seed may break an invariant.
func TestSeeds(t *testing.T) {
	if *seed != 0 {
		r, v := Run(Options{Seed: *seed})
		t.Logf("%v\n%s", r, strings.Join(r.Trace, "\n"))
		if v != nil {
			t.Error(v)
		}
		return
	}
	var total Report
	line := evidence.Line{Begin: time.Now(), Tier: "exact", Test: t.Name(), First: *first}
	whole := false // a panic is no failure yet
	defer func() {
		line.Faults, line.Acked, line.Passed = total.Crashes+total.Full+total.NoFiles+total.Offline, total.Acked, whole && !t.Failed()
		if err := line.Write(time.Now()); err != nil {
			t.Error(err)
		}
	}()
	for s := range uint64(*seeds) {
		line.Seeds++
		r, v := Run(Options{Seed: *first + s})
		if v != nil {
			t.Fatal(report(v))
		}
		total.Add(r)
	}
	whole = true
	t.Logf("%d seeds: %v", *seeds, total)
	for _, c := range []struct {
		what       string
		got, least int
	}{
		{"crashes", total.Crashes, *seeds},
		{"clean stops", total.Stops, *seeds},
		{"batches acknowledged", total.Acked, *seeds * 20},
		{"truncations", total.Truncations, *seeds / 2},
		{"topics", total.Topics, *seeds},
		{"deletions of records", total.Deletions, *seeds},
		{"cleanings", total.Cleanings, *seeds / 4},
		{"records that cleanings removed", total.Removed, *seeds * 2},
		{"cleanings that were overtaken", total.Overtaken, *seeds / 200},
		{"full disks", total.Full, *seeds / 10},
		{"times without descriptors", total.NoFiles, *seeds / 10},
		{"failed disks", total.Offline, *seeds / 50},
	} {
		if c.got < c.least {
			t.Errorf("the seeds do not cover much: %d %s, want %d", c.got, c.what, c.least)
		}
	}
}

// TestSeedReplays plays a seed twice: the same events, to the letter.
func TestSeedReplays(t *testing.T) {
	for s := uint64(1); s <= 20; s++ {
		first, _ := Run(Options{Seed: s})
		second, _ := Run(Options{Seed: s})
		if !slices.Equal(first.Trace, second.Trace) {
			for i := range first.Trace {
				if i >= len(second.Trace) || first.Trace[i] != second.Trace[i] {
					t.Fatalf("seed %d, event %d: first\n%s\nthen\n%s", s, i, first.Trace[i], second.Trace[min(i, len(second.Trace)-1)])
				}
			}
			t.Fatalf("seed %d: %d events, then %d", s, len(first.Trace), len(second.Trace))
		}
	}
}

// TestBrokenBrokersAreFound shows that each invariant can fail: a broker broken in one
// way must be caught, and by the invariant that the break is about.
func TestBrokenBrokersAreFound(t *testing.T) {
	for _, c := range []struct {
		name  string
		how   Break
		found []string
	}{
		{"ack before flush", AckBeforeFlush, []string{"AckedRecordsReadable", "SequencesContiguous"}},
		{"recovered tail counted as flushed", RecoveredTailUnsynced, []string{"AckedRecordsReadable", "HighWatermarkMonotonic", "CleanRecovery"}},
		{"marks not lowered before truncation", MarksNotLowered, []string{"CleanRecovery"}},
		{"deletions of records not persisted", DeletionsNotPersisted, []string{"DeletionsLast"}},
		{"cleaned above the high watermark", CleanedUncommitted, []string{"NewestOfEachKey", "AckedRecordsReadable", "SequencesContiguous"}},
		{"cleaned segments not synced", CleanedUnsynced, []string{"NewestOfEachKey", "AckedRecordsReadable", "SequencesContiguous", "CleanRecovery"}},
		{"tombstones that go with their first cleaning", EarlyTombstones, []string{"NewestOfEachKey", "AckedRecordsReadable"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const enough = 1000
			for s := range uint64(enough) {
				if _, v := Run(Options{Seed: s + 1, Break: c.how}); v != nil {
					t.Logf("found by seed %d: %v", s+1, v)
					if !slices.Contains(c.found, v.Invariant) {
						t.Errorf("found as %s, want %v:\n%s", v.Invariant, c.found, report(v))
					}
					return
				}
			}
			t.Errorf("not found in %d seeds", enough)
		})
	}
}

// TestRunsBesideEachOther: runs share nothing.
func TestRunsBesideEachOther(t *testing.T) {
	var runs sync.WaitGroup
	for s := range uint64(4) {
		runs.Go(func() {
			if _, v := Run(Options{Seed: s + 1}); v != nil {
				t.Error(report(v))
			}
		})
	}
	runs.Wait()
}
