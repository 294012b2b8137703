package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteGroups (key 42), versions 0–3: removes groups without members, with everything
// that they have committed.
//
//	v1  throttle time
//	v2  flexible
//	v3  error message (KIP-1331)
//
// A group that is named twice is answered once.
func (h *Handlers) deleteGroups(ctx context.Context, c call, req *kmsg.DeleteGroupsRequest) (kmsg.Response, error) {
	seen := make(map[string]struct{}, len(req.Groups))
	once := req.Groups[:0]
	for _, id := range req.Groups {
		if _, again := seen[id]; !again {
			seen[id] = struct{}{}
			once = append(once, id)
		}
	}
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	resp.Groups = h.groups.DeleteGroups(ctx, c.member(), once)
	return resp, nil
}
