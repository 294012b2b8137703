package countconn

import (
	"net"
	"sync/atomic"
	"syscall"
)

// Counts is what the connections of one listener have done so far. A write is counted
// before its bytes can reach anybody.
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
	c.counts.Writes.Add(1)
	n, err := c.Conn.Write(p)
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
	return newRawConn(raw, c.counts), nil
}

// rawConn serves one reader and one writer at a time.
type rawConn struct {
	syscall.RawConn
	read, write counter
}

func newRawConn(raw syscall.RawConn, counts *Counts) *rawConn {
	r := &rawConn{RawConn: raw}
	r.read.init(&counts.Reads, &counts.ReadWaits, r.read.afterwards)
	r.write.init(&counts.Writes, &counts.WriteWaits, r.write.beforehand)
	return r
}

func (r *rawConn) Read(fn func(fd uintptr) bool) error {
	r.read.fn = fn
	return r.RawConn.Read(r.read.counted)
}

func (r *rawConn) Write(fn func(fd uintptr) bool) error {
	r.write.fn = fn
	return r.RawConn.Write(r.write.counted)
}

// counter wraps the function of a call. Its own is made once, so that counting adds no
// allocation to what is measured.
type counter struct {
	calls, waits *atomic.Int64
	fn           func(fd uintptr) bool
	counted      func(fd uintptr) bool
}

func (c *counter) init(calls, waits *atomic.Int64, counted func(fd uintptr) bool) {
	c.calls, c.waits = calls, waits
	c.counted = counted
}

// afterwards counts a read: one that only finds nothing to read is never among the calls,
// also not for the moment in which somebody may look at them.
func (c *counter) afterwards(fd uintptr) bool {
	done := c.fn(fd)
	if done {
		c.calls.Add(1)
	} else {
		c.waits.Add(1)
	}
	return done
}

// beforehand counts a write, and takes it back if the descriptor was not ready.
func (c *counter) beforehand(fd uintptr) bool {
	c.calls.Add(1)
	done := c.fn(fd)
	if !done {
		c.calls.Add(-1)
		c.waits.Add(1)
	}
	return done
}
