package group

import (
	"fmt"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator"
)

// allCommitted is everything that a shard's groups have committed.
func allCommitted(s *Shard) []CommittedOffset {
	list, _ := s.CommittedOffsets(math.MaxInt32)
	return list
}

// The first of the list are always the same, and the rest is counted.
func TestCommittedOffsetsAreBounded(t *testing.T) {
	f := newFixture(t, 1)
	for g := range 5 {
		for p := range int32(4) {
			f.carryOut(f.shard.OffsetCommit(f.now, Context{Version: 9}, commitOf(fmt.Sprint("g", g), "t", p, int64(p)), func(*kmsg.OffsetCommitResponse) {}))
		}
	}
	for _, c := range []struct{ limit, want, more int }{{100, 20, 0}, {20, 20, 0}, {19, 19, 1}, {8, 8, 12}, {3, 3, 17}, {0, 0, 20}} {
		for range 3 {
			list, more := f.shard.CommittedOffsets(c.limit)
			if len(list) != c.want || more != c.more {
				t.Fatalf("limit %d: %d listed and %d more, want %d and %d", c.limit, len(list), more, c.want, c.more)
			}
			for i, o := range list {
				if want := fmt.Sprint("g", i/4, " t ", i%4); fmt.Sprint(o.Group, " ", o.Topic, " ", o.Partition) != want {
					t.Fatalf("limit %d: %d is %+v, want %s", c.limit, i, o, want)
				}
			}
		}
	}
}

// What is not below the high watermark does not count yet.
func TestCommittedOffsetsAreCommitted(t *testing.T) {
	f := newFixture(t, 1)
	commit := func(offset int64) coordinator.Effects {
		return f.shard.OffsetCommit(f.now, Context{Version: 9}, commitOf("g", "t", 0, offset), func(*kmsg.OffsetCommitResponse) {})
	}
	f.carryOut(commit(1))
	f.hold = true
	f.carryOut(commit(2))
	if list := allCommitted(f.shard); len(list) != 1 || list[0].Offset != 1 || list[0].CommitTimestampMs != epoch.UnixMilli() {
		t.Errorf("%+v", list)
	}
}
