package wire

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errClosed is the fate of what comes after a connection's end.
var errClosed = errors.New("connection is closed")

// lane sends the answers of a connection in the order of its requests.
//
// While nothing is pending the connection's own goroutine owns the output and sends
// answers itself. From the first Pending on they queue up as slots, and whoever drains
// owns the output: the connection's goroutine if it is waiting for the queue, else a
// goroutine that lives for as long as the head of the queue is ready. So a parked answer
// costs a slot and no goroutine, and completing one never blocks on the network.
//
//	request ──▶ Handle ──┬─ outcome known, queue empty ──▶ output
//	                     └─ else ──▶ slot ─ … ─ slot ──▶ output, when the head is ready
type lane struct {
	out    *output
	broken func(error) // ends the connection; called without the lock
	spawn  func()      // runs drain on a goroutine that the connection's end waits for
	mute   func(time.Duration)
	done   func(*Request) // the request is over, its answer handed to the output
	wake   chan bool      // to the connection's goroutine, capacity 1; true: drain

	mu       sync.Mutex
	slots    []*slot
	few      [4]*slot // what slots begins with, so that a few cost no memory
	draining bool     // somebody sends slots
	parked   bool     // the connection's goroutine waits on wake
	closed   bool
}

// slot is a request whose answer cannot be sent yet: a field of it.
type slot struct {
	request *Request
	outcome Outcome
	ready   bool
}

// settle takes the outcome of the newest request. Only the connection's goroutine calls it.
func (l *lane) settle(r *Request, o Outcome) error {
	if o.Mute > 0 {
		// At once, though the answer may have to wait: else the next frame would be read, and
		// hold its memory as long as the mute lasts.
		l.mute(o.Mute)
	}
	if o.Pending != nil {
		if known, ok := o.Pending.peek(); ok {
			o = known
		}
	}
	if o.Pending == nil && l.pending() == 0 {
		return l.emit(r, o)
	}
	s := &r.slot
	s.request, s.outcome = r, o
	if err := l.push(s); err != nil {
		l.orphan(s)
		return err
	}
	if o.Pending == nil {
		// Not ready before it is in the queue: the drain that made pending say 1 may have
		// ended since, and then it is complete that sees to a new one.
		l.complete(s, o)
		return nil
	}
	if known, ok := o.Pending.await(l, s); ok {
		l.complete(s, known)
	}
	return nil
}

// emit hands one outcome to the output. The caller owns the output.
func (l *lane) emit(r *Request, o Outcome) error {
	var err error
	if o.Mute > 0 {
		l.mute(o.Mute)
	}
	switch {
	case o.Response != nil:
		err = l.out.add(r, o.Response, o.Sent)
	case o.Close != nil:
		err = errors.Join(l.out.flush(), &handlerClose{r.Key, o.Close})
	}
	l.done(r)
	return err
}

// pending counts the answers that are not with the output yet, one that is being sent
// included.
func (l *lane) pending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count()
}

func (l *lane) count() int {
	if l.draining {
		return len(l.slots) + 1
	}
	return len(l.slots)
}

// push queues a slot. The first one passes the output on, which must be empty then: who
// drains next may come late.
func (l *lane) push(s *slot) error {
	if l.pending() == 0 {
		if err := l.out.flush(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	l.slots = append(l.slots, s)
	return nil
}

// orphan takes a slot that found no place, because the connection ended just then. Its
// request is over when its outcome is known and not before: until then the handler may
// read the body, whose buffer would else be somebody else's.
func (l *lane) orphan(s *slot) {
	l.close()
	o := s.outcome
	if o.Pending != nil {
		known, ok := o.Pending.await(l, s)
		if !ok {
			return // complete discards it
		}
		o = known
	}
	l.complete(s, o)
}

// complete makes a slot ready, and sees to it that somebody sends it if it is the head.
func (l *lane) complete(s *slot, o Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.outcome, s.ready = o, true
	if l.closed {
		l.discard(s)
		return
	}
	if l.draining || l.slots[0] != s {
		return
	}
	l.draining = true
	if l.parked {
		l.unparkWith(true)
		return
	}
	l.spawn()
}

// await returns when fewer than n answers are pending. It sends what becomes ready
// meanwhile. Only the connection's goroutine calls it.
func (l *lane) await(ctx context.Context, n int) error {
	for {
		l.mu.Lock()
		if l.closed || l.count() < n {
			l.mu.Unlock()
			return ctx.Err()
		}
		l.parked = true
		l.mu.Unlock()
		select {
		case drain := <-l.wake:
			if drain {
				l.drain()
			}
		case <-ctx.Done():
			l.unpark()
			return ctx.Err()
		}
	}
}

// unpark ends the wait of the connection's goroutine; it may have been made the drainer
// at the same moment.
func (l *lane) unpark() {
	l.mu.Lock()
	l.parked = false
	l.mu.Unlock()
	select {
	case drain := <-l.wake:
		if drain {
			l.drain()
		}
	default:
	}
}

// drain sends slots until the head is not ready. The caller was made the drainer.
func (l *lane) drain() {
	for {
		s := l.pop()
		if s == nil {
			if l.flushAndStop() {
				return
			}
			continue
		}
		if err := l.emit(s.request, s.outcome); err != nil {
			l.stop(err)
			return
		}
	}
}

// pop takes the head if it is ready.
func (l *lane) pop() *slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.slots) == 0 || !l.slots[0].ready {
		return nil
	}
	s := l.slots[0]
	l.slots[0] = nil
	l.slots = l.slots[1:]
	if len(l.slots) == 0 {
		l.slots = l.few[:0]
	}
	return s
}

// flushAndStop flushes, and ends the drain unless the head became ready meanwhile.
func (l *lane) flushAndStop() bool {
	if err := l.out.flush(); err != nil {
		l.stop(err)
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && len(l.slots) > 0 && l.slots[0].ready {
		return false
	}
	l.endDrain()
	return true
}

// stop ends a drain and the connection.
func (l *lane) stop(err error) {
	l.broken(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endDrain()
}

// endDrain passes the output back. A connection's goroutine that waits for the queue
// looks again.
func (l *lane) endDrain() {
	l.draining = false
	if l.parked {
		l.unparkWith(false)
	}
}

// unparkWith wakes the connection's goroutine. There is room for the message: one is
// sent for each time it parks.
func (l *lane) unparkWith(drain bool) {
	l.parked = false
	l.wake <- drain
}

// close discards what was not sent. What completes later is discarded then.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, s := range l.slots {
		if s.ready {
			l.discard(s)
		}
	}
	l.slots = nil
}

// discard drops an answer that cannot be sent any more.
func (l *lane) discard(s *slot) {
	if s.outcome.Response != nil {
		s.outcome.Response.Release()
		s.outcome.Response = nil
	}
	l.done(s.request)
}
