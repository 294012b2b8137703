package countconn

import (
	"net"
	"sync/atomic"
	"syscall"
)

// Counts is what the connections of one listener have done so far.
type Counts struct {
	Reads, Writes         atomic.Int64 // calls that moved bytes or failed
	ReadWaits, WriteWaits atomic.Int64 // calls on a descriptor that was not ready
	BytesRead             atomic.Int64 // through net.Conn only
	BytesWritten          atomic.Int64 // through net.Conn only
}

// Listener counts what its connections do.
type Listener struct {
	net.Listener
	Counts Counts
}

// Listen wraps a listener.
func Listen(ln net.Listener) *Listener { return &Listener{Listener: ln} }

// Accept wraps the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return Wrap(c, &l.Counts), nil
}

// Wrap counts what c does. The result offers SyscallConn, CloseWrite and WaitReadable if
// c does.
func Wrap(c net.Conn, counts *Counts) net.Conn {
	base := conn{Conn: c, counts: counts}
	if sc, ok := c.(syscall.Conn); ok {
		return &socketConn{base, sc}
	}
	if w, ok := c.(interface{ WaitReadable() error }); ok {
		return &waitingConn{base, w}
	}
	return &base
}

type conn struct {
	net.Conn
	counts *Counts
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.counts.Reads.Add(1)
	c.counts.BytesRead.Add(int64(n))
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.counts.Writes.Add(1)
	c.counts.BytesWritten.Add(int64(n))
	return n, err
}

// CloseWrite closes the outgoing half.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

type waitingConn struct {
	conn
	waiter interface{ WaitReadable() error }
}

func (c *waitingConn) WaitReadable() error { return c.waiter.WaitReadable() }

type socketConn struct {
	conn
	socket syscall.Conn
}

// SyscallConn counts the calls that are carried out on the descriptor.
func (c *socketConn) SyscallConn() (syscall.RawConn, error) {
	raw, err := c.socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &rawConn{raw, c.counts}, nil
}

type rawConn struct {
	syscall.RawConn
	counts *Counts
}

func (r *rawConn) Read(fn func(fd uintptr) bool) error {
	return r.RawConn.Read(func(fd uintptr) bool { return count(fn(fd), &r.counts.Reads, &r.counts.ReadWaits) })
}

func (r *rawConn) Write(fn func(fd uintptr) bool) error {
	return r.RawConn.Write(func(fd uintptr) bool { return count(fn(fd), &r.counts.Writes, &r.counts.WriteWaits) })
}

func count(done bool, calls, waits *atomic.Int64) bool {
	if done {
		calls.Add(1)
	} else {
		waits.Add(1)
	}
	return done
}
