package broker

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/node"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

func (b *Broker) startController(context.Context) error {
	if !b.cfg.ControllerRole {
		return nil
	}
	rng, err := b.env.newRand()
	if err != nil {
		return err
	}
	topics, err := controller.TopicConfigsOf(b.cfg)
	if err != nil {
		return err
	}
	b.controller = controller.New(controller.Options{
		NodeID: b.cfg.NodeID, Log: controller.OnMetalog(b.metalog), Topics: topics, Controllers: b.controllerIDs(), Quorum: b.quorumIDs,
		DefaultPartitions:        b.cfg.NewTopics.Partitions,
		DefaultReplicationFactor: b.cfg.NewTopics.ReplicationFactor,
		DeleteTopicsDisabled:     !b.cfg.NewTopics.DeleteEnabled,
		InterBrokerListener:      b.cfg.InterBrokerListener,
		SessionTimeout:           b.cfg.SessionTimeout,
		LeaderBalanceInterval:    b.cfg.Replication.ImbalanceCheckInterval,
		LeaderBalanceDisabled:    !b.cfg.Replication.LeaderRebalance,
		UncleanElectionPeriod:    b.cfg.Replication.UncleanElectionInterval,
		Probe:                    b.refuses,
		Mutations:                b.quotas.Mutations,
		Rand:                     rng, IDs: b.env.Entropy, Logger: b.loggers.logger("klamm.controller"), Registerer: b.env.Registry,
	})
	b.tasks.Go(func() { b.controller.Run(context.Background()) })
	b.onStop("controller", func(context.Context) error {
		b.controller.Close()
		return nil
	})
	return nil
}

// controllerIDs are the nodes that may register as controllers, nil where any may.
func (b *Broker) controllerIDs() (ids []int32) {
	if b.foundsAlone() {
		return []int32{b.cfg.NodeID}
	}
	for _, v := range b.voters() {
		ids = append(ids, v.NodeID)
	}
	return ids
}

// quorumIDs are the members of the metadata quorum, while this node leads it.
func (b *Broker) quorumIDs() (voters, observers []int32) {
	q := b.metalog.Quorum()
	for _, v := range q.Voters {
		voters = append(voters, v.NodeID)
	}
	for _, o := range q.Observers {
		observers = append(observers, o.NodeID)
	}
	return voters, observers
}

// refuses tells whether nobody listens at an endpoint any more.
func (b *Broker) refuses(ctx context.Context, at metadata.Endpoint) bool {
	return b.addressRefuses(ctx, net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port))))
}

func (b *Broker) addressRefuses(ctx context.Context, address string) bool {
	conn, err := b.env.Dial(ctx, "tcp", address)
	if err != nil {
		return isRefused(err)
	}
	_ = conn.Close()
	return false
}

// startNode makes this broker a member: registered, its partitions open, in service.
func (b *Broker) startNode(ctx context.Context) error {
	listeners, err := b.registeredListeners()
	if err != nil {
		return err
	}
	options := node.Options{
		NodeID: b.cfg.NodeID, ClusterID: b.cfg.ClusterID, Incarnation: b.incarnation,
		Listeners: listeners, Features: supportedFeatures(),
		PreviousBrokerEpoch: b.previousEpoch(), FullDirs: b.fullDirectories, LogEnds: b.logEnds,
		Channel: b.channel, Metadata: b.metalog, ControllerMoved: b.channel.Moved, Departures: b.departures,
		HeartbeatInterval: b.cfg.HeartbeatInterval, RequestTimeout: b.cfg.SessionTimeout, CallTimeout: b.cfg.RequestTimeout,
		Logger: b.loggers.logger("klamm.node"), Registerer: b.env.Registry,
	}
	if b.cfg.Rack != "" {
		options.Rack = &b.cfg.Rack
	}
	switch {
	case !b.cfg.BrokerRole:
		return b.startPureController(ctx, options)
	case !b.foundsAlone():
		err = b.joinAsBroker(ctx, options)
	default:
		err = b.startAlone(ctx, options)
	}
	if err != nil {
		return err
	}
	return b.awaitService(ctx)
}

// startAlone registers the broker that is a quorum of its own. Its metadata is known before
// that, and the logs are open.
func (b *Broker) startAlone(ctx context.Context, options node.Options) error {
	id, err := b.awaitClusterID(ctx)
	if err != nil {
		return err
	}
	b.registerInfo(b.published.get().Durability())
	// With the first metadata the logs were opened, as far as they can be.
	b.failures.noteStart(b.replicas)
	options.ClusterID, options.LogDirs = id, b.failures.online(b.directoryIDs())
	b.makeNode(options)
	ctx, cancel := context.WithTimeout(ctx, b.cfg.RegistrationTimeout)
	defer cancel()
	if err := b.node.Start(ctx); err != nil {
		return err
	}
	return b.node.Unfence(ctx)
}

// joinAsBroker registers a broker among others. Only then is it known which metadata is new
// enough to act on, and only then are the logs opened; what cannot be opened is reported
// before the broker asks for service.
func (b *Broker) joinAsBroker(ctx context.Context, options node.Options) (err error) {
	if options.ClusterID, err = b.findClusterID(ctx); err != nil {
		return err
	}
	options.LogDirs = b.failures.online(b.directoryIDs())
	b.makeNode(options)
	registration, cancel := context.WithTimeout(ctx, b.cfg.RegistrationTimeout)
	defer cancel()
	if err := b.node.Start(registration); err != nil {
		return err
	}
	if _, err := b.awaitClusterID(ctx); err != nil {
		return err
	}
	b.registerInfo(b.published.get().Durability())
	b.failures.noteStart(b.replicas)
	if brokers := b.published.get().NumBrokers(); brokers >= 3 && b.cfg.NewTopics.ReplicationFactor == 1 {
		b.log.Warn("new topics will have one replica, and be lost with its disk: set default.replication.factor=3 and min.insync.replicas=2",
			"brokers", brokers)
	}
	return b.node.Unfence(ctx)
}

// startPureController waits for the cluster. Its node only carries requests to the active
// controller.
func (b *Broker) startPureController(ctx context.Context, options node.Options) error {
	b.metalog.StartPublishing(metadata.Position{})
	id, err := b.awaitClusterID(ctx)
	if err != nil {
		return err
	}
	b.registerInfo(b.published.get().Durability())
	options.ClusterID = id
	b.makeNode(options)
	return nil
}

func (b *Broker) makeNode(options node.Options) {
	b.node = node.New(options)
	b.membership.set(b.node)
	b.failures.reportTo(b.node)
	b.assignments.reportTo(b.node)
	b.onStop("node", func(context.Context) error {
		b.node.Close()
		return nil
	})
}

// awaitService waits until requests would see this broker in service. The controller has
// decided it, but publishers may be behind: a client that came in between would be told
// that its partitions have no leader.
func (b *Broker) awaitService(ctx context.Context) error {
	for {
		image := b.published.get()
		if self := image.Broker(b.cfg.NodeID); self != nil && !self.Fenced {
			return nil
		}
		next := metadata.Position{Index: image.Position().Index + 1}
		if err := b.metalog.WaitPublished(ctx, next); err != nil {
			return fmt.Errorf("wait until metadata shows the broker in service: %w", err)
		}
	}
}

// awaitClusterID waits for the first image, which names the cluster, and notes its id in
// every directory.
func (b *Broker) awaitClusterID(ctx context.Context) (string, error) {
	id, index := "", uint64(0)
	for id == "" { // what Raft writes for itself comes before what names the cluster
		if err := b.metalog.WaitPublished(ctx, metadata.Position{Index: index + 1}); err != nil {
			return "", fmt.Errorf("wait for metadata: %w", err)
		}
		image := b.published.get()
		id, index = image.ClusterID(), image.Position().Index
	}
	for _, d := range append(slices.Clone(b.directories), b.metadataDir) {
		if err := d.SetClusterID(id); err != nil {
			return "", err
		}
	}
	return id, nil
}

func supportedFeatures() []metadata.Feature {
	return []metadata.Feature{{Name: metadata.FeatureMetadata, Min: metadata.MinMetadataLevel, Max: metadata.MaxMetadataLevel}}
}

func (b *Broker) directoryIDs() (ids []uuid.UUID) {
	for _, d := range b.directories {
		ids = append(ids, d.DirectoryID())
	}
	return ids
}

// fullDirectories are those that refuse records for lack of room.
func (b *Broker) fullDirectories() (ids []uuid.UUID) {
	for _, d := range b.directories {
		if d.Full() {
			ids = append(ids, d.DirectoryID())
		}
	}
	return ids
}

// previousEpoch proves a clean stop only if every directory had one.
func (b *Broker) previousEpoch() int64 {
	if len(b.missing) > 0 {
		return -1
	}
	previous := int64(-1)
	for i, d := range b.directories {
		epoch, clean := d.PreviousBrokerEpoch()
		if !clean || i > 0 && epoch != previous {
			return -1
		}
		previous = epoch
	}
	return previous
}

// registeredListeners is what other brokers and, beside another broker, clients are told. The
// first is that of brokers among themselves: a controller that is no broker need not know
// its name.
func (b *Broker) registeredListeners() ([]metadata.Endpoint, error) {
	var list []metadata.Endpoint
	for _, l := range b.listeners {
		endpoint, err := b.endpoint(l)
		if err != nil {
			return nil, err
		}
		list = append(list, endpoint)
	}
	if i := slices.IndexFunc(list, func(l metadata.Endpoint) bool { return l.Name == b.cfg.InterBrokerListener }); i > 0 {
		own := list[i]
		list = slices.Insert(slices.Delete(list, i, i+1), 0, own)
	}
	return list, nil
}

// endpoint is the advertised address, else the listener's host, else the machine's name.
func (b *Broker) endpoint(l boundListener) (at metadata.Endpoint, err error) {
	at = metadata.Endpoint{Name: l.Name, Host: l.Host, Port: int32(l.Port)}
	if advertised, ok := b.advertised(l.Name); ok {
		at.Host, at.Port = advertised.Host, int32(advertised.Port)
		return at, nil
	}
	if _, port, err := net.SplitHostPort(l.bound.Addr().String()); err == nil && l.Port == 0 {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return at, fmt.Errorf("listener %s: port %q: %w", l.Name, port, err)
		}
		at.Port = int32(n)
	}
	if !l.Wildcard() {
		return at, nil
	}
	at.Unadvertised = true
	at.Host, err = b.env.Hostname()
	return at, err
}

func (b *Broker) advertised(listener string) (configs.Listener, bool) {
	i := slices.IndexFunc(b.cfg.Advertised, func(l configs.Listener) bool { return l.Name == listener })
	if i < 0 {
		return configs.Listener{}, false
	}
	return b.cfg.Advertised[i], true
}

// controlledShutdown hands leaderships over, if there is anybody to take them.
func (b *Broker) controlledShutdown(ctx context.Context) error {
	if !b.cfg.ControlledShutdown || !b.cfg.BrokerRole || b.node == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownGrace)
	defer cancel()
	start := time.Now()
	if err := b.node.ControlledShutdown(ctx); err != nil {
		b.log.Warn("controlled shutdown was cut short", "after", time.Since(start).Round(time.Millisecond), "err", err)
	}
	return nil
}
