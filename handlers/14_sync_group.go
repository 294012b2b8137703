package handlers

import (
	"bytes"
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// SyncGroup (key 14), versions 0–5: the leader of a generation hands in everybody's
// assignment, and each member waits for its own.
//
//	v1  throttle time
//	v3  group instance id (KIP-345)
//	v4  flexible
//	v5  protocol type and name, which must be there
func (h *Handlers) syncGroup(ctx context.Context, c call, req *kmsg.SyncGroupRequest) (kmsg.Response, error) {
	for i := range req.GroupAssignment {
		req.GroupAssignment[i].MemberAssignment = bytes.Clone(req.GroupAssignment[i].MemberAssignment)
	}
	done, err := h.awaitGroup(c)
	if err != nil {
		resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
		resp.ErrorCode = kafkaerr.Code(err)
		return resp, nil
	}
	defer done()
	return h.groups.SyncGroup(ctx, c.member(), req), nil
}
