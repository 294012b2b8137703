package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// AllocateProducerIds (key 67), version 0: a broker asks for a block of ids for idempotent
// producers (KIP-730). Brokers send it, on controller listeners.
func (h *Handlers) allocateProducerIDs(ctx context.Context, c call, req *kmsg.AllocateProducerIDsRequest) (kmsg.Response, error) {
	resp, _ := h.control(ctx, c, req)
	return resp, nil
}
