package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// AssignReplicasToDirs (key 73), version 0: a broker says in which of its log directories
// replicas are (KIP-858). Brokers send it, on controller listeners.
func (h *Handlers) assignReplicasToDirs(ctx context.Context, c call, req *kmsg.AssignReplicasToDirsRequest) (kmsg.Response, error) {
	resp, _ := h.control(ctx, c, req)
	return resp, nil
}
