package memnet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Conn is one end of a connection.
type Conn struct {
	net           *Network
	local, remote Addr
	in, out       *stream
	once          sync.Once
	closed        chan struct{}

	readDeadline, writeDeadline deadline
}

func newConn(n *Network, local, remote Addr, in, out *stream) *Conn {
	c := &Conn{net: n, local: local, remote: remote, in: in, out: out, closed: make(chan struct{})}
	c.readDeadline.expired, c.writeDeadline.expired = make(chan struct{}), make(chan struct{})
	return c
}

// Read reads what has arrived, or waits for the first byte.
func (c *Conn) Read(p []byte) (int, error) {
	for {
		if err := c.usable(&c.readDeadline); err != nil {
			return 0, c.error("read", err)
		}
		if len(p) == 0 {
			return 0, nil
		}
		n, wait, err := c.in.tryRead(p)
		if err != nil {
			return 0, c.readError(err)
		}
		if n > 0 {
			return n, nil
		}
		c.wait(wait, &c.readDeadline)
	}
}

// WaitReadable waits until Read would not block.
func (c *Conn) WaitReadable() error {
	for {
		if err := c.usable(&c.readDeadline); err != nil {
			return c.error("read", err)
		}
		wait := c.in.waitReadable()
		if wait == nil {
			return nil
		}
		c.wait(wait, &c.readDeadline)
	}
}

// Write writes all of p, waiting for room.
func (c *Conn) Write(p []byte) (int, error) {
	for written := 0; ; {
		if err := c.usable(&c.writeDeadline); err != nil {
			return written, c.error("write", err)
		}
		if written == len(p) {
			return written, nil
		}
		n, wait, err := c.out.tryWrite(p[written:])
		if written += n; err != nil {
			return written, c.error("write", err)
		}
		if n == 0 {
			c.wait(wait, &c.writeDeadline)
		}
	}
}

// usable returns why an operation must not begin or go on.
func (c *Conn) usable(d *deadline) error {
	select {
	case <-c.closed:
		return net.ErrClosed
	default:
	}
	if d.passed() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (c *Conn) wait(changed <-chan struct{}, d *deadline) {
	select {
	case <-changed:
	case <-d.wait():
	case <-c.closed:
	}
}

// CloseWrite ends what this end sends; it can still read.
func (c *Conn) CloseWrite() error {
	if err := c.usable(new(deadline)); err != nil {
		return c.error("close", err)
	}
	c.out.end()
	return nil
}

// Close closes the connection. With unread bytes, the peer is reset.
func (c *Conn) Close() error {
	c.close(false)
	return nil
}

func (c *Conn) reset() { c.close(true) }

func (c *Conn) close(reset bool) {
	c.once.Do(func() {
		close(c.closed)
		c.readDeadline.stop()
		c.writeDeadline.stop()
		unread := c.in.abandon()
		c.out.close(reset || unread)
		c.net.forget(c)
	})
}

// LocalAddr is this end's address.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the other end's address.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	c.readDeadline.set(t)
	c.writeDeadline.set(t)
	return nil
}

// SetReadDeadline bounds reads, pending ones included; the zero time removes the bound.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.readDeadline.set(t)
	return nil
}

// SetWriteDeadline bounds writes.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.writeDeadline.set(t)
	return nil
}

func (c *Conn) error(op string, err error) error { return opError(op, c.local, c.remote, err) }

// readError leaves io.EOF as it is.
func (c *Conn) readError(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return c.error("read", err)
}

// deadline is a channel that is closed when a time has come, or another one is set.
type deadline struct {
	mu      sync.Mutex
	timer   *time.Timer
	expired chan struct{}
}

// wait returns the channel of the deadline that is set now.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expired
}

// passed tells whether the time has come. The channel does not: a moment after somebody got it
// from wait it may be the one of an earlier deadline, closed because that was replaced.
func (d *deadline) passed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.expired:
		return true
	default:
		return false
	}
}

// set replaces the deadline. Who waits on the channel of the old one is woken and looks
// again.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	old := d.expired
	d.expired = make(chan struct{})
	expired := d.expired
	switch left := time.Until(t); {
	case t.IsZero():
	case left <= 0:
		close(expired)
	default:
		d.timer = time.AfterFunc(left, func() { d.expire(expired) })
	}
	closeOnce(old)
}

// stop ends the timer of a connection that is closed.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (d *deadline) expire(expired chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	closeOnce(expired)
}

// closeOnce closes ch unless it is closed. The deadline's lock is held.
func closeOnce(ch chan struct{}) {
	select {
	case <-ch:
	default:
		close(ch)
	}
}
