package wire

import (
	"context"
	"fmt"
	"net"
	"syscall"
)

// ListenOptions are the options of a TCP listener; 0 and negative values leave the
// operating system's default.
type ListenOptions struct {
	Backlog            int // connections waiting to be accepted, "socket.listen.backlog.size"
	SendBufferBytes    int // "socket.send.buffer.bytes"
	ReceiveBufferBytes int // "socket.receive.buffer.bytes"
}

// Listen listens on a TCP address. Accepted connections inherit the buffer sizes, so
// that accepting one costs no call for them. As in Kafka, keep-alive is on with the
// system's times, and Nagle's algorithm is off.
func Listen(ctx context.Context, address string, o ListenOptions) (net.Listener, error) {
	config := net.ListenConfig{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: -1, Interval: -1, Count: -1},
		Control:         func(_, _ string, raw syscall.RawConn) error { return setBuffers(raw, o) },
	}
	ln, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	if err := setBacklog(ln, o.Backlog); err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("listen on %s with a backlog of %d: %w", address, o.Backlog, err)
	}
	return ln, nil
}
