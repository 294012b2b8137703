package group

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/klamm-mq/klamm/cluster/coordinator/overlay"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// CommittedOffset is one committed offset of a group that is coordinated here.
type CommittedOffset struct {
	Group     string
	Topic     string
	TopicID   uuid.UUID // zero if the record bears none
	Partition int32
	Offset    int64
	// CommitTimestampMs is when it was committed, in ms since 1970.
	CommitTimestampMs int64
}

// CommittedOffsets lists at most limit of what the groups of this shard have committed, by
// group, topic and partition, and tells how many there are beyond them.
func (s *Shard) CommittedOffsets(limit int) (list []CommittedOffset, more int) {
	for _, id := range slices.Sorted(maps.Keys(s.offsets)) {
		offsets := s.offsets[id]
		if len(list) == limit {
			more += offsets.CommittedLen()
			continue
		}
		list = append(list, committedBy(id, offsets)...)
		list, more = cut(list, more, limit)
	}
	return list, more
}

// committedBy lists what one group has committed.
func committedBy(id string, offsets *overlay.Map[topicPartition, committedOffset]) []CommittedOffset {
	own := make([]CommittedOffset, 0, offsets.CommittedLen())
	for at, o := range offsets.AllCommitted() {
		own = append(own, CommittedOffset{
			Group: id, Topic: at.topic, TopicID: o.topicID, Partition: at.partition,
			Offset: o.offset, CommitTimestampMs: o.commitTimestamp,
		})
	}
	slices.SortFunc(own, compareCommitted)
	return own
}

func compareCommitted(a, b CommittedOffset) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// cut counts what is beyond the limit instead of keeping it.
func cut(list []CommittedOffset, more, limit int) ([]CommittedOffset, int) {
	if over := len(list) - limit; over > 0 {
		clear(list[limit:])
		return list[:limit], more + over
	}
	return list, more
}

// CommittedOffsets lists at most limit of what all groups that are coordinated here have
// committed, by group, topic and partition, and tells how many there are beyond them; for
// metrics. Shards that are being loaded, or do not answer before ctx ends, are left out.
func (s *Service) CommittedOffsets(ctx context.Context, limit int) (list []CommittedOffset, more int) {
	type part struct {
		list []CommittedOffset
		more int
	}
	parts, _ := fromAll(ctx, s, func(shard *Shard) []part {
		list, more := shard.CommittedOffsets(limit)
		return []part{{list, more}}
	})
	for _, p := range parts {
		list, more = append(list, p.list...), more+p.more
	}
	slices.SortFunc(list, compareCommitted)
	return cut(list, more, limit)
}
