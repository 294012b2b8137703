package configs

import (
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Broker is the configuration of one node, checked. It does not change.
type Broker struct {
	NodeID         int32
	NodeIDSet      bool   // node.id or broker.id was given
	ClusterID      string // "" if not given
	BrokerRole     bool   // process.roles
	ControllerRole bool
	Rack           string
	Durability     Durability
	AdminListener  string // host:port, "" for none

	Listeners           []Listener // all that are served here
	Advertised          []Listener // advertised.listeners; nil if not given
	InterBrokerListener string     // name; one of Listeners of a broker
	ControllerListeners []string   // names; empty: controllers use the inter-broker listener
	Quorum              Quorum

	LogDirs        []string // cleaned
	MetadataLogDir string

	Network     Network
	Quotas      Quotas
	Logs        Logs
	Cleaner     Cleaner
	NewTopics   NewTopics
	Replication Replication

	HeartbeatInterval   time.Duration
	SessionTimeout      time.Duration
	RegistrationTimeout time.Duration // initial.broker.registration.timeout.ms
	RequestTimeout      time.Duration
	ControlledShutdown  bool

	Groups                Groups
	OffsetsTopic          InternalTopic // __consumer_offsets
	OffsetsCodec          int32         // offsets.topic.compression.codec
	TransactionsTopic     InternalTopic // __transaction_state
	ShareStateTopic       InternalTopic // __share_group_state
	MaxTransactionTimeout time.Duration
	ProducerIDExpiration  time.Duration

	store *store
	raw   values

	static  *Broker // what this one was derived from by With; nil if it was not
	dynamic Dynamic // what With took
}

// Quorum is how controllers find and time each other. A timeout of 0 is left to the
// metadata log.
type Quorum struct {
	Voters           []Voter
	BootstrapServers []string // host:port
	AutoJoin         bool
	ElectionTimeout  time.Duration // controller.quorum.election.timeout.ms
	FetchTimeout     time.Duration // controller.quorum.fetch.timeout.ms
}

// Network bounds connections and requests. Limits of 2147483647 mean none.
type Network struct {
	SendBufferBytes, ReceiveBufferBytes int32 // -1: the system's choice
	MaxRequestBytes                     int32
	ListenBacklog                       int32
	MaxConnections                      int32
	MaxConnectionsPerIP                 int32
	MaxConnectionsPerIPOverrides        map[string]int // by address or host name
	MaxConnectionCreationRate           int32          // per second
	MaxIdle                             time.Duration  // negative: for ever
	QueuedMaxRequests                   int32
	QueuedMaxRequestBytes               int64 // -1: the broker's choice
	FetchMaxBytes                       int32
	FetchSessionSlots                   int32
	TelemetryMaxBytes                   int32
}

// Quotas are the windows in which the use of quotas is measured.
type Quotas struct {
	Samples, ControllerSamples, ReplicationSamples int32         // quota.window.num, controller.quota.window.num, replication.…
	Window, ControllerWindow, ReplicationWindow    time.Duration // quota.window.size.seconds, controller.quota.window.size.seconds, replication.…
}

// Logs are the paces of log directories.
type Logs struct {
	RetentionCheckInterval     time.Duration
	RecoveryPointInterval      time.Duration // log.flush.offset.checkpoint.interval.ms
	LogStartCheckpointInterval time.Duration
	HighWatermarkInterval      time.Duration // replica.high.watermark.checkpoint.interval.ms
	RecoveryThreads            int32         // of one directory
	MoveThreads                int32         // num.replica.alter.log.dirs.threads; 0: as many as there are directories
}

// NewTopics is what a topic gets whose creator leaves it to the broker.
type NewTopics struct {
	Partitions         int32
	ReplicationFactor  int16
	AutoCreate         bool
	DeleteEnabled      bool
	MaxPartitionsShown int32 // max.request.partition.size.limit
}

// Replication is about followers and leaders.
type Replication struct {
	LagTimeMax              time.Duration
	Fetchers                int32
	FetchMaxBytes           int32
	FetchMinBytes           int32
	FetchResponseMaxBytes   int32
	FetchWaitMax            time.Duration
	FetchBackoff            time.Duration
	SocketTimeout           time.Duration
	ReceiveBufferBytes      int32
	LeaderRebalance         bool
	ImbalanceCheckInterval  time.Duration
	UncleanElectionInterval time.Duration
	RackAware               bool // replica.selector.class: consumers are told of a replica in their rack
}

// RackAwareSelector is the value of replica.selector.class that there is (KIP-392).
const RackAwareSelector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

// InternalTopic is how a topic of the coordinators is made. Where a count was not given,
// the value here is Kafka's default, and a cluster of one takes 1 instead (D21).
type InternalTopic struct {
	Partitions           int32
	ReplicationFactor    int16
	ReplicationFactorSet bool
	MinInSyncCount       int32 // 0: the broker's min.insync.replicas
	MinInSyncCountSet    bool
	SegmentBytes         int32
}

func newBroker(s *store, v values) (*Broker, Problems) {
	b := &Broker{store: s, raw: v}
	b.identity(v)
	b.paces(v)
	b.limits(v)
	b.internalTopics(v)
	b.groups(v)
	c := &checker{b: b, s: s, v: v}
	c.run()
	return b, c.problems
}

func (b *Broker) identity(v values) {
	roles := v.list("process.roles")
	b.NodeID, b.NodeIDSet = v.int("node.id"), b.IsSet("node.id")
	if !b.NodeIDSet && b.IsSet("broker.id") {
		b.NodeID, b.NodeIDSet = v.int("broker.id"), true
	}
	b.ClusterID = optional[string](v, "cluster.id")
	b.BrokerRole, b.ControllerRole = slices.Contains(roles, "broker"), slices.Contains(roles, "controller")
	b.Rack = optional[string](v, "broker.rack")
	b.Durability = parseDurability(v.text("durability"))
	b.AdminListener = v.text("admin.listener")
	b.ControllerListeners = optional[[]string](v, "controller.listener.names")

	dirs := v.list("log.dir")
	if v.has("log.dirs") {
		dirs = v.list("log.dirs")
	}
	for _, dir := range dirs {
		b.LogDirs = append(b.LogDirs, filepath.Clean(dir))
	}
	b.MetadataLogDir = b.LogDirs[0]
	if dir := optional[string](v, "metadata.log.dir"); dir != "" {
		b.MetadataLogDir = filepath.Clean(dir)
	}
}

func (b *Broker) paces(v values) {
	b.HeartbeatInterval, b.SessionTimeout = v.ms("broker.heartbeat.interval.ms"), v.ms("broker.session.timeout.ms")
	b.RegistrationTimeout = v.ms("initial.broker.registration.timeout.ms")
	b.RequestTimeout = v.ms("request.timeout.ms")
	b.ControlledShutdown = v.bool("controlled.shutdown.enable")
	b.Quorum = Quorum{
		BootstrapServers: v.list("controller.quorum.bootstrap.servers"),
		AutoJoin:         v.bool("controller.quorum.auto.join.enable"),
	}
	if v.has("controller.quorum.election.timeout.ms") {
		b.Quorum.ElectionTimeout = v.ms("controller.quorum.election.timeout.ms")
	}
	if v.has("controller.quorum.fetch.timeout.ms") {
		b.Quorum.FetchTimeout = v.ms("controller.quorum.fetch.timeout.ms")
	}
	b.Logs = Logs{
		RetentionCheckInterval:     v.ms("log.retention.check.interval.ms"),
		RecoveryPointInterval:      v.ms("log.flush.offset.checkpoint.interval.ms"),
		LogStartCheckpointInterval: v.ms("log.flush.start.offset.checkpoint.interval.ms"),
		HighWatermarkInterval:      v.ms("replica.high.watermark.checkpoint.interval.ms"),
		RecoveryThreads:            v.int("num.recovery.threads.per.data.dir"),
		MoveThreads:                optional[int32](v, "num.replica.alter.log.dirs.threads"),
	}
	b.Cleaner = parseCleaner(v)
	b.Replication = Replication{
		LagTimeMax:              v.ms("replica.lag.time.max.ms"),
		Fetchers:                v.int("num.replica.fetchers"),
		FetchMaxBytes:           v.int("replica.fetch.max.bytes"),
		FetchMinBytes:           v.int("replica.fetch.min.bytes"),
		FetchResponseMaxBytes:   v.int("replica.fetch.response.max.bytes"),
		FetchWaitMax:            v.ms("replica.fetch.wait.max.ms"),
		FetchBackoff:            v.ms("replica.fetch.backoff.ms"),
		SocketTimeout:           v.ms("replica.socket.timeout.ms"),
		RackAware:               optional[string](v, "replica.selector.class") == RackAwareSelector,
		ReceiveBufferBytes:      v.int("replica.socket.receive.buffer.bytes"),
		LeaderRebalance:         v.bool("auto.leader.rebalance.enable"),
		ImbalanceCheckInterval:  time.Duration(min(v.long("leader.imbalance.check.interval.seconds"), 1<<32)) * time.Second,
		UncleanElectionInterval: v.ms("unclean.leader.election.interval.ms"),
	}
}

func (b *Broker) limits(v values) {
	b.Network = Network{
		SendBufferBytes: v.int("socket.send.buffer.bytes"), ReceiveBufferBytes: v.int("socket.receive.buffer.bytes"),
		MaxRequestBytes:           v.int("socket.request.max.bytes"),
		ListenBacklog:             v.int("socket.listen.backlog.size"),
		MaxConnections:            v.int("max.connections"),
		MaxConnectionsPerIP:       v.int("max.connections.per.ip"),
		MaxConnectionCreationRate: v.int("max.connection.creation.rate"),
		MaxIdle:                   v.ms("connections.max.idle.ms"),
		QueuedMaxRequests:         v.int("queued.max.requests"),
		QueuedMaxRequestBytes:     v.long("queued.max.request.bytes"),
		FetchMaxBytes:             v.int("fetch.max.bytes"),
		FetchSessionSlots:         v.int("max.incremental.fetch.session.cache.slots"),
		TelemetryMaxBytes:         v.int("telemetry.max.bytes"),
	}
	b.Quotas = Quotas{
		Samples: v.int("quota.window.num"), ControllerSamples: v.int("controller.quota.window.num"),
		Window:           time.Duration(v.int("quota.window.size.seconds")) * time.Second,
		ControllerWindow: time.Duration(v.int("controller.quota.window.size.seconds")) * time.Second,

		ReplicationSamples: v.int("replication.quota.window.num"),
		ReplicationWindow:  time.Duration(v.int("replication.quota.window.size.seconds")) * time.Second,
	}
	b.NewTopics = NewTopics{
		Partitions:         v.int("num.partitions"),
		ReplicationFactor:  int16(v.int("default.replication.factor")), // its validator keeps it in range
		AutoCreate:         v.bool("auto.create.topics.enable"),
		DeleteEnabled:      v.bool("delete.topic.enable"),
		MaxPartitionsShown: v.int("max.request.partition.size.limit"),
	}
}

func (b *Broker) internalTopics(v values) {
	topic := func(prefix string) InternalTopic {
		factor := prefix + ".replication.factor"
		return InternalTopic{
			Partitions:        v.int(prefix + ".num.partitions"),
			ReplicationFactor: v.short(factor), ReplicationFactorSet: b.IsSet(factor),
			SegmentBytes: v.int(prefix + ".segment.bytes"),
		}
	}
	b.OffsetsTopic = topic("offsets.topic")
	b.OffsetsCodec = v.int("offsets.topic.compression.codec")
	b.TransactionsTopic = topic("transaction.state.log")
	b.TransactionsTopic.MinInSyncCount = v.int("transaction.state.log.min.isr")
	b.TransactionsTopic.MinInSyncCountSet = b.IsSet("transaction.state.log.min.isr")
	b.ShareStateTopic = topic("share.coordinator.state.topic")
	b.ShareStateTopic.MinInSyncCount = int32(v.short("share.coordinator.state.topic.min.isr"))
	b.ShareStateTopic.MinInSyncCountSet = b.IsSet("share.coordinator.state.topic.min.isr")
	b.MaxTransactionTimeout = v.ms("transaction.max.timeout.ms")
	b.ProducerIDExpiration = v.ms("producer.id.expiration.ms")
}

// IsSet tells whether somebody set a key, so that its value is not the default.
func (b *Broker) IsSet(name string) bool {
	_, set := b.set(name)
	return set
}

// set is the text that was set for a key, in the place that counts. A nil Broker has set
// nothing.
func (b *Broker) set(name string) (text string, ok bool) {
	for _, source := range brokerSources() {
		if text, ok = b.at(source, name); ok {
			return text, true
		}
	}
	return "", false
}

// ListenerLimits bounds the connections of one listener: its own keys
// (listener.name.<name>.max.connections), else those of the broker, as in Kafka. 2147483647
// means none.
func (b *Broker) ListenerLimits(listener string) (maxConnections, creationRate int32) {
	limit := func(key string, broker int32) int32 {
		text, ok := b.set(listenerPrefix + strings.ToLower(listener) + "." + key)
		if !ok {
			return broker
		}
		value, err := BrokerKey(key).Parse(text)
		if err != nil { // the load has refused it, or it came from another release
			return broker
		}
		return value.(int32)
	}
	return limit("max.connections", b.Network.MaxConnections),
		limit("max.connection.creation.rate", b.Network.MaxConnectionCreationRate)
}

// HasListener tells whether a listener of that name is served here.
func (b *Broker) HasListener(name string) bool { return hasListener(b.Listeners, name) }

// IsControllerListener is true for listeners that clients are never told.
func (b *Broker) IsControllerListener(name string) bool {
	return slices.ContainsFunc(b.ControllerListeners, func(n string) bool { return listenerName(n) == name })
}

// BrokerListeners are the listeners for clients and brokers.
func (b *Broker) BrokerListeners() []Listener {
	return slices.DeleteFunc(slices.Clone(b.Listeners), func(l Listener) bool { return b.IsControllerListener(l.Name) })
}

// BrokerEntry is one effective value of a broker.
type BrokerEntry struct {
	Key   *Key
	Value string // "[hidden]" if it is secret
	Null  bool   // there is none
	Set   bool   // not the default
	Place string // where it was set: a file, "environment KAFKA_…", "--set", "default"
}

// Problem is a reason not to start that lies in the value of a key, found by whoever
// knows more than this package.
func (b *Broker) Problem(key, reason string) Problem { return b.store.problem(key, reason) }

// Effective lists the value of every served key, sorted by name; internal keys only where
// they are set.
func (b *Broker) Effective() []BrokerEntry {
	var entries []BrokerEntry
	for i := range brokerKeys {
		key := &brokerKeys[i]
		e := BrokerEntry{Key: key, Place: b.store.place(key.Name), Set: b.IsSet(key.Name)}
		if key.Internal && !e.Set {
			continue
		}
		text, ok := b.store.text(key.Name)
		e.Null = !ok
		if ok {
			e.Value = Shown(key.Name, format(b.raw[key.Name]))
		}
		if key.Sensitive() && text != "" {
			e.Value = hidden
		}
		entries = append(entries, e)
	}
	return entries
}
