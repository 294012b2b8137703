package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// DescribeProducers (key 61), version 0: the producers that a replica here remembers, as
// leader or as follower (KIP-664). A partition that is named twice is answered twice.
func (h *Handlers) describeProducers(_ context.Context, _ call, req *kmsg.DescribeProducersRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	image := h.image()
	for i := range req.Topics {
		asked := &req.Topics[i]
		topic := kmsg.NewDescribeProducersResponseTopic()
		topic.Topic = asked.Topic
		for _, index := range asked.Partitions {
			topic.Partitions = append(topic.Partitions, h.producersOf(image, asked.Topic, index))
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}

func (h *Handlers) producersOf(image *metadata.Image, topic string, index int32) kmsg.DescribeProducersResponseTopicPartition {
	p := kmsg.NewDescribeProducersResponseTopicPartition()
	p.Partition = index
	if err := checkDescribedTopic(image, topic); err != nil {
		p.ErrorCode, p.ErrorMessage = kafkaerr.Code(err), kafkaerr.Message(err)
		return p
	}
	at, err := resolve(image, topic, index)
	if err != nil {
		p.ErrorCode = kafkaerr.Code(err)
		return p
	}
	producers, err := h.replicas.Producers(at)
	p.ErrorCode = kafkaerr.Code(err)
	for _, state := range producers {
		p.ActiveProducers = append(p.ActiveProducers, activeProducer(state))
	}
	return p
}

// checkDescribedTopic finds what is wrong with the topic as a whole. Its errors have a text,
// those of a partition have none.
func checkDescribedTopic(image *metadata.Image, topic string) error {
	if err := metadata.ValidateTopicName(topic); err != nil {
		return err
	}
	if image.Topic(topic) == nil {
		return kafkaerr.UnknownTopicOrPartition
	}
	return nil
}

func activeProducer(s replica.ProducerInfo) kmsg.DescribeProducersResponseTopicPartitionActiveProducer {
	a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
	a.ProducerID, a.ProducerEpoch, a.LastSequence = s.ProducerID, int32(s.Epoch), s.LastSequence
	a.LastTimestamp, a.CoordinatorEpoch, a.CurrentTxnStartOffset = s.LastTimestampMs, s.CoordinatorEpoch, s.TxnFirstOffset
	return a
}
