package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
)

// UpdateFeatures (key 57), versions 0–2: finalizes levels of features (KIP-584).
//
//	v1  upgrade types, validate only (KIP-778)
//	v2  one error for all, no results of single features (KIP-1022)
func (h *Handlers) updateFeatures(ctx context.Context, c call, req *kmsg.UpdateFeaturesRequest) (kmsg.Response, error) {
	resp, err := h.forward(ctx, c, req)
	if err != nil {
		resp = controller.ErrorResponse(req, err)
	}
	return resp, nil
}
