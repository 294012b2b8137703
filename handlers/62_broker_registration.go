package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
)

// BrokerRegistration (key 62), versions 0–4: a broker that has started becomes a member of
// the cluster (KIP-631). Brokers send it, on controller listeners.
//
//	v1  migration from ZooKeeper
//	v2  log directories (KIP-858)
//	v3  epoch before a clean stop (KIP-966)
//	v4  features whose range begins at 0
//
// A tagged field of the answer says from which position of the metadata log on the broker
// sees itself.
func (h *Handlers) brokerRegistration(ctx context.Context, c call, req *kmsg.BrokerRegistrationRequest) (kmsg.Response, error) {
	resp, at := h.control(ctx, c, req)
	if registered, ok := resp.(*kmsg.BrokerRegistrationResponse); ok && registered.ErrorCode == 0 {
		controller.SetPosition(&registered.UnknownTags, at)
	}
	return resp, nil
}
