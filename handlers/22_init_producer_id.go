package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// InitProducerID (key 22), versions 0–5: a producer id for an idempotent producer.
//
//	v2  flexible
//	v3  the producer id and epoch that the client has (KIP-360)
//	v4  PRODUCER_FENCED where older versions got INVALID_PRODUCER_EPOCH
//
// Without a transactional id the answer is a new id with epoch 0, whatever id the client
// had. A transactional id is refused with an error that clients do not retry, until
// transactions exist.
func (h *Handlers) initProducerID(ctx context.Context, _ call, req *kmsg.InitProducerIDRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if err := checkInitProducerID(req); err != nil {
		resp.ErrorCode = kafkaerr.Code(err)
		return resp, nil
	}
	id, err := h.node.NextProducerID(ctx)
	if err != nil {
		resp.ErrorCode = kafkaerr.Code(err)
		return resp, nil
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return resp, nil
}

func checkInitProducerID(req *kmsg.InitProducerIDRequest) error {
	hasID, hasEpoch := req.ProducerID != -1, req.ProducerEpoch != -1
	switch {
	case req.Version >= 3 && hasID != hasEpoch:
		return kafkaerr.InvalidRequest
	case req.TransactionalID == nil:
		return nil
	case *req.TransactionalID == "":
		return kafkaerr.InvalidRequest
	default:
		return kafkaerr.TransactionalIDAuthorizationFailed
	}
}
