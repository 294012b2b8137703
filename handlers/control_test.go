package handlers

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// fakeActive is an active controller that grants everything, unless it has an error.
type fakeActive struct {
	calls []controller.Call
	err   error
	lost  chan string
}

func (f *fakeActive) Handle(_ context.Context, call controller.Call) (kmsg.Response, metadata.Position, error) {
	f.calls = append(f.calls, call)
	return call.Request.ResponseKind(), metadata.Position{Index: 77, Term: 2}, f.err
}

func (f *fakeActive) ConnectionLost(broker int32, epoch int64) {
	f.lost <- fmt.Sprintf("broker %d epoch %d", broker, epoch)
}

func newControlFixture(t *testing.T) (*fixture, *fakeActive) {
	f, active := newFixture(t), &fakeActive{lost: make(chan string, 10)}
	f.h.controller = active
	return f, active
}

// What nodes send each other is decided by the controller that is here, active or not: it
// goes no further.
func TestControllerRequestsStayHere(t *testing.T) {
	f, active := newControlFixture(t)
	active.err = kafkaerr.NotController
	for _, req := range []kmsg.Request{
		&kmsg.AlterPartitionRequest{Version: 3}, &kmsg.BrokerRegistrationRequest{Version: 4},
		&kmsg.BrokerHeartbeatRequest{Version: 2}, &kmsg.AllocateProducerIDsRequest{}, &kmsg.AssignReplicasToDirsRequest{},
		&kmsg.ControllerRegistrationRequest{},
	} {
		resp := ask[kmsg.Response](t, f, req)
		var code int16
		switch r := resp.(type) {
		case *kmsg.AlterPartitionResponse:
			code = r.ErrorCode
		case *kmsg.BrokerRegistrationResponse:
			code = r.ErrorCode
		case *kmsg.BrokerHeartbeatResponse:
			code = r.ErrorCode
		case *kmsg.AllocateProducerIDsResponse:
			code = r.ErrorCode
		case *kmsg.AssignReplicasToDirsResponse:
			code = r.ErrorCode
		case *kmsg.ControllerRegistrationResponse:
			code = r.ErrorCode
		}
		if code != kafkaerr.NotController.Code {
			t.Errorf("%T: error %d", resp, code)
		}
	}
	if len(active.calls) != 6 || len(f.node.calls) != 0 {
		t.Errorf("%d requests to the controller here, %d forwarded", len(active.calls), len(f.node.calls))
	}
}

// A broker that has registered is told from which position on it sees itself.
func TestRegistrationTellsThePosition(t *testing.T) {
	f, _ := newControlFixture(t)
	resp := ask[*kmsg.BrokerRegistrationResponse](t, f, &kmsg.BrokerRegistrationRequest{Version: 4})
	if at, ok := controller.PositionOf(&resp.UnknownTags); !ok || at.Index != 77 {
		t.Errorf("position %v, %v", at, ok)
	}
}

func TestEnvelopeGoesToTheController(t *testing.T) {
	f, active := newControlFixture(t)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TopicNames = 3, []string{"t"}
	call := controller.Call{Request: req, Principal: "User:alice"}
	sealed := ask[*kmsg.EnvelopeResponse](t, f, controller.NewEnvelope(call))
	resp, at, err := controller.OpenAnswer(call, sealed)
	if _, ok := resp.(*kmsg.DeleteTopicsResponse); !ok || err != nil || at.Index != 77 {
		t.Errorf("%T, %v, %v", resp, at, err)
	}
	if got := active.calls[0]; got.Principal != "User:alice" || got.Request.(*kmsg.DeleteTopicsRequest).TopicNames[0] != "t" {
		t.Errorf("the controller got %+v", got)
	}
}

// A client whose request the active controller does not know, since it is of an older release,
// keeps its connection and is told.
func TestOlderControllerIsTold(t *testing.T) {
	f, _ := newControlFixture(t)
	f.node.err = fmt.Errorf("call the controller: %w", kafkaerr.New(kafkaerr.UnsupportedVersion, "it is older"))
	added := ask[*kmsg.AddRaftVoterResponse](t, f, &kmsg.AddRaftVoterRequest{Version: 1})
	if added.ErrorCode != kafkaerr.UnsupportedVersion.Code || *added.ErrorMessage != "it is older" {
		t.Errorf("add: %+v", added)
	}
	removed := ask[*kmsg.RemoveRaftVoterResponse](t, f, &kmsg.RemoveRaftVoterRequest{})
	if removed.ErrorCode != kafkaerr.UnsupportedVersion.Code || *removed.ErrorMessage != "it is older" {
		t.Errorf("remove: %+v", removed)
	}
}

// What is in an envelope may be anything.
func TestBadEnvelope(t *testing.T) {
	f, active := newControlFixture(t)
	good := controller.NewEnvelope(controller.Call{Request: &kmsg.CreateTopicsRequest{Version: 7}})
	for name, data := range map[string][]byte{
		"empty": {}, "unknown key": {0x7f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0}, "body cut short": good.RequestData[:len(good.RequestData)-3],
	} {
		env := kmsg.NewPtrEnvelopeRequest()
		env.RequestData, env.RequestPrincipal, env.ClientHostAddress = data, good.RequestPrincipal, []byte{}
		if resp := ask[*kmsg.EnvelopeResponse](t, f, env); resp.ErrorCode == 0 {
			t.Errorf("%s: no error", name)
		}
	}
	if len(active.calls) != 0 {
		t.Errorf("the controller was asked %+v", active.calls)
	}
}

// The controller hears once that a connection with heartbeats is gone, and of the broker's
// last epoch on it.
func TestHeartbeatConnectionIsWatched(t *testing.T) {
	f, active := newControlFixture(t)
	conn, closeConn := context.WithCancel(t.Context())
	for _, epoch := range []int64{5, 5} {
		r := f.request(&kmsg.BrokerHeartbeatRequest{Version: 2, BrokerID: 3, BrokerEpoch: epoch})
		out := f.h.Handle(conn, r)
		out.Response.Release()
	}
	select {
	case lost := <-active.lost:
		t.Errorf("%s while it is open", lost)
	default:
	}
	closeConn()
	if lost := <-active.lost; lost != "broker 3 epoch 5" {
		t.Error(lost)
	}
	if len(active.lost) != 0 || len(f.h.beats.epochs) != 0 {
		t.Errorf("%d more, %d kept", len(active.lost), len(f.h.beats.epochs))
	}
}
