package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klamm-mq/klamm/protocol"
)

// handlerClose is a handler's wish to close the connection.
type handlerClose struct {
	key int16
	err error
}

func (h *handlerClose) Error() string { return fmt.Sprintf("answer to API key %d: %v", h.key, h.err) }
func (h *handlerClose) Unwrap() error { return h.err }

var (
	errDraining  = errors.New("server is shutting down")
	errIdleStop  = errors.New("server is shutting down, nothing was in flight")
	errIdle      = errors.New("connection was idle")
	errHalfFrame = errors.New("client fell silent within a frame")
	errSlowFrame = errors.New("client took long over a frame while others waited for memory")
	errStalled   = errors.New("client does not read its answers")
	errEvicted   = errors.New("connection made room for a more important one")
	errTakenOver = errors.New("connection was taken over")
)

// conn is one connection: its own goroutine reads, handles and, as long as nothing is
// pending, writes.
type conn struct {
	server *Server
	info   ConnInfo
	net    net.Conn
	ctx    context.Context
	cancel context.CancelFunc
	watch  watch

	in   frameReader
	out  output
	lane lane
	wg   sync.WaitGroup // drains
	send func()         // lane.drain, made once
	push func()         // flushOrFail, made once

	lastID      string // the client id of the last request
	greeting    bool   // only SASL and ApiVersions so far: a preface may still come
	asked       bool   // a request was read
	busy        bool   // a request was read since the last wait for one
	overlapping bool   // the last request may overlap with the next one
	current     atomic.Pointer[Request]
	since       stamp // when the current request took its slot
	muted       stamp // until then no request is worked on
	draining    atomic.Bool
	causeOnce   sync.Once
	cause       error
}

func newConn(s *Server, nc net.Conn, l ListenerInfo) *conn {
	c := &conn{server: s, net: nc, greeting: true}
	c.info = ConnInfo{ID: s.nextID.Add(1), Listener: l, Local: nc.LocalAddr(), Remote: nc.RemoteAddr()}
	c.info.maxFrame.Store(l.maxFrame(s.limits))
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.watch.epoch = s.epoch
	c.in = frameReader{
		conn: nc, first: newFirstReader(nc), pool: s.buffers, budget: s.budgetFor(l),
		watch: &c.watch, max: &c.info.maxFrame,
	}
	c.out = output{conn: nc, raw: sendfileConn(nc), pool: s.buffers, watch: &c.watch, room: &s.copies, sent: s.metrics.sent}
	c.lane = lane{out: &c.out, broken: c.fail, spawn: c.spawnDrain, done: c.requestDone, mute: c.mute, wake: make(chan bool, 1)}
	c.lane.slots, c.send = c.lane.few[:0], c.lane.drain
	c.push = c.flushOrFail
	return c
}

// run serves the connection until its end.
func (c *conn) run() {
	err := c.loop()
	if errors.Is(err, errTakenOver) {
		c.cancel()
		return
	}
	c.fail(c.settleUp(err))
	c.finish()
}

// loop reads and handles one request after the other.
func (c *conn) loop() error {
	for {
		r, err := c.read()
		if err != nil {
			return err
		}
		if err := c.handle(r); err != nil {
			return err
		}
	}
}

// settleUp sends the answers that are still owed when reading ends, be it because the
// client sends no more, or not what it may send, or the server stops. It returns the
// cause of the end.
func (c *conn) settleUp(err error) error {
	if c.draining.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		err = errDraining
	}
	owed := c.lane.pending() > 0 || len(c.out.queue) > 0
	if !orderly(err) && !errors.Is(err, io.EOF) {
		return err
	}
	if errors.Is(err, errDraining) && !owed && !c.busy {
		if !c.asked {
			resetOnClose(c.net)
		}
		return errIdleStop
	}
	if late := c.lane.await(c.ctx, 1); late != nil {
		return late
	}
	if late := c.out.flush(); late != nil {
		return late
	}
	return err
}

// read returns the next request. Before it may block, what was answered is flushed.
func (c *conn) read() (*Request, error) {
	if !c.in.buffered() {
		if err := c.flush(); err != nil {
			return nil, err
		}
	}
	if c.draining.Load() {
		return nil, errDraining
	}
	c.busy = false
	if c.greeting && c.server.onPreface != nil && !c.info.Listener.NoPreface {
		if err := c.maybePreface(); err != nil {
			return nil, err
		}
	}
	if c.isMuted() {
		c.in.last = 0 // of the next frame no more than the beginning is read
	}
	if err := c.in.await(c.awaitUnmuted); err != nil {
		return nil, err
	}
	r := &Request{Conn: &c.info, pool: c.server.buffers, flush: c.push}
	if err := c.in.next(c.ctx, &r.frame); err != nil {
		return nil, err
	}
	r.owned.Store(true)
	r.Received = c.in.lastRead
	if err := r.parseHeader(r.frame.bytes(), c.server.lookup, c.internID); err != nil {
		r.FreeBody()
		return nil, err
	}
	c.greeting = c.greeting && beforeAuthentication(r.Key)
	c.asked, c.busy = true, true
	return r, nil
}

// flush sends what is gathered, if the output is with this goroutine.
func (c *conn) flush() error {
	if c.lane.pending() > 0 {
		return nil
	}
	return c.out.flush()
}

// flushOrFail is flush for a request that is about to wait.
func (c *conn) flushOrFail() {
	if err := c.flush(); err != nil {
		c.fail(err)
	}
}

// internID keeps the client id of a connection as one string.
func (c *conn) internID(p []byte) string {
	if c.lastID != string(p) {
		c.lastID = string(p)
	}
	return c.lastID
}

// handle has a request answered in its place in the order.
func (c *conn) handle(r *Request) error {
	s := c.server
	err := c.awaitTurn(r)
	if err == nil {
		err = c.awaitUnmutedWith(r) // an answer before it may have muted the connection
		r.Received = c.in.lastRead
	}
	if err != nil {
		r.FreeBody()
		return err
	}
	s.metrics.started()
	outcome, err := c.callHandler(r)
	if err != nil {
		c.requestDone(r)
		return err
	}
	if err := c.lane.settle(r, outcome); err != nil {
		return err
	}
	if outcome.Close != nil {
		return c.lane.await(c.ctx, 1)
	}
	return nil
}

// awaitTurn waits until r may start: case A, r and what is pending may overlap: there is
// room for one more; case B: everything before it has been answered.
func (c *conn) awaitTurn(r *Request) error {
	limit := 1
	overlaps := c.server.overlaps(r.Key)
	if overlaps && c.overlapping {
		limit = c.server.limits.MaxPending
	}
	c.overlapping = overlaps
	if c.lane.pending() < limit {
		return nil
	}
	return c.lane.await(c.ctx, limit)
}

// callHandler calls the handler with one of the server's slots.
func (c *conn) callHandler(r *Request) (Outcome, error) {
	s := c.server
	if !s.reserved(r.Key) {
		slots := s.slotsFor(c.info.Listener)
		if err := slots.acquire(c.ctx); err != nil {
			return Outcome{}, err
		}
		r.slots = slots
		c.since.set(c.watch.now())
		c.current.Store(r)
		defer c.leaveSlot(r)
	}
	outcome := s.handler.Handle(c.ctx, r)
	outcome.check(r)
	return outcome, nil
}

func (c *conn) leaveSlot(r *Request) {
	c.current.Store(nil)
	c.since.clear()
	r.leaveSlot()
}

// requestDone is called when a request's answer was handed to the output, or dropped.
func (c *conn) requestDone(r *Request) {
	r.FreeBody()
	c.server.metrics.ended(r)
}

func (c *conn) spawnDrain() { c.wg.Go(c.send) }

// fail ends the connection; the first cause counts. Any goroutine may call it. Where
// the server ends the connection, what was written still reaches the client: only the
// outgoing half is closed, and the reader woken to do the rest.
func (c *conn) fail(err error) {
	first := false
	c.causeOnce.Do(func() { c.cause, first = err, true })
	c.cancel()
	if orderly(err) && (!first || closeWrite(c.net) == nil) {
		_ = c.net.SetReadDeadline(time.Unix(1, 0))
		return
	}
	_ = c.net.Close()
}

// orderly reports whether the client is to get everything that was written before.
func orderly(err error) bool {
	var (
		size   *FrameSizeError
		served *UnservedError
		closed *handlerClose
	)
	return errors.As(err, &size) || errors.As(err, &served) || errors.As(err, &closed) ||
		errors.Is(err, errShortHeader) || errors.Is(err, errBadTags) || errors.Is(err, errDraining)
}

// finish releases what the connection holds, after fail.
func (c *conn) finish() {
	c.lane.close()
	c.wg.Wait()
	c.out.drop()
	c.in.dropOver()
	c.server.report(c.cause, c.info.Listener.Name, c.info.Remote)
	if orderly(c.cause) {
		c.linger()
	}
	_ = c.net.Close()
	c.server.forget(c)
	c.server.leave(c)
}

// linger reads and drops what the client still sends, until it closes its end: closing
// a socket with unread bytes resets it, and the reset may overtake answers.
func (c *conn) linger() {
	_ = c.net.SetReadDeadline(time.Now().Add(c.server.limits.Linger))
	buf := c.server.buffers.get(minClass)
	defer c.server.buffers.put(buf)
	for dropped := 0; dropped < readSize; {
		n, err := c.net.Read(buf.b)
		if dropped += n; err != nil {
			return
		}
	}
}

// resetOnClose has a connection refused late that comes while the server stops. A client that
// sees the end of a new connection before any answer may take it for a server of another
// protocol and give up (franz-go does); after a reset it tries again, or elsewhere.
func resetOnClose(nc net.Conn) {
	if outer, ok := nc.(interface{ NetConn() net.Conn }); ok { // TLS
		nc = outer.NetConn()
	}
	if tcp, ok := nc.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0) // it may have ended by itself
	}
}

// closeWrite ends the outgoing half of a connection.
func closeWrite(nc net.Conn) error {
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// drain asks the connection to end as soon as it has answered what it is working on.
func (c *conn) drain() {
	c.draining.Store(true)
	_ = c.net.SetReadDeadline(time.Unix(1, 0))
}

// beforeAuthentication reports whether key may be used before authentication.
func beforeAuthentication(key int16) bool {
	return key == protocol.ApiVersionsKey || key == protocol.SaslHandshakeKey || key == protocol.SaslAuthenticateKey
}
