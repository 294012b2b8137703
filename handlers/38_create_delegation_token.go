package handlers

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// A delegation token stands for somebody who has authenticated, so whoever comes over a
// listener without authentication is refused before anything else is looked at.

// noTime is what a refusal has instead of a time.
const noTime = -1

// CreateDelegationToken (key 38), versions 1–3: a token for the client or, from version
// 3 on, another owner (KIP-48, KIP-373).
//
//	v2  flexible
//	v3  owner and requester
func (h *Handlers) createDelegationToken(_ context.Context, c call, req *kmsg.CreateDelegationTokenRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.CreateDelegationTokenResponse)
	resp.ErrorCode = kafkaerr.DelegationTokenRequestNotAllowed.Code
	kind, name, _ := strings.Cut(c.principal(), ":")
	resp.PrincipalType, resp.PrincipalName = kind, name
	resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp = noTime, noTime, noTime
	if req.Version >= 3 {
		resp.TokenRequesterPrincipalType, resp.TokenRequesterPrincipalName = kind, name
	}
	if req.OwnerPrincipalName != nil && *req.OwnerPrincipalName != "" {
		if req.OwnerPrincipalType == nil { // a principal without a type cannot be made
			resp.ErrorCode = kafkaerr.UnknownServerErrorCode
			return resp, nil
		}
		resp.PrincipalType, resp.PrincipalName = *req.OwnerPrincipalType, *req.OwnerPrincipalName
	}
	return resp, nil
}
