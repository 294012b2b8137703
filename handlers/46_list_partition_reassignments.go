package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListPartitionReassignments (key 46), version 0: the moves that are under way. Only the
// controller's answer is sure to be the newest.
func (h *Handlers) listPartitionReassignments(ctx context.Context, c call, req *kmsg.ListPartitionReassignmentsRequest) (kmsg.Response, error) {
	return h.decided(ctx, c, req), nil
}
