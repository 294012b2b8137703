package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterPartition (key 56), versions 2–3: the leader of partitions asks the controller for
// other in-sync replicas (KIP-497). Brokers send it, on controller listeners.
//
//	v2  topic ids, leader recovery state
//	v3  broker epochs of the members (KIP-903)
func (h *Handlers) alterPartition(ctx context.Context, c call, req *kmsg.AlterPartitionRequest) (kmsg.Response, error) {
	resp, _ := h.control(ctx, c, req)
	return resp, nil
}
