package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/cluster/coordinator/group"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/cluster/node"
	"github.com/klamm-mq/klamm/cluster/peer"
	"github.com/klamm-mq/klamm/cluster/quota"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/console"
	"github.com/klamm-mq/klamm/handlers"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/uuid"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// Broker is one running broker. All methods are safe for concurrent use.
type Broker struct {
	cfg       *configs.Broker // as the broker was started
	dynamic   *dynamicConfig  // as it is now
	lastTopic lastTopic
	env       Env
	loggers   *loggers
	log       *slog.Logger // the root of loggers

	descriptors descriptors
	directories []*logstore.Dir // of partitions
	metadataDir *logstore.Dir   // one of directories, or one for the metadata log alone
	missing     []missingDir    // could not be opened
	listeners   []boundListener // of clients and brokers
	// controlListeners are those of controllers, open only where other nodes may come.
	controlListeners []boundListener
	admin            net.Listener

	incarnation  uuid.UUID     // of this life of the broker
	storedID     string        // the cluster that the directories, or the configuration, name
	door         *metalog.Door // where other nodes come in; nil: they cannot
	channel      *node.Channel // to the active controller
	metalog      *metalog.Log
	published    imagePublisher
	quotas       *quota.Quotas
	controller   *controller.Controller
	registration *node.ControllerRegistration // of that controller
	departures   *node.Departures             // of others, who wait until this broker knows
	replicas     *replica.Manager
	failures     failures
	assignments  assignments
	undecided    undecided
	groups       *coordinator.Runtime[*group.Shard]
	node         *node.Node
	membership   membership // of this broker, for its replicas
	suspects     *peer.Suspects
	handlers     *handlers.Handlers
	gate         gate
	server       *wire.Server
	console      *console.Server

	ready    atomic.Bool
	progress atomic.Pointer[string] // what a start is busy with
	tasks    sync.WaitGroup
	undo     []ending // what Stop does, last first

	failOnce sync.Once
	failed   chan struct{}
	failure  error // valid once failed is closed

	stopping atomic.Bool
	stopped  chan struct{} // closed when Stop has ended
	stopErr  error         // valid once stopped is closed
}

// boundListener is a listener with its place in the configuration.
type boundListener struct {
	configs.Listener
	bound net.Listener
}

// Start starts a broker and returns when it accepts requests. The configuration must
// come from package configs. ctx bounds the start, not the life.
func Start(ctx context.Context, cfg *configs.Broker, env Env) (*Broker, error) {
	b := newBroker(cfg, env)
	if err := Check(cfg); err != nil {
		return nil, err
	}
	b.shareDescriptors()
	if err := b.start(ctx); err != nil {
		_ = b.shutdown(ctx) // what was opened; the error of the start is the one that counts
		return nil, err
	}
	b.ready.Store(true)
	return b, nil
}

func newBroker(cfg *configs.Broker, env Env) *Broker {
	b := &Broker{cfg: cfg, env: env, loggers: newLoggers(env.Logger), failed: make(chan struct{}), stopped: make(chan struct{})}
	b.log = b.loggers.logger(rootLogger)
	b.dynamic = newDynamicConfig(cfg, b.log)
	return b
}

// Check refuses what a configuration may say and this release cannot do. Start calls it.
// Its error is a configs.Problem.
func Check(cfg *configs.Broker) error {
	q := &cfg.Quorum
	switch {
	case cfg.ControllerRole && len(q.Voters) == 0 && len(q.BootstrapServers) > 1 && len(cfg.ControllerListeners) == 0:
		return cfg.Problem("controller.listener.names", "must name the listener on which the other controllers reach this one")
	case cfg.ControllerRole && len(q.Voters) > 1 && len(cfg.ControllerListeners) == 0:
		return cfg.Problem("controller.listener.names", "must name the listener on which the other voters reach this one")
	case !cfg.BrokerRole && len(q.Voters)+len(q.BootstrapServers) == 0:
		return cfg.Problem("controller.quorum.voters", "must name the controllers, this one among them: a controller without brokers serves nobody")
	}
	return nil
}

// start does the steps in the order of the package's page. Each step appends to undo.
func (b *Broker) start(ctx context.Context) error {
	steps := []struct {
		doing string
		run   func(context.Context) error
	}{
		{"opening log directories", b.openDirectories},
		{"opening listeners", b.openListeners},
		{"opening the metadata log", b.openMetadata},
		{"starting the controller", b.startController},
		{"joining the cluster", b.joinCluster},
		{"registering the broker", b.startNode},
		{"accepting requests", b.startServer},
	}
	for _, step := range steps {
		b.progress.Store(&step.doing)
		begin := time.Now()
		if err := b.unlessFailed(ctx, step.run); err != nil {
			return fmt.Errorf("%s: %w", step.doing, err)
		}
		if took := time.Since(begin); took >= slowStep {
			b.log.Warn("the start is slow: does something else keep the disk busy?", "step", step.doing, "took", took)
		}
	}
	return nil
}

// slowStep is how long a step may take before the log says so. In all of them together,
// a start waits for 26 syncs of the disk one after the other, and the very first for 36:
// behind somebody else's writes each can take a tenth of a second and more.
const slowStep = time.Second

// unlessFailed runs a step, and ends it when the broker fails meanwhile.
func (b *Broker) unlessFailed(ctx context.Context, run func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-b.failed:
			cancel(b.failure)
		case <-stop:
		}
	}()
	err := run(ctx)
	if err != nil && context.Cause(ctx) != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// fail notes why the broker cannot go on. The first reason counts.
func (b *Broker) fail(err error) {
	b.failOnce.Do(func() {
		b.failure = err
		b.ready.Store(false)
		close(b.failed)
	})
}

// Failed is closed when the broker cannot go on by itself: every log directory or the
// metadata log has failed. Err tells why; Stop remains to be called.
func (b *Broker) Failed() <-chan struct{} { return b.failed }

// Err is why Failed is closed, nil before.
func (b *Broker) Err() error {
	select {
	case <-b.failed:
		return b.failure
	default:
		return nil
	}
}

// Ready is nil while the broker accepts requests, else what it waits for.
func (b *Broker) Ready() error {
	if err := b.Err(); err != nil {
		return err
	}
	if !b.ready.Load() {
		return errors.New(*b.progress.Load())
	}
	return nil
}

// Notices are faults that the broker goes on with, in words: log directories that are
// offline.
func (b *Broker) Notices() (list []string) {
	for _, m := range b.missing {
		list = append(list, fmt.Sprintf("log directory %s is offline: %v", m.path, m.err))
	}
	if b.replicas == nil {
		return list
	}
	offline := b.replicas.OfflineDirs()
	for _, d := range b.directories {
		if slices.Contains(offline, d.DirectoryID()) {
			list = append(list, fmt.Sprintf("log directory %s is offline: %v", d.Path(), cmp.Or(d.Err(), errUnopened)))
		}
	}
	return list
}

// errUnopened stands for a directory whose disk works as far as anybody knows.
var errUnopened = errors.New("its logs could not be opened")

// Addr is the address that a listener is bound to; nil if there is none of that name.
func (b *Broker) Addr(listener string) net.Addr {
	for _, l := range slices.Concat(b.listeners, b.controlListeners) {
		if l.Name == listener {
			return l.bound.Addr()
		}
	}
	return nil
}

// AdminAddr is the address of the admin listener, nil if there is none.
func (b *Broker) AdminAddr() net.Addr {
	if b.admin == nil {
		return nil
	}
	return b.admin.Addr()
}

// Listeners lists the listeners as NAME://address.
func (b *Broker) Listeners() (list []string) {
	for _, l := range slices.Concat(b.listeners, b.controlListeners) {
		list = append(list, l.Name+"://"+l.bound.Addr().String())
	}
	return list
}

// Image is the metadata that requests are answered from.
func (b *Broker) Image() *metadata.Image { return b.published.get() }

// BrokerEpoch is the epoch of the broker's registration.
func (b *Broker) BrokerEpoch() int64 { return b.node.BrokerEpoch() }

// imagePublisher is the last publisher: requests see what it was given.
type imagePublisher struct {
	image    atomic.Pointer[metadata.Image]
	suspects *peer.Suspects // who wait for what requests see; nil: nobody does
}

func (*imagePublisher) Name() string { return "handlers' image" }

// OnMetadataUpdate is metalog.Publisher.
func (p *imagePublisher) OnMetadataUpdate(_ *metadata.Delta, next *metadata.Image) {
	p.image.Store(next)
	if p.suspects != nil {
		p.suspects.Published(next)
	}
}

func (p *imagePublisher) get() *metadata.Image {
	if image := p.image.Load(); image != nil {
		return image
	}
	return metadata.Empty()
}
