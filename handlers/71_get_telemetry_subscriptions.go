package handlers

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// GetTelemetrySubscriptions (key 71), version 0: which of its metrics a client shall push
// here, and how often (KIP-714). It is answered though not advertised, as in a Kafka that
// has nobody to hand the metrics to.
func (h *Handlers) getTelemetrySubscriptions(ctx context.Context, c call, req *kmsg.GetTelemetrySubscriptionsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.GetTelemetrySubscriptionsResponse)
	id, err := h.telemetryID(req.ClientInstanceID)
	if err != nil {
		return nil, err
	}
	s, err := h.telemetry.get(time.Now(), h.image(), telemetryClientOf(ctx, c, id))
	if err != nil {
		resp.ErrorCode = kafkaerr.Code(err)
		return resp, nil
	}
	resp.ClientInstanceID, resp.SubscriptionID = id, s.id
	resp.AcceptedCompressionTypes = []int8{4, 3, 1, 2} // zstd, lz4, gzip, snappy
	resp.PushIntervalMillis = int32(s.interval / time.Millisecond)
	resp.TelemetryMaxBytes = h.config.TelemetryMaxBytes
	resp.DeltaTemporality = true
	resp.RequestedMetrics = s.metrics
	return resp, nil
}

// telemetryID is the client's id, or a new one if it has none yet.
func (h *Handlers) telemetryID(id uuid.UUID) (uuid.UUID, error) {
	if !id.IsZero() {
		return id, nil
	}
	return uuid.New(randomBytes{h})
}
