package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
)

// UnregisterBroker (key 64), version 0: forgets a broker (KIP-500). One that still runs
// registers again.
func (h *Handlers) unregisterBroker(ctx context.Context, c call, req *kmsg.UnregisterBrokerRequest) (kmsg.Response, error) {
	resp, err := h.forward(ctx, c, req)
	if err != nil {
		resp = controller.ErrorResponse(req, err)
	}
	return resp, nil
}
