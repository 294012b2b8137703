package handlers

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// PushTelemetry (key 72), version 0: metrics of a client (KIP-714). They are checked like
// Kafka's, and then dropped: there is nobody to hand them to.
func (h *Handlers) pushTelemetry(ctx context.Context, c call, req *kmsg.PushTelemetryRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.PushTelemetryResponse)
	id := uuid.UUID(req.ClientInstanceID)
	if id.IsZero() || id == (uuid.UUID{15: 1}) {
		resp.ErrorCode = kafkaerr.InvalidRequest.Code
		return resp, nil
	}
	push := telemetryPush{
		subscription: req.SubscriptionID, terminating: req.Terminating, compression: req.CompressionType,
		tooLarge: len(req.Metrics) > int(h.config.TelemetryMaxBytes),
	}
	err := h.telemetry.push(time.Now(), h.image(), telemetryClientOf(ctx, c, id), push)
	resp.ErrorCode = kafkaerr.Code(err)
	return resp, nil
}
