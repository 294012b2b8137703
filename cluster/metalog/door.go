package metalog

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"
)

// Door is the StreamLayer between nodes: connections of Raft, and the questions that nodes
// ask before they are members, come in on listeners that serve requests, too, where a
// preface tells them apart (D16). It checks that both ends mean each other.
type Door struct {
	opts DoorOptions
	in   chan net.Conn
	once sync.Once
	done chan struct{}

	mu    sync.Mutex
	state func() State // nil before Open
}

// DoorOptions configure a Door.
type DoorOptions struct {
	NodeID  int32
	Address string // of this node, as other nodes dial it
	Dial    func(ctx context.Context, address string) (net.Conn, error)
	Logger  *slog.Logger // nil: discard
}

// NewDoor makes a Door, which is closed by the Log that it is given to.
func NewDoor(o DoorOptions) *Door {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Door{opts: o, in: make(chan net.Conn), done: make(chan struct{})}
}

// Open says what this node tells of itself. Before, it answers nobody.
func (d *Door) Open(state func() State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = state
}

func (d *Door) current() (State, bool) {
	d.mu.Lock()
	state := d.state
	d.mu.Unlock()
	if state == nil {
		return State{}, false
	}
	return state(), true
}

// Take serves a connection that began with a preface; what it has read must be read again
// from conn. It returns when the connection is Raft's, or closed.
func (d *Door) Take(conn net.Conn) {
	if err := d.take(conn); err != nil {
		d.opts.Logger.Debug("connection of another node refused", "remote", conn.RemoteAddr(), "reason", err)
		_ = conn.Close()
	}
}

func (d *Door) take(conn net.Conn) error {
	_ = conn.SetDeadline(time.Now().Add(prefaceTimeout))
	p, err := readPreface(conn)
	if err != nil {
		return err
	}
	state, open := d.current()
	if reason := d.objection(p, state, open); reason != "" {
		_ = writeRefusal(conn, reason)
		return fmt.Errorf("%s: %s", p.from, reason)
	}
	if p.kind == kindProbe {
		if err := writeState(conn, state); err != nil {
			return err
		}
		return conn.Close()
	}
	if _, err := conn.Write([]byte{answerOK}); err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Time{})
	select {
	case d.in <- conn:
		return nil
	case <-d.done:
		return net.ErrClosed
	}
}

// objection is why a connection is refused, "" if it is not.
func (d *Door) objection(p preface, state State, open bool) string {
	self := d.serverID(state)
	switch {
	case !open:
		return "this node has just started"
	case p.kind != kindRaft && p.kind != kindProbe:
		return "unknown kind of connection " + strconv.Itoa(int(p.kind))
	case p.kind == kindRaft && p.clusterID != "" && state.ClusterID != "" && p.clusterID != state.ClusterID:
		return fmt.Sprintf("this node belongs to cluster %s, not to %s", state.ClusterID, p.clusterID)
	case p.kind == kindRaft && p.to != self:
		return fmt.Sprintf("this node is %s, not %s (node id/directory id)", self, p.to)
	}
	return ""
}

// Dial implements StreamLayer.
func (d *Door) Dial(id, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() { // a stop waits for Raft, and Raft for whom it dials
		select {
		case <-d.done:
			cancel()
		case <-ended:
		}
	}()
	conn, err := d.knock(ctx, address, preface{kind: kindRaft, to: id})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := readAnswer(conn); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("node %s at %s: %w", id, address, err)
	}
	if !stop() {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	_ = conn.SetDeadline(time.Time{})
	return conn, nil
}

// Probe asks the node at an address who it is.
func (d *Door) Probe(ctx context.Context, address string) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, prefaceTimeout)
	defer cancel()
	conn, err := d.knock(ctx, address, preface{kind: kindProbe})
	if err != nil {
		return State{}, err
	}
	defer func() { _ = conn.Close() }()
	state, err := readState(conn)
	if err != nil {
		return State{}, fmt.Errorf("ask %s who it is: %w", address, err)
	}
	return state, nil
}

// knock connects and sends a preface. The deadline of the connection is that of ctx.
func (d *Door) knock(ctx context.Context, address string, p preface) (net.Conn, error) {
	conn, err := d.opts.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(prefaceTimeout)
	}
	_ = conn.SetDeadline(deadline)
	state, _ := d.current()
	p.from, p.clusterID = d.serverID(state), state.ClusterID
	if err := writePreface(conn, p); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("greet %s: %w", address, err)
	}
	return conn, nil
}

// serverID is who this node is, once that is known.
func (d *Door) serverID(state State) string {
	return string(serverID(Voter{NodeID: d.opts.NodeID, DirectoryID: state.DirectoryID}))
}

// Accept implements net.Listener.
func (d *Door) Accept() (net.Conn, error) {
	select {
	case conn := <-d.in:
		return conn, nil
	case <-d.done:
		return nil, net.ErrClosed
	}
}

// Close refuses what comes from now on.
func (d *Door) Close() error {
	d.once.Do(func() { close(d.done) })
	return nil
}

// Addr implements net.Listener.
func (d *Door) Addr() net.Addr { return raftAddr(d.opts.Address) }
