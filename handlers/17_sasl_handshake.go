package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// SaslHandshake (key 17), versions 0–1: the mechanism of an authentication. On a listener
// without SASL nobody can authenticate; the connection goes on.
func (h *Handlers) saslHandshake(_ context.Context, _ call, req *kmsg.SASLHandshakeRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
	resp.ErrorCode = kafkaerr.IllegalSaslState.Code
	return resp, nil
}
