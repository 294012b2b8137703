package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// DeleteAcls (key 31), versions 1–3: removes the ACLs that match filters.
//
//	v1  pattern type (KIP-290)
//	v2  flexible
//	v3  resource type User
func (h *Handlers) deleteACLs(_ context.Context, _ call, req *kmsg.DeleteACLsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DeleteACLsResponse)
	for _, f := range req.Filters {
		if err := checkACL(f.ResourceType, f.ResourcePatternType, f.Operation, f.PermissionType); err != nil {
			return nil, err
		}
		refused := kmsg.NewDeleteACLsResponseResult()
		refused.ErrorCode, refused.ErrorMessage = kafkaerr.Code(errNoAuthorizer), kafkaerr.Message(errNoAuthorizer)
		resp.Results = append(resp.Results, refused)
	}
	return resp, nil
}
