package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// OffsetCommit (key 8), versions 2–10: stores how far a group has read.
//
//	v2   retention time
//	v3   throttle time
//	v5   no retention time any more
//	v6   leader epoch
//	v7   group instance id (KIP-345)
//	v8   flexible
//	v9   members of the consumer protocol; GROUP_ID_NOT_FOUND for a group that is unknown
//	v10  topics by id (KIP-848)
//
// Topics and partitions that do not exist are refused here, before the group is asked;
// in the answer they come first.
func (h *Handlers) offsetCommit(ctx context.Context, c call, req *kmsg.OffsetCommitRequest) (kmsg.Response, error) {
	image := h.image()
	nameTopics(image, req.Version, 10, req.Topics, func(t *kmsg.OffsetCommitRequestTopic) (*string, *[16]byte) {
		return &t.Topic, &t.TopicID
	})
	byID := req.Version >= 10
	var refused partitionErrors[kmsg.OffsetCommitResponseTopic]
	known := req.Topics[:0:0]
	for _, t := range req.Topics {
		kept := t
		kept.Partitions = nil
		for _, p := range t.Partitions {
			if err := checkCommitted(image, &t, p.Partition, byID); err != nil {
				rt := refused.at(commitKey(byID, t.Topic, t.TopicID), func() kmsg.OffsetCommitResponseTopic { return commitTopic(&t) })
				rt.Partitions = append(rt.Partitions, committedPartition(p.Partition, err))
				continue
			}
			kept.Partitions = append(kept.Partitions, p)
		}
		if len(t.Partitions) == 0 {
			h.keepEmpty(&refused, image, &t, byID)
		}
		if len(kept.Partitions) > 0 {
			known = append(known, kept)
		}
	}
	if len(known) == 0 {
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		resp.Topics = refused.topics
		return resp, nil
	}
	req.Topics = known
	resp := h.groups.OffsetCommit(ctx, c.member(), req)
	resp.Topics = mergeCommitted(&refused, byID, resp.Topics)
	return resp, nil
}

// keepEmpty answers a topic without partitions, if it does not exist; of one that does,
// Kafka says nothing.
func (h *Handlers) keepEmpty(refused *partitionErrors[kmsg.OffsetCommitResponseTopic], image *metadata.Image, t *kmsg.OffsetCommitRequestTopic, byID bool) {
	if image.TopicByID(t.TopicID) == nil {
		refused.at(commitKey(byID, t.Topic, t.TopicID), func() kmsg.OffsetCommitResponseTopic { return commitTopic(t) })
	}
}

func checkCommitted(image *metadata.Image, t *kmsg.OffsetCommitRequestTopic, partition int32, byID bool) error {
	topic := image.TopicByID(t.TopicID)
	switch {
	case topic == nil && byID:
		return kafkaerr.UnknownTopicID
	case topic.Partition(partition) == nil:
		return kafkaerr.UnknownTopicOrPartition
	}
	return nil
}

// commitKey is what topics of one answer are told apart by.
func commitKey(byID bool, name string, id uuid.UUID) string {
	if byID {
		return string(id[:])
	}
	return name
}

func commitTopic(t *kmsg.OffsetCommitRequestTopic) kmsg.OffsetCommitResponseTopic {
	rt := kmsg.NewOffsetCommitResponseTopic()
	rt.Topic, rt.TopicID = t.Topic, t.TopicID
	return rt
}

func committedPartition(partition int32, err error) kmsg.OffsetCommitResponseTopicPartition {
	rp := kmsg.NewOffsetCommitResponseTopicPartition()
	rp.Partition, rp.ErrorCode = partition, kafkaerr.Code(err)
	return rp
}

// mergeCommitted puts the group's answers behind the refused partitions, in the same topic
// where there is one (OffsetCommitResponse.Builder.merge).
func mergeCommitted(refused *partitionErrors[kmsg.OffsetCommitResponseTopic], byID bool, answered []kmsg.OffsetCommitResponseTopic) []kmsg.OffsetCommitResponseTopic {
	if len(refused.topics) == 0 {
		return answered
	}
	for _, t := range answered {
		rt := refused.at(commitKey(byID, t.Topic, t.TopicID), func() kmsg.OffsetCommitResponseTopic {
			empty := t
			empty.Partitions = nil
			return empty
		})
		rt.Partitions = append(rt.Partitions, t.Partitions...)
	}
	return refused.topics
}
