package controller

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// The kinds of election in ElectLeaders.
const (
	preferredElection int8 = 0
	uncleanElection   int8 = 1
)

// electLeaders decides an ElectLeaders request, versions 0 to 2
// (ReplicationControlManager.electLeaders): first replicas take leaderships back, or
// partitions without a leader get one that may lack records. Null topics are all of them;
// where no election is needed they are then left out of the answer.
func (s *state) electLeaders(now time.Time, call Call) decision {
	req := call.Request.(*kmsg.ElectLeadersRequest)
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	switch {
	case req.Topics != nil && len(req.Topics) == 0:
		return decision{response: resp}
	case call.timedOut(now, req.TimeoutMillis):
		return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.RequestTimedOut, ""))}
	case req.ElectionType != preferredElection && req.ElectionType != uncleanElection:
		return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf("there is no kind %d of elections", req.ElectionType)))}
	}
	e := elections{state: s, kind: req.ElectionType, resp: resp}
	if req.Topics == nil {
		e.all()
	}
	for i := range req.Topics {
		e.some(&req.Topics[i])
	}
	if len(e.records) > maxRecordsPerRequest {
		return decision{response: ErrorResponse(req, errTooManyRecords)}
	}
	return decision{records: e.records, response: resp}
}

// elections is an ElectLeaders request on its way.
type elections struct {
	state   *state
	kind    int8
	resp    *kmsg.ElectLeadersResponse
	records []metadata.Record
}

func (e *elections) all() {
	for t := range e.state.image.Topics() {
		answer := kmsg.NewElectLeadersResponseTopic()
		answer.Topic = t.Name
		for _, p := range t.Partitions {
			if err := e.elect(t, p.Index); kafkaerr.Code(err) != kafkaerr.ElectionNotNeeded.Code {
				answer.Partitions = append(answer.Partitions, electionAnswer(p.Index, err))
			}
		}
		e.resp.Topics = append(e.resp.Topics, answer)
	}
}

func (e *elections) some(asked *kmsg.ElectLeadersRequestTopic) {
	answer := kmsg.NewElectLeadersResponseTopic()
	answer.Topic = asked.Topic
	t := e.state.image.Topic(asked.Topic)
	for _, index := range asked.Partitions {
		answer.Partitions = append(answer.Partitions, electionAnswer(index, e.elect(t, index)))
	}
	e.resp.Topics = append(e.resp.Topics, answer)
}

func electionAnswer(partition int32, err error) kmsg.ElectLeadersResponseTopicPartition {
	answer := kmsg.NewElectLeadersResponseTopicPartition()
	answer.Partition, answer.ErrorCode, answer.ErrorMessage = partition, kafkaerr.Code(err), answerMessage(err)
	return answer
}

// elect decides one partition; an error says why its leader stays.
func (e *elections) elect(t *metadata.Topic, index int32) error {
	p := t.Partition(index)
	if p == nil {
		return kafkaerr.New(kafkaerr.UnknownTopicOrPartition, fmt.Sprintf("there is no such partition %d", index))
	}
	if e.kind == preferredElection && p.Leader == p.Replicas[0] || e.kind == uncleanElection && p.Leader != metadata.NoLeader {
		return kafkaerr.ElectionNotNeeded
	}
	tp := topicPartition{t, p}
	c := newPartitionChange(p, e.state.elections(t.Name).MinISR, func(r int32) bool { return e.state.mayLead(tp, r) })
	c.election = electPreferred
	if e.kind == uncleanElection {
		c.election, c.byLogs = electUnclean, e.state.byLogs(tp)
	}
	r, changed := changeRecord(t.ID, p, c.build())
	switch {
	case changed:
		e.records = append(e.records, r)
		return nil
	case e.kind == preferredElection:
		return kafkaerr.PreferredLeaderNotAvailable
	default:
		return kafkaerr.EligibleLeadersNotAvailable
	}
}

// electLeadersError answers each partition named, and the request as a whole from version 1 on.
func electLeadersError(req *kmsg.ElectLeadersRequest, resp *kmsg.ElectLeadersResponse, err error) {
	resp.ErrorCode = kafkaerr.Code(err)
	for _, t := range req.Topics {
		answer := kmsg.NewElectLeadersResponseTopic()
		answer.Topic = t.Topic
		for _, p := range t.Partitions {
			answer.Partitions = append(answer.Partitions, electionAnswer(p, err))
		}
		resp.Topics = append(resp.Topics, answer)
	}
}
