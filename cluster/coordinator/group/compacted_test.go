package group

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/klamm-mq/klamm/cluster/coordinator"
)

// clean compacts the log below the high watermark: up to upTo the newest record of each key
// is kept, and of tombstones only those above tombstonesUpTo, or that no cleaning has met.
func (f *fixture) clean(upTo, tombstonesUpTo int64) {
	upTo, tombstonesUpTo = min(upTo, f.hw), min(tombstonesUpTo, f.cleaned)
	gone := make([]bool, len(f.log))
	copy(gone, f.gone)
	f.gone = gone
	newest := make(map[string]int)
	for i, r := range f.log[:upTo] {
		newest[string(r.Key)] = i
	}
	for i, r := range f.log[:upTo] {
		if newest[string(r.Key)] != i || r.Value == nil && int64(i) < tombstonesUpTo {
			f.gone[i] = true
		}
	}
	f.cleaned = max(f.cleaned, upTo)
}

func (f *fixture) isGone(i int) bool { return i < len(f.gone) && f.gone[i] }

// hardState is what a shard has of its records, committed and newest, as text by name. A
// simple group that has lost its last offset is left out: it has no record, and whether it
// is there depends on whether one of its offsets was replayed before it was deleted.
func hardState(s *Shard) map[string]string {
	state := make(map[string]string)
	view := func(what string, groups iter.Seq2[string, *group], offsets func(id string) map[topicPartition]committedOffset) {
		for id, g := range groups {
			if g.protocolType == "" && len(g.members) == 0 && len(offsets(id)) == 0 {
				continue
			}
			state[what+" group "+id] = g.hardState()
		}
		for id := range s.offsets {
			for at, o := range offsets(id) {
				state[fmt.Sprintf("%s offset %s %v", what, id, at)] = fmt.Sprintf("%+v", o)
			}
		}
	}
	view("newest", s.groups.All(), func(id string) map[topicPartition]committedOffset {
		if s.offsets[id] == nil {
			return nil
		}
		return maps.Collect(s.offsets[id].All())
	})
	view("committed", s.groups.AllCommitted(), func(id string) map[topicPartition]committedOffset {
		if s.offsets[id] == nil {
			return nil
		}
		return maps.Collect(s.offsets[id].AllCommitted())
	})
	return state
}

func (g *group) hardState() string {
	text := fmt.Sprintf("%v since %d, %q %q, generation %d, leader %q, subscribed %v", g.state, g.stateSince,
		g.protocolType, deref(g.protocol), g.generation, g.leader, slices.Sorted(maps.Keys(g.subscribed)))
	for _, m := range g.members {
		text += fmt.Sprintf("; %s %q %s %s %d %d %q %q", m.id, deref(m.instanceID), m.clientID, m.clientHost,
			m.sessionTimeoutMs, m.rebalanceTimeoutMs, m.protocols, m.assignment)
	}
	return text
}

// TestCompactedLogsLoadAsWholeOnes sends all kinds of requests at random, of groups that
// come and go and whose offsets expire, and loads them from what is left of their log after
// cleanings at any time. A log that has lost a record it needs is told from a whole one.
func TestCompactedLogsLoadAsWholeOnes(t *testing.T) {
	loaded, lost := 0, 0
	for seed := uint64(1); seed <= uint64(*groupSeeds); seed++ {
		r := rand.New(rand.NewPCG(seed, 3))
		z := &fuzzer{simulation: newSimulation(t, seed, false), ids: []string{"", "bogus"}}
		for range 300 {
			z.data = binaryNoise(r)
			z.request()
			if r.IntN(10) == 0 {
				z.clean(r.Int64N(z.hw+1), r.Int64N(z.hw+1))
				z.crash(r.IntN(5))
				loaded++
			}
			if t.Failed() {
				t.Fatalf("replay with -run TestCompactedLogs, seed %d", seed)
			}
		}
		if z.losesARecord() {
			lost++
		}
	}
	t.Logf("%d loads, %d lost records noticed", loaded, lost)
	if lost == 0 {
		t.Error("a lost record was never noticed")
	}
}

func binaryNoise(r *rand.Rand) []byte {
	noise := make([]byte, 32)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	return noise
}

// losesARecord takes a record that is not replaced out of the log: it must be missed.
func (f *fixture) losesARecord() bool {
	newest := make(map[string]int)
	for i, r := range f.log {
		newest[string(r.Key)] = i
	}
	for i, r := range f.log {
		if r.Value != nil && newest[string(r.Key)] == i {
			without := hardState(f.replayed(func(j int) bool { return i == j }))
			return cmp.Diff(hardState(f.shard), without) != ""
		}
	}
	return false
}

// What compaction leaves of a group's records may come in any order of birth and death.
func TestLeftoversOfGroups(t *testing.T) {
	at := topicPartition{"t", 0}
	offset := func(n int64) coordinator.Record {
		return offsetCommitRecord("g", at, committedOffset{offset: n, leaderEpoch: -1, expireTimestamp: noExpireTimestamp})
	}
	for _, c := range []struct {
		name    string
		records []coordinator.Record
		groups  int
		offsets int
	}{
		{"a tombstone of a group that is gone", []coordinator.Record{groupTombstone("g")}, 0, 0},
		{"a tombstone of an offset whose group is gone", []coordinator.Record{offsetTombstone("g", at)}, 0, 0},
		{"an offset whose group's record comes later", []coordinator.Record{offset(1), groupOf(3)}, 1, 1},
		{"an offset whose group's record is gone", []coordinator.Record{offset(1)}, 1, 1},
		{"a group whose generations before are gone", []coordinator.Record{groupOf(9)}, 1, 0},
		{"a group that was deleted and made again", []coordinator.Record{offsetTombstone("g", at), groupTombstone("g"), offset(2), groupOf(1)}, 1, 1},
		{"a group that was deleted, and an offset committed after", []coordinator.Record{groupTombstone("g"), offset(2)}, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, 1)
			f.log, f.hw = c.records, int64(len(c.records))
			f.load()
			if groups, offsets := f.shard.groups.CommittedLen(), len(f.shard.offsetsOf("g")); groups != c.groups || offsets != c.offsets {
				t.Errorf("%d groups with %d offsets, want %d with %d", groups, offsets, c.groups, c.offsets)
			}
		})
	}
}

// groupOf is the record of an empty group of some generation.
func groupOf(generation int32) coordinator.Record {
	g := newGroup("g", 0)
	g.protocolType, g.generation = consumerProtocolType, generation
	return groupRecord("g", g.recordOf(nil))
}
