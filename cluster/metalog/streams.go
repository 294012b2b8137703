package metalog

import (
	"context"
	"net"
	"time"
)

// NewStreamLayer makes a StreamLayer of a listener, whose connections are Raft's from their
// first byte on, and of a function that dials other voters' addresses and leaves the
// connection in that state.
func NewStreamLayer(l net.Listener, dial func(ctx context.Context, address string) (net.Conn, error)) StreamLayer {
	return streamLayer{l, dial}
}

type streamLayer struct {
	net.Listener
	dial func(ctx context.Context, address string) (net.Conn, error)
}

// Dial implements StreamLayer.
func (s streamLayer) Dial(_, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.dial(ctx, address)
}
