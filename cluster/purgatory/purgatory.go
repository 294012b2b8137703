package purgatory

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Operation is something that waits. Neither method is called under a lock of the
// purgatory, nor by two goroutines at once.
type Operation interface {
	// TryComplete reports whether the operation is done waiting. It may be called any
	// number of times, but never after it has returned true.
	TryComplete() bool
	// OnComplete is called once if TryCompleteElseWatch returned Waiting.
	OnComplete(Cause)
}

// Cause is why an operation ended.
type Cause int8

// The causes. Waiting is none of them: the operation has not ended.
const (
	Waiting   Cause = iota
	Satisfied       // TryComplete returned true
	Expired         // the deadline passed
	Cancelled       // Cancel or Close
	Refused         // the purgatory is full or closed
)

// String is the cause in lower case.
func (c Cause) String() string {
	return [...]string{"waiting", "satisfied", "expired", "cancelled", "refused"}[c]
}

// DefaultMaxOperations bounds what waits at once in one purgatory. A connection parks
// few requests, so this is reached only far beyond the usual connection limits.
const DefaultMaxOperations = 100_000

// Options of a Purgatory.
type Options struct {
	// Name is the value of the label delayedoperation, Kafka's "Produce", "Fetch" ….
	Name string
	// MaxOperations is the number that may wait at once; 0 means DefaultMaxOperations.
	MaxOperations int
	Registerer    prometheus.Registerer // nil: no metrics
}

// Purgatory holds waiting operations, watched by keys of type K. It is safe for
// concurrent use. A key that nobody watches costs nothing.
type Purgatory[K comparable] struct {
	max     int
	watched atomic.Int64 // operations in lists, readable without mu
	refused prometheus.Counter
	expired prometheus.Counter

	mu       sync.Mutex
	lists    lists[K]
	timer    *time.Timer // nil until something has waited
	armedFor time.Time   // zero: not armed
	closed   bool
	expiring sync.WaitGroup // runs of expire; Add only under mu and before closed
}

// New makes an empty purgatory.
func New[K comparable](o Options) *Purgatory[K] {
	p := &Purgatory[K]{max: o.MaxOperations, lists: newLists[K]()}
	if p.max <= 0 {
		p.max = DefaultMaxOperations
	}
	p.register(o)
	return p
}

// TryCompleteElseWatch completes op if it can be, else parks it until an event on one
// of its keys lets it complete or timeout passes. it is the memory for that, usually a
// field of op; it may be reused once op has ended.
//
// Any result but Waiting says that op has ended here and now; OnComplete is not called.
// With Waiting, OnComplete will be called, and may have been already.
func (p *Purgatory[K]) TryCompleteElseWatch(it *Item[K], op Operation, keys []K, timeout time.Duration) Cause {
	it.begin(op, keys)
	if op.TryComplete() {
		return it.finish(Satisfied)
	}
	if timeout <= 0 {
		return it.finish(Expired)
	}
	if !p.watch(it, time.Now().Add(timeout)) {
		p.refused.Inc()
		return it.finish(Refused)
	}
	// The try that closes the race of the package comment is the first turn of run.
	it.note(it.generation(), again)
	return p.run(it)
}

// CheckAndComplete lets every operation that watches key look whether it is done, and
// returns how many were.
func (p *Purgatory[K]) CheckAndComplete(key K) int {
	if p.watched.Load() == 0 {
		return 0
	}
	var few [16]ticket[K]
	p.mu.Lock()
	tickets := p.lists.watching(key, few[:0])
	p.mu.Unlock()
	return p.poke(tickets, again)
}

// CheckAndCompleteAll is CheckAndComplete for many keys at once: an operation that watches
// several of them looks once.
func (p *Purgatory[K]) CheckAndCompleteAll(keys []K) int {
	if p.watched.Load() == 0 {
		return 0
	}
	var all, few []ticket[K]
	seen := make(map[*Item[K]]bool)
	p.mu.Lock()
	for _, key := range keys {
		few = p.lists.watching(key, few[:0])
		for _, t := range few {
			if !seen[t.item] {
				seen[t.item] = true
				all = append(all, t)
			}
		}
	}
	p.mu.Unlock()
	return p.poke(all, again)
}

// Check lets the operation of it look whether it is done, as CheckAndComplete does for all that
// watch a key.
func (p *Purgatory[K]) Check(it *Item[K]) {
	p.poke([]ticket[K]{{it, it.generation()}}, again)
}

// Cancel ends the operation of it, if it still waits. When Cancel returns, OnComplete
// has been called, or the goroutine that is trying the operation is about to call it.
func (p *Purgatory[K]) Cancel(it *Item[K]) {
	p.poke([]ticket[K]{{it, it.generation()}}, cancelled)
}

// Close cancels everything that waits and refuses what comes later. It returns after
// the last OnComplete of an expired operation; it must not be called from one.
func (p *Purgatory[K]) Close() {
	p.mu.Lock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	tickets := p.lists.all()
	p.mu.Unlock()
	p.poke(tickets, cancelled)
	p.expiring.Wait()
}

// Len is the number of operations that wait.
func (p *Purgatory[K]) Len() int { return int(p.watched.Load()) }

// watch puts it into the lists and arms the timer; false if it may not wait.
func (p *Purgatory[K]) watch(it *Item[K], deadline time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.lists.len() >= p.max {
		return false
	}
	it.deadline = deadline
	p.lists.add(it)
	p.watched.Store(int64(p.lists.len()))
	p.arm()
	return true
}

// arm sets the timer for the earliest deadline unless it will fire earlier anyway. An
// armed timer is not moved back when the operation it was armed for ends: a steady
// stream of operations that end in time would otherwise reset it at every one.
func (p *Purgatory[K]) arm() {
	next, ok := p.lists.nextDeadline()
	if !ok || p.closed || !p.armedFor.IsZero() && !next.Before(p.armedFor) {
		return
	}
	p.armedFor = next
	if p.timer == nil {
		p.timer = time.AfterFunc(time.Until(next), p.expire)
		return
	}
	p.timer.Reset(time.Until(next))
}

// expire runs on the timer's goroutine.
func (p *Purgatory[K]) expire() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.expiring.Add(1)
	defer p.expiring.Done()
	p.armedFor = time.Time{}
	tickets := p.lists.due(time.Now())
	p.arm()
	p.mu.Unlock()
	p.poke(tickets, expired)
}

// poke leaves a note at each operation, and tries those that nobody is trying.
func (p *Purgatory[K]) poke(tickets []ticket[K], n uint32) (ended int) {
	for _, t := range tickets {
		if !t.item.note(t.generation, n) {
			continue // another goroutine is inside and will see the note, or it has ended
		}
		op := t.item.op
		if cause := p.run(t.item); cause != Waiting {
			ended++
			op.OnComplete(cause)
		}
	}
	return ended
}

// run tries the operation of it, which this goroutine has entered, until there is no
// note left. Unless it returns Waiting, the operation has ended and is out of the lists.
func (p *Purgatory[K]) run(it *Item[K]) Cause {
	for {
		notes := it.takeNotes()
		switch {
		case notes == 0:
			return Waiting // takeNotes left the item
		case notes&again != 0 && it.op.TryComplete():
			return p.remove(it, Satisfied)
		case notes&cancelled != 0:
			return p.remove(it, Cancelled)
		case notes&expired != 0:
			p.expired.Inc()
			return p.remove(it, Expired)
		}
	}
}

func (p *Purgatory[K]) remove(it *Item[K], cause Cause) Cause {
	p.mu.Lock()
	p.lists.remove(it)
	p.watched.Store(int64(p.lists.len()))
	p.mu.Unlock()
	return it.finish(cause)
}
