package cluster

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/broker/simtest/evidence"
)

var (
	seeds = flag.Int("seeds", evidence.Seeds(100), "number of seeds to run")
	first = flag.Uint64("first", evidence.First(), "the first of them")
	seed  = flag.Uint64("seed", 0, "run this seed alone and print its trace")
)

// traceLines is how much of a failing run is printed: its end.
const traceLines = 150

func report(v *Violation) string {
	trace := v.Trace
	if len(trace) > traceLines {
		trace = append([]string{fmt.Sprintf("… %d events before", len(trace)-traceLines)}, trace[len(trace)-traceLines:]...)
	}
	return fmt.Sprintf("%v\nreplay: go test ./broker/simtest/exact/cluster -run TestSeeds -seed=%d\n%s", v, v.Seed, strings.Join(trace, "\n"))
}

// TestSeeds runs an intact cluster: no seed may break an invariant.
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
	line := evidence.Line{Begin: time.Now(), Tier: "exact-cluster", Test: t.Name(), First: *first}
	whole := false // a panic is no failure yet
	defer func() {
		line.Faults, line.Acked, line.Passed = total.Faults(), total.Acked, whole && !t.Failed()
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
		{"kills", total.Kills, *seeds},
		{"power cuts", total.PowerCuts, *seeds},
		{"clean stops", total.Stops, *seeds / 4},
		{"pauses", total.Pauses, *seeds},
		{"damaged replicas", total.Damaged, *seeds / 20},
		{"full disks", total.Full, *seeds / 10},
		{"times without a leader", total.Leaderless, *seeds / 4},
		{"reassignments", total.Reassigned, *seeds / 20},
		{"replicas fetched again", total.Repaired, *seeds / 50},
		{"deleted topics", total.Deleted, *seeds / 20},
		{"times that a leader did not know its latest offset", total.NotAvailable, *seeds / 4},
		{"new controllers", total.Controllers, *seeds},
		{"leaderships", total.Leaders, *seeds * 4},
		{"ISR changes", total.ISRChanges, *seeds * 8},
		{"truncations", total.Truncations, *seeds / 4},
		{"times that a producer gave up", total.GivenUp, *seeds / 20},
		{"batches acknowledged", total.Acked, *seeds * 20},
		{"leaders handed over for lack of room", total.HandedOver, *seeds / 50},
		{"moves between directories", total.Moved, *seeds / 8},
		{"cleanings", total.Cleaned, *seeds},
		{"records that cleanings removed", total.Removed, *seeds * 8},
		{"cleanings that were overtaken", total.Overtaken, *seeds / 1000},
		{"moves that a later process went on with", total.Resumed, *seeds / 300},
		{"changes of throttles", total.Throttles, *seeds},
		{"times that a leader held a replica back", total.Withheld, *seeds},
		{"times that a follower held replicas back", total.HeldBack, *seeds},
		{"times that a session had them", total.Forgotten, *seeds / 20},
		{"flushes beside the group commits", total.FlushedAlone, *seeds / 2},
		{"unclean elections", total.Unclean, *seeds / 20},
		{"promises broken by unclean elections", total.Lost, *seeds / 20},
		{"consumers sent back by them", total.Diverged, *seeds / 300},
		{"unclean elections beside the last replica, damaged", total.Forsaken, *seeds / 600},
	} {
		if c.got < c.least {
			t.Errorf("the seeds do not cover much: %d %s, want %d", c.got, c.what, c.least)
		}
	}
}

// TestSeedReplays plays a seed twice: the same events, to the letter.
func TestSeedReplays(t *testing.T) {
	for s := uint64(1); s <= 5; s++ {
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

// TestBrokenClustersAreFound shows that each invariant can fail: a cluster broken in one way
// must be caught, and by an invariant that the break is about.
func TestBrokenClustersAreFound(t *testing.T) {
	lost := []string{"AckedRecordsReadable", "ReplicasAgreeBelowHW", "SequencesContiguous", "ISRHoldsHW"}

	for _, c := range []struct {
		name  string
		how   Break
		found []string
	}{
		{"ack before the ISR has it", AckBeforeISR, lost},
		{"high watermark on unflushed bytes", UnflushedHighWatermark, lost},
		{"truncation by high watermark", TruncationByHighWatermark, lost},
		{"no epoch check", NoEpochCheck, append(lost, "OffsetOrder", "HighWatermarkMonotonic", "ConsumersNeverDiverge", "LatestNeverFalls")},
		{"producer state lost on failover", ProducerStateLost, []string{"SequencesContiguous"}},
		{"unclean election on", UncleanElections, append(lost, "HighWatermarkMonotonic", "LeaderWasInSync")},
		{"restart without a new leader epoch", NoNewEpoch, append(lost, "OneLeaderPerEpoch")},
		{"recovered tail counted as flushed", RecoveredTailUnsynced, append(lost, "CleanRecovery")},
		{"no check of followers' broker epochs", NoBrokerEpochCheck, lost},
		{"no check of the role before what was fetched is appended", NoRoleCheck, append(lost, "OffsetOrder", "CleanRecovery", "HighWatermarkMonotonic", "ConsumersNeverDiverge")},
		{"followers' sessions never walked", NoWalks, []string{"Progress"}},
		{"writes to the old log after a move has copied it", WritesDuringMove, append(lost, "OffsetOrder", "HighWatermarkMonotonic", "LatestNeverFalls", "ConsumersNeverDiverge")},
		{"followers do not compare after an unclean election", NoComparing, append(lost, "OffsetOrder", "CleanRecovery", "ConsumersNeverDiverge")},
		{"full directories are not told of", FullDirsUntold, []string{"Progress"}},
		{"what a move has copied is not synced", MoveUnsynced, append(lost, "CleanRecovery")},
		{"cleaned above the high watermark", CleanedUncommitted, append(lost, "NewestOfEachKey")},
		{"cleaned segments not synced", CleanedUnsynced, append(lost, "NewestOfEachKey", "CleanRecovery")},
		{"tombstones that go with their first cleaning", EarlyTombstones, append(lost, "NewestOfEachKey")},
		{"what a throttled replica has fetched is not synced", FlushAloneUnsynced, append(lost, "CleanRecovery")},
		{"what a throttled replica has fetched is never flushed", FlushAloneLeftOut, []string{"Progress"}},
		{"a replica that is held back is never let through", NeverLetThrough, []string{"Progress"}},
		{"what a session was told to forget is not taken in again", ForgottenForGood, []string{"Progress"}},
		{"throttled members of the ISR are sent nothing", WithheldInSync, []string{"InSyncNotHeldBack"}},
		{"throttled members of the ISR are not fetched", ForgottenInSync, []string{"InSyncNotHeldBack"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const enough = 3000
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

// TestForgottenSignalsCostTimeOnly: whatever the sessions of followers are not told of, they find
// when they are walked in full.
func TestForgottenSignalsCostTimeOnly(t *testing.T) {
	for s := range uint64(max(*seeds/4, 25)) {
		if _, v := Run(Options{Seed: *first + s, Break: ForgottenSignals}); v != nil {
			t.Fatal(report(v))
		}
	}
}
