package memnet

import (
	"io"
	"os"
	"sync"
	"syscall"
)

// stream is one direction of a connection.
type stream struct {
	mu       sync.Mutex
	arrived  queue // what the reader can see
	inFlight queue // written while the direction is cut
	changed  chan struct{}

	ended bool // the writer writes no more
	reset bool // the writer is gone without having read everything
	gone  bool // the reader reads no more
	cut   bool // nothing arrives
	deaf  bool // the way back is cut: the writer does not learn that the reader is gone
	seen  state
}

// state is what the reader knows of the writer's end.
type state struct{ ended, reset bool }

func newStream() *stream { return &stream{changed: make(chan struct{})} }

// update changes the stream and wakes who waits for it.
func (s *stream) update(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
	s.deliver()
	close(s.changed)
	s.changed = make(chan struct{})
}

// deliver lets arrive what is not held up.
func (s *stream) deliver() {
	if s.cut {
		return
	}
	if s.arrived.len() == 0 {
		s.arrived, s.inFlight = s.inFlight, queue{}
	} else {
		s.arrived.append(s.inFlight.take())
	}
	s.seen = state{s.ended, s.reset}
}

func (s *stream) setCut(cut, deaf bool) { s.update(func() { s.cut, s.deaf = cut, deaf }) }
func (s *stream) end()                  { s.update(func() { s.ended = true }) }

// abandon is called when the reader's end closes; it reports whether bytes were unread.
func (s *stream) abandon() (unread bool) {
	s.update(func() {
		unread = s.arrived.len()+s.inFlight.len() > 0
		s.gone = true
	})
	return unread
}

// close ends the stream from the writer's side.
func (s *stream) close(reset bool) {
	s.update(func() { s.ended, s.reset = true, s.reset || reset })
}

// tryRead reads what has arrived. With nothing to read and no error it returns a channel
// to wait on.
func (s *stream) tryRead(p []byte) (n int, wait <-chan struct{}, err error) {
	s.mu.Lock()
	wait, err = s.readable()
	if err == nil && wait == nil {
		n = s.arrived.read(p)
	}
	s.mu.Unlock()
	if n > 0 {
		s.update(func() {}) // there is room
	}
	return n, wait, err
}

// waitReadable is tryRead without reading.
func (s *stream) waitReadable() (wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait, err := s.readable()
	if err != nil {
		return nil
	}
	return wait
}

func (s *stream) readable() (wait <-chan struct{}, err error) {
	switch {
	case s.arrived.len() > 0:
		return nil, nil
	case s.seen.reset:
		return nil, os.NewSyscallError("read", syscall.ECONNRESET)
	case s.seen.ended:
		return nil, io.EOF
	}
	return s.changed, nil
}

// tryWrite writes as much of p as there is room for.
func (s *stream) tryWrite(p []byte) (n int, wait <-chan struct{}, err error) {
	s.mu.Lock()
	switch room := bufferSize - s.arrived.len() - s.inFlight.len(); {
	case s.ended || s.gone && !s.deaf:
		err = os.NewSyscallError("write", syscall.EPIPE)
	case room <= 0:
		wait = s.changed
	default:
		n = min(room, len(p))
		s.inFlight.append(p[:n])
	}
	s.mu.Unlock()
	if n > 0 {
		s.update(func() {})
	}
	return n, wait, err
}

// queue is bytes in order. Its memory is given back when it is empty.
type queue struct{ b []byte }

func (q *queue) len() int { return len(q.b) }

func (q *queue) append(p []byte) {
	if len(p) > 0 {
		q.b = append(q.b, p...)
	}
}

func (q *queue) take() []byte {
	b := q.b
	q.b = nil
	return b
}

func (q *queue) read(p []byte) int {
	n := copy(p, q.b)
	if q.b = q.b[n:]; len(q.b) == 0 {
		q.b = nil
	}
	return n
}
