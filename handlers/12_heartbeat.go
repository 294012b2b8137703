package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Heartbeat (key 12), versions 0–4: a member says that it is there, and learns of a
// rebalance.
//
//	v1  throttle time
//	v3  group instance id (KIP-345)
//	v4  flexible
func (h *Handlers) heartbeat(ctx context.Context, c call, req *kmsg.HeartbeatRequest) (kmsg.Response, error) {
	return h.groups.Heartbeat(ctx, c.member(), req), nil
}
