package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// DeleteRecords (key 21), versions 0–2: moves the start of logs forward (KIP-107). Offset
// -1 is the high watermark.
//
//	v1  throttled after the answer, not before
//	v2  flexible
//
// A partition that is named more than once is answered once, and the last offset counts,
// as in Kafka.
func (h *Handlers) deleteRecords(ctx context.Context, _ call, req *kmsg.DeleteRecordsRequest) (kmsg.Response, error) {
	d := deleteRecordsCall{index: make(map[topicPartition]int)}
	image := h.image()
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			d.add(image, topicPartition{req.Topics[i].Topic, p.Partition}, p.Offset)
		}
	}
	d.ask.Timeout = h.config.wait(req.TimeoutMillis)
	h.replicas.DeleteRecords(ctx, &d.ask)
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	resp.Topics = d.topics()
	return resp, nil
}

// deleteRecordsCall is a DeleteRecords request on its way.
type deleteRecordsCall struct {
	ask   replica.DeleteRecordsRequest
	names []topicPartition // of ask.Partitions, same order
	index map[topicPartition]int
}

func (d *deleteRecordsCall) add(image *metadata.Image, name topicPartition, offset int64) {
	if i, again := d.index[name]; again {
		d.ask.Partitions[i].Offset = offset
		return
	}
	part := replica.DeleteRecordsPartition{Offset: offset}
	part.TopicIDPartition, part.Result.Err = resolve(image, name.topic, name.partition)
	if part.Result.Err == nil && metadata.IsInternalTopic(name.topic) {
		part.Result.Err = kafkaerr.InvalidTopic
	}
	d.index[name] = len(d.names)
	d.ask.Partitions, d.names = append(d.ask.Partitions, part), append(d.names, name)
}

// topics shapes the results. A topic without partitions is not answered.
func (d *deleteRecordsCall) topics() (topics []kmsg.DeleteRecordsResponseTopic) {
	at := make(map[string]int)
	for i, name := range d.names {
		n, known := at[name.topic]
		if !known {
			n, at[name.topic] = len(topics), len(topics)
			topic := kmsg.NewDeleteRecordsResponseTopic()
			topic.Topic = name.topic
			topics = append(topics, topic)
		}
		result := &d.ask.Partitions[i].Result
		p := kmsg.NewDeleteRecordsResponseTopicPartition()
		p.Partition, p.LowWatermark, p.ErrorCode = name.partition, result.LowWatermark, kafkaerr.Code(result.Err)
		if result.Err != nil && p.ErrorCode != kafkaerr.RequestTimedOut.Code {
			p.LowWatermark = -1
		}
		topics[n].Partitions = append(topics[n].Partitions, p)
	}
	return topics
}
