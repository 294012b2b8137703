package controller

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// createPartitions decides a CreatePartitions request, versions 0 to 3
// (ControllerApis.createPartitions, ReplicationControlManager.createPartitions):
//
//	per request  timeout, number of new partitions
//	per topic    named twice, unauthorized | exists, count, number of assignments, quota,
//	             assignment or placement
//
// New partitions have as many replicas as partition 0, while that moves those included that come
// and those that go, as in Kafka. A topic refused does not keep the others of the request from
// growing. With ValidateOnly the answer is the same and nothing is written.
func (s *state) createPartitions(now time.Time, call Call) decision {
	req := call.Request.(*kmsg.CreatePartitionsRequest)
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	refused, topics := screenGrowth(req, call.access())
	resp.Topics = refused
	if len(topics) == 0 {
		return decision{response: resp}
	}
	if call.timedOut(now, req.TimeoutMillis) {
		return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.RequestTimedOut, ""))}
	}
	if s.growsTooMuch(topics) {
		return decision{response: ErrorResponse(req, errTooManyRecords)}
	}
	var records []metadata.Record
	dirs, mutations := &directories{state: s}, s.mutations(now, call, 3)
	for _, t := range topics {
		parts, err := s.growth(t, dirs, mutations)
		for _, p := range parts {
			records = append(records, metadata.PartitionRecord{TopicID: s.image.Topic(t.Topic).ID, Partition: p})
		}
		resp.Topics = append(resp.Topics, growthAnswer(t.Topic, err))
	}
	resp.ThrottleMillis = mutations.throttleMillis()
	if req.ValidateOnly {
		records = nil
	}
	return decision{records: records, atomic: true, response: resp}
}

// errTooManyRecords fails a request as a whole.
var errTooManyRecords = kafkaerr.New(kafkaerr.PolicyViolation, tooManyText)

func growthAnswer(topic string, err error) kmsg.CreatePartitionsResponseTopic {
	answer := kmsg.NewCreatePartitionsResponseTopic()
	answer.Topic, answer.ErrorCode, answer.ErrorMessage = topic, kafkaerr.Code(err), answerMessage(err)
	return answer
}

// screenGrowth separates the topics to grow from those refused for being named twice or
// for lack of rights.
func screenGrowth(req *kmsg.CreatePartitionsRequest, access Access) (refused []kmsg.CreatePartitionsResponseTopic, topics []*kmsg.CreatePartitionsRequestTopic) {
	names := make([]string, len(req.Topics))
	for i := range req.Topics {
		names[i] = req.Topics[i].Topic
	}
	_, repeated := separateRepeated(names)
	twice := make(map[string]bool, len(repeated))
	for _, name := range repeated {
		twice[name] = true
		refused = append(refused, growthAnswer(name, kafkaerr.New(kafkaerr.InvalidRequest, "the request names this topic more than once")))
	}
	for i := range req.Topics {
		switch t := &req.Topics[i]; {
		case twice[t.Topic]:
		case !access.AlterTopic(t.Topic):
			refused = append(refused, growthAnswer(t.Topic, kafkaerr.New(kafkaerr.TopicAuthorizationFailed, "")))
		default:
			topics = append(topics, t)
		}
	}
	return refused, topics
}

// growsTooMuch tells that all the new partitions together are too many for one request.
func (s *state) growsTooMuch(topics []*kmsg.CreatePartitionsRequestTopic) bool {
	more := 0
	for _, t := range topics {
		if topic := s.image.Topic(t.Topic); topic != nil {
			more += max(0, int(t.Count)-len(topic.Partitions))
		}
	}
	return more > maxRecordsPerRequest
}

// growth gives the partitions that a topic gets.
func (s *state) growth(t *kmsg.CreatePartitionsRequestTopic, dirs *directories, mutations *mutations) ([]metadata.Partition, error) {
	topic := s.image.Topic(t.Topic)
	if topic == nil {
		return nil, kafkaerr.New(kafkaerr.UnknownTopicOrPartition, "")
	}
	has := int32(len(topic.Partitions))
	if t.Count <= has {
		return nil, kafkaerr.New(kafkaerr.InvalidPartitions, fmt.Sprintf("topic %s has %d partition(s), %d would be no more", t.Topic, has, t.Count))
	}
	more := int(t.Count - has)
	if t.Assignment != nil && len(t.Assignment) != more {
		return nil, assignmentError("%d new partition(s) need as many assignments, not %d", more, len(t.Assignment))
	}
	if err := mutations.charge(more); err != nil {
		return nil, err
	}
	factor := len(topic.Partitions[0].Replicas)
	if t.Assignment != nil {
		return s.assignedGrowth(t, has, factor, dirs)
	}
	parts, err := s.placedPartitions(more, factor, dirs)
	for i := range parts {
		parts[i].Index += has
	}
	return parts, err
}

// assignedGrowth makes the new partitions where the client wants them.
func (s *state) assignedGrowth(t *kmsg.CreatePartitionsRequestTopic, from int32, factor int, dirs *directories) ([]metadata.Partition, error) {
	parts := make([]metadata.Partition, 0, len(t.Assignment))
	for i, a := range t.Assignment {
		if err := s.checkAssignment(a.Replicas); err != nil {
			return nil, err
		}
		if len(a.Replicas) != factor {
			return nil, assignmentError("a partition is assigned %d replica(s), those before it have %d", len(a.Replicas), factor)
		}
		index := from + int32(i)
		p, ok := s.newPartition(index, a.Replicas, dirs)
		if !ok {
			return nil, assignmentError("every broker that partition %d is assigned to is fenced or shutting down", index)
		}
		parts = append(parts, p)
	}
	return parts, nil
}
