package node

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Node is this broker as a member of the cluster. All methods are safe for concurrent use.
type Node struct {
	opts        Options
	metrics     *metrics
	ids         producerIDs
	isr         isrChanges
	assignments assignments
	life        context.Context // of the goroutines: ends with Close
	stop        context.CancelFunc
	tasks       sync.WaitGroup // run, the senders of ISR changes and of assignments, and the producer-id fetcher
	wake        chan struct{}  // room for one: the next heartbeat is due now

	leaderless time.Time // since when no active controller has been found; run's alone
	complained time.Time // of requests that fail in a row, when the log last said so; run's alone

	mu      sync.Mutex
	state   State
	epoch   int64         // of the registration, -1 before the first
	changed chan struct{} // closed and replaced with every change of state
	ready   bool          // Unfence was called
	leaving bool          // ControlledShutdown was called
	refused error         // a registration that is not worth repeating
	trouble error         // of the last request, nil after one that was answered
	offline []uuid.UUID
	failed  []controller.FailedReplica
	// nextFailed is where in failed the next report begins, if they are too many for one.
	nextFailed int
}

// ControllerChannel carries one request to the active controller. A local
// *controller.Controller is one; Channel finds that of any node.
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
	// StartPublishing says that an image at least as new as at has all that the cluster had
	// decided when this process started. Publishers see none before that: an old one could
	// make this broker lead what others lead by now.
	StartPublishing(at metadata.Position)
}

// Options configure a Node. Channel, Metadata, ClusterID, Incarnation, LogDirs and
// Listeners are required.
type Options struct {
	NodeID      int32
	ClusterID   string
	Incarnation uuid.UUID   // drawn anew by each process
	LogDirs     []uuid.UUID // those that are online
	// Listeners as they are registered, those for clients and for other brokers.
	Listeners []metadata.Endpoint
	Rack      *string
	// FullDirs are the log directories without room now, asked for each heartbeat; nil: none
	// ever is.
	FullDirs func() []uuid.UUID
	// LogEnds tells of partitions that are Undecided, asked for each heartbeat, at most
	// MaxLogEnds; nil: none are ever.
	LogEnds  func() []controller.LogEnd
	Features []metadata.Feature
	// PreviousBrokerEpoch is the epoch that the last clean stop left in
	// .kafka_cleanshutdown, -1 after any other stop.
	PreviousBrokerEpoch int64

	Channel  ControllerChannel
	Metadata Metadata
	// ControllerMoved gives a channel that is closed when another controller may be active:
	// it is told of this broker at once. nil: that does not happen.
	ControllerMoved func() <-chan struct{}
	// Departures is one of the publishers of metadata; nil: brokers that shut down are told of
	// with the next heartbeat.
	Departures *Departures

	HeartbeatInterval time.Duration // broker.heartbeat.interval.ms; 500 ms (D9)
	RequestTimeout    time.Duration // of one registration, heartbeat or block request; 3 s
	CallTimeout       time.Duration // of requests of clients that have none; request.timeout.ms, 30 s

	Logger     *slog.Logger          // nil: discard
	Registerer prometheus.Registerer // nil: no metrics
}

func (o Options) withDefaults() Options {
	o.HeartbeatInterval = cmp.Or(o.HeartbeatInterval, 500*time.Millisecond)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 3*time.Second)
	o.CallTimeout = cmp.Or(o.CallTimeout, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// State is where a node is in its life.
type State int32

// The states, in the order in which a node normally passes them.
const (
	Starting     State = iota // not registered yet
	Fenced                    // registered; nobody is referred to it
	Unfenced                  // in service
	ShuttingDown              // asks for its leaderships to be moved
	Stopped
)

func (s State) String() string {
	return [...]string{"starting", "fenced", "unfenced", "shutting down", "stopped"}[s]
}

// New makes a Node; Start makes it a member.
func New(opts Options) *Node {
	opts = opts.withDefaults()
	n := &Node{
		opts:    opts,
		wake:    make(chan struct{}, 1),
		epoch:   -1,
		changed: make(chan struct{}),
	}
	n.life, n.stop = context.WithCancel(context.Background())
	n.metrics = newMetrics(opts.Registerer, n)
	n.ids.init()
	n.isr.init()
	n.assignments.init()
	return n
}

// Start registers the broker and keeps its membership alive until Close. It returns when
// the broker is registered, with the error of ctx if that takes longer, or with the reason
// of a refusal that waiting would not change: another cluster, an address that cannot be
// registered, a feature that this release does not support. It may be called once.
func (n *Node) Start(ctx context.Context) error {
	n.tasks.Go(func() { n.run(n.life) })
	n.tasks.Go(func() { n.sendISRChanges(n.life) })
	n.tasks.Go(func() { n.sendAssignments(n.life) })
	err := n.await(ctx, func() (bool, error) { return n.state != Starting, n.refused })
	if err != nil {
		return fmt.Errorf("register broker %d: %w", n.opts.NodeID, n.because(err))
	}
	return nil
}

// because adds why a wait was in vain.
func (n *Node) because(err error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.trouble == nil || n.refused != nil {
		return err
	}
	return fmt.Errorf("%w (the last attempt: %w)", err, n.trouble)
}

// Unfence puts the broker in service, and returns when it is.
func (n *Node) Unfence(ctx context.Context) error {
	n.update(func() { n.ready = true })
	n.wakeUp()
	if err := n.await(ctx, func() (bool, error) { return n.state == Unfenced, n.refused }); err != nil {
		return fmt.Errorf("put broker %d in service: %w", n.opts.NodeID, n.because(err))
	}
	return nil
}

// ControlledShutdown asks the controller to move this broker's leaderships elsewhere and
// returns when it may stop: nothing is led here and the others know. If ctx ends first its
// error is returned; the broker may stop all the same, and leaderships move when its
// session ends.
func (n *Node) ControlledShutdown(ctx context.Context) error {
	n.update(func() {
		n.leaving = true
		if n.state == Starting {
			n.state = Stopped
		}
	})
	n.wakeUp()
	if err := n.await(ctx, func() (bool, error) { return n.state == Stopped, nil }); err != nil {
		return fmt.Errorf("controlled shutdown of broker %d: %w", n.opts.NodeID, err)
	}
	return nil
}

// Close ends the heartbeats, without a word to the controller, and what waits for them.
func (n *Node) Close() {
	n.stop()
	n.ids.close()
	n.tasks.Wait()
	n.update(func() { n.state = Stopped })
}

// State is where the node is in its life.
func (n *Node) State() State {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}

// BrokerEpoch is the epoch of the registration, -1 before the first. It goes into Fetch and
// AlterPartition requests, and into .kafka_cleanshutdown.
func (n *Node) BrokerEpoch() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.epoch
}

// await returns when a condition on the guarded fields holds, with its error if it has one.
func (n *Node) await(ctx context.Context, condition func() (bool, error)) error {
	for {
		n.mu.Lock()
		met, err := condition()
		changed := n.changed
		n.mu.Unlock()
		if met || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// update changes guarded fields and lets waiters look again.
func (n *Node) update(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	close(n.changed)
	n.changed = make(chan struct{})
}

// wakeUp makes the next heartbeat due now.
func (n *Node) wakeUp() {
	select {
	case n.wake <- struct{}{}:
	default: // it is due already
	}
}
