package handlers

import (
	"context"
	"net"
	"net/netip"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
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
