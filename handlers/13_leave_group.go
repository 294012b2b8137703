package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// LeaveGroup (key 13), versions 0–5: members leave a group, or are removed from it.
//
//	v1  throttle time
//	v3  several members, also by instance id, each with its error (KIP-345)
//	v4  flexible
//	v5  reason (KIP-800)
func (h *Handlers) leaveGroup(ctx context.Context, c call, req *kmsg.LeaveGroupRequest) (kmsg.Response, error) {
	return h.groups.LeaveGroup(ctx, c.member(), req), nil
}
