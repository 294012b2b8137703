package handlers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Controller is the controller of this node, be it the active one or not. Handlers of
// requests that come on controller listeners ask it.
type Controller interface {
	// Handle has a request decided; see controller.Controller.
	Handle(ctx context.Context, call controller.Call) (kmsg.Response, metadata.Position, error)
	// ConnectionLost says that the connection of a broker's heartbeats has closed.
	ConnectionLost(broker int32, epoch int64)
}

// control has another node's request decided here, and nowhere else.
func (h *Handlers) control(ctx context.Context, c call, req kmsg.Request) (kmsg.Response, metadata.Position) {
	c.request.Park()
	resp, at, err := h.controller.Handle(ctx, controller.Call{
		Request: req, Principal: c.principal(), Client: c.client(), Received: c.request.Received,
	})
	if err != nil {
		return controller.ErrorResponse(req, err), at
	}
	return resp, at
}

// client is the address that a request came from, the zero value if it is not one of IP.
func (c call) client() netip.Addr {
	if tcp, ok := c.request.Conn.Remote.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// LocalController is what this node's controller decides and knows: beside its own requests,
// who keeps the metadata log, which the active one alone can tell and change. It is a
// Controller.
type LocalController struct {
	Controller
	Quorum func() Quorum
	Voters Voters
	Image  func() *metadata.Image // the newest, also while requests see none yet
}

// Handle answers, or says that another node is the active controller.
func (l LocalController) Handle(ctx context.Context, call controller.Call) (kmsg.Response, metadata.Position, error) {
	var err error
	switch req := call.Request.(type) {
	case *kmsg.DescribeQuorumRequest:
		quorum := l.Quorum()
		if !quorum.LeaderHere {
			return nil, metadata.Position{}, kafkaerr.NotController
		}
		return AnswerQuorum(req, quorum, l.Image()), metadata.Position{}, nil
	case *kmsg.AddRaftVoterRequest:
		err = l.addVoter(ctx, req)
	case *kmsg.RemoveRaftVoterRequest:
		err = l.removeVoter(ctx, req)
	case *kmsg.UpdateRaftVoterRequest:
		err = l.updateVoter(ctx, req)
	default:
		return l.Controller.Handle(ctx, call)
	}
	if _, update := call.Request.(*kmsg.UpdateRaftVoterRequest); !update && errors.Is(err, kafkaerr.NotLeaderOrFollower) {
		return nil, metadata.Position{}, fmt.Errorf("%w: %w", kafkaerr.NotController, err)
	}
	return l.voterAnswer(call.Request, err), metadata.Position{}, nil
}

// voterAnswer is the answer to a change of the voters. One to a voter that says where it is
// names the leader: nobody forwards that.
func (l LocalController) voterAnswer(req kmsg.Request, err error) kmsg.Response {
	resp := controller.ErrorResponse(req, err)
	if update, ok := resp.(*kmsg.UpdateRaftVoterResponse); ok {
		quorum := l.Quorum()
		update.CurrentLeader.LeaderID, update.CurrentLeader.LeaderEpoch = quorum.Leader, quorum.Epoch
		for _, listener := range controllerListeners(l.Image(), quorum.Leader) {
			if listener.Name == l.Voters.Listener() {
				update.CurrentLeader.Host, update.CurrentLeader.Port = listener.Host, listener.Port
			}
		}
	}
	return resp
}
