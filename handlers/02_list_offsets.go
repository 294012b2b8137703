package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
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
//
// A topic that is named in several places is answered in one, as in Kafka.
func (h *Handlers) listOffsets(_ context.Context, _ call, req *kmsg.ListOffsetsRequest) (kmsg.Response, error) {
	if !validIsolation(req.IsolationLevel) {
		return refusedOffsets(req), nil
	}
	l := listOffsetsCall{req: req, image: h.image(), repeated: repeatedPartitions(req)}
	l.ask = replica.ListOffsetsRequest{Version: req.Version, ReplicaID: req.ReplicaID, Isolation: replica.Isolation(req.IsolationLevel)}
	for i := range req.Topics {
		l.resolve(&req.Topics[i])
	}
	h.replicas.ListOffsets(&l.ask)
	return l.response(), nil
}

// refusedOffsets fails the request as a whole, whose isolation level does not exist: with an
// error wherever a partition is named, and topics without partitions as they came.
func refusedOffsets(req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for i := range req.Topics {
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = req.Topics[i].Topic
		for _, p := range req.Topics[i].Partitions {
			refused := replica.ListOffsetsResult{Err: kafkaerr.UnknownServerError}
			topic.Partitions = append(topic.Partitions, listOffsetsAnswer(req.Version, p.Partition, &refused))
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// listOffsetsCall is a ListOffsets request on its way.
type listOffsetsCall struct {
	req      *kmsg.ListOffsetsRequest
	image    *metadata.Image
	repeated repeats
	ask      replica.ListOffsetsRequest
	names    []topicPartition // of ask.Partitions, same order
}

// resolve adds the partitions of a topic to what is asked.
func (l *listOffsetsCall) resolve(topic *kmsg.ListOffsetsRequestTopic) {
	for i := range topic.Partitions {
		p := &topic.Partitions[i]
		name := topicPartition{topic.Topic, p.Partition}
		visit := l.repeated.visit(name)
		if visit == answeredBefore {
			continue
		}
		part := replica.ListOffsetsPartition{CurrentLeaderEpoch: p.CurrentLeaderEpoch, Timestamp: p.Timestamp}
		part.TopicIDPartition, part.Result.Err = l.check(name, p.Timestamp, visit)
		l.ask.Partitions, l.names = append(l.ask.Partitions, part), append(l.names, name)
	}
}

// check is everything that can refuse a partition before its log is asked, in Kafka's
// order.
func (l *listOffsetsCall) check(name topicPartition, timestamp int64, visit visit) (replica.TopicIDPartition, error) {
	if visit == firstOfMany {
		return replica.TopicIDPartition{}, kafkaerr.InvalidRequest
	}
	if err := replica.CheckTimestamp(l.req.Version, timestamp); err != nil {
		return replica.TopicIDPartition{}, err
	}
	return resolve(l.image, name.topic, name.partition)
}

// response shapes the results. A topic without partitions is not answered.
func (l *listOffsetsCall) response() *kmsg.ListOffsetsResponse {
	resp := l.req.ResponseKind().(*kmsg.ListOffsetsResponse)
	topics := make(map[string]int, len(l.req.Topics)) // index in resp.Topics
	for i := range l.ask.Partitions {
		name := l.names[i]
		at, ok := topics[name.topic]
		if !ok {
			at = len(resp.Topics)
			topics[name.topic] = at
			topic := kmsg.NewListOffsetsResponseTopic()
			topic.Topic = name.topic
			resp.Topics = append(resp.Topics, topic)
		}
		resp.Topics[at].Partitions = append(resp.Topics[at].Partitions, listOffsetsAnswer(l.req.Version, name.partition, &l.ask.Partitions[i].Result))
	}
	return resp
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
func (r repeats) visit(at topicPartition) visit {
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
