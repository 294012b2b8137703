package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// CreateAcls (key 30), versions 1–3: adds ACLs.
//
//	v1  pattern type (KIP-290)
//	v2  flexible
//	v3  resource type User
func (h *Handlers) createACLs(_ context.Context, _ call, req *kmsg.CreateACLsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.CreateACLsResponse)
	for _, c := range req.Creations {
		if err := checkACL(c.ResourceType, c.ResourcePatternType, c.Operation, c.PermissionType); err != nil {
			return nil, err
		}
		refused := kmsg.NewCreateACLsResponseResult()
		refused.ErrorCode, refused.ErrorMessage = kafkaerr.Code(errNoAuthorizer), kafkaerr.Message(errNoAuthorizer)
		resp.Results = append(resp.Results, refused)
	}
	return resp, nil
}
