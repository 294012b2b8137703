package wire

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/protocol"
)

// Request is one request: its decoded header and its still encoded body.
type Request struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      string // "" if null, as Kafka treats it
	HasClientID   bool

	// Body aliases a pooled buffer, and so does whatever a codec decodes from it. It is
	// valid in Handle and, if that returned a Pending, until the Pending is complete;
	// beyond that only for who called Retain. Bytes after the body are not an error.
	Body []byte

	Conn     *ConnInfo
	Received time.Time // when its last byte was there, and the connection not muted

	api   protocol.API
	pool  *Buffers
	frame frame
	owned atomic.Bool // the connection's own reference to the frame is still held
	flush func()      // sends the answers that were gathered before it
	slots *slots      // nil: not counted against queued.max.requests
	left  atomic.Bool // the slot was given back
	clock workClock
	slot  slot // its place in the order, if its answer has to wait
}

// Retain keeps Body valid until a matching Release.
func (r *Request) Retain() { r.frame.retain() }

// Release gives up a reference taken by Retain.
func (r *Request) Release() { r.frame.release() }

// FreeBody gives the connection's own reference to Body up before the request is
// answered: a Produce that waits for its high watermark needs the bytes no longer. Body
// and what was decoded from it must not be used afterwards unless retained, nor kept: the
// buffer may not go back to its pool, and then lives uncounted as long as something
// points to it. It may be called more than once.
func (r *Request) FreeBody() {
	if r.owned.CompareAndSwap(true, false) {
		r.Body = nil
		r.frame.release()
	}
}

// Park tells the server that the handler is about to wait for something other than its
// own work (other clients, a quorum), so that it no longer counts against
// queued.max.requests, nor as work, and answers before it are not kept back for it. It is
// called on Handle's goroutine, and may be more than once.
func (r *Request) Park() {
	r.park()
	if r.flush != nil {
		r.flush()
	}
}

// park is Park by who does not own the connection's output.
func (r *Request) park() {
	r.clock.stop(r.Received)
	r.leaveSlot()
}

func (r *Request) leaveSlot() {
	if r.slots != nil && r.left.CompareAndSwap(false, true) {
		r.slots.release()
	}
}

// StartClock begins to measure how long the request is worked on. Nothing is measured
// unless a handler asks for it.
func (r *Request) StartClock() { r.clock.start(r.Received) }

// Worked is how long the request has been worked on since StartClock: until now, or until
// it was parked.
func (r *Request) Worked() time.Duration { return r.clock.elapsed(r.Received) }

// Size is the length of the request's frame without the size in front.
func (r *Request) Size() int { return r.frame.size }

// workClock has two times since a request was received, 0 for none.
type workClock struct{ began, ended atomic.Int64 }

func (w *workClock) start(received time.Time) { w.began.Store(int64(time.Since(received)) + 1) }

func (w *workClock) stop(received time.Time) {
	if w.began.Load() != 0 {
		w.ended.CompareAndSwap(0, int64(time.Since(received))+1)
	}
}

func (w *workClock) elapsed(received time.Time) time.Duration {
	began, ended := w.began.Load(), w.ended.Load()
	switch {
	case began == 0:
		return 0
	case ended == 0:
		ended = int64(time.Since(received)) + 1
	}
	return time.Duration(ended - began)
}

// NewResponse makes an empty response to r, with a buffer sized by earlier answers to
// the same API.
func (r *Request) NewResponse() *Response { return newResponse(r.pool, r.Key) }

// API is the row of the protocol table for the request's key. Version lies within it,
// except that ApiVersions is handed on whatever version it asks for (KIP-511).
func (r *Request) API() protocol.API { return r.api }

func (r *Request) String() string {
	return fmt.Sprintf("%s v%d correlation %d client %q from %s", r.api.Name, r.Version, r.CorrelationID, r.ClientID, r.Conn)
}

// NewRequest makes a request that came over no connection, for tests of handlers. Its
// body is not pooled.
func NewRequest(pool *Buffers, key, version int16, body []byte) *Request {
	api, _ := protocol.Lookup(key)
	r := &Request{Key: key, Version: version, Body: body, Conn: &ConnInfo{Listener: ListenerInfo{Kind: protocol.BrokerListener}}, Received: time.Now(), api: api, pool: pool}
	r.frame.size = len(body)
	r.frame.hold(pool, &buffer{b: body, class: -1}, nil)
	r.owned.Store(true)
	return r
}

// ConnInfo is what a handler may know about the connection that a request came on.
type ConnInfo struct {
	ID       uint64 // unique within the server
	Listener ListenerInfo
	Local    net.Addr
	Remote   net.Addr

	software atomic.Pointer[software]
	maxFrame atomic.Int32
}

type software struct{ name, version string }

// SetClientSoftware notes what ApiVersions said about the client (KIP-511).
func (c *ConnInfo) SetClientSoftware(name, version string) {
	c.software.Store(&software{name, version})
}

// ClientSoftware is the name and version of the client's library, Kafka's "unknown"
// before ApiVersions 3 told them.
func (c *ConnInfo) ClientSoftware() (name, version string) {
	if s := c.software.Load(); s != nil {
		return s.name, s.version
	}
	return "unknown", "unknown"
}

// SetMaxRequestBytes changes the largest frame that this connection may send, from its
// next one on. A listener that starts small for clients that are not authenticated yet
// (ListenerInfo.MaxRequestBytes) is raised by it afterwards.
func (c *ConnInfo) SetMaxRequestBytes(n int32) { c.maxFrame.Store(n) }

func (c *ConnInfo) String() string {
	if c.Remote == nil {
		return c.Listener.Name
	}
	return c.Listener.Name + "/" + c.Remote.String()
}

// Handler answers requests.
type Handler interface {
	// Handle is called for one request after the other of a connection, on the
	// connection's goroutine: what it does before it returns happens in the order of
	// the requests. Until a Pending that it returned is complete, a further request is
	// handed over only if both may overlap (Options.Overlaps). It may block, and what it
	// waits for ends with ctx when connection or server are closed; before it waits for
	// more than its own work it calls r.Park.
	Handle(ctx context.Context, r *Request) Outcome
}

// HandlerFunc is a function as Handler.
type HandlerFunc func(ctx context.Context, r *Request) Outcome

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, r *Request) Outcome { return f(ctx, r) }

// Outcome is what becomes of a request: exactly one of its first four fields is set.
type Outcome struct {
	// Response is sent when everything before it has been sent; the connection releases it.
	Response *Response
	// Pending is an outcome that is not known yet.
	Pending *Pending
	// NoResponse ends the request without an answer (Produce with acks=0).
	NoResponse bool
	// Close closes the connection after earlier answers have gone out; the error is
	// logged. It is how Kafka answers a failed Produce with acks=0.
	Close error

	// Mute is how long the connection's next request waits, from now on, or from when the
	// answer leaves. The answer does not wait: it tells the client to pause, and the mute is
	// for one that does not. It may come with a Pending as well, and again with its outcome.
	Mute time.Duration
	// Sent, if set, is told how long it took to send the Response, at most a millisecond for
	// each 256 KiB: what is longer is the time of a client that does not take it.
	Sent func(took time.Duration)
}

// check panics unless exactly one field is set.
func (o Outcome) check(r *Request) {
	n := 0
	for _, set := range [...]bool{o.Response != nil, o.Pending != nil, o.NoResponse, o.Close != nil} {
		if set {
			n++
		}
	}
	invariant.Check(n == 1, "outcome of key %d has %d fields set", r.Key, n)
}
