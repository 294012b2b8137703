package handlers

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
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
		why := h.notDeleted(name, id, err)
		topic.ErrorCode, topic.ErrorMessage = kafkaerr.Code(why), kafkaerr.Message(why)
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

// notDeleted is why a topic was not deleted when the controller could not be asked: a
// controller that is not the active one says of a topic that it does not know just that.
func (h *Handlers) notDeleted(name *string, id uuid.UUID, err error) error {
	switch {
	case !errors.Is(err, kafkaerr.NotController):
	case name != nil && h.image().Topic(*name) == nil:
		return kafkaerr.UnknownTopicOrPartition
	case name == nil && h.image().TopicByID(id) == nil:
		return kafkaerr.UnknownTopicID
	}
	return err
}
