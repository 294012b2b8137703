package handlers

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// DescribeTopicPartitions (key 75), version 0: topics with their partitions, page by page
// in the order of their names (KIP-966). A page ends after so many partitions as the client
// asks for, at most max.request.partition.size.limit; the cursor says where the next begins.
// No topics are all topics.
func (h *Handlers) describeTopicPartitions(_ context.Context, c call, req *kmsg.DescribeTopicPartitionsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	image := h.image()
	p := partitionsPage{image: image, view: viewBrokers(image, c.request.Conn.Listener.Name), all: len(req.Topics) == 0, resp: resp}
	names, err := p.names(req)
	if err != nil {
		return refusedPartitions(req, resp, err), nil
	}
	p.room = int(max(1, min(h.config.MaxPartitionsShown, req.ResponsePartitionLimit)))
	for _, name := range names {
		from := int32(0)
		if req.Cursor != nil && req.Cursor.Topic == name {
			from = req.Cursor.Partition
		}
		if !p.add(name, from) {
			break
		}
	}
	return resp, nil
}

// refusedPartitions fails the request as a whole: an error for each topic named.
func refusedPartitions(req *kmsg.DescribeTopicPartitionsRequest, resp *kmsg.DescribeTopicPartitionsResponse, err error) *kmsg.DescribeTopicPartitionsResponse {
	for i := range req.Topics {
		topic := kmsg.NewDescribeTopicPartitionsResponseTopic()
		topic.Topic, topic.ErrorCode = &req.Topics[i].Topic, kafkaerr.Code(err)
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// partitionsPage is an answer that grows.
type partitionsPage struct {
	image *metadata.Image
	view  brokersView
	all   bool // nothing was named
	room  int  // for so many more partitions
	resp  *kmsg.DescribeTopicPartitionsResponse
}

// names are the topics of this page and those after it, in order, each once.
func (p *partitionsPage) names(req *kmsg.DescribeTopicPartitionsRequest) (names []string, err error) {
	first := ""
	if req.Cursor != nil {
		first = req.Cursor.Topic
	}
	add := func(name string) {
		if name >= first {
			names = append(names, name)
		}
	}
	if p.all {
		for topic := range p.image.Topics() {
			add(topic.Name)
		}
	}
	for i := range req.Topics {
		add(req.Topics[i].Topic)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	switch {
	case req.Cursor == nil && len(names) > 0 && names[0] == "":
		return nil, kafkaerr.UnknownServerError // as in Kafka, which takes it for where the cursor is
	case req.Cursor == nil:
	case !p.all && !slices.Contains(names, first), req.Cursor.Partition < 0:
		return nil, kafkaerr.InvalidRequest
	}
	return names, nil
}

// add puts a topic into the page, from one of its partitions on; false if the page is full.
func (p *partitionsPage) add(name string, from int32) bool {
	if p.room == 0 {
		p.endAt(name, 0)
		return false
	}
	answer := kmsg.NewDescribeTopicPartitionsResponseTopic()
	answer.Topic, answer.IsInternal, answer.AuthorizedOperations = &name, metadata.IsInternalTopic(name), topicOperations
	topic := p.image.Topic(name)
	if topic == nil {
		err := metadata.ValidateTopicName(name)
		if err == nil {
			err = kafkaerr.UnknownTopicOrPartition
		}
		answer.ErrorCode = kafkaerr.Code(err)
		p.resp.Topics = append(p.resp.Topics, answer)
		return true
	}
	answer.TopicID = topic.ID
	left := topic.Partitions[min(int(from), len(topic.Partitions)):]
	shown := left[:min(p.room, len(left))]
	for _, partition := range shown {
		answer.Partitions = append(answer.Partitions, p.describe(partition))
	}
	p.resp.Topics = append(p.resp.Topics, answer)
	p.room -= len(shown)
	if len(shown) < len(left) {
		p.endAt(name, from+int32(len(shown)))
		return false
	}
	return true
}

func (p *partitionsPage) endAt(topic string, partition int32) {
	cursor := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	cursor.Topic, cursor.Partition = topic, partition
	p.resp.NextCursor = &cursor
}

// describe is one partition. Unlike Metadata it has no error for a leader that cannot be
// reached, only -1 in its place.
func (p *partitionsPage) describe(partition *metadata.Partition) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	d := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	d.Partition, d.LeaderEpoch = partition.Index, partition.LeaderEpoch
	d.LeaderID, _ = p.view.leader(newestMetadata, partition.Leader)
	d.Replicas, d.ISR, d.OfflineReplicas = partition.Replicas, partition.ISR, p.view.appendOffline(nil, partition)
	d.EligibleLeaderReplicas, d.LastKnownELR = notNull(partition.ELR), notNull(partition.LastKnownELR)
	return d
}

// newestMetadata is a version of Metadata without the quirks of older ones.
const newestMetadata = 13

// notNull is an empty list where nil would be null.
func notNull(ids []int32) []int32 {
	if ids == nil {
		return []int32{}
	}
	return ids
}
