package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// SaslAuthenticate (key 36), versions 0–2: a step of an authentication, refused where
// there is nothing to authenticate.
//
//	v1  lifetime of the session (KIP-368)
//	v2  flexible
func (h *Handlers) saslAuthenticate(_ context.Context, _ call, req *kmsg.SASLAuthenticateRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	text := "this listener asks for no authentication"
	resp.ErrorCode, resp.ErrorMessage = kafkaerr.IllegalSaslState.Code, &text
	return resp, nil
}
