package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ElectLeaders (key 43), versions 0–2: gives leaderships back to the preferred replicas, or
// a leader to partitions that have none, by the controller.
//
//	v1  unclean elections, an error of the whole request
//	v2  flexible
func (h *Handlers) electLeaders(ctx context.Context, c call, req *kmsg.ElectLeadersRequest) (kmsg.Response, error) {
	return h.decided(ctx, c, req), nil
}
