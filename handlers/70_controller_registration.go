package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ControllerRegistration (key 70), version 0: a controller tells the active one where it is
// reached and which features it supports (KIP-919). Controllers send it, on controller
// listeners.
func (h *Handlers) controllerRegistration(ctx context.Context, c call, req *kmsg.ControllerRegistrationRequest) (kmsg.Response, error) {
	resp, _ := h.control(ctx, c, req)
	return resp, nil
}
