package wire

import (
	"net"
	"sync"
)

// prefaceBit is set in the first byte of what is not a frame: as the first byte of a
// size it would make it negative.
const prefaceBit = 0x80

// maybePreface looks at the first byte of the next frame. If that is no frame, the
// connection goes to whoever speaks the other protocol (D16), with all its bytes.
func (c *conn) maybePreface() error {
	first, err := c.in.firstByte()
	if err != nil {
		return err
	}
	if first&prefaceBit == 0 {
		return nil
	}
	if err := c.lane.await(c.ctx, 1); err != nil {
		return err
	}
	c.server.forget(c)
	c.server.onPreface(&takenConn{Conn: c.net, unread: c.in.rest(), closed: func() { c.server.leave(c) }}, first)
	return errTakenOver
}

// takenConn is a connection that was taken over: what was read already comes first, and
// it counts in the connection limits until it is closed.
type takenConn struct {
	net.Conn
	mu     sync.Mutex
	unread []byte
	once   sync.Once
	closed func()
}

func (t *takenConn) Read(p []byte) (int, error) {
	t.mu.Lock()
	n := copy(p, t.unread)
	t.unread = t.unread[n:]
	t.mu.Unlock()
	if n > 0 {
		return n, nil
	}
	return t.Conn.Read(p)
}

func (t *takenConn) Close() error {
	t.once.Do(t.closed)
	return t.Conn.Close()
}
