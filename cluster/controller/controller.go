package controller

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/cluster/quota"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Controller turns requests into metadata records while its node leads the metadata log.
// All methods are safe for concurrent use.
type Controller struct {
	opts             Options
	brokers, clients chan *request
	lost             chan brokerIncarnation
	stopped          chan struct{} // closed when Run has returned
	runOnce          sync.Once
	closeOnce        sync.Once
	closing          chan struct{}
	metrics          *metrics
}

// New makes a Controller; Run makes it work.
func New(opts Options) *Controller {
	opts = opts.withDefaults()
	c := &Controller{
		opts:    opts,
		brokers: make(chan *request, opts.QueueLength),
		clients: make(chan *request, opts.QueueLength),
		lost:    make(chan brokerIncarnation, maxLostConnections),
		stopped: make(chan struct{}),
		closing: make(chan struct{}),
	}
	c.metrics = newMetrics(opts.Registerer, c)
	return c
}

// Run decides requests whenever this node leads the log, until ctx ends or Close is
// called. It may be called once.
func (c *Controller) Run(ctx context.Context) {
	first := false
	c.runOnce.Do(func() { first = true })
	if !first { // or it was closed before it ran
		return
	}
	defer close(c.stopped)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	newDriver(c).run(ctx)
}

// Close ends Run and waits for it. Requests that have no answer get NOT_CONTROLLER.
func (c *Controller) Close() {
	c.closeOnce.Do(func() { close(c.closing) })
	c.runOnce.Do(func() { close(c.stopped) })
	<-c.stopped
}

// maxLostConnections bounds the news of lost connections; what does not fit is found out
// when the session ends.
const maxLostConnections = 64

type brokerIncarnation struct {
	broker int32
	epoch  int64
}

// ConnectionLost says that the connection on which a broker sent its heartbeats has
// closed. If its address then refuses connections, the broker is fenced without waiting for
// the end of its session (D9).
func (c *Controller) ConnectionLost(broker int32, epoch int64) {
	select {
	case c.lost <- brokerIncarnation{broker, epoch}:
	default:
	}
}

// Handle has one request decided and waits until what was decided is committed. at is the
// position of the log that the answer depends on: an image at least as new shows its
// effects.
//
// An error wraps kafkaerr.NotController if this node is not the active controller, or
// ceased to be it before the outcome was known: the request may be sent again, but may
// have taken effect. Otherwise it is the error of ctx. Refusals are answers, not errors.
func (c *Controller) Handle(ctx context.Context, call Call) (resp kmsg.Response, at metadata.Position, err error) {
	queue := c.clients
	switch call.Request.(type) {
	case *kmsg.BrokerRegistrationRequest, *kmsg.BrokerHeartbeatRequest, *kmsg.AllocateProducerIDsRequest, *kmsg.AlterPartitionRequest,
		*kmsg.AssignReplicasToDirsRequest, *kmsg.ControllerRegistrationRequest:
		queue = c.brokers
	case *kmsg.CreateTopicsRequest, *kmsg.DeleteTopicsRequest, *kmsg.AlterConfigsRequest, *kmsg.IncrementalAlterConfigsRequest,
		*kmsg.CreatePartitionsRequest, *kmsg.ElectLeadersRequest, *kmsg.AlterPartitionAssignmentsRequest,
		*kmsg.ListPartitionReassignmentsRequest:
	case *kmsg.UpdateFeaturesRequest, *kmsg.UnregisterBrokerRequest, *kmsg.AlterClientQuotasRequest:
	default:
		return nil, at, fmt.Errorf("controller: %w: %T", kafkaerr.InvalidRequest, call.Request)
	}
	if call.Received.IsZero() {
		call.Received = time.Now()
	}
	r := &request{ctx: ctx, call: call, done: make(chan answer, 1)}
	select {
	case queue <- r:
	case <-ctx.Done():
		c.metrics.abandoned.Inc()
		return nil, at, fmt.Errorf("wait for the controller: %w", ctx.Err())
	case <-c.stopped:
		return nil, at, errStopped
	}
	select {
	case a := <-r.done:
		return a.response, a.at, a.err
	case <-ctx.Done():
		c.metrics.abandoned.Inc()
		return nil, at, fmt.Errorf("wait for the controller: %w", ctx.Err())
	case <-c.stopped:
		return nil, at, errStopped
	}
}

// Options configure a Controller. Log and Topics are required, zero values of the others
// mean the defaults named with them.
type Options struct {
	NodeID int32
	Log    Log
	Topics TopicConfigs

	// Controllers are the nodes that may register as controllers; nil: any.
	Controllers []int32
	// Quorum lists the nodes that vote in the metadata quorum and those that observe it, as they
	// are now; none where this node does not lead it. Nil: Controllers vote.
	Quorum func() (voters, observers []int32)

	DefaultPartitions        int32 // num.partitions, 1
	DefaultReplicationFactor int16 // default.replication.factor, 1
	DeleteTopicsDisabled     bool  // delete.topic.enable=false

	InterBrokerListener string // inter.broker.listener.name; "": each broker's first listener

	SessionTimeout        time.Duration // broker.session.timeout.ms, 3 s (D9)
	LeaderBalanceInterval time.Duration // leader.imbalance.check.interval.seconds, 300 s
	LeaderBalanceDisabled bool          // auto.leader.rebalance.enable=false
	UncleanElectionPeriod time.Duration // unclean.leader.election.interval.ms, 300 s

	QueueLength    int           // requests waiting to be decided, per class (clients, brokers); 1000
	ProposeTimeout time.Duration // after which a proposal counts as failed; 30 s

	// Probe tells whether the address refuses connections (D9, D20). It must return by
	// the end of ctx. Nil: no address is ever known to refuse.
	Probe func(ctx context.Context, address metadata.Endpoint) (refused bool)

	// Mutations measures how fast clients make and delete partitions; nil: nobody has a quota.
	Mutations *quota.Manager

	Rand       *rand.Rand // placement; must not be shared. Nil: seeded by the system
	IDs        io.Reader  // topic ids; nil: crypto/rand
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

func (o Options) withDefaults() Options {
	o.DefaultPartitions = cmp.Or(o.DefaultPartitions, 1)
	o.DefaultReplicationFactor = cmp.Or(o.DefaultReplicationFactor, 1)
	o.SessionTimeout = cmp.Or(o.SessionTimeout, 3*time.Second)
	o.LeaderBalanceInterval = cmp.Or(o.LeaderBalanceInterval, 300*time.Second)
	o.UncleanElectionPeriod = cmp.Or(o.UncleanElectionPeriod, 300*time.Second)
	o.QueueLength = cmp.Or(o.QueueLength, 1000)
	o.ProposeTimeout = cmp.Or(o.ProposeTimeout, 30*time.Second)
	if o.Quorum == nil {
		o.Quorum = func() (voters, observers []int32) { return o.Controllers, nil }
	}
	if o.Probe == nil {
		o.Probe = func(context.Context, metadata.Endpoint) bool { return false }
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if o.IDs == nil {
		o.IDs = crand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Log is what the controller needs of the metadata log: see metalog.Log, of which
// OnMetalog makes one.
type Log interface {
	// Leadership tells when this node becomes or ceases to be the leader; only the newest
	// news is kept.
	Leadership() <-chan metalog.Leadership
	// Barrier returns when everything that was proposed before it is applied or will
	// never be, and gives the image with that.
	Barrier(ctx context.Context, term metalog.Term) (*metadata.Image, error)
	// Start proposes one entry. Entries of one term are applied in the order of these
	// calls, and none after one that was not.
	Start(ctx context.Context, term metalog.Term, records []metadata.Record) (Proposal, error)
}

// Proposal is an entry on its way.
type Proposal interface {
	// Wait returns the entry's position when it is committed and applied here.
	Wait(ctx context.Context) (metadata.Position, error)
}

// TopicConfigs knows the topic configuration keys.
type TopicConfigs interface {
	// Validate refuses overrides of a new topic that are unknown, malformed or
	// contradictory. The text of the error is the client's INVALID_CONFIG message.
	Validate(overrides map[string]string) error
	// Effective lists every topic key with the value that a topic with these overrides
	// has, sorted by name.
	Effective(overrides map[string]string) []ConfigEntry
	// Elections gives the values of the keys that leader election depends on.
	Elections(overrides map[string]string) ElectionConfig
	// CheckGroup refuses the configuration of a group.
	CheckGroup(overrides map[string]string) error
	// With is the same on brokers that were configured while they run: all of them, and
	// the controller's.
	With(all, own map[string]string) TopicConfigs
}

// ConfigEntry is one effective configuration value, as CreateTopics v5+ answers it.
type ConfigEntry struct {
	Name      string
	Value     *string // nil if unset or sensitive
	Source    int8    // DescribeConfigs' ConfigSource: 1 topic, 2–4 broker, 5 default
	ReadOnly  bool
	Sensitive bool
}

// ElectionConfig is the part of a topic's configuration that elections read.
type ElectionConfig struct {
	MinISR          int32 // min.insync.replicas
	UncleanElection bool  // unclean.leader.election.enable
}

// Call is a request with what the controller needs to know of its sender.
type Call struct {
	// Request is one of kmsg's CreateTopics, DeleteTopics, AlterConfigs,
	// IncrementalAlterConfigs, CreatePartitions, ElectLeaders, AlterPartitionAssignments,
	// ListPartitionReassignments, BrokerRegistration, BrokerHeartbeat, AllocateProducerIDs,
	// ControllerRegistration or AlterPartition requests, with its Version set. The controller does not keep or change it.
	Request   kmsg.Request
	Principal string // type:name
	ClientID  string
	// Metered says that what the request changes counts for the quotas of Principal and
	// ClientID: a client has sent it.
	Metered bool
	// Client is the address that the request came from; the zero value if it is not known.
	Client netip.Addr
	Access Access // what the principal may do; nil: everything
	// Received is when the first broker got the request; CreateTopics and DeleteTopics
	// count their timeout from it. Zero: now.
	Received time.Time
}

// Access answers the questions of authorization that need the controller's knowledge
// (a topic's name by id) or shape its answer. Implementations must not block.
type Access interface {
	CreateTopic(name string) bool
	DescribeTopicConfigs(name string) bool
	DescribeTopic(name string) bool
	DeleteTopic(name string) bool
	AlterTopic(name string) bool
}
