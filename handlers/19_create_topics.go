package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// CreateTopics (key 19), versions 2–7: makes topics. The controller decides; this broker
// answers when its own image shows them, so that the client's next request here finds them.
//
//	v2  throttle time
//	v4  partitions and replication factor may be -1: the broker's defaults (KIP-464)
//	v5  flexible; the answer lists partitions, replication factor and all configuration (KIP-525)
//	v6  THROTTLING_QUOTA_EXCEEDED possible (KIP-599)
//	v7  topic id in the answer
func (h *Handlers) createTopics(ctx context.Context, c call, req *kmsg.CreateTopicsRequest) (kmsg.Response, error) {
	resp, err := h.forward(ctx, c, req)
	if err == nil {
		return resp, nil
	}
	failed := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	for i := range req.Topics {
		topic := kmsg.NewCreateTopicsResponseTopic()
		topic.Topic, topic.Configs = req.Topics[i].Topic, []kmsg.CreateTopicsResponseTopicConfig{}
		topic.ErrorCode, topic.ErrorMessage = kafkaerr.Code(err), kafkaerr.Message(err)
		failed.Topics = append(failed.Topics, topic)
	}
	return failed, nil
}
