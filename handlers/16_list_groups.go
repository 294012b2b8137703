package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListGroups (key 16), versions 0–5: the groups that this broker coordinates.
//
//	v1  throttle time
//	v3  flexible
//	v4  states, in the answer and as a filter (KIP-518)
//	v5  kinds of group, in the answer and as a filter (KIP-848)
func (h *Handlers) listGroups(ctx context.Context, c call, req *kmsg.ListGroupsRequest) (kmsg.Response, error) {
	return h.groups.ListGroups(ctx, c.member(), req), nil
}
