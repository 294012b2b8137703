package controller

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

func brokersInRacks(racks ...string) []usableBroker {
	var brokers []usableBroker
	for i, r := range racks {
		brokers = append(brokers, usableBroker{id: int32(i + 1), rack: r})
	}
	return brokers
}

func mustPlace(t *testing.T, seed uint64, brokers []usableBroker, partitions, rf int) [][]int32 {
	t.Helper()
	placed, err := place(rand.New(rand.NewPCG(seed, 0)), brokers, partitions, rf)
	if err != nil {
		t.Fatal(err)
	}
	return placed
}

func TestPlacementNeverPutsTwoReplicasOnOneBroker(t *testing.T) {
	brokers := brokersInRacks("a", "a", "b", "c", "c", "c")
	for seed := range uint64(50) {
		for rf := 1; rf <= len(brokers); rf++ {
			for _, replicas := range mustPlace(t, seed, brokers, 40, rf) {
				sorted := slices.Sorted(slices.Values(replicas))
				if len(slices.Compact(sorted)) != rf {
					t.Fatalf("seed %d: %d replicas on %v", seed, rf, replicas)
				}
			}
		}
	}
}

func TestPlacementSpreadsReplicasOverRacks(t *testing.T) {
	brokers := brokersInRacks("a", "a", "b", "b", "c", "c")
	rackOf := func(id int32) string { return brokers[id-1].rack }
	for seed := range uint64(50) {
		for _, replicas := range mustPlace(t, seed, brokers, 30, 3) {
			racks := map[string]bool{}
			for _, id := range replicas {
				racks[rackOf(id)] = true
			}
			if len(racks) != 3 {
				t.Fatalf("seed %d: replicas %v in %d racks", seed, replicas, len(racks))
			}
		}
	}
}

func TestPlacementSpreadsLeadersOverBrokers(t *testing.T) {
	brokers := brokersInRacks("", "", "", "", "")
	for seed := range uint64(20) {
		leads := map[int32]int{}
		for _, replicas := range mustPlace(t, seed, brokers, 100, 3) {
			leads[replicas[0]]++
		}
		for id, n := range leads {
			if n != 20 {
				t.Fatalf("seed %d: broker %d leads %d of 100 partitions of 5 brokers", seed, id, n)
			}
		}
	}
}

func TestPlacementStripes(t *testing.T) {
	// With one rack, each partition starts one broker later than the one before.
	placed := mustPlace(t, 1, brokersInRacks("", "", ""), 3, 2)
	for i, replicas := range placed {
		if next := replicas[0]%3 + 1; replicas[1] != next {
			t.Errorf("partition %d on %v: follower is not the next broker", i, replicas)
		}
		if i > 0 && replicas[0] != placed[i-1][0]%3+1 {
			t.Errorf("partition %d starts at %d after %d", i, replicas[0], placed[i-1][0])
		}
	}
}

func TestPlacementLeadersAreUnfenced(t *testing.T) {
	brokers := brokersInRacks("a", "b", "c")
	brokers[0].fenced, brokers[2].fenced = true, true
	for seed := range uint64(30) {
		for _, replicas := range mustPlace(t, seed, brokers, 10, 3) {
			if replicas[0] != 2 {
				t.Fatalf("seed %d: fenced broker leads in %v", seed, replicas)
			}
		}
	}
}

func TestPlacementPrefersUnfencedBrokersOfARack(t *testing.T) {
	brokers := brokersInRacks("a", "a", "a")
	brokers[1].fenced = true
	for seed := range uint64(30) {
		for _, replicas := range mustPlace(t, seed, brokers, 10, 2) {
			if slices.Contains(replicas, 2) {
				t.Fatalf("seed %d: fenced broker in %v although two are unfenced", seed, replicas)
			}
		}
	}
}

func TestPlacementFailures(t *testing.T) {
	fenced := brokersInRacks("", "")
	fenced[0].fenced, fenced[1].fenced = true, true
	for name, tc := range map[string]struct {
		brokers []usableBroker
		rf      int
	}{
		"more replicas than brokers": {brokersInRacks("", ""), 3},
		"every broker fenced":        {fenced, 1},
		"no broker":                  {nil, 1},
	} {
		_, err := place(rand.New(rand.NewPCG(1, 1)), tc.brokers, 1, tc.rf)
		if !errors.Is(err, kafkaerr.InvalidReplicationFactor) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
