package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// DeleteTopics (key 20), versions 1–6: removes topics and all their records.
//
//	v1  throttle time
//	v3  TOPIC_DELETION_DISABLED where older versions got INVALID_REQUEST
//	v4  flexible
//	v5  error message
//	v6  by name or by id
func (h *Handlers) deleteTopics(ctx context.Context, c call, req *kmsg.DeleteTopicsRequest) (kmsg.Response, error) {
	resp, err := h.forward(ctx, c, req)
	if err == nil {
		return resp, nil
	}
	failed := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	add := func(name *string, id [16]byte) {
		topic := kmsg.NewDeleteTopicsResponseTopic()
		topic.Topic, topic.TopicID = name, id
		topic.ErrorCode, topic.ErrorMessage = kafkaerr.Code(err), kafkaerr.Message(err)
		failed.Topics = append(failed.Topics, topic)
	}
	for i := range req.TopicNames {
		add(&req.TopicNames[i], [16]byte{})
	}
	for i := range req.Topics {
		add(req.Topics[i].Topic, req.Topics[i].TopicID)
	}
	return failed, nil
}
