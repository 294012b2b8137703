package handlers

import (
	"bytes"
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// JoinGroup (key 11), versions 0–9: a member enters a group, or a new generation of it,
// and waits until all have.
//
//	v1  rebalance timeout
//	v2  throttle time
//	v4  MEMBER_ID_REQUIRED for a first join (KIP-394)
//	v5  group instance id (KIP-345)
//	v6  flexible
//	v7  protocol type, protocol name may be null
//	v8  reason (KIP-800)
//	v9  skip_assignment (KIP-814)
func (h *Handlers) joinGroup(ctx context.Context, c call, req *kmsg.JoinGroupRequest) (kmsg.Response, error) {
	for i := range req.Protocols {
		req.Protocols[i].Metadata = bytes.Clone(req.Protocols[i].Metadata)
	}
	done, err := h.awaitGroup(c)
	if err != nil {
		resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode, resp.Generation, resp.MemberID = kafkaerr.Code(err), -1, req.MemberID
		return resp, nil
	}
	defer done()
	return h.groups.JoinGroup(ctx, c.member(), req), nil
}
