package tap

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// maxFrame bounds what the tap reads at once.
const maxFrame = 128 << 20

// Tap is a running proxy.
type Tap struct {
	Addr   string // of its listener
	target string
	t      testing.TB

	mu    sync.Mutex
	seen  []Request
	wake  chan struct{}      // closed and replaced at each request
	lose  func(Request) bool // nil: no answer is to be lost
	conns map[net.Conn]struct{}
	over  bool
}

// Start listens on a free port of its own until the test ends. Connections go on to
// target once it is set.
func Start(t testing.TB, addr string) *Tap {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &Tap{Addr: addr, t: t, wake: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed below
			}
			all.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.end()
		all.Wait()
	})
	return p
}

// Forward sets where connections go.
func (p *Tap) Forward(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Seen are the requests from the given one on.
func (p *Tap) Seen(from int) []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen[from:])
}

// Count is how many requests have been seen.
func (p *Tap) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen)
}

// Changed is closed at the next request.
func (p *Tap) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wake
}

// LoseAnswer closes the connection of the next request that matches when the broker has
// answered it; the answer is lost.
func (p *Tap) LoseAnswer(match func(Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = match
}

// end closes every connection.
func (p *Tap) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// hold has the connections closed at the end; false if that has come.
func (p *Tap) hold(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return !p.over
}

func (p *Tap) release(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
		_ = c.Close()
	}
}

func (p *Tap) serve(client net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	broker, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.Close() // as if the broker had refused
		return
	}
	defer p.release(client, broker)
	if !p.hold(client, broker) {
		return
	}
	lost := make(chan uint32, 1) // the answer that is to be lost
	var waiting sync.Map         // *atomic.Bool by correlation id: requests without their answers
	var both sync.WaitGroup
	both.Go(func() {
		p.requests(client, broker, lost, &waiting)
		_ = broker.Close() // the other direction ends with this one
	})
	both.Go(func() {
		answers(broker, client, lost, &waiting)
		_ = client.Close()
	})
	both.Wait()
}

// requests passes frames on to the broker until either side closes.
func (p *Tap) requests(client io.Reader, broker io.Writer, lost chan<- uint32, waiting *sync.Map) {
	in := bufio.NewReader(client)
	for {
		frame, err := next(in)
		if err != nil {
			return
		}
		r, err := read(frame[4:])
		if err != nil {
			p.t.Errorf("a request that cannot be read: %s of %s: %v", r, r.Client, err)
		}
		waiting.Store(r.correlation, r.answered)
		if r.Client != Judge && p.keep(r) {
			lost <- r.correlation
		}
		if _, err := broker.Write(frame); err != nil {
			return
		}
	}
}

// keep adds a request, and tells whether its answer is to be lost.
func (p *Tap) keep(r Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, r)
	close(p.wake)
	p.wake = make(chan struct{})
	if p.lose == nil || !p.lose(r) {
		return false
	}
	p.lose = nil
	return true
}

// answers passes frames on to the client until either side closes, or one is lost.
func answers(broker io.Reader, client io.Writer, lost <-chan uint32, waiting *sync.Map) {
	in := bufio.NewReader(broker)
	var id uint32
	losing := false
	for {
		frame, err := next(in)
		if err != nil {
			return
		}
		select {
		case id = <-lost:
			losing = true
		default:
		}
		if losing && correlation(frame[4:]) == id {
			return
		}
		if _, err := client.Write(frame); err != nil {
			return
		}
		if answered, found := waiting.LoadAndDelete(correlation(frame[4:])); found {
			answered.(*atomic.Bool).Store(true)
		}
	}
}

// next is a frame with its length.
func next(in io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return nil, io.ErrShortBuffer
	}
	frame := make([]byte, 4+n)
	copy(frame, size[:])
	_, err := io.ReadFull(in, frame[4:])
	return frame, err
}
