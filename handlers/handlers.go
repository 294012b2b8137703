package handlers

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/fetchsession"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/quota"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// Node is what handlers ask of this broker's membership in the cluster.
type Node interface {
	// Call sends a request to the controller and returns when this broker's own image
	// shows what the answer says.
	Call(ctx context.Context, call controller.Call) (kmsg.Response, metadata.Position, error)
	// NextProducerID hands out an id that nobody had before.
	NextProducerID(ctx context.Context) (int64, error)
}

// Replicas is what handlers ask of the partitions on this broker (*replica.Manager).
type Replicas interface {
	// Append returns false if the request's Done will be called later.
	Append(req *replica.AppendRequest) bool
	Fetch(ctx context.Context, req *replica.FetchRequest)
	// Sent says that what Fetch has found is sent.
	Sent(req *replica.FetchRequest)
	ListOffsets(req *replica.ListOffsetsRequest)
	OffsetForLeaderEpoch(parts []replica.EpochRequestPartition)
	DeleteRecords(ctx context.Context, req *replica.DeleteRecordsRequest)
	Producers(at replica.TopicIDPartition) ([]replica.ProducerInfo, error)
	DescribeLogDirs() []replica.LogDirInfo
	AlterReplicaLogDirs(wanted []replica.ReplicaDir)
}

// Options are what handlers need from the rest of the broker.
type Options struct {
	NodeID   int32
	Image    func() *metadata.Image // the newest published image
	Replicas Replicas
	Node     Node
	// Controller answers what comes on controller listeners; nil on a node without any.
	Controller Controller
	Groups     Groups
	Suspects   Suspects // nil: there are none
	Sessions   *fetchsession.Cache
	Quotas     *quota.Quotas      // nil: nobody has any
	Features   []metadata.Feature // supported by this broker
	// Advertised tells whether a listener was given an advertised address.
	Advertised func(listener string) bool
	// Quorum tells who keeps the metadata log.
	Quorum func() Quorum

	// Configs gives the broker's configuration as it is now, with what was set while it
	// ran.
	Configs func() *configs.Broker
	Loggers Loggers

	Config Config
	Logger *slog.Logger
	Rand   *rand.Rand
}

// Config is the part of the broker's configuration that handlers read.
type Config struct {
	AutoCreateTopics         bool
	NumPartitions            int32 // of auto-created topics; -1: the controller's default
	DefaultReplicationFactor int16 // likewise
	FetchMaxBytes            int   // fetch.max.bytes
	RackAware                bool  // consumers are told of a replica in their rack
	RequestTimeout           time.Duration
	TelemetryMaxBytes        int32 // telemetry.max.bytes
	// MaxWait bounds how long a request may want to wait, for records to come or to be
	// acknowledged: connections.max.idle.ms. 0: no bound.
	MaxWait time.Duration
	// MaxPartitionsShown is max.request.partition.size.limit.
	MaxPartitionsShown int32
	// InternalTopics gives partitions, replication factor and configuration of the
	// topics that brokers keep for themselves, by name.
	InternalTopics map[string]InternalTopic
}

// InternalTopic is how an internal topic is made when a client asks for it first.
type InternalTopic struct {
	Partitions        int32
	ReplicationFactor int16
	Configs           map[string]string
}

// Handlers answers every request of one broker.
type Handlers struct {
	nodeID     int32
	image      func() *metadata.Image
	replicas   Replicas
	node       Node
	controller Controller
	beats      heartbeatConns
	groups     Groups
	suspects   Suspects
	sessions   *fetchsession.Cache
	quotas     *quota.Quotas
	features   []metadata.Feature
	advertised func(listener string) bool
	quorum     func() Quorum
	telemetry  *telemetry
	configs    func() *configs.Broker
	loggers    Loggers
	config     Config
	logger     *slog.Logger
	autoCreate *autoCreator
	decoding   *semaphore.Weighted // memory of decoded requests
	waiting    *semaphore.Weighted // memory of requests that are put aside

	randMu sync.Mutex
	rand   *rand.Rand

	routes map[int16]route
}

// New builds the handlers. Close waits for what they started.
func New(o Options) *Handlers {
	h := &Handlers{
		nodeID: o.NodeID, image: o.Image, replicas: o.Replicas, node: o.Node, controller: o.Controller, groups: o.Groups, sessions: o.Sessions, quotas: o.Quotas, suspects: o.Suspects,
		quorum: o.Quorum, telemetry: newTelemetry(),
		features: o.Features, advertised: o.Advertised, configs: o.Configs, loggers: o.Loggers, config: o.Config,
		logger: o.Logger, rand: o.Rand, decoding: newDecodeBudget(),
		waiting: semaphore.NewWeighted(maxWaitingBytes),
	}
	if h.quotas == nil {
		h.quotas = quota.New(quota.Options{})
	}
	h.autoCreate = newAutoCreator(h.createForClient, o.Logger)
	h.routes = h.makeRoutes()
	return h
}

// Close ends auto-creations that are under way.
func (h *Handlers) Close() { h.autoCreate.close() }

// call is one request with its context: what a handler knows besides the body.
type call struct {
	request *wire.Request
	// release gives up what the decoded request takes of the bound for all of them, at
	// the first call.
	release func()
}

// principal is who asks. Without authentication everybody is anonymous.
func (call) principal() string { return "User:ANONYMOUS" }

// forward sends a request to the controller, and waits. Who asks a controller means that
// one: if it is not the active one, only what changes nothing is answered.
func (h *Handlers) forward(ctx context.Context, c call, req kmsg.Request) (kmsg.Response, error) {
	if c.request.Conn.Listener.Kind == protocol.ControllerListener && req.Key() != listReassignmentsKey && !h.quorum().LeaderHere {
		return nil, kafkaerr.NotController
	}
	c.request.Park()
	resp, _, err := h.node.Call(ctx, controller.Call{
		Request: req, Principal: c.principal(), ClientID: c.request.ClientID, Metered: true,
		Client: c.client(), Received: c.request.Received,
	})
	return resp, err
}

// listReassignmentsKey is of the only request among those that are forwarded that reads.
const listReassignmentsKey = 46

// decided is the controller's answer to a request, or, if there is none, that everything in
// it has failed.
func (h *Handlers) decided(ctx context.Context, c call, req kmsg.Request) kmsg.Response {
	resp, err := h.forward(ctx, c, req)
	if err != nil {
		return controller.ErrorResponse(req, err)
	}
	return resp
}

// pick draws one of n.
func (h *Handlers) pick(n int) int {
	h.randMu.Lock()
	defer h.randMu.Unlock()
	return h.rand.IntN(n)
}

// resolve finds a partition by its topic's name.
func resolve(image *metadata.Image, name string, partition int32) (replica.TopicIDPartition, error) {
	topic := image.Topic(name)
	if topic == nil || partition < 0 || int(partition) >= len(topic.Partitions) {
		return replica.TopicIDPartition{Partition: partition}, kafkaerr.UnknownTopicOrPartition
	}
	return replica.TopicIDPartition{TopicID: topic.ID, Partition: partition}, nil
}

// resolveID finds a partition by its topic's id.
func resolveID(image *metadata.Image, id uuid.UUID, partition int32) (replica.TopicIDPartition, error) {
	at := replica.TopicIDPartition{TopicID: id, Partition: partition}
	topic := image.TopicByID(id)
	switch {
	case topic == nil:
		return at, kafkaerr.UnknownTopicID
	case partition < 0 || int(partition) >= len(topic.Partitions):
		return at, kafkaerr.UnknownTopicOrPartition
	}
	return at, nil
}

// wait is how long a request that asks for ms milliseconds may wait.
func (c *Config) wait(ms int32) time.Duration {
	d := time.Duration(ms) * time.Millisecond
	if c.MaxWait > 0 {
		d = min(d, c.MaxWait)
	}
	return d
}

// nameOf is the name of the topic that has an id, "" if none has.
func nameOf(image *metadata.Image, id uuid.UUID) string {
	if topic := image.TopicByID(id); topic != nil {
		return topic.Name
	}
	return ""
}

// validIsolation tells whether a number is an isolation level at all.
func validIsolation(level int8) bool {
	return level == int8(replica.ReadUncommitted) || level == int8(replica.ReadCommitted)
}
