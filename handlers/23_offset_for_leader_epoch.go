package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// OffsetForLeaderEpoch (key 23), versions 2–4: where a leader epoch ends in the log, by
// which consumers notice that what they read was cut off (KIP-320).
//
//	v2  current leader epoch, throttle time
//	v3  replica id (KIP-392)
//	v4  flexible
func (h *Handlers) offsetForLeaderEpoch(_ context.Context, _ call, req *kmsg.OffsetForLeaderEpochRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	image := h.image()
	for i := range req.Topics {
		asked := &req.Topics[i]
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = asked.Topic
		asks := make([]replica.EpochRequestPartition, len(asked.Partitions))
		for j, p := range asked.Partitions {
			asks[j] = replica.EpochRequestPartition{CurrentLeaderEpoch: p.CurrentLeaderEpoch, LeaderEpoch: p.LeaderEpoch}
			asks[j].TopicIDPartition, asks[j].Err = resolve(image, asked.Topic, p.Partition)
		}
		h.replicas.OffsetForLeaderEpoch(asks)
		for j := range asks {
			topic.Partitions = append(topic.Partitions, epochAnswer(asked.Partitions[j].Partition, &asks[j]))
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}

func epochAnswer(partition int32, ask *replica.EpochRequestPartition) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
	p.Partition, p.ErrorCode = partition, kafkaerr.Code(ask.Err)
	if ask.Err == nil {
		p.LeaderEpoch, p.EndOffset = ask.Result.Epoch, ask.Result.EndOffset
	}
	return p
}
