package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// ControllerChannel carries one request to the active controller. A local
// *controller.Controller is one; the peer room provides the one over the wire.
// It answers an error that wraps kafkaerr.NotController when the active controller was
// not reached; such a request may be sent again.
type ControllerChannel interface {
	Handle(ctx context.Context, call controller.Call) (kmsg.Response, metadata.Position, error)
}

// Metadata is what this node's handlers see of the metadata log.
type Metadata interface {
	// Published is the position of the newest image that every publisher has seen.
	Published() metadata.Position
	// WaitPublished returns when Published has reached at.
	WaitPublished(ctx context.Context, at metadata.Position) error
}

// Listener is an endpoint as it is registered. Unadvertised says that its host is a
// guess: the listener is a wildcard and has no advertised address (D22).
type Listener struct {
	metadata.Endpoint
	Unadvertised bool
}

// Options configure a Node. Channel, Metadata, ClusterID, LogDirs and Listeners are required.
type Options struct {
	NodeID      int32
	ClusterID   string
	Incarnation uuid.UUID // drawn anew by each process
	LogDirs     []uuid.UUID
	Listeners   []Listener
	Rack        *string
	Features    []metadata.Feature
	// PreviousBrokerEpoch is the epoch that the last clean stop left in
	// .kafka_cleanshutdown, -1 after any other stop.
	PreviousBrokerEpoch int64

	Channel  ControllerChannel
	Metadata Metadata

	HeartbeatInterval time.Duration // broker.heartbeat.interval.ms, 500 ms (D9)
	RequestTimeout    time.Duration // of one registration, heartbeat or block request; SessionTimeout's order: 3 s

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// State is where a node is in its life.
type State int32

// The states, in the order in which a node normally passes them.
const (
	Starting     State = iota // not registered yet
	Fenced                    // registered; the controller gives it no leadership
	Unfenced                  // in service
	ShuttingDown              // asked the controller for a controlled shutdown
	Stopped
)

// Node is this broker as a member of the cluster. All methods are safe for concurrent use.
type Node struct {
	opts Options
}
