package wire

import (
	"sync"

	"github.com/klamm-mq/klamm/internal/invariant"
)

// Pending is an outcome that will be known later: the second stage of a handler.
type Pending struct {
	mu      sync.Mutex
	done    bool
	outcome Outcome
	// Set once the connection has taken its place in the order: where, and which place.
	lane *lane
	slot *slot
}

// NewPending makes one; the handler keeps it and returns it in its Outcome. The zero value
// will do as well, as a field of something that is not copied.
func NewPending() *Pending { return new(Pending) }

// Complete says what became of the request. It must be called exactly once, from any
// goroutine, also before Handle has returned and after the connection was closed; it
// does not block on the network. The outcome must not be pending again.
func (p *Pending) Complete(o Outcome) {
	p.mu.Lock()
	invariant.Check(!p.done, "a pending outcome was completed twice")
	invariant.Check(o.Pending == nil, "a pending outcome completed with another one")
	p.done = true
	lane, slot := p.lane, p.slot
	if lane == nil {
		p.outcome = o
	}
	p.mu.Unlock()
	if lane != nil {
		lane.complete(slot, o)
	}
}

// peek returns the outcome if it is known.
func (p *Pending) peek() (Outcome, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outcome, p.done
}

// await has the outcome go to a slot of a lane unless it is known already; then that is
// returned.
func (p *Pending) await(l *lane, s *slot) (Outcome, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return p.outcome, true
	}
	p.lane, p.slot = l, s
	return Outcome{}, false
}
