package handlers

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// The three requests about ACLs end the connection if they name something by the number
// 0, "unknown", which Kafka finds while it decodes. Whatever else they say, a broker
// without an authorizer refuses.

// errNoAuthorizer is the answer of a broker that keeps no ACLs.
var errNoAuthorizer = kafkaerr.New(kafkaerr.SecurityDisabled, "this broker has no authorizer, so there are no ACLs")

// DescribeAcls (key 29), versions 1–3: the ACLs that match a filter.
//
//	v1  pattern type (KIP-290)
//	v2  flexible
//	v3  resource type User
func (h *Handlers) describeACLs(_ context.Context, _ call, req *kmsg.DescribeACLsRequest) (kmsg.Response, error) {
	err := checkACL(req.ResourceType, req.ResourcePatternType, req.Operation, req.PermissionType)
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind().(*kmsg.DescribeACLsResponse)
	resp.ErrorCode, resp.ErrorMessage = kafkaerr.Code(errNoAuthorizer), kafkaerr.Message(errNoAuthorizer)
	return resp, nil
}

// checkACL refuses numbers that mean "unknown".
func checkACL(resource kmsg.ACLResourceType, pattern kmsg.ACLResourcePatternType, operation kmsg.ACLOperation, permission kmsg.ACLPermissionType) error {
	if resource == 0 || pattern == 0 || operation == 0 || permission == 0 {
		return fmt.Errorf("%w: an ACL with an unknown element", errBadBody)
	}
	return nil
}
