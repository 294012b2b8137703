package controller

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// access gives what the caller may do.
func (c *Call) access() Access {
	if c.Access == nil {
		return everything{}
	}
	return c.Access
}

// timedOut reports whether a request's timeout has passed. One that asks for none at all
// always times out, without effect, as in Kafka, where the deadline is looked at before
// the request is.
func (c *Call) timedOut(now time.Time, timeoutMs int32) bool {
	return !now.Before(c.Received.Add(time.Duration(timeoutMs) * time.Millisecond))
}

// everything is the access of a caller that needs no permission.
type everything struct{}

func (everything) CreateTopic(string) bool          { return true }
func (everything) DescribeTopicConfigs(string) bool { return true }
func (everything) DescribeTopic(string) bool        { return true }
func (everything) DeleteTopic(string) bool          { return true }
func (everything) AlterTopic(string) bool           { return true }

// ErrorResponse answers a whole request with one error, as Kafka's getErrorResponse does:
// for each topic named, repeated ones too, or at the top. Nil for a request that is not
// the controller's.
func ErrorResponse(req kmsg.Request, err error) kmsg.Response {
	code := kafkaerr.Code(err)
	switch resp := req.ResponseKind().(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range req.(*kmsg.CreateTopicsRequest).Topics {
			answer := newCreateAnswer(t.Topic)
			answer.ErrorCode, answer.ErrorMessage = code, answerMessage(err)
			resp.Topics = append(resp.Topics, answer)
		}
		return resp
	case *kmsg.DeleteTopicsResponse:
		deleteTopicsError(req.(*kmsg.DeleteTopicsRequest), resp, code)
		return resp
	case *kmsg.CreatePartitionsResponse:
		for _, t := range req.(*kmsg.CreatePartitionsRequest).Topics {
			resp.Topics = append(resp.Topics, growthAnswer(t.Topic, err))
		}
		return resp
	case *kmsg.ElectLeadersResponse:
		electLeadersError(req.(*kmsg.ElectLeadersRequest), resp, err)
		return resp
	case *kmsg.AlterPartitionAssignmentsResponse:
		alterReassignmentsError(req.(*kmsg.AlterPartitionAssignmentsRequest), resp, err)
		return resp
	case *kmsg.ListPartitionReassignmentsResponse:
		listReassignmentsError(req.(*kmsg.ListPartitionReassignmentsRequest), resp, err)
		return resp
	case *kmsg.AlterClientQuotasResponse:
		alterQuotasError(req.(*kmsg.AlterClientQuotasRequest), resp, err)
		return resp
	case *kmsg.UpdateFeaturesResponse:
		resp.ErrorCode, resp.ErrorMessage = code, answerMessage(err)
		return resp
	case *kmsg.UnregisterBrokerResponse:
		resp.ErrorCode, resp.ErrorMessage = code, answerMessage(err)
		return resp
	case *kmsg.AlterConfigsResponse:
		for _, r := range req.(*kmsg.AlterConfigsRequest).Resources {
			answer := kmsg.NewAlterConfigsResponseResource()
			answer.ResourceType, answer.ResourceName = r.ResourceType, r.ResourceName
			answer.ErrorCode, answer.ErrorMessage = code, answerMessage(err)
			resp.Resources = append(resp.Resources, answer)
		}
		return resp
	case *kmsg.IncrementalAlterConfigsResponse:
		for _, r := range req.(*kmsg.IncrementalAlterConfigsRequest).Resources {
			answer := kmsg.NewIncrementalAlterConfigsResponseResource()
			answer.ResourceType, answer.ResourceName = r.ResourceType, r.ResourceName
			answer.ErrorCode, answer.ErrorMessage = code, answerMessage(err)
			resp.Resources = append(resp.Resources, answer)
		}
		return resp
	case *kmsg.BrokerRegistrationResponse:
		resp.ErrorCode = code
		if code != 0 {
			setReason(&resp.UnknownTags, err)
		}
		return resp
	case *kmsg.ControllerRegistrationResponse:
		resp.ErrorCode, resp.ErrorMessage = code, answerMessage(err)
		return resp
	case *kmsg.AddRaftVoterResponse:
		resp.ErrorCode, resp.ErrorMessage = leaderCode(code), quorumMessage(err)
		return resp
	case *kmsg.RemoveRaftVoterResponse:
		resp.ErrorCode, resp.ErrorMessage = leaderCode(code), quorumMessage(err)
		return resp
	case *kmsg.UpdateRaftVoterResponse:
		resp.ErrorCode = leaderCode(code)
		return resp
	case *kmsg.BrokerHeartbeatResponse:
		resp.ErrorCode = code
		return resp
	case *kmsg.AllocateProducerIDsResponse:
		resp.ErrorCode = code
		return resp
	case *kmsg.AlterPartitionResponse:
		resp.ErrorCode = code
		return resp
	case *kmsg.AssignReplicasToDirsResponse:
		resp.ErrorCode = code
		return resp
	}
	return nil
}

// leaderCode is the code of an error about the quorum, which has leaders and no controllers.
func leaderCode(code int16) int16 {
	if code == kafkaerr.NotController.Code {
		return kafkaerr.NotLeaderOrFollower.Code
	}
	return code
}

// quorumMessage is answerMessage but for who does not lead, which has nothing to say.
func quorumMessage(err error) *string {
	if leaderCode(kafkaerr.Code(err)) == kafkaerr.NotLeaderOrFollower.Code {
		return new(string)
	}
	return answerMessage(err)
}

// deleteTopicsError has no messages, as in Kafka.
func deleteTopicsError(req *kmsg.DeleteTopicsRequest, resp *kmsg.DeleteTopicsResponse, code int16) {
	for _, n := range req.TopicNames {
		t := kmsg.NewDeleteTopicsResponseTopic()
		t.Topic, t.ErrorCode = &n, code
		resp.Topics = append(resp.Topics, t)
	}
	for _, n := range req.Topics {
		t := kmsg.NewDeleteTopicsResponseTopic()
		t.Topic, t.TopicID, t.ErrorCode = n.Topic, n.TopicID, code
		resp.Topics = append(resp.Topics, t)
	}
}

// answerMessage is the text for an error-message field: a kind alone gives the general text
// for it, an empty detail gives null.
func answerMessage(err error) *string {
	var detail *kafkaerr.Detail
	var kind *kafkaerr.Kind
	switch {
	case err == nil:
		return nil
	case errors.As(err, &detail):
		if detail.Text == "" {
			return nil
		}
		return &detail.Text
	case errors.As(err, &kind):
		return &kind.Description
	}
	return kafkaerr.Message(err)
}
