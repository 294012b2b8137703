package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// DescribeDelegationToken (key 41), versions 1–3: the tokens of some owners, or all.
//
//	v2  flexible
//	v3  requester of each token
func (h *Handlers) describeDelegationToken(_ context.Context, _ call, req *kmsg.DescribeDelegationTokenRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeDelegationTokenResponse)
	resp.ErrorCode = kafkaerr.DelegationTokenRequestNotAllowed.Code
	return resp, nil
}
