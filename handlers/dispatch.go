package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// route serves one API key: it decodes the body and runs the handler.
type route func(ctx context.Context, c call, req kmsg.Request) wire.Outcome

// makeRoutes is the list of handlers, in the order of their keys.
func (h *Handlers) makeRoutes() map[int16]route {
	return map[int16]route{
		0:  staged(h.produce),
		1:  staged(h.fetch),
		2:  answer(h.listOffsets),
		3:  answer(h.metadata),
		8:  answer(h.offsetCommit),
		9:  answer(h.offsetFetch),
		10: answer(h.findCoordinator),
		11: answer(h.joinGroup),
		12: answer(h.heartbeat),
		13: answer(h.leaveGroup),
		14: answer(h.syncGroup),
		15: answer(h.describeGroups),
		16: answer(h.listGroups),
		17: answer(h.saslHandshake),
		18: answer(h.apiVersions),
		19: answer(h.createTopics),
		20: answer(h.deleteTopics),
		21: answer(h.deleteRecords),
		22: answer(h.initProducerID),
		23: answer(h.offsetForLeaderEpoch),
		29: answer(h.describeACLs),
		30: answer(h.createACLs),
		31: answer(h.deleteACLs),
		32: answer(h.describeConfigs),
		33: answer(h.alterConfigs),
		35: answer(h.describeLogDirs),
		36: answer(h.saslAuthenticate),
		37: answer(h.createPartitions),
		38: answer(h.createDelegationToken),
		39: answer(h.renewDelegationToken),
		40: answer(h.expireDelegationToken),
		41: answer(h.describeDelegationToken),
		42: answer(h.deleteGroups),
		43: answer(h.electLeaders),
		44: answer(h.incrementalAlterConfigs),
		45: answer(h.alterPartitionReassignments),
		46: answer(h.listPartitionReassignments),
		47: answer(h.offsetDelete),
		55: answer(h.describeQuorum),
		56: answer(h.alterPartition),
		57: answer(h.updateFeatures),
		58: answer(h.envelope),
		60: answer(h.describeCluster),
		61: answer(h.describeProducers),
		62: answer(h.brokerRegistration),
		63: answer(h.brokerHeartbeat),
		64: answer(h.unregisterBroker),
		67: answer(h.allocateProducerIDs),
		71: answer(h.getTelemetrySubscriptions),
		72: answer(h.pushTelemetry),
		74: answer(h.listConfigResources),
		75: answer(h.describeTopicPartitions),
	}
}

// staged adapts a handler that builds its own outcome.
func staged[Req kmsg.Request](fn func(context.Context, call, Req) wire.Outcome) route {
	return func(ctx context.Context, c call, req kmsg.Request) wire.Outcome {
		return fn(ctx, c, req.(Req))
	}
}

// answer adapts a handler whose answer is one kmsg response. An error closes the
// connection: it is for requests that have no answer, not for failed ones.
func answer[Req kmsg.Request](fn func(context.Context, call, Req) (kmsg.Response, error)) route {
	return func(ctx context.Context, c call, req kmsg.Request) wire.Outcome {
		resp, err := fn(ctx, c, req.(Req))
		if err != nil {
			return wire.Outcome{Close: err}
		}
		return wire.Outcome{Response: encode(c, resp)}
	}
}

// Handle answers one request (wire.Handler). The connection has checked key and version
// against protocol's table, but for ApiVersions, which is answered at any version.
func (h *Handlers) Handle(ctx context.Context, r *wire.Request) wire.Outcome {
	finished := false
	defer func() {
		if !finished {
			h.logger.Error("a handler has panicked, the process stops", "request", r.String())
		}
	}()
	outcome := h.handle(ctx, r)
	finished = true
	return outcome
}

func (h *Handlers) handle(ctx context.Context, r *wire.Request) wire.Outcome {
	c := call{request: r}
	api := r.API()
	if r.Version < api.MinVersion || r.Version > api.MaxVersion {
		return wire.Outcome{Response: encode(c, unsupportedAPIVersions())}
	}
	req, release, err := h.decode(ctx, r)
	if err != nil {
		return wire.Outcome{Close: err}
	}
	c.release = release
	defer c.release()
	return h.routes[r.Key](ctx, c, req)
}

// Overlaps reports whether a request of this key may begin while earlier ones of the
// same kind wait for their answers: Produce alone (wire.Options.Overlaps).
func Overlaps(key int16) bool { return key == protocol.ProduceKey }

// Reserved reports whether a request of this key needs no slot among those that are worked
// on (wire.Options.Reserved): what keeps the cluster together must not wait for clients.
func Reserved(key int16) bool {
	api, ok := protocol.Lookup(key)
	return ok && api.Listeners == protocol.ControllerListener && key != envelopeKey
}

const envelopeKey = 58

// encode writes a response through a pooled buffer.
func encode(c call, resp kmsg.Response) *wire.Response {
	out := c.request.NewResponse()
	out.Append(resp.AppendTo)
	return out
}
