package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// OffsetDelete (key 47), version 0: removes what a group has committed for partitions
// that its members do not read (KIP-496).
//
// Topics and partitions that do not exist are refused here. The group is asked even if
// nothing is left: that it does not exist, or may not be changed, comes before everything
// else.
func (h *Handlers) offsetDelete(ctx context.Context, c call, req *kmsg.OffsetDeleteRequest) (kmsg.Response, error) {
	image := h.image()
	var refused partitionErrors[kmsg.OffsetDeleteResponseTopic]
	known := req.Topics[:0:0]
	for _, t := range req.Topics {
		kept := t
		kept.Partitions = nil
		topic := image.Topic(t.Topic)
		for _, p := range t.Partitions {
			if topic.Partition(p.Partition) != nil {
				kept.Partitions = append(kept.Partitions, p)
				continue
			}
			rt := refused.at(t.Topic, func() kmsg.OffsetDeleteResponseTopic { return deletedTopic(t.Topic) })
			rt.Partitions = append(rt.Partitions, unknownPartition(p.Partition))
		}
		switch {
		case len(kept.Partitions) > 0:
			known = append(known, kept)
		case topic == nil:
			refused.at(t.Topic, func() kmsg.OffsetDeleteResponseTopic { return deletedTopic(t.Topic) })
		}
	}
	req.Topics = known
	resp := h.groups.OffsetDelete(ctx, c.member(), req)
	if resp.ErrorCode != 0 || len(refused.topics) == 0 {
		return resp, nil
	}
	for _, t := range resp.Topics {
		rt := refused.at(t.Topic, func() kmsg.OffsetDeleteResponseTopic { return deletedTopic(t.Topic) })
		rt.Partitions = append(rt.Partitions, t.Partitions...)
	}
	resp.Topics = refused.topics
	return resp, nil
}

func deletedTopic(name string) kmsg.OffsetDeleteResponseTopic {
	rt := kmsg.NewOffsetDeleteResponseTopic()
	rt.Topic = name
	return rt
}

func unknownPartition(partition int32) kmsg.OffsetDeleteResponseTopicPartition {
	rp := kmsg.NewOffsetDeleteResponseTopicPartition()
	rp.Partition, rp.ErrorCode = partition, kafkaerr.Code(kafkaerr.UnknownTopicOrPartition)
	return rp
}
