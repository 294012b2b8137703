package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
)

// AlterClientQuotas (key 49), versions 0–1: sets and removes quotas of users, clients and
// addresses (KIP-546).
//
//	v1  flexible
func (h *Handlers) alterClientQuotas(ctx context.Context, c call, req *kmsg.AlterClientQuotasRequest) (kmsg.Response, error) {
	resp, err := h.forward(ctx, c, req)
	if err != nil {
		resp = controller.ErrorResponse(req, err)
	}
	return resp, nil
}
