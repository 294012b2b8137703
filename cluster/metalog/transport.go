package metalog

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	// maxPooledConns bounds idle connections to each peer: heartbeats, replication, votes.
	maxPooledConns = 3
	// rpcTimeout bounds one exchange with a peer, the flush there included; snapshots get
	// more, by size. A peer that went away silently holds a heartbeat up for so long.
	rpcTimeout = 3 * time.Second
)

// transport is a raft.Transport that can also give this node an order of its own.
type transport struct {
	raftTransport // counting progress
	progress      *progress
	quiet         *quiet
	leads         func() bool                                        // whether this node leads
	stalled       func(now time.Time) bool                           // whether its disk lets it do so
	asVoter       func(id []byte, lastTerm, lastIndex uint64) []byte // see ballot.go
	own           chan raft.RPC
	streams       *streams // nil: nobody else talks to this node
	stop          chan struct{}
	done          chan struct{}
	once          sync.Once
}

// raftTransport is what both of Raft's transports implement.
type raftTransport interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// newTransport makes it; l may not know Raft yet.
func newTransport(l *Log, logger hclog.Logger) *transport {
	var s *streams
	if l.opts.Stream != nil {
		s = newStreams(l.opts.Stream, l.opts.Voters)
	}
	p := newProgress(newRaftTransport(s, string(l.serverAddress(l.self())), logger), l.lastIndex)
	t := &transport{
		raftTransport: p, progress: p, streams: s,
		quiet: newQuiet(l.opts.Timing), leads: l.leads, stalled: l.store.stalled, asVoter: l.asVoter,
		own: make(chan raft.RPC), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go t.forward()
	return t
}

func newRaftTransport(s *streams, address string, logger hclog.Logger) raftTransport {
	if s == nil {
		_, t := raft.NewInmemTransport(raft.ServerAddress(address))
		return t
	}
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:  addressed{s, address},
		MaxPool: maxPooledConns,
		Timeout: rpcTimeout,
		// No pipelining. With it, a leader that steps down while its pipeline is full may
		// leave a goroutine behind for good: the reader of answers (pipelineDecode) has
		// seen the newer term and ended, the one that sends (netPipeline.AppendEntries)
		// waits for room that nobody makes, and Shutdown waits for it.
		MaxRPCsInFlight:         1,
		Logger:                  logger,
		MsgpackUseNewTimeFormat: true,
	})
}

// forward passes on what peers ask.
func (t *transport) forward() {
	defer close(t.done)
	for {
		select {
		case rpc := <-t.raftTransport.Consumer():
			t.admit(rpc)
			select {
			case t.own <- rpc:
			case <-t.stop:
				return
			}
		case <-t.stop:
			return
		}
	}
}

// Consumer implements raft.Transport.
func (t *transport) Consumer() <-chan raft.RPC { return t.own }

// electNow makes this node a candidate at once, as if the leader had handed over to it.
// That is always safe, and sensible for the only voter, who would otherwise wait for the
// silence of a leader that cannot exist.
func (t *transport) electNow(giveUp <-chan struct{}) {
	rpc := raft.RPC{
		Command:  &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}},
		RespChan: make(chan raft.RPCResponse, 1), // nobody reads the answer
	}
	select {
	case t.own <- rpc:
	case <-giveUp:
	case <-t.stop:
	}
}

// Close implements raft.WithClose.
func (t *transport) Close() error {
	t.once.Do(func() { close(t.stop) })
	<-t.done
	err := t.raftTransport.Close()
	t.quiet.close()
	return err
}

// streams is a raft.StreamLayer that closes its connections when it is closed: Raft's
// transport forgets those it has accepted or lent out.
type streams struct {
	StreamLayer
	voters []Peer        // as they are configured
	lost   chan struct{} // has room for one: a connection that was accepted has ended
	mu     sync.Mutex
	conns  map[*trackedConn]struct{} // bounded by what the listener admits
	closed bool
}

func newStreams(s StreamLayer, voters []Peer) *streams {
	return &streams{StreamLayer: s, voters: voters, lost: make(chan struct{}, 1), conns: map[*trackedConn]struct{}{}}
}

type trackedConn struct {
	net.Conn
	of       *streams
	accepted bool
}

func (s *streams) track(conn net.Conn, accepted bool, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	closed := s.closed
	c := &trackedConn{conn, s, accepted}
	if !closed {
		s.conns[c] = struct{}{}
	}
	s.mu.Unlock()
	if closed {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	return c, nil
}

// Close also forgets the connection. Raft closes what it has accepted when the other end has.
func (c *trackedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	if c.accepted {
		select {
		case c.of.lost <- struct{}{}:
		default:
		}
	}
	return c.Conn.Close()
}

func (s *streams) Accept() (net.Conn, error) {
	conn, err := s.StreamLayer.Accept()
	return s.track(conn, true, err)
}

func (s *streams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, at := splitAddress(address)
	if configured := configuredAt(s.voters, id); configured != "" && configured != at {
		timeout /= 2
		if conn, err := s.StreamLayer.Dial(id, configured, timeout); err == nil {
			return s.track(conn, false, nil)
		}
	}
	conn, err := s.StreamLayer.Dial(id, at, timeout)
	return s.track(conn, false, err)
}

// configuredAt is where a server is configured to be, "" if it is not configured.
func configuredAt(voters []Peer, id string) string {
	node, ok := parseServerID(raft.ServerID(id))
	i := slices.IndexFunc(voters, func(p Peer) bool { return ok && p.NodeID == node })
	if i < 0 {
		return ""
	}
	return voters[i].Address
}

func (s *streams) Close() error {
	err := s.StreamLayer.Close()
	s.mu.Lock()
	s.closed = true
	open := s.conns
	s.conns = map[*trackedConn]struct{}{}
	s.mu.Unlock()
	for c := range open {
		_ = c.Conn.Close()
	}
	return err
}

// addressed is one whose address is the one that peers use.
type addressed struct {
	*streams
	address string
}

func (a addressed) Addr() net.Addr { return raftAddr(a.address) }

// raftAddr is an address that is only a name.
type raftAddr string

func (raftAddr) Network() string  { return "raft" }
func (a raftAddr) String() string { return string(a) }
