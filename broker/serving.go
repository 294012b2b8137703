package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"

	"github.com/klamm-mq/klamm/cluster/fetchsession"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/console"
	"github.com/klamm-mq/klamm/handlers"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// openListeners binds every listener, and the admin listener. Those of controllers stay
// closed on a node that nobody else talks to.
func (b *Broker) openListeners(ctx context.Context) error {
	b.onStop("sockets", func(context.Context) error {
		for _, l := range slices.Concat(b.listeners, b.controlListeners) {
			_ = l.bound.Close() // the server has closed what it served
		}
		return nil
	})
	for _, l := range b.cfg.Listeners {
		isController := b.cfg.IsControllerListener(l.Name)
		if isController && len(b.cfg.Quorum.Voters)+len(b.cfg.Quorum.BootstrapServers) == 0 {
			continue
		}
		bound, err := b.env.Listen(ctx, l.Address(), socketOptions(b.cfg))
		switch {
		case err != nil:
			return fmt.Errorf("listeners: %s: %w", l, err)
		case isController:
			b.controlListeners = append(b.controlListeners, boundListener{l, bound})
		default:
			b.listeners = append(b.listeners, boundListener{l, bound})
		}
	}
	if b.cfg.AdminListener == "" {
		return nil
	}
	admin, err := b.env.Listen(ctx, b.cfg.AdminListener, wire.ListenOptions{})
	if err != nil {
		return fmt.Errorf("admin.listener: %s: %w", b.cfg.AdminListener, err)
	}
	b.admin = admin
	b.console = console.Start(admin, console.Options{
		Metrics: b.env.Registry, Ready: b.Ready, Notices: b.Notices, Backup: b.backup, Logger: b.loggers.logger("klamm.console"),
	})
	b.onStop("admin listener", func(ctx context.Context) error { return b.console.Shutdown(ctx) })
	return nil
}

// makeServer makes the server of all listeners. Until startServer only what other nodes ask
// the controller is answered, where the server is started earlier.
func (b *Broker) makeServer() error {
	b.gate.open = make(chan struct{})
	if b.controller != nil {
		rng, err := b.env.newRand()
		if err != nil {
			return err
		}
		b.gate.control = handlers.New(handlers.Options{
			NodeID: b.cfg.NodeID, Image: b.published.get, Controller: b.localController(), Features: supportedFeatures(),
			Configs: b.dynamic.get, Loggers: b.loggers, Logger: b.loggers.logger("klamm.handlers"), Rand: rng,
		})
	}
	options := wire.Options{
		Handler: &b.gate, Limits: b.limits(b.cfg), Logger: b.loggers.logger("klamm.wire"), Buffers: b.env.Buffers,
		Registerer: b.env.Registry, Overlaps: handlers.Overlaps, Reserved: handlers.Reserved, Rates: b.quotas.Connections,
	}
	if b.door != nil {
		options.OnPreface = func(conn net.Conn, _ byte) { b.door.Take(conn) }
	}
	b.server = wire.NewServer(options)
	b.dynamic.onChange(func(cfg *configs.Broker) {
		b.server.SetConnectionLimits(b.limits(cfg))
		b.setConnectionRates(cfg)
	})
	b.onStop("listeners", b.stopServer)
	return nil
}

// startServer answers all requests from here on.
func (b *Broker) startServer(context.Context) error {
	if err := b.makeHandlers(); err != nil {
		return err
	}
	b.onStop("handlers", func(context.Context) error {
		b.handlers.Close()
		return nil
	})
	b.gate.serve = b.handlers
	close(b.gate.open)
	b.onStop("listeners", b.stopServer)
	for _, l := range b.listeners {
		if !b.servesEarly(l) {
			b.serveClients(l)
		}
	}
	b.onStop("coordinators", b.closeCoordinators)
	b.onStop("leadership of the metadata log", b.resign)
	b.onStop("controlled shutdown", b.controlledShutdown)
	return nil
}

func (b *Broker) makeHandlers() error {
	rng, err := b.env.newRand()
	if err != nil {
		return err
	}
	sessions, err := b.env.newRand()
	if err != nil {
		return err
	}
	options := handlers.Options{
		NodeID: b.cfg.NodeID, Image: b.published.get, Node: b.node,
		Sessions:   fetchsession.NewCache(fetchsession.Options{Slots: slots(b.cfg), Rand: sessions, Registerer: b.env.Registry}),
		Quotas:     b.quotas,
		Features:   supportedFeatures(),
		Advertised: func(listener string) bool { _, ok := b.advertised(listener); return ok },
		Config:     b.handlersConfig(),
		Quorum:     b.quorum,
		Configs:    b.dynamic.get, Loggers: b.loggers,
		Logger: b.loggers.logger("klamm.handlers"), Rand: rng,
	}
	if b.controller != nil {
		options.Controller = b.localController()
	}
	if b.cfg.BrokerRole {
		groups := b.groupService()
		b.measureLag(groups)
		options.Replicas, options.Groups, options.Suspects = b.replicas, groups, b.suspects
	}
	b.handlers = handlers.New(options)
	return nil
}

// resign lets another controller take over before this one is gone.
func (b *Broker) resign(context.Context) error {
	b.metalog.Resign()
	return nil
}

// socketOptions are the socket.* keys, where -1 is the system's choice. So is a receive
// buffer whose size nobody has set: Kafka's default of 100 KiB is less than one request of
// its producer, which then arrives in several pieces, each with a wait of its own; the
// system gives a connection more if it brings much.
func socketOptions(cfg *configs.Broker) wire.ListenOptions {
	o := wire.ListenOptions{
		Backlog:         int(cfg.Network.ListenBacklog),
		SendBufferBytes: int(max(cfg.Network.SendBufferBytes, 0)),
	}
	if cfg.IsSet("socket.receive.buffer.bytes") {
		o.ReceiveBufferBytes = int(max(cfg.Network.ReceiveBufferBytes, 0))
	}
	return o
}

// servesEarly tells whether a listener is that of the brokers of a cluster of several,
// which is open before this one is in service.
func (b *Broker) servesEarly(l boundListener) bool {
	return b.door != nil && l.Name == b.cfg.InterBrokerListener
}

// serveClients serves a listener of clients and brokers.
func (b *Broker) serveClients(l boundListener) {
	info := wire.ListenerInfo{
		Name: l.Name, InterBroker: l.Name == b.cfg.InterBrokerListener && len(b.listeners) > 1, NoPreface: !b.servesEarly(l),
	}
	b.tasks.Go(func() { b.serve(l, info) })
}

func (b *Broker) serve(l boundListener, info wire.ListenerInfo) {
	if err := b.server.Serve(l.bound, info); err != nil && b.ready.Load() {
		b.fail(fmt.Errorf("listener %s: %w", l.Name, err))
	}
}

// stopServer lets requests under way be answered for a moment.
func (b *Broker) stopServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownGrace)
	defer cancel()
	if err := b.server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// slots is max.incremental.fetch.session.cache.slots, where 0 means no sessions at all.
func slots(cfg *configs.Broker) int {
	if cfg.Network.FetchSessionSlots == 0 {
		return -1
	}
	return int(cfg.Network.FetchSessionSlots)
}

func (b *Broker) handlersConfig() handlers.Config {
	c := handlers.Config{
		AutoCreateTopics: b.cfg.NewTopics.AutoCreate,
		NumPartitions:    -1, DefaultReplicationFactor: -1,
		FetchMaxBytes:      int(b.cfg.Network.FetchMaxBytes),
		RackAware:          b.cfg.Replication.RackAware,
		RequestTimeout:     b.cfg.RequestTimeout,
		TelemetryMaxBytes:  b.cfg.Network.TelemetryMaxBytes,
		MaxWait:            max(0, b.cfg.Network.MaxIdle),
		MaxPartitionsShown: b.cfg.NewTopics.MaxPartitionsShown,
		InternalTopics: map[string]handlers.InternalTopic{
			metadata.GroupMetadataTopic:    internalTopic(&b.cfg.OffsetsTopic),
			metadata.TransactionStateTopic: internalTopic(&b.cfg.TransactionsTopic),
			metadata.ShareGroupStateTopic:  internalTopic(&b.cfg.ShareStateTopic),
		},
	}
	return c
}

// internalTopic is how a client's Metadata request creates a topic of the coordinators.
// A replication factor that was not given is left to the controller, which knows how
// many brokers there are.
func internalTopic(t *configs.InternalTopic) handlers.InternalTopic {
	made := handlers.InternalTopic{
		Partitions: t.Partitions, ReplicationFactor: -1,
		Configs: map[string]string{
			"cleanup.policy": "compact", "compression.type": "producer",
			"segment.bytes": fmt.Sprint(t.SegmentBytes),
		},
	}
	if t.ReplicationFactorSet {
		made.ReplicationFactor = t.ReplicationFactor
	}
	return made
}

// unbounded is a limit of 2147483647, which is Kafka's way to say none.
func unbounded(limit int32) int {
	if limit == 1<<31-1 {
		return 0
	}
	return int(limit)
}

func (b *Broker) limits(cfg *configs.Broker) wire.Limits {
	n := &cfg.Network
	perIP := unbounded(n.MaxConnectionsPerIP)
	if n.MaxConnectionsPerIP == 0 {
		perIP = -1 // none allowed
	}
	perListener := map[string]int{}
	for _, l := range cfg.BrokerListeners() {
		connections, _ := cfg.ListenerLimits(l.Name)
		perListener[l.Name] = unbounded(connections)
	}
	queued, largest := frameMemory(n.QueuedMaxRequestBytes, n.MaxRequestBytes, b.env.Memory)
	return wire.Limits{
		MaxRequestBytes:     largest,
		QueuedRequestBytes:  queued,
		QueuedRequests:      int(n.QueuedMaxRequests),
		MaxConnections:      b.descriptors.bound(unbounded(n.MaxConnections)),
		MaxConnectionsPerIP: perIP,
		PerIP:               n.MaxConnectionsPerIPOverrides,
		PerListener:         perListener,
		MaxIdle:             n.MaxIdle,
	}
}

func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
