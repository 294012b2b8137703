package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/peer"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Quorum is what a node knows of who leads the metadata log.
type Quorum interface {
	// Leader is the leader and where it is reached, as far as this node knows.
	Leader() (address string, nodeID int32, known bool)
	// LeaderMoved is closed when that has changed.
	LeaderMoved() <-chan struct{}
}

// ChannelOptions configure a Channel. Quorum and Dial are required.
type ChannelOptions struct {
	NodeID int32
	// Local is the controller of this node; nil if it has none.
	Local  ControllerChannel
	Quorum Quorum
	// Controllers are addresses of controllers. A node that does not know the leader yet
	// asks one after the other to register it.
	Controllers []string

	Dial        func(ctx context.Context, address string) (net.Conn, error)
	CallTimeout time.Duration // of a forwarded request, 60 s
	// LifeTimeout is that of what the node itself asks, 3 s. A connection whose other end is
	// gone without a word costs that much, so it should leave time for a second heartbeat
	// within a session.
	LifeTimeout time.Duration
	// Lost is called, if it is given, when the active controller has ended the connection of
	// heartbeats: its process seems to be gone.
	Lost func(controller int32)

	Logger     *slog.Logger          // nil: discard
	Registerer prometheus.Registerer // nil: no metrics
}

// Channel is the way to the active controller, wherever it is. What it is asked goes to the
// leader that this node knows; if it knows none, registrations and heartbeats go to each
// controller in turn until one is active. Nothing else is sent twice: a request whose
// outcome is not known is the caller's to repeat. All methods are safe for concurrent use.
//
// Connections are separate by what may not wait for what: one for registration and
// heartbeats, one for ISR changes and producer ids, and a few for forwarded requests, of
// which the controller takes one at a time from each.
type Channel struct {
	opts  ChannelOptions
	life  lanes
	work  lanes
	calls lanes
	next  atomic.Uint32 // of candidates, the one to ask first

	sought   atomic.Pointer[[]string]  // see candidates
	soughtAt atomic.Pointer[time.Time] // when seek asked last
}

// callLanes bounds how many requests of clients are forwarded at a time.
const callLanes = 4

// NewChannel makes a Channel; Close ends it.
func NewChannel(o ChannelOptions) *Channel {
	if o.CallTimeout == 0 {
		o.CallTimeout = time.Minute
	}
	if o.LifeTimeout == 0 {
		o.LifeTimeout = 3 * time.Second
	}
	c := &Channel{opts: o}
	c.life = c.newLanes(1, o.LifeTimeout, c.lost)
	c.work = c.newLanes(1, o.LifeTimeout, nil)
	c.calls = c.newLanes(callLanes, o.CallTimeout, nil)
	return c
}

// lost notes that the other end of the connection with an address is gone.
func (c *Channel) lost(address string) {
	if at, leader, known := c.opts.Quorum.Leader(); known && at == address && c.opts.Lost != nil {
		c.opts.Lost(leader)
	}
}

// Close ends the connections, and with them what is on its way.
func (c *Channel) Close() {
	for _, set := range []lanes{c.life, c.work, c.calls} {
		set.close()
	}
}

// Moved is closed when another controller may be active.
func (c *Channel) Moved() <-chan struct{} { return c.opts.Quorum.LeaderMoved() }

// Handle implements ControllerChannel.
func (c *Channel) Handle(ctx context.Context, call controller.Call) (kmsg.Response, metadata.Position, error) {
	address, leader, known := c.opts.Quorum.Leader()
	switch {
	case known && leader == c.opts.NodeID && c.opts.Local != nil:
		return c.opts.Local.Handle(ctx, call)
	case known && leader != c.opts.NodeID:
		return c.askKnowing(ctx, address, address, call)
	}
	switch call.Request.(type) {
	case *kmsg.BrokerRegistrationRequest, *kmsg.BrokerHeartbeatRequest, *kmsg.ControllerRegistrationRequest:
		return c.askAll(ctx, address, call)
	}
	return nil, metadata.Position{}, errNoController
}

var errNoController = fmt.Errorf("no active controller is known: %w", kafkaerr.NotController)

// errMoved ends a request to a controller that does not lead any more: it may never answer.
var errMoved = errors.New("another node leads the metadata log now")

// askKnowing asks a node, until this one hears of another leader than it knows ("": none).
func (c *Channel) askKnowing(ctx context.Context, known, address string, call controller.Call) (kmsg.Response, metadata.Position, error) {
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go c.watchLeader(asking, known, cancel)
	return c.ask(ctx, asking, address, call)
}

func (c *Channel) watchLeader(ctx context.Context, address string, moved context.CancelCauseFunc) {
	for {
		changed := c.opts.Quorum.LeaderMoved()
		if now, _, known := c.opts.Quorum.Leader(); known && now != address {
			moved(errMoved)
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// askPatience is how long one of several controllers may take: it may not be running well.
const askPatience = time.Second

// askAll asks the controllers that are configured, each once, beginning with the one that
// was active last; if none is active, those that they know of. known is the leader that this
// node hears of and does not ask, "" mostly: on the disk of another cluster its log may say
// that it leads itself.
func (c *Channel) askAll(ctx context.Context, known string, call controller.Call) (resp kmsg.Response, at metadata.Position, err error) {
	resp, at, err = c.askEach(ctx, known, call)
	if errors.Is(err, kafkaerr.NotController) && c.seek(ctx) {
		return c.askEach(ctx, known, call)
	}
	return resp, at, err
}

func (c *Channel) askEach(ctx context.Context, known string, call controller.Call) (resp kmsg.Response, at metadata.Position, err error) {
	err = errNoController
	all, first := c.candidates(), c.next.Load()
	for i := range uint32(len(all)) {
		which := (first + i) % uint32(len(all))
		if resp, at, err = c.askOne(ctx, known, all[which], call); !errors.Is(err, kafkaerr.NotController) {
			c.next.Store(which)
			return resp, at, err
		}
	}
	return nil, at, err
}

func (c *Channel) askOne(ctx context.Context, known, address string, call controller.Call) (kmsg.Response, metadata.Position, error) {
	patient, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	resp, at, err := c.askKnowing(patient, known, address, call)
	if err != nil && patient.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", err, kafkaerr.NotController)
	}
	return resp, at, err
}

// ask asks one node. Whatever goes wrong on the way says that the active controller was not
// reached.
func (c *Channel) ask(ctx, asking context.Context, address string, call controller.Call) (kmsg.Response, metadata.Position, error) {
	req, set := c.route(call)
	reply, err := set.request(asking, address, req)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, metadata.Position{}, fmt.Errorf("ask controller at %s: %w", address, context.Cause(ctx))
	default:
		return nil, metadata.Position{}, fmt.Errorf("ask controller at %s: %w: %w", address, err, kafkaerr.NotController)
	}
	resp, at, err := c.read(call, reply)
	if err != nil {
		return nil, at, fmt.Errorf("ask controller at %s: %w", address, err)
	}
	return resp, at, nil
}

// route says in which form a request travels, and on which connections.
func (c *Channel) route(call controller.Call) (kmsg.Request, lanes) {
	switch call.Request.(type) {
	case *kmsg.BrokerRegistrationRequest, *kmsg.BrokerHeartbeatRequest:
		return call.Request, c.life
	case *kmsg.AlterPartitionRequest, *kmsg.AllocateProducerIDsRequest, *kmsg.AssignReplicasToDirsRequest, *kmsg.ControllerRegistrationRequest:
		return call.Request, c.work
	}
	return controller.NewEnvelope(call), c.calls
}

// read takes an answer apart. One that says NOT_CONTROLLER is an error.
func (c *Channel) read(call controller.Call, reply kmsg.Response) (resp kmsg.Response, at metadata.Position, err error) {
	var code int16
	switch reply := reply.(type) {
	case *kmsg.EnvelopeResponse:
		return controller.OpenAnswer(call, reply)
	case *kmsg.BrokerRegistrationResponse:
		at, _ = controller.PositionOf(&reply.UnknownTags)
		code = reply.ErrorCode
	case *kmsg.BrokerHeartbeatResponse:
		code = reply.ErrorCode
	case *kmsg.AlterPartitionResponse:
		code = reply.ErrorCode
	case *kmsg.AllocateProducerIDsResponse:
		code = reply.ErrorCode
	case *kmsg.AssignReplicasToDirsResponse:
		code = reply.ErrorCode
	case *kmsg.ControllerRegistrationResponse:
		code = reply.ErrorCode
	}
	if code == kafkaerr.NotController.Code {
		return nil, at, fmt.Errorf("it is not active: %w", kafkaerr.NotController)
	}
	return reply, at, nil
}

// lane is a connection that one request uses at a time.
type lane struct {
	client  *peer.Client
	address atomic.Pointer[string]
}

// lanes are connections for requests that may wait for each other.
type lanes struct {
	all  []*lane
	free chan *lane
}

// maxLate bounds requests whose sender has given up, but whose answer may still come, on one
// connection.
const maxLate = 8

func (c *Channel) newLanes(n int, timeout time.Duration, lost func(address string)) lanes {
	set := lanes{free: make(chan *lane, n)}
	for range n {
		l := &lane{}
		l.client = peer.NewClient(peer.Options{
			Dial: c.opts.Dial, ClientID: fmt.Sprintf("broker-%d-to-controller", c.opts.NodeID),
			Timeout: timeout, MaxInFlight: maxLate, Logger: c.opts.Logger, Registerer: c.opts.Registerer,
			Lost: func() {
				if lost != nil {
					lost(*l.address.Load())
				}
			},
		}, func() (string, bool) { return *l.address.Load(), true })
		set.all = append(set.all, l)
		set.free <- l
	}
	return set
}

func (s lanes) request(ctx context.Context, address string, req kmsg.Request) (kmsg.Response, error) {
	select {
	case l := <-s.free:
		defer func() { s.free <- l }()
		l.address.Store(&address)
		return l.client.Request(ctx, req)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// close ends what is on its way.
func (s lanes) close() {
	for _, l := range s.all {
		l.client.Close()
	}
}
