package group

import (
	"maps"
	"slices"

	"github.com/klamm-mq/klamm/cluster/coordinator/overlay"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// sweepRecords bounds what one Tick of expiry, or of a deletion of topics, writes: it must
// fit a batch, and what the clients want comes in between. More than this can only come
// from the last group of a Tick, which is written as a whole.
const sweepRecords = 1000

// expiry is the periodic removal of offsets that were not used for long, and of groups
// that have neither members nor offsets (GroupCoordinatorShard.cleanupGroupMetadata).
type expiry struct {
	timer *timer
	// remaining are the groups that this round has not looked at.
	remaining []*group
}

// expire looks at groups until enough is to be written, and goes on at once at the next
// Tick, or with a new round after the check interval.
func (s *Shard) expire(o *op) {
	if len(s.expiry.remaining) == 0 {
		s.expiry.remaining = s.newestGroups()
	}
	for len(s.expiry.remaining) > 0 && len(o.effects.Records) < sweepRecords {
		g := s.expiry.remaining[0]
		s.expiry.remaining = s.expiry.remaining[1:]
		if s.isCurrent(g) {
			s.expireGroup(o, g)
		}
	}
	o.effects.Divisible = true
	if len(s.expiry.remaining) > 0 {
		s.timers.set(s.expiry.timer, o.now)
		return
	}
	s.expiry.remaining = nil
	s.forgetEmptyMaps()
	s.timers.set(s.expiry.timer, o.now.Add(s.config.OffsetsRetentionCheckInterval))
}

func (s *Shard) expireGroup(o *op, g *group) {
	before := len(o.effects.Records)
	all := s.expireOffsets(o, g)
	s.metrics.expired(len(o.effects.Records) - before)
	if all && g.state == Empty {
		o.record(groupTombstone(g.id))
	}
}

// expireOffsets removes the offsets of a group whose time is over, and tells whether none
// is left.
func (s *Shard) expireOffsets(o *op, g *group) bool {
	offsets := s.offsets[g.id]
	if offsets == nil || offsets.Len() == 0 {
		return true
	}
	since, ok := g.expiresSince()
	if !ok {
		return false
	}
	all := true
	for _, at := range s.offsetsOf(g.id) {
		co, _ := offsets.Get(at)
		if !g.isSubscribedTo(at.topic) && s.isExpired(o, co, since) {
			o.record(offsetTombstone(g.id, at))
		} else {
			all = false
		}
	}
	return all
}

// expiresSince says from when on the retention of an offset counts
// (ClassicGroup.offsetExpirationCondition):
//
//	A  simple group               since the commit
//	B  Empty                      since it became empty; if that is not known, as A
//	C  Stable, of consumers whose since the commit; subscribed topics are left alone
//	   subscriptions are known
//	D  all others                 never
func (g *group) expiresSince() (func(committedOffset) int64, bool) {
	sinceCommit := func(co committedOffset) int64 { return co.commitTimestamp }
	switch {
	case g.protocolType == "":
		return sinceCommit, true
	case g.state == Empty && g.stateSince >= 0:
		since := g.stateSince
		return func(committedOffset) int64 { return since }, true
	case g.state == Empty:
		return sinceCommit, true
	case g.state == Stable && g.usesConsumerProtocol() && g.subscribed != nil:
		return sinceCommit, true
	}
	return nil, false
}

// isExpired compares with the offset's own time if it has one (OffsetCommit 2 to 4).
func (s *Shard) isExpired(o *op, co committedOffset, since func(committedOffset) int64) bool {
	if co.expireTimestamp != noExpireTimestamp {
		return o.nowMs() >= co.expireTimestamp
	}
	return o.nowMs()-since(co) >= s.config.OffsetsRetention.Milliseconds()
}

// forgetEmptyMaps drops the offset maps of groups that have none any more, in any version.
func (s *Shard) forgetEmptyMaps() {
	for id, offsets := range s.offsets {
		if offsets.Len() == 0 && offsets.CommittedLen() == 0 && offsets.Pending() == 0 {
			delete(s.offsets, id)
		}
	}
}

// sweep removes the offsets of deleted topics, in portions.
type sweep struct {
	timer *timer
	// deleted are the ids of the topics by name: several if a topic was made again.
	deleted map[string][]uuid.UUID
	// remaining are the groups that are to be looked at.
	remaining []string
}

// onTopics notes the topics that were deleted and begins to remove their offsets. A topic
// of the same name that was made since keeps its own, by its id.
func (s *Shard) onTopics(o *op, delta *metadata.Delta) {
	found := false
	for c := range delta.Topics() {
		if !c.Deleted() {
			continue
		}
		if s.sweep.deleted == nil {
			s.sweep.deleted = make(map[string][]uuid.UUID)
		}
		s.sweep.deleted[c.Name()] = append(s.sweep.deleted[c.Name()], c.ID)
		found = true
	}
	if !found {
		return
	}
	s.sweep.remaining = sortedKeys(s.offsets)
	s.sweepOn(o)
}

// sweepOn looks at groups until enough is to be written.
func (s *Shard) sweepOn(o *op) {
	w := &s.sweep
	for len(w.remaining) > 0 && len(o.effects.Records) < sweepRecords {
		id := w.remaining[0]
		w.remaining = w.remaining[1:]
		s.sweepGroup(o, id, s.offsets[id])
	}
	o.effects.Divisible = true
	if len(w.remaining) > 0 {
		s.timers.set(w.timer, o.now)
		return
	}
	w.remaining, w.deleted = nil, nil
}

func (s *Shard) sweepGroup(o *op, id string, offsets *overlay.Map[topicPartition, committedOffset]) {
	if offsets == nil {
		return
	}
	for _, at := range s.offsetsOf(id) {
		co, _ := offsets.Get(at)
		for _, topicID := range s.sweep.deleted[at.topic] {
			// Old records bear no id.
			if co.topicID == topicID || co.topicID.IsZero() {
				o.record(offsetTombstone(id, at))
				break
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
