package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/wire"
	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

// fakeQuorum knows the leader that a test names.
type fakeQuorum struct {
	mu      sync.Mutex
	node    int32 // 0: not known
	changed chan struct{}
}

func (q *fakeQuorum) Leader() (string, int32, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return controllerAddress(q.node), q.node, q.node != 0
}

func (q *fakeQuorum) LeaderMoved() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed
}

func (q *fakeQuorum) lead(node int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.node = node
	close(q.changed)
	q.changed = make(chan struct{})
}

func controllerAddress(node int32) string { return fmt.Sprintf("c%d:9093", node) }

// channelRig is node 1 with its channel, and controllers 2 and 3 over the wire. All note what
// they are asked.
type channelRig struct {
	*Channel
	t      *testing.T
	net    *memnet.Network
	quorum *fakeQuorum
	local  fakeController
	remote map[int32]*remoteController
}

type remoteController struct {
	asked  atomic.Int32
	active atomic.Bool
	mute   atomic.Bool
	older  atomic.Bool // knows no request of a voter
	hosts  sync.Map    // of requests in envelopes, by principal
	knows  sync.Map    // controllers, by id
}

func (r *remoteController) Handle(ctx context.Context, req *wire.Request) wire.Outcome {
	if req.Key != int16(kmsg.DescribeCluster) {
		r.asked.Add(1)
	}
	if r.mute.Load() {
		<-ctx.Done()
		return wire.Outcome{Close: ctx.Err()}
	}
	body := kmsg.RequestForKey(req.Key)
	body.SetVersion(req.Version)
	if err := body.ReadFrom(req.Body); err != nil {
		return wire.Outcome{Close: err}
	}
	resp := r.answer(body)
	out := req.NewResponse()
	out.Append(resp.AppendTo)
	return wire.Outcome{Response: out}
}

func (r *remoteController) answer(body kmsg.Request) kmsg.Response {
	at := metadata.Position{Index: 42, Term: 7}
	env, ok := body.(*kmsg.EnvelopeRequest)
	describe, seeks := body.(*kmsg.DescribeClusterRequest)
	switch {
	case seeks:
		return r.describe(describe)
	case ok:
		f, err := controller.OpenEnvelope(env)
		r.hosts.Store(f.Principal, true)
		if !r.active.Load() {
			return controller.SealAnswer(env, f, nil, at, kafkaerr.NotController)
		}
		if r.older.Load() && (f.Key == int16(kmsg.AddRaftVoter) || f.Key == int16(kmsg.RemoveRaftVoter)) {
			return controller.SealAnswer(env, f, nil, at, kafkaerr.UnsupportedVersion)
		}
		inner := kmsg.RequestForKey(f.Key)
		inner.SetVersion(f.Version)
		return controller.SealAnswer(env, f, inner.ResponseKind(), at, err)
	case !r.active.Load():
		return controller.ErrorResponse(body, kafkaerr.NotController)
	}
	resp := body.ResponseKind()
	if registered, ok := resp.(*kmsg.BrokerRegistrationResponse); ok {
		registered.BrokerEpoch = 11
		controller.SetPosition(&registered.UnknownTags, at)
	}
	return resp
}

func (r *remoteController) describe(req *kmsg.DescribeClusterRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	if req.EndpointType != controllerEndpoints {
		resp.ErrorCode = kafkaerr.MismatchedEndpointType.Code
		return resp
	}
	r.knows.Range(func(id, _ any) bool {
		b := kmsg.NewDescribeClusterResponseBroker()
		b.NodeID, b.Host, b.Port = id.(int32), fmt.Sprintf("c%d", id), 9093
		resp.Brokers = append(resp.Brokers, b)
		return true
	})
	return resp
}

func channelTest(t *testing.T, test func(r *channelRig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &channelRig{
			t: t, net: memnet.New(), quorum: &fakeQuorum{changed: make(chan struct{})}, remote: map[int32]*remoteController{},
			local: fakeController{answer: func(req kmsg.Request) (kmsg.Response, metadata.Position, error) {
				return req.ResponseKind(), metadata.Position{Index: 5}, nil
			}},
		}
		var servers []*wire.Server
		for id := int32(2); id <= 3; id++ {
			ln, err := r.net.Listen(controllerAddress(id))
			if err != nil {
				t.Fatal(err)
			}
			r.remote[id] = &remoteController{}
			s := wire.NewServer(wire.Options{Handler: r.remote[id]})
			servers = append(servers, s)
			go func() { _ = s.Serve(ln, wire.ListenerInfo{Name: "CONTROLLER", Kind: protocol.ControllerListener}) }()
		}
		r.Channel = NewChannel(ChannelOptions{
			NodeID: 1, Local: &r.local, Quorum: r.quorum, Controllers: []string{controllerAddress(2), controllerAddress(3)},
			Dial: func(ctx context.Context, address string) (net.Conn, error) {
				return r.net.Host("n1").DialContext(ctx, "tcp", address)
			},
		})
		test(r)
		r.Close()
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		for _, s := range servers {
			_ = s.Shutdown(gone)
		}
	})
}

func (r *channelRig) ask(req kmsg.Request) (kmsg.Response, metadata.Position, error) {
	return r.Handle(r.t.Context(), controller.Call{Request: req, Principal: "User:alice"})
}

func beat() kmsg.Request { return &kmsg.BrokerHeartbeatRequest{Version: 2} }

func TestChannelAsksTheLeader(t *testing.T) {
	channelTest(t, func(r *channelRig) {
		r.remote[3].active.Store(true)
		r.quorum.lead(3)
		resp, at, err := r.ask(&kmsg.BrokerRegistrationRequest{Version: 4})
		if err != nil || at.Index != 42 || resp.(*kmsg.BrokerRegistrationResponse).BrokerEpoch != 11 {
			r.t.Errorf("%v, %v, %v", resp, at, err)
		}
		for _, req := range []kmsg.Request{beat(), &kmsg.AllocateProducerIDsRequest{}, &kmsg.AlterPartitionRequest{Version: 3}} {
			if _, _, err := r.ask(req); err != nil {
				r.t.Error(err)
			}
		}
		resp, at, err = r.ask(&kmsg.CreateTopicsRequest{Version: 7})
		if _, ok := resp.(*kmsg.CreateTopicsResponse); !ok || err != nil || at.Index != 42 {
			r.t.Errorf("forwarded: %T, %v, %v", resp, at, err)
		}
		if _, ok := r.remote[3].hosts.Load("User:alice"); !ok {
			r.t.Error("the principal did not arrive")
		}
		if n := r.remote[2].asked.Load(); n != 0 {
			r.t.Errorf("the other one was asked %d times", n)
		}
	})
}

// A controller of an older release does not know a request that this node has advertised: that
// is an answer, on which nobody waits for another controller or tries again.
func TestChannelToAnOlderController(t *testing.T) {
	channelTest(t, func(r *channelRig) {
		r.remote[3].active.Store(true)
		r.remote[3].older.Store(true)
		r.quorum.lead(3)
		for i, req := range []kmsg.Request{&kmsg.AddRaftVoterRequest{Version: 1}, &kmsg.RemoveRaftVoterRequest{}} {
			begin := time.Now()
			_, _, err := r.ask(req)
			if !errors.Is(err, kafkaerr.UnsupportedVersion) || errors.Is(err, kafkaerr.NotController) {
				r.t.Errorf("%T: %v", req, err)
			}
			if waited := time.Since(begin); waited > 0 || r.remote[3].asked.Load() != int32(i+1) {
				r.t.Errorf("%T: %v, asked %d times", req, waited, r.remote[3].asked.Load())
			}
			resp := controller.ErrorResponse(req, err)
			if code, message := errorOf(resp); code != kafkaerr.UnsupportedVersion.Code || !strings.Contains(message, "upgrade all nodes first") {
				r.t.Errorf("%T: error %d, %s", resp, code, message)
			}
		}
		if _, _, err := r.ask(&kmsg.CreateTopicsRequest{Version: 7}); err != nil {
			r.t.Errorf("and what it knows: %v", err)
		}
	})
}

func errorOf(resp kmsg.Response) (code int16, message string) {
	switch resp := resp.(type) {
	case *kmsg.AddRaftVoterResponse:
		return resp.ErrorCode, *resp.ErrorMessage
	case *kmsg.RemoveRaftVoterResponse:
		return resp.ErrorCode, *resp.ErrorMessage
	}
	return 0, ""
}

func TestChannelAsksItsOwnController(t *testing.T) {
	channelTest(t, func(r *channelRig) {
		r.quorum.lead(1)
		if _, at, err := r.ask(&kmsg.CreateTopicsRequest{Version: 7}); err != nil || at.Index != 5 {
			r.t.Errorf("%v, %v", at, err)
		}
	})
}

// A node that knows no leader yet registers with whoever is active. It forwards nothing.
func TestChannelFindsTheActiveOne(t *testing.T) {
	channelTest(t, func(r *channelRig) {
		if _, _, err := r.ask(beat()); !errors.Is(err, kafkaerr.NotController) {
			r.t.Errorf("nobody is active: %v", err)
		}
		r.remote[3].active.Store(true)
		for range 3 {
			if _, _, err := r.ask(beat()); err != nil {
				r.t.Error(err)
			}
		}
		if n := r.remote[2].asked.Load(); n != 2 {
			r.t.Errorf("the inactive one was asked %d times: not only until the active one was found", n)
		}
		if _, _, err := r.ask(&kmsg.CreateTopicsRequest{Version: 7}); !errors.Is(err, kafkaerr.NotController) {
			r.t.Errorf("forwarded to nobody: %v", err)
		}
	})
}

// As in Kafka, the address of one controller is enough, also of one that is not active.
func TestChannelFindsTheActiveOneThroughAnother(t *testing.T) {
	channelTest(t, func(r *channelRig) {
		r.opts.Controllers = []string{controllerAddress(2)}
		r.remote[3].active.Store(true)
		if _, _, err := r.ask(beat()); !errors.Is(err, kafkaerr.NotController) {
			r.t.Errorf("the other one does not know it: %v", err)
		}
		r.remote[2].knows.Store(int32(2), true)
		r.remote[2].knows.Store(int32(3), true)
		if _, _, err := r.ask(beat()); !errors.Is(err, kafkaerr.NotController) {
			r.t.Errorf("asked again within %v: %v", seekPause, err)
		}
		<-time.After(seekPause)
		for range 3 {
			if _, _, err := r.ask(beat()); err != nil {
				r.t.Error(err)
			}
		}
		r.remote[2].active.Store(true)
		r.remote[3].active.Store(false)
		if _, _, err := r.ask(beat()); err != nil {
			r.t.Errorf("leadership has moved to the configured one: %v", err)
		}
	})
}

// A node that leads a log, and is no controller, is on the disk of a cluster of one: it asks
// the controllers that are configured, and waits for what they say.
func TestChannelOnTheDiskOfAnotherCluster(t *testing.T) {
	channelTest(t, func(r *channelRig) {
		r.opts.Local = nil
		r.quorum.lead(1)
		r.remote[3].active.Store(true)
		if _, _, err := r.ask(&kmsg.BrokerRegistrationRequest{Version: 4}); err != nil {
			r.t.Error(err)
		}
	})
}

// One that hangs holds up a node that looks for the active one for a second only.
func TestChannelDoesNotWaitForOneThatHangs(t *testing.T) {
	channelTest(t, func(r *channelRig) {
		r.remote[2].mute.Store(true)
		r.remote[3].active.Store(true)
		begin := time.Now()
		if _, _, err := r.ask(beat()); err != nil {
			r.t.Error(err)
		}
		if took := time.Since(begin); took > 1100*time.Millisecond {
			r.t.Errorf("after %v", took)
		}
	})
}

// A leader that does not answer is given up when another one leads, whatever the request.
func TestChannelGivesUpAFormerLeader(t *testing.T) {
	for _, req := range []kmsg.Request{beat(), &kmsg.AlterPartitionRequest{Version: 3}, &kmsg.CreateTopicsRequest{Version: 7}} {
		channelTest(t, func(r *channelRig) {
			r.remote[2].mute.Store(true)
			r.remote[3].active.Store(true)
			r.quorum.lead(2)
			errs := make(chan error, 1)
			begin := time.Now()
			go func() {
				_, _, err := r.ask(req)
				errs <- err
			}()
			<-time.After(300 * time.Millisecond)
			r.quorum.lead(3)
			if err := <-errs; !errors.Is(err, kafkaerr.NotController) {
				r.t.Errorf("%T: %v", req, err)
			}
			if _, _, err := r.ask(req); err != nil {
				r.t.Errorf("%T at the next one: %v", req, err)
			}
			if took := time.Since(begin); took > 310*time.Millisecond {
				r.t.Errorf("%T: after %v", req, took)
			}
		})
	}
}

// A connection that has died without a word is given up as soon for ISR changes as for
// heartbeats: what is not answered on it must not hold up what is asked again.
func TestChannelGivesUpASilentConnection(t *testing.T) {
	for _, req := range []kmsg.Request{beat(), &kmsg.AlterPartitionRequest{Version: 3}, &kmsg.AllocateProducerIDsRequest{}} {
		channelTest(t, func(r *channelRig) {
			r.remote[2].mute.Store(true)
			r.remote[2].active.Store(true)
			r.quorum.lead(2)
			ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Second)
			defer cancel()
			begin := time.Now()
			if _, _, err := r.Handle(ctx, controller.Call{Request: req}); err == nil {
				r.t.Errorf("%T: answered", req)
			}
			r.remote[2].mute.Store(false) // for later connections: this one hangs in its first request
			for {
				if _, _, err := r.ask(req); err == nil {
					break
				}
				pause(r.t.Context(), retryPause)
			}
			if took := time.Since(begin); took > 3200*time.Millisecond {
				r.t.Errorf("%T: after %v", req, took)
			}
		})
	}
}

// A leader that dies while it works on a request leaves its outcome open: the error says
// that it may be sent again, and is not that of the caller's patience.
func TestChannelLosesTheLeader(t *testing.T) {
	channelTest(t, func(r *channelRig) {
		r.remote[2].mute.Store(true)
		r.quorum.lead(2)
		errs := make(chan error, 1)
		go func() {
			_, _, err := r.ask(&kmsg.CreateTopicsRequest{Version: 7})
			errs <- err
		}()
		synctest.Wait()
		r.net.Crash("c2")
		if err := <-errs; !errors.Is(err, kafkaerr.NotController) {
			r.t.Errorf("%v", err)
		}
	})
}

func TestChannelEndsWithItsCaller(t *testing.T) {
	channelTest(t, func(r *channelRig) {
		r.remote[2].mute.Store(true)
		r.quorum.lead(2)
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
		defer cancel()
		_, _, err := r.Handle(ctx, controller.Call{Request: beat()})
		if !errors.Is(err, context.DeadlineExceeded) {
			r.t.Errorf("%v", err)
		}
	})
}
