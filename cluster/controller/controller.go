package controller

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// Controller turns requests into metadata records while its node leads the metadata log.
// All methods are safe for concurrent use.
type Controller struct {
	opts Options
}

// Options configure a Controller. Log and Topics are required, zero values of the others
// mean the defaults named with them.
type Options struct {
	NodeID int32
	Topics TopicConfigs

	DefaultPartitions        int32 // num.partitions, 1
	DefaultReplicationFactor int16 // default.replication.factor, 1
	DeleteTopicsDisabled     bool  // delete.topic.enable=false

	SessionTimeout        time.Duration // broker.session.timeout.ms, 3 s (D9)
	LeaderBalanceInterval time.Duration // leader.imbalance.check.interval.seconds, 300 s
	LeaderBalanceDisabled bool          // auto.leader.rebalance.enable=false
	UncleanElectionPeriod time.Duration // unclean.leader.election.interval.ms, 300 s

	QueueLength    int           // requests waiting to be decided, per class (clients, brokers); 1000
	ProposeTimeout time.Duration // after which a proposal counts as failed; 30 s

	// Probe tells whether the address refuses connections (D9, D20). It must return by
	// the end of ctx. Nil: no address is ever known to refuse.
	Probe func(ctx context.Context, address metadata.Endpoint) (refused bool)

	Rand       *rand.Rand // placement; must not be shared. Nil: seeded by the system
	IDs        io.Reader  // topic ids; nil: crypto/rand
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
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
	// Request is one of kmsg's CreateTopics, DeleteTopics, BrokerRegistration,
	// BrokerHeartbeat, AllocateProducerIDs or AlterPartition requests, with its Version
	// set. The controller does not keep or change it.
	Request   kmsg.Request
	Principal string // for logs
	Access    Access // what the principal may do; nil: everything
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
}
