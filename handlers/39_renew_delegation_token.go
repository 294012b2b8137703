package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// RenewDelegationToken (key 39), versions 1–2: lets a token live longer.
//
//	v2  flexible
func (h *Handlers) renewDelegationToken(_ context.Context, _ call, req *kmsg.RenewDelegationTokenRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.RenewDelegationTokenResponse)
	resp.ErrorCode, resp.ExpiryTimestamp = kafkaerr.DelegationTokenRequestNotAllowed.Code, noTime
	return resp, nil
}
