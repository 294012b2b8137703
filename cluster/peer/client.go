package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Errors that Request wraps.
var (
	// ErrNotSent: the request did not leave this node.
	ErrNotSent = errors.New("request was not sent")
	// ErrNoAddress: nobody knows where the peer is.
	ErrNoAddress = fmt.Errorf("the peer has no address: %w", ErrNotSent)
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("client of a peer is closed")
	// ErrTimeout: the answer did not come in time.
	ErrTimeout = errors.New("the peer did not answer in time")
	// ErrMalformed: the peer does not speak Kafka's protocol, or not well.
	ErrMalformed = errors.New("malformed answer")
)

const (
	// firstPause and lastPause bound the wait before a further attempt to connect.
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
	// maxAnswerBytes bounds an answer; the largest are those of Fetch, which one batch
	// of message.max.bytes can make larger than they should be.
	maxAnswerBytes = 256 << 20
)

// Options configure a Client. Dial is required.
type Options struct {
	Dial     func(ctx context.Context, addr string) (net.Conn, error)
	ClientID string
	// Timeout bounds an attempt to connect, and the time from the sending of a request to
	// its answer; 30 s.
	Timeout time.Duration
	// MaxInFlight bounds the requests that are on their way; more wait. 1.
	MaxInFlight int
	// Direct has the caller of Request read the answer, into memory that the next request
	// uses again: nobody else is woken, and nothing is left over. One request is on its way
	// at a time, and one that is given up ends the connection.
	Direct bool
	// Lost is called, if it is given, when the peer has ended a connection on which an
	// answer was due, or its process is gone; if the client is not Direct, also when nothing
	// was due.
	Lost func()

	Logger     *slog.Logger          // nil: discard
	Registerer prometheus.Registerer // may be shared by clients; nil: no metrics
}

// Client sends requests to one peer at a time. All methods are safe for concurrent use.
type Client struct {
	opts      Options
	address   func() (addr string, ok bool)
	formatter *kmsg.RequestFormatter
	metrics   *metrics

	slots chan struct{} // one for each request on its way
	turn  chan struct{} // room for one: who connects and writes

	life context.Context // ends with Close
	stop context.CancelFunc
	once sync.Once
	wg   sync.WaitGroup // readers

	// Of whoever has the turn.
	link    *link
	unwatch func() bool // link, for Close; if Direct
	frame   []byte      // of the last request, to be used again; if Direct
	number  int32       // of the last request
	failed  string
	pause   time.Duration // before the next attempt to connect to failed
	retryAt time.Time
}

// NewClient makes a client of the peer that address tells, which is asked for each request;
// ok is false while it is not known.
func NewClient(o Options, address func() (addr string, ok bool)) *Client {
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 1)
	if o.Direct {
		o.MaxInFlight = 1
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		opts: o, address: address, metrics: newMetrics(o.Registerer),
		formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(o.ClientID)),
		slots:     make(chan struct{}, o.MaxInFlight), turn: make(chan struct{}, 1),
	}
	c.life, c.stop = context.WithCancel(context.Background())
	return c
}

// Close ends the connection and every request that waits, with ErrClosed.
func (c *Client) Close() {
	c.once.Do(func() {
		c.stop()
		c.turn <- struct{}{} // who has it waits for nothing any more; nobody gets it again
	})
	c.wg.Wait()
}

// Request sends a request at the version that it has, and waits for the answer, which is
// of that version, too. The answer is the caller's, with all that it refers to; if the client
// is Direct, until its next Request.
func (c *Client) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	resp, err := c.request(ctx, req)
	if err != nil {
		c.metrics.failed.Inc()
		if c.opts.Lost != nil && endedThere(err) {
			c.opts.Lost()
		}
		return nil, fmt.Errorf("%s: %w", kmsg.NameForKey(req.Key()), err)
	}
	return resp, nil
}

func (c *Client) request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if err := c.enter(ctx, c.slots); err != nil {
		return nil, err
	}
	e, err := c.send(ctx, req)
	if err != nil {
		<-c.slots
		return nil, err
	}
	if c.opts.Direct {
		e.link.await(ctx)
	}
	select {
	case <-e.done:
		return e.resp, e.err
	case <-ctx.Done(): // the answer, or the end of the connection, gives the slot back
		return nil, context.Cause(ctx)
	}
}

// enter takes a place in a bounded set.
func (c *Client) enter(ctx context.Context, places chan struct{}) error {
	select {
	case <-c.life.Done():
		return notSent(ErrClosed)
	default:
	}
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return notSent(context.Cause(ctx))
	case <-c.life.Done():
		return notSent(ErrClosed)
	}
}

func notSent(err error) error { return fmt.Errorf("%w: %w", ErrNotSent, err) }

// send writes the request. The exchange that it returns will end, and give the slot back.
func (c *Client) send(ctx context.Context, req kmsg.Request) (*exchange, error) {
	if err := c.enter(ctx, c.turn); err != nil {
		return nil, err
	}
	defer func() { <-c.turn }()
	l, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	c.number++
	e := &exchange{
		number: c.number, link: l, resp: req.ResponseKind(), done: make(chan struct{}),
		tagged: req.IsFlexible() && req.Key() != int16(kmsg.ApiVersions),
	}
	frame := c.formatter.AppendRequest(c.frame[:0], req, e.number)
	if c.opts.Direct {
		c.frame = frame
	}
	c.metrics.sent.Inc()
	return e, l.send(e, frame, time.Now().Add(c.opts.Timeout))
}

// connected gives a connection to where the peer is now.
func (c *Client) connected(ctx context.Context) (*link, error) {
	addr, ok := c.address()
	if !ok {
		return nil, ErrNoAddress
	}
	if c.link != nil {
		if c.link.addr == addr && c.link.usable() {
			return c.link, nil
		}
		c.link.fail(fmt.Errorf("the peer is at %s now", addr))
		c.link = nil
	}
	if err := c.awaitRetry(ctx, addr); err != nil {
		return nil, notSent(err)
	}
	return c.connect(ctx, addr)
}

// awaitRetry keeps a distance between attempts that fail.
func (c *Client) awaitRetry(ctx context.Context, addr string) error {
	if addr != c.failed {
		c.failed, c.pause = "", 0
		return nil
	}
	timer := time.NewTimer(time.Until(c.retryAt))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.life.Done():
		return ErrClosed
	}
}

func (c *Client) connect(ctx context.Context, addr string) (*link, error) {
	dialCtx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	conn, err := c.opts.Dial(dialCtx, addr)
	if err != nil {
		c.pause = min(max(2*c.pause, firstPause), lastPause)
		c.failed, c.retryAt = addr, time.Now().Add(c.pause)
		return nil, notSent(fmt.Errorf("connect to %s: %w", addr, err))
	}
	c.failed, c.pause = "", 0
	c.metrics.connected.Inc()
	c.link = newLink(conn, addr, func() { <-c.slots })
	l := c.link
	if c.opts.Direct {
		l.in.reuse = true
		c.watch(l)
		return l, nil
	}
	c.wg.Go(func() {
		defer context.AfterFunc(c.life, func() { l.fail(ErrClosed) })()
		err := l.read()
		if c.opts.Lost != nil && endedThere(err) {
			c.opts.Lost()
		}
		if !errors.Is(err, ErrClosed) {
			c.opts.Logger.Debug("connection to a peer has ended", "address", addr, "reason", err)
		}
	})
	return l, nil
}

// watch has Close end a connection that nobody reads from.
func (c *Client) watch(l *link) {
	if c.unwatch != nil {
		c.unwatch()
	}
	c.unwatch = context.AfterFunc(c.life, func() { l.fail(ErrClosed) })
}
