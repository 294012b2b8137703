package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Envelope (key 58), version 0: a broker forwards a client's request to the active
// controller, with the client's principal and address (KIP-590). Brokers send it, on
// controller listeners.
//
// The sender has checked what a broker checks; here the controller decides. Its answer
// comes back in the same way, with the position in the metadata log that shows its effects
// (controller.SetPosition). A node that is not the active controller says NOT_CONTROLLER in
// the envelope, not in the answer.
func (h *Handlers) envelope(ctx context.Context, c call, env *kmsg.EnvelopeRequest) (kmsg.Response, error) {
	f, err := controller.OpenEnvelope(env)
	if err != nil {
		return controller.SealAnswer(env, f, nil, metadata.Position{}, err), nil
	}
	req := kmsg.RequestForKey(f.Key)
	req.SetVersion(f.Version)
	if err := readRequest(req, f.Body); err != nil {
		return controller.SealAnswer(env, f, nil, metadata.Position{}, kafkaerr.New(kafkaerr.InvalidRequest, err.Error())), nil
	}
	c.request.Park()
	resp, at, err := h.controller.Handle(ctx, controller.Call{
		Request: req, Principal: f.Principal, ClientID: f.ClientID, Metered: f.Metered, Client: f.Client, Received: c.request.Received,
	})
	return controller.SealAnswer(env, f, resp, at, err), nil
}
