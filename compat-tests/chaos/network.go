package chaos

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// everybody is who is not a node, in place of a node's id: clients.
const everybody = 0

// way is a direction between two nodes, or between the clients and a node.
type way struct{ from, to int }

// network carries every connection to a node, over its doors. It can hold back what goes
// a way, as a cut cable would: nothing is lost or told, and it goes on where it was when
// the way is whole again.
type network struct {
	t testing.TB

	mu      sync.Mutex
	cut     map[way]bool
	delay   map[way]time.Duration
	changed chan struct{} // closed and replaced when cuts change
	open    map[*crossing]struct{}
	unknown map[net.Conn]struct{} // whose callers have not said anything yet
	work    sync.WaitGroup
}

func newNetwork(t testing.TB) *network {
	n := &network{
		t: t, cut: map[way]bool{}, delay: map[way]time.Duration{},
		changed: make(chan struct{}), open: map[*crossing]struct{}{}, unknown: map[net.Conn]struct{}{},
	}
	t.Cleanup(func() {
		n.heal()
		n.breakAll(func(way) bool { return true })
		n.mu.Lock()
		for conn := range n.unknown {
			_ = conn.Close()
		}
		n.mu.Unlock()
		n.work.Wait()
	})
	return n
}

// hold cuts ways.
func (n *network) hold(ways ...way) {
	n.change(func() {
		for _, w := range ways {
			n.cut[w] = true
		}
	})
}

// slow delays what goes some ways.
func (n *network) slow(by time.Duration, ways ...way) {
	n.change(func() {
		for _, w := range ways {
			n.delay[w] = by
		}
	})
}

// heal makes all ways whole and quick.
func (n *network) heal() {
	n.change(func() {
		clear(n.cut)
		clear(n.delay)
	})
}

func (n *network) change(to func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	to()
	close(n.changed)
	n.changed = make(chan struct{})
}

// breakAll resets the connections that were opened some way.
func (n *network) breakAll(opened func(way) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.open {
		if opened(c.way) {
			c.reset()
		}
	}
}

// await waits until what has come may go on; false if the connection has ended.
func (n *network) await(w way, came time.Time, over <-chan struct{}) bool {
	for {
		n.mu.Lock()
		held, changed, due := n.cut[w], n.changed, came.Add(n.delay[w])
		n.mu.Unlock()
		var ripe <-chan time.Time
		if !held {
			left := time.Until(due)
			if left <= 0 {
				return true
			}
			ripe = time.After(left)
		}
		select {
		case <-over:
			return false
		case <-changed:
		case <-ripe:
		}
	}
}

// crossing is a connection to a node.
type crossing struct {
	way
	caller, node *net.TCPConn
	first        []byte // what the caller has said already
	once         sync.Once
	over         chan struct{}
}

// reset ends both halves at once, as a node that has never heard of the connection would.
func (c *crossing) reset() {
	c.once.Do(func() {
		close(c.over)
		for _, conn := range []*net.TCPConn{c.caller, c.node} {
			_ = conn.SetLinger(0)
			_ = conn.Close()
		}
	})
}

func (n *network) carry(c *crossing) {
	n.mu.Lock()
	n.open[c] = struct{}{}
	n.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { n.pump(c, c.way, io.MultiReader(bytes.NewReader(c.first), c.caller), c.node) })
	both.Go(func() { n.pump(c, way{c.to, c.from}, c.node, c.caller) })
	both.Wait()
	n.mu.Lock()
	delete(n.open, c)
	n.mu.Unlock()
	c.once.Do(func() {
		close(c.over)
		_ = c.caller.Close()
		_ = c.node.Close()
	})
}

// parcel is what has come on a connection at once, and its end.
type parcel struct {
	bytes []byte
	came  time.Time
	end   error
}

// maxParcels bounds what one direction holds back beyond the buffers of the system.
const maxParcels = 64

// pump passes one direction on. Its end is passed on like the bytes before it.
func (n *network) pump(c *crossing, w way, from io.Reader, to *net.TCPConn) {
	under := make(chan parcel, maxParcels)
	go receive(from, under, c.over)
	for {
		var p parcel
		select {
		case p = <-under:
		case <-c.over:
			return
		}
		if !n.await(w, p.came, c.over) {
			return
		}
		if _, failed := to.Write(p.bytes); failed != nil {
			c.reset()
			return
		}
		switch {
		case errors.Is(p.end, io.EOF):
			_ = to.CloseWrite()
			return
		case p.end != nil:
			c.reset()
			return
		}
	}
}

// receive takes what comes, with its time, so that a delay is one also for what follows.
func receive(from io.Reader, under chan<- parcel, over <-chan struct{}) {
	buf := make([]byte, 64<<10)
	for {
		k, err := from.Read(buf)
		select {
		case under <- parcel{slices.Clone(buf[:k]), time.Now(), err}:
		case <-over:
			return
		}
		if err != nil {
			return
		}
	}
}

// door is a listener through which a node is reached. It is shut while the node's process
// is gone, so that whoever calls is refused as he would be by the machine.
type door struct {
	network *network
	node    int
	addr    string // of the door
	target  string // of the node's own listener
	l       net.Listener
}

func (d *door) open() {
	d.network.t.Helper()
	l, err := net.Listen("tcp", d.addr)
	if err != nil {
		d.network.t.Fatal(err)
	}
	d.l = l
	d.network.work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // shut
			}
			d.network.work.Go(func() { d.enter(conn.(*net.TCPConn)) })
		}
	})
}

func (d *door) shut() {
	if d.l != nil {
		_ = d.l.Close() // it may be shut already
	}
}

func (d *door) enter(caller *net.TCPConn) {
	d.network.note(caller, true)
	from, first, err := whoCalls(caller)
	d.network.note(caller, false)
	if err != nil {
		_ = caller.Close() // it has only looked whether somebody is there
		return
	}
	d.network.awaitOpen(way{from, d.node})
	node, err := net.DialTimeout("tcp", d.target, 5*time.Second)
	if err != nil {
		_ = caller.SetLinger(0)
		_ = caller.Close()
		return
	}
	d.network.carry(&crossing{
		way: way{from, d.node}, caller: caller, first: first, node: node.(*net.TCPConn), over: make(chan struct{}),
	})
}

// awaitOpen waits while a way or its opposite is cut: no connection can be opened then.
func (n *network) awaitOpen(w way) {
	for {
		n.mu.Lock()
		held, changed := n.cut[w] || n.cut[way{w.to, w.from}], n.changed
		n.mu.Unlock()
		if !held {
			return
		}
		<-changed
	}
}

// note keeps a connection while nobody knows whose it is.
func (n *network) note(conn net.Conn, unknown bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if unknown {
		n.unknown[conn] = struct{}{}
	} else {
		delete(n.unknown, conn)
	}
}
