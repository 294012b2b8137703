package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeGroups (key 15), versions 0–6: state, members and assignments of classic groups.
//
//	v1  throttle time
//	v3  authorized operations
//	v4  group instance id of members (KIP-345)
//	v5  flexible
//	v6  GROUP_ID_NOT_FOUND where older versions say that the group is Dead; error message
func (h *Handlers) describeGroups(ctx context.Context, c call, req *kmsg.DescribeGroupsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	resp.Groups = h.groups.DescribeGroups(ctx, c.member(), req.Groups)
	for i := range resp.Groups {
		if req.IncludeAuthorizedOperations && resp.Groups[i].ErrorCode == 0 {
			resp.Groups[i].AuthorizedOperations = groupOperations
		}
	}
	return resp, nil
}
