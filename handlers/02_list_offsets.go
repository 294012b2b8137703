package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// ListOffsets (key 2), versions 1–11: the offset at a time, or at one of the special
// places of a log.
//
//	v1   one offset per partition
//	v2   isolation level, throttle time
//	v4   leader epochs
//	v5   OFFSET_NOT_AVAILABLE where older versions got LEADER_NOT_AVAILABLE
//	v6   flexible
//	v7   max timestamp, -3 (KIP-734)
//	v8   earliest local, -4 (KIP-405)
//	v9   latest tiered, -5 (KIP-1005)
//	v10  timeout, for tiered look-ups
//	v11  earliest pending upload, -6 (KIP-1023)
func (h *Handlers) listOffsets(_ context.Context, _ *call, req *kmsg.ListOffsetsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	image := h.image()
	repeated := repeatedPartitions(req)
	ask := replica.ListOffsetsRequest{Version: req.Version, ReplicaID: req.ReplicaID, Isolation: replica.Isolation(req.IsolationLevel)}
	for i := range req.Topics {
		ask.Partitions = ask.Partitions[:0]
		partitions := make([]int32, 0, len(req.Topics[i].Partitions))
		for _, p := range req.Topics[i].Partitions {
			part := replica.ListOffsetsPartition{CurrentLeaderEpoch: p.CurrentLeaderEpoch, Timestamp: p.Timestamp}
			part.TopicIDPartition, part.Result.Err = resolve(image, req.Topics[i].Topic, p.Partition)
			switch repeated.visit(req.Topics[i].Topic, p.Partition) {
			case firstOfMany:
				part.Result.Err = kafkaerr.InvalidRequest
			case answeredBefore:
				continue
			}
			ask.Partitions, partitions = append(ask.Partitions, part), append(partitions, p.Partition)
		}
		h.replicas.ListOffsets(&ask)
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = req.Topics[i].Topic
		for j := range ask.Partitions {
			topic.Partitions = append(topic.Partitions, listOffsetsAnswer(req.Version, partitions[j], &ask.Partitions[j].Result))
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}

// repeats knows which partitions a request names more than once. They are refused, and
// answered once.
type repeats map[topicPartition]visit

// topicPartition names a partition as older requests do.
type topicPartition struct {
	topic     string
	partition int32
}

type visit int8

const (
	only visit = iota
	firstOfMany
	answeredBefore
)

func repeatedPartitions(req *kmsg.ListOffsetsRequest) repeats {
	seen := make(repeats)
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			at := topicPartition{req.Topics[i].Topic, p.Partition}
			if _, again := seen[at]; again {
				seen[at] = firstOfMany
			} else {
				seen[at] = only
			}
		}
	}
	return seen
}

// visit tells how to answer the next naming of a partition.
func (r repeats) visit(topic string, partition int32) visit {
	at := topicPartition{topic, partition}
	v := r[at]
	if v == firstOfMany {
		r[at] = answeredBefore
	}
	return v
}

func listOffsetsAnswer(version int16, partition int32, r *replica.ListOffsetsResult) kmsg.ListOffsetsResponseTopicPartition {
	p := kmsg.NewListOffsetsResponseTopicPartition()
	p.Partition, p.ErrorCode = partition, kafkaerr.Code(r.Err)
	p.Timestamp, p.Offset, p.LeaderEpoch = -1, -1, -1
	if r.Err != nil {
		return p
	}
	p.Timestamp, p.Offset = r.TimestampMs, r.Offset
	if version >= 4 {
		p.LeaderEpoch = r.LeaderEpoch
	}
	return p
}
