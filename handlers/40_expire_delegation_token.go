package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// ExpireDelegationToken (key 40), versions 1–2: ends a token, now or later.
//
//	v2  flexible
func (h *Handlers) expireDelegationToken(_ context.Context, _ call, req *kmsg.ExpireDelegationTokenRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ExpireDelegationTokenResponse)
	resp.ErrorCode, resp.ExpiryTimestamp = kafkaerr.DelegationTokenRequestNotAllowed.Code, noTime
	return resp, nil
}
