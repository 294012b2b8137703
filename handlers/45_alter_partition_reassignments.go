package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterPartitionReassignments (key 45), versions 0–1: moves partitions to other brokers
// (KIP-455), by the controller.
//
//	v0  flexible
//	v1  whether the number of replicas may change (KIP-860)
func (h *Handlers) alterPartitionReassignments(ctx context.Context, c call, req *kmsg.AlterPartitionAssignmentsRequest) (kmsg.Response, error) {
	return h.decided(ctx, c, req), nil
}
