package group

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// noOffset is the answer for a partition without committed offset.
const noOffset int64 = -1

// OffsetFetch reads the committed offsets of a group, those below the high watermark
// (OffsetMetadataManager.fetchOffsets). Topics bear their names and, where the client asks
// by id, their ids; null topics ask for everything.
func (s *Shard) OffsetFetch(ids TopicIDs, req *kmsg.OffsetFetchRequestGroup) kmsg.OffsetFetchResponseGroup {
	offsets := s.offsets[req.Group]
	if offsets == nil {
		return fetchOffsets(ids, req, offsetView{none, nothing})
	}
	return fetchOffsets(ids, req, offsetView{offsets.GetCommitted, offsets.AllCommitted()})
}

// TopicIDs gives the ids of topics that exist, zero for all others. Offsets of a topic that
// has another id now are not shown, even if they are asked for by name: the broker may have
// gone down between the deletion of the topic and that of its offsets, and whoever reads
// the new topic would skip what it has.
type TopicIDs func(topic string) uuid.UUID

// OffsetFetchStable reads the offsets as they were written last, and answers when they are
// committed (KIP-447, RequireStable): whoever asks again cannot be told less.
func (s *Shard) OffsetFetchStable(now time.Time, c Context, ids TopicIDs, req *kmsg.OffsetFetchRequestGroup, answer func(kmsg.OffsetFetchResponseGroup)) coordinator.Effects {
	return s.look(now, func(o *op) {
		view := offsetView{none, nothing}
		if offsets := s.offsets[req.Group]; offsets != nil {
			view = offsetView{offsets.Get, offsets.All()}
		}
		resp := fetchOffsets(ids, req, view)
		o.reply(func(err error) {
			if err != nil {
				resp = fetchError(c, req, err)
			}
			answer(resp)
		})
	})
}

// offsetView is one version of a group's offsets. Where transactions have offsets pending,
// a stable view is to answer UNSTABLE_OFFSET_COMMIT for their partitions.
type offsetView struct {
	get func(topicPartition) (committedOffset, bool)
	all iter.Seq2[topicPartition, committedOffset]
}

func none(topicPartition) (committedOffset, bool)        { return committedOffset{}, false }
func nothing(func(topicPartition, committedOffset) bool) {}

func fetchOffsets(ids TopicIDs, req *kmsg.OffsetFetchRequestGroup, view offsetView) kmsg.OffsetFetchResponseGroup {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = req.Group
	if req.Topics == nil {
		resp.Topics = allOffsets(ids, view)
		return resp
	}
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		id := uuid.UUID(t.TopicID)
		if id.IsZero() {
			id = ids(t.Topic)
		}
		for _, p := range t.Partitions {
			o, ok := view.get(topicPartition{t.Topic, p})
			if ok && differentTopic(o.topicID, id) {
				ok = false // of a topic of that name that was deleted since
			}
			rt.Partitions = append(rt.Partitions, fetchedPartition(p, o, ok))
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// differentTopic tells that both ids are known and not the same.
func differentTopic(a, b uuid.UUID) bool { return !a.IsZero() && !b.IsZero() && a != b }

func fetchedPartition(partition int32, o committedOffset, ok bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	rp.Partition, rp.Offset, rp.LeaderEpoch = partition, noOffset, -1
	rp.Metadata = new(string)
	if ok {
		rp.Offset, rp.LeaderEpoch, *rp.Metadata = o.offset, o.leaderEpoch, o.metadata
	}
	return rp
}

// allOffsets lists everything by topic and partition. The ids stay zero: a client is to
// learn the current id of a topic, which the handler knows.
func allOffsets(ids TopicIDs, view offsetView) []kmsg.OffsetFetchResponseGroupTopic {
	type entry struct {
		at topicPartition
		o  committedOffset
	}
	var entries []entry
	for at, o := range view.all {
		if !differentTopic(o.topicID, ids(at.topic)) {
			entries = append(entries, entry{at, o})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return compareTopicPartition(a.at, b.at) })
	topics := []kmsg.OffsetFetchResponseGroupTopic{}
	for _, e := range entries {
		if len(topics) == 0 || topics[len(topics)-1].Topic != e.at.topic {
			rt := kmsg.NewOffsetFetchResponseGroupTopic()
			rt.Topic = e.at.topic
			topics = append(topics, rt)
		}
		rt := &topics[len(topics)-1]
		rt.Partitions = append(rt.Partitions, fetchedPartition(e.at.partition, e.o, true))
	}
	return topics
}

func compareTopicPartition(a, b topicPartition) int {
	return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}

// fetchError answers a whole group with one error: before version 2 in each partition.
func fetchError(c Context, req *kmsg.OffsetFetchRequestGroup, err error) kmsg.OffsetFetchResponseGroup {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = req.Group
	if c.Version >= 2 {
		resp.ErrorCode = fetchErrorCode(err)
		return resp
	}
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := fetchedPartition(p, committedOffset{}, false)
			rp.ErrorCode = fetchErrorCode(err)
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
