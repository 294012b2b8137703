package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// OffsetDelete removes offsets of a group, unless its members may be reading their topics
// (KIP-496).
func (s *Shard) OffsetDelete(now time.Time, c Context, req *kmsg.OffsetDeleteRequest, answer func(*kmsg.OffsetDeleteResponse)) coordinator.Effects {
	return s.run(now, func(o *op) {
		resp := s.offsetDelete(o, c, req)
		o.reply(func(err error) {
			if err != nil {
				resp = offsetDeleteError(c, err)
			}
			answer(resp)
		})
	})
}

func (s *Shard) offsetDelete(o *op, c Context, req *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	g := s.lookup(req.Group)
	switch {
	case g == nil:
		return offsetDeleteError(c, kafkaerr.GroupIDNotFound)
	case g.state != Empty && !g.usesConsumerProtocol():
		return offsetDeleteError(c, kafkaerr.NonEmptyGroup)
	}
	resp := kmsg.NewPtrOffsetDeleteResponse()
	resp.Version = c.Version
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetDeleteResponseTopic()
		rt.Topic = t.Topic
		subscribed := g.isSubscribedTo(t.Topic)
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetDeleteResponseTopicPartition()
			rp.Partition = p.Partition
			at := topicPartition{t.Topic, p.Partition}
			if subscribed {
				rp.ErrorCode = kafkaerr.GroupSubscribedToTopic.Code
			} else if s.hasOffset(req.Group, at) {
				o.record(offsetTombstone(req.Group, at))
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	s.metrics.deleted(len(o.effects.Records))
	return resp
}

// hasOffset tells whether a tombstone is needed to remove an offset.
func (s *Shard) hasOffset(group string, at topicPartition) bool {
	offsets := s.offsets[group]
	if offsets == nil {
		return false
	}
	_, ok := offsets.Get(at)
	return ok
}

func offsetDeleteError(c Context, err error) *kmsg.OffsetDeleteResponse {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	resp.Version, resp.ErrorCode = c.Version, answerCode(err)
	return resp
}
