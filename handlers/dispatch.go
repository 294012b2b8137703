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
		2:  answer(h, h.listOffsets),
		3:  answer(h, h.metadata),
		8:  answer(h, h.offsetCommit),
		9:  answer(h, h.offsetFetch),
		10: answer(h, h.findCoordinator),
		11: answer(h, h.joinGroup),
		12: answer(h, h.heartbeat),
		13: answer(h, h.leaveGroup),
		14: answer(h, h.syncGroup),
		15: answer(h, h.describeGroups),
		16: answer(h, h.listGroups),
		17: answer(h, h.saslHandshake),
		18: answer(h, h.apiVersions),
		19: answer(h, h.createTopics),
		20: answer(h, h.deleteTopics),
		21: answer(h, h.deleteRecords),
		22: answer(h, h.initProducerID),
		23: answer(h, h.offsetForLeaderEpoch),
		29: answer(h, h.describeACLs),
		30: answer(h, h.createACLs),
		31: answer(h, h.deleteACLs),
		32: answer(h, h.describeConfigs),
		33: answer(h, h.alterConfigs),
		34: answer(h, h.alterReplicaLogDirs),
		35: answer(h, h.describeLogDirs),
		36: answer(h, h.saslAuthenticate),
		37: answer(h, h.createPartitions),
		38: answer(h, h.createDelegationToken),
		39: answer(h, h.renewDelegationToken),
		40: answer(h, h.expireDelegationToken),
		41: answer(h, h.describeDelegationToken),
		42: answer(h, h.deleteGroups),
		43: answer(h, h.electLeaders),
		44: answer(h, h.incrementalAlterConfigs),
		45: answer(h, h.alterPartitionReassignments),
		46: answer(h, h.listPartitionReassignments),
		47: answer(h, h.offsetDelete),
		48: answer(h, h.describeClientQuotas),
		49: answer(h, h.alterClientQuotas),
		55: answer(h, h.describeQuorum),
		56: internal(h.alterPartition),
		57: answer(h, h.updateFeatures),
		58: internal(h.envelope),
		60: answer(h, h.describeCluster),
		61: answer(h, h.describeProducers),
		62: internal(h.brokerRegistration),
		63: internal(h.brokerHeartbeat),
		64: answer(h, h.unregisterBroker),
		67: internal(h.allocateProducerIDs),
		70: internal(h.controllerRegistration),
		71: answer(h, h.getTelemetrySubscriptions),
		72: answer(h, h.pushTelemetry),
		73: internal(h.assignReplicasToDirs),
		74: answer(h, h.listConfigResources),
		75: answer(h, h.describeTopicPartitions),
		80: answer(h, h.addRaftVoter),
		81: answer(h, h.removeRaftVoter),
		82: internal(h.updateRaftVoter),
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
func answer[Req kmsg.Request](h *Handlers, fn func(context.Context, call, Req) (kmsg.Response, error)) route {
	return func(ctx context.Context, c call, req kmsg.Request) wire.Outcome {
		resp, err := fn(ctx, c, req.(Req))
		if err != nil {
			return wire.Outcome{Close: err}
		}
		return h.paced(c, resp)
	}
}

// internal is answer for what other nodes ask, which counts for no quota.
func internal[Req kmsg.Request](fn func(context.Context, call, Req) (kmsg.Response, error)) route {
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
	h.startClock(r)
	api := r.API()
	if r.Version < api.MinVersion || r.Version > api.MaxVersion {
		return h.paced(c, unsupportedAPIVersions())
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
