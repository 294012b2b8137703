package memnet

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
)

const (
	// bufferSize is how much one direction of a connection holds, in flight and arrived.
	bufferSize = 64 << 10
	// backlog is how many connections a listener keeps for Accept; further dials wait.
	backlog = 128
	// firstEphemeral is the first port that dialling hosts use.
	firstEphemeral = 49152
)

// Addr is the address of one end.
type Addr struct {
	Host string
	Port int
}

// Network is "memnet".
func (Addr) Network() string { return "memnet" }

func (a Addr) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// Network is a set of hosts that reach each other.
type Network struct {
	mu        sync.Mutex
	listeners map[Addr]*listener
	conns     map[*Conn]struct{} // of both ends
	ports     map[string]int     // last port used by a host
	cuts      map[direction]bool
	isolated  map[string]bool
	changed   chan struct{} // closed and renewed when a dial should look again
}

// direction is from one host to another.
type direction struct{ from, to string }

// New makes a network without hosts; a host exists by being named.
func New() *Network {
	return &Network{
		listeners: map[Addr]*listener{}, conns: map[*Conn]struct{}{}, ports: map[string]int{},
		cuts: map[direction]bool{}, isolated: map[string]bool{}, changed: make(chan struct{}),
	}
}

// Host is one machine, or one process, of a network.
type Host struct {
	net  *Network
	name string
}

// Host returns the host of that name.
func (n *Network) Host(name string) *Host { return &Host{n, name} }

// Listen listens on "host:port" as that host. Port 0 picks one.
func (n *Network) Listen(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("memnet: listen on %q: %w", address, err)
	}
	return n.Host(host).Listen("tcp", address)
}

// Dial connects from the host "client".
func (n *Network) Dial(ctx context.Context, address string) (net.Conn, error) {
	return n.Host("client").DialContext(ctx, "tcp", address)
}

// Listen listens on a port of the host; the host part of address is not looked at.
func (h *Host) Listen(_, address string) (net.Listener, error) {
	_, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("memnet: listen on %q: %w", address, err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, fmt.Errorf("memnet: listen on %q: %w", address, err)
	}
	return h.net.listen(h.name, port)
}

func (n *Network) listen(host string, port int) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == 0 {
		port = n.nextPort(host)
	}
	addr := Addr{host, port}
	if n.listeners[addr] != nil {
		return nil, opError("listen", nil, addr, os.NewSyscallError("bind", syscall.EADDRINUSE))
	}
	ln := &listener{net: n, addr: addr, backlog: make(chan *Conn, backlog), closed: make(chan struct{})}
	n.listeners[addr] = ln
	return ln, nil
}

func (n *Network) nextPort(host string) int {
	port := max(n.ports[host]+1, firstEphemeral)
	n.ports[host] = port
	return port
}

// Dial is DialContext without a context.
func (h *Host) Dial(network, address string) (net.Conn, error) {
	return h.DialContext(context.Background(), network, address)
}

// DialContext connects to "host:port". It is refused if nobody listens there, and waits
// while either direction between the hosts is cut.
func (h *Host) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("memnet: dial %q: %w", address, err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, fmt.Errorf("memnet: dial %q: %w", address, err)
	}
	to := Addr{host, port}
	for {
		conn, changed, err := h.net.tryDial(h.name, to)
		if conn != nil {
			return conn, nil // not a nil *Conn as an interface
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, opError("dial", nil, to, ctx.Err())
		}
	}
}

// tryDial returns a connection, an error, or a channel to wait on before the next try.
func (n *Network) tryDial(from string, to Addr) (*Conn, <-chan struct{}, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isCut(from, to.Host) || n.isCut(to.Host, from) {
		return nil, n.changed, nil
	}
	ln := n.listeners[to]
	if ln == nil {
		return nil, nil, opError("dial", nil, to, os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	if len(ln.backlog) == cap(ln.backlog) {
		return nil, n.changed, nil
	}
	near, far := n.pair(Addr{from, n.nextPort(from)}, to)
	ln.backlog <- far // has room: only this function sends, under the lock
	return near, nil, nil
}

// pair makes both ends of a connection.
func (n *Network) pair(from, to Addr) (near, far *Conn) {
	there, back := newStream(), newStream()
	near = newConn(n, from, to, back, there)
	far = newConn(n, to, from, there, back)
	n.conns[near], n.conns[far] = struct{}{}, struct{}{}
	return near, far
}

func (n *Network) forget(c *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// signal has waiting dials look again.
func (n *Network) signal() {
	close(n.changed)
	n.changed = make(chan struct{})
}

func opError(op string, source, addr net.Addr, err error) error {
	return &net.OpError{Op: op, Net: "memnet", Source: source, Addr: addr, Err: err}
}

// listener is a net.Listener of the network.
type listener struct {
	net     *Network
	addr    Addr
	backlog chan *Conn
	once    sync.Once
	closed  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed: // also when connections are waiting
		return nil, opError("accept", nil, l.addr, net.ErrClosed)
	default:
	}
	select {
	case c := <-l.backlog:
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		l.net.signal()
		return c, nil
	case <-l.closed:
		return nil, opError("accept", nil, l.addr, net.ErrClosed)
	}
}

// Close refuses further dials and resets connections that were not accepted.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.net.mu.Lock()
		delete(l.net.listeners, l.addr)
		l.net.signal()
		l.net.mu.Unlock()
		close(l.closed)
		l.resetBacklog()
	})
	return nil
}

func (l *listener) resetBacklog() {
	for {
		select {
		case c := <-l.backlog:
			c.reset()
		default:
			return
		}
	}
}

func (l *listener) Addr() net.Addr { return l.addr }
