package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/protocol"
)

// ErrServerClosed is returned by Serve on a server that was shut down.
var ErrServerClosed = errors.New("wire: server closed")

// errStopped ends what is still there when the patience of a shutdown is over.
var errStopped = errors.New("server has stopped")

// Options is what a Server is made of. Handler is required.
type Options struct {
	Handler    Handler
	Limits     Limits
	Logger     *slog.Logger          // nil: no log
	Buffers    *Buffers              // nil: buffers of its own
	Registerer prometheus.Registerer // nil: no metrics

	// Overlaps says which requests may start while earlier ones of that kind are
	// pending; nil: Produce alone.
	Overlaps func(key int16) bool
	// Reserved says which requests do not count against Limits.QueuedRequests, such as
	// heartbeats between brokers; nil: none.
	Reserved func(key int16) bool
	// Rates decides how fast connections may come; nil: as fast as they do.
	Rates ConnectionRates
	// Lookup finds an API in the protocol table; nil: protocol.Lookup.
	Lookup func(key int16) (protocol.API, bool)
	// OnPreface takes a connection over whose first byte, before any request other than
	// ApiVersions and SASL, is 0x80 or higher (D16). Reading conn yields that byte
	// again. It is called on a goroutine of the connection's, which ends when it returns.
	// nil: such a connection is closed like one with any other bad frame.
	OnPreface func(conn net.Conn, first byte)
}

// ListenerInfo describes a listener to the server and to handlers.
type ListenerInfo struct {
	Name string
	Kind protocol.Listener // zero: protocol.BrokerListener
	// InterBroker listeners have request slots and frame memory of their own and are
	// exempt from the broker-wide connection limits, if there is another listener.
	InterBroker bool
	// NoPreface listeners have requests alone: no connection is handed to OnPreface.
	NoPreface bool

	// MaxRequestBytes is the largest frame of a new connection, 0 for the server's
	// limit. See ConnInfo.SetMaxRequestBytes.
	MaxRequestBytes int32
}

func (l ListenerInfo) maxFrame(limits Limits) int32 {
	if l.MaxRequestBytes > 0 {
		return min(l.MaxRequestBytes, limits.MaxRequestBytes)
	}
	return limits.MaxRequestBytes
}

// Server serves connections of any number of listeners.
type Server struct {
	handler   Handler
	limits    Limits
	log       *slog.Logger
	bad       *limitedLog
	buffers   *Buffers
	metrics   *metrics
	overlaps  func(int16) bool
	reserved  func(int16) bool
	lookup    func(int16) (protocol.API, bool)
	onPreface func(net.Conn, byte)

	admission            *admission
	budget, brokerBudget *budget
	slots, brokerSlots   *slots
	copies               copyRoom

	epoch     time.Time
	ctx       context.Context // ends when the server has stopped
	cancel    context.CancelFunc
	accepting context.Context // ends when it begins to stop
	refuse    context.CancelFunc
	wg        sync.WaitGroup // listeners and connections
	sweeper   sync.WaitGroup
	nextID    atomic.Uint64

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	refused   []refusedConn
	sweeping  bool
	closed    bool
}

// NewServer makes a server; nothing runs before Serve.
func NewServer(o Options) *Server {
	limits := o.Limits.withDefaults()
	s := &Server{
		handler: o.Handler, limits: limits, log: o.Logger, buffers: o.Buffers,
		overlaps: o.Overlaps, reserved: o.Reserved, lookup: o.Lookup, onPreface: o.OnPreface,
		admission:    newAdmission(limits, o.Rates),
		budget:       newBudget(limits.QueuedRequestBytes, limits.MemoryPatience),
		brokerBudget: newBudget(limits.QueuedRequestBytes, limits.MemoryPatience),
		slots:        newSlots(int64(limits.QueuedRequests)),
		brokerSlots:  newSlots(int64(limits.QueuedRequests)),
		epoch:        time.Now(),
		listeners:    map[net.Listener]struct{}{}, conns: map[*conn]struct{}{},
	}
	s.copies.max = maxCopyBytes
	s.fillDefaults()
	s.bad = newLimitedLog(s.log)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.accepting, s.refuse = context.WithCancel(s.ctx)
	s.metrics = newMetrics(s, o.Registerer)
	return s
}

func (s *Server) fillDefaults() {
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.buffers == nil {
		s.buffers = NewBuffers(0)
	}
	if s.overlaps == nil {
		s.overlaps = func(key int16) bool { return key == protocol.ProduceKey }
	}
	if s.reserved == nil {
		s.reserved = func(int16) bool { return false }
	}
	if s.lookup == nil {
		s.lookup = protocol.Lookup
	}
}

// Buffers are the pools that the server uses.
func (s *Server) Buffers() *Buffers { return s.buffers }

func (s *Server) budgetFor(l ListenerInfo) *budget {
	if l.InterBroker {
		return s.brokerBudget
	}
	return s.budget
}

func (s *Server) slotsFor(l ListenerInfo) *slots {
	if l.InterBroker {
		return s.brokerSlots
	}
	return s.slots
}

// SetConnectionLimits changes how many connections there may be: of one listener, from one
// address and in all. Of l only those four limits count.
func (s *Server) SetConnectionLimits(l Limits) {
	next := s.limits
	next.MaxConnections, next.MaxConnectionsPerIP = l.MaxConnections, l.MaxConnectionsPerIP
	next.PerIP, next.PerListener = l.PerIP, l.PerListener
	s.admission.setLimits(next)
}

// Serve accepts connections on ln until Shutdown, and closes it. It blocks, and returns
// ErrServerClosed after a shutdown, else why accepting failed.
func (s *Server) Serve(ln net.Listener, info ListenerInfo) error {
	if info.Kind == 0 {
		info.Kind = protocol.BrokerListener
	}
	if !s.addListener(ln, info) {
		_ = ln.Close()
		return ErrServerClosed
	}
	defer s.wg.Done()
	defer s.removeListener(ln)
	return s.acceptLoop(ln, info)
}

func (s *Server) addListener(ln net.Listener, info ListenerInfo) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.admission.addListener(info)
	s.listeners[ln] = struct{}{}
	s.wg.Add(1)
	if !s.sweeping {
		s.sweeping = true
		s.sweeper.Go(s.sweep)
	}
	return true
}

func (s *Server) removeListener(ln net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, ln)
	_ = ln.Close()
}

// acceptLoop goes on after errors such as too many open files, after a pause.
func (s *Server) acceptLoop(ln net.Listener, info ListenerInfo) error {
	var pause time.Duration
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			pause = 0
			s.admit(nc, info)
		case s.accepting.Err() != nil:
			return ErrServerClosed
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept on %s: %w", info.Name, err)
		default:
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.bad.warn(reasonAccept, info.Name, ln.Addr(), err)
			s.wait(pause)
		}
	}
}

func (s *Server) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.accepting.Done():
	}
}

// admit starts a connection once the limits allow it.
func (s *Server) admit(nc net.Conn, info ListenerInfo) {
	evict, err := s.admission.enter(s.accepting, info.Name, ipOf(nc.RemoteAddr()), func() {
		s.metrics.blocked.WithLabelValues(info.Name).Inc()
	})
	if err != nil {
		if s.accepting.Err() != nil {
			resetOnClose(nc)
		}
		s.refuseConn(nc, err)
		s.report(err, info.Name, nc.RemoteAddr())
		return
	}
	s.metrics.accepted.WithLabelValues(info.Name).Inc()
	if evict {
		s.evictIdlest()
	}
	c := newConn(s, nc, info)
	if !s.addConn(c) {
		resetOnClose(nc)
		_ = nc.Close()
		s.leave(c)
	}
}

func (s *Server) addConn(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns[c] = struct{}{}
	s.wg.Go(c.run)
	return true
}

// forget ends the server's care for a connection; it still counts in the limits.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// leave gives a connection's place in the limits back.
func (s *Server) leave(c *conn) {
	s.admission.leave(c.info.Listener.Name, ipOf(c.info.Remote))
}

// report counts the end of a connection, and writes a line if the client is to blame.
func (s *Server) report(err error, listener string, remote net.Addr) {
	why := reasonOf(err)
	s.metrics.closed.WithLabelValues(string(why)).Inc()
	if why.quiet() {
		s.log.Debug("connection closed", "listener", listener, "remote", addrText(remote), "reason", string(why), "err", err)
		return
	}
	s.bad.warn(why, listener, remote, err)
}

func (s *Server) numConns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Shutdown stops accepting, closes idle connections, and waits until the requests that
// were read have been answered. When ctx ends first, the rest is closed and ctx's error
// returned. Connections that were taken over by OnPreface are not touched.
func (s *Server) Shutdown(ctx context.Context) error {
	s.beginStop()
	stopped := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(stopped)
	}()
	defer s.sweeper.Wait()
	defer s.cancel()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
	}
	for _, c := range s.appendConns(nil) {
		c.fail(errStopped) // before the context ends, so that this is the reason
	}
	s.cancel()
	<-stopped
	return ctx.Err()
}

func (s *Server) beginStop() {
	s.mu.Lock()
	s.closed = true
	s.refuse()
	for ln := range s.listeners {
		_ = ln.Close()
	}
	s.mu.Unlock()
	s.closeRefused(time.Time{})
	for _, c := range s.appendConns(nil) {
		c.drain()
	}
}

// appendConns lists the connections as they are now.
func (s *Server) appendConns(list []*conn) []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		list = append(list, c)
	}
	return list
}
