package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreatePartitions (key 37), versions 0–3: gives topics more partitions. The controller
// decides; this broker answers when its own image shows them.
//
//	v1  throttled after the answer, not before
//	v2  flexible
//	v3  THROTTLING_QUOTA_EXCEEDED possible (KIP-599)
func (h *Handlers) createPartitions(ctx context.Context, c call, req *kmsg.CreatePartitionsRequest) (kmsg.Response, error) {
	return h.decided(ctx, c, req), nil
}
