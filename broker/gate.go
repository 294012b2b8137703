package broker

import (
	"context"

	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// gate is the wire server's handler. It lets in at once what other nodes ask this one's
// controller, who may be needed to make a cluster; everything else waits until the broker
// is in service, as it would in the backlog of a listener that does not accept yet.
type gate struct {
	control wire.Handler // nil: there is no controller here
	open    chan struct{}
	serve   wire.Handler // valid once open is closed
}

// Handle is wire.Handler.
func (g *gate) Handle(ctx context.Context, r *wire.Request) wire.Outcome {
	if g.control != nil && r.API().Listeners == protocol.ControllerListener {
		return g.control.Handle(ctx, r)
	}
	select {
	case <-g.open:
		return g.serve.Handle(ctx, r)
	default:
	}
	r.Park()
	select {
	case <-g.open:
		return g.serve.Handle(ctx, r)
	case <-ctx.Done():
		return wire.Outcome{Close: ctx.Err()}
	}
}
