package purgatory

import (
	"sync/atomic"
	"time"

	"github.com/klamm-mq/klamm/internal/invariant"
)

// The low bits of Item.state; the rest is the generation. A note is left for the
// goroutine that is trying.
const (
	trying    uint32 = 1 << iota // a goroutine is inside
	again                        // note: an event happened, try once more
	expired                      // note: the deadline has passed
	cancelled                    // note: Cancel or Close
	completed                    // the operation has ended

	noteBits       = again | expired | cancelled
	generationStep = completed << 1
)

// Item is an operation's place in a purgatory: a field of the operation, so that waiting
// on one key allocates nothing. The zero value is ready; an Item must not be copied once
// used, and may be reused when its operation has ended.
type Item[K comparable] struct {
	op       Operation
	state    atomic.Uint32
	deadline time.Time
	nodes    []node[K] // one per key
	one      [1]node[K]
	heapPos  int // in lists.deadlines, -1 outside
}

// node is an item's link in the list of one key.
type node[K comparable] struct {
	item       *Item[K]
	key        K
	prev, next *node[K]
}

// ticket is an item as somebody saw it under Purgatory.mu. The generation keeps a
// goroutine that took the ticket and was then delayed from expiring the operation that
// uses the item next.
type ticket[K comparable] struct {
	item       *Item[K]
	generation uint32
}

// begin takes the item for op, in state trying and in a new generation.
func (it *Item[K]) begin(op Operation, keys []K) {
	old := it.state.Load()
	invariant.Check(old == 0 || old&completed != 0, "purgatory item reused while its operation waits (state %#x)", old)
	it.op = op
	it.nodes = it.one[:0]
	if len(keys) > len(it.one) {
		it.nodes = make([]node[K], 0, len(keys))
	}
	for _, k := range keys {
		it.nodes = append(it.nodes, node[K]{item: it, key: k})
	}
	it.heapPos = -1
	it.state.Store(old&^(generationStep-1) + generationStep | trying)
}

func (it *Item[K]) generation() uint32 { return it.state.Load() &^ (generationStep - 1) }

// note leaves n for whoever tries the operation, and enters it if nobody does: true
// means that the caller must run it.
func (it *Item[K]) note(generation, n uint32) (entered bool) {
	for {
		s := it.state.Load()
		if s&completed != 0 || s&^(generationStep-1) != generation {
			return false
		}
		if it.state.CompareAndSwap(s, s|trying|n) {
			return s&trying == 0
		}
	}
}

// takeNotes takes the notes off the item, or leaves it if there are none.
func (it *Item[K]) takeNotes() (notes uint32) {
	for {
		s := it.state.Load()
		next := s &^ noteBits
		if s&noteBits == 0 {
			next = s &^ trying
		}
		if it.state.CompareAndSwap(s, next) {
			return s & noteBits
		}
	}
}

// finish ends the operation; notes that arrive from now on are refused.
func (it *Item[K]) finish(cause Cause) Cause {
	it.op = nil
	clear(it.nodes)
	it.state.Store(it.generation() | completed)
	return cause
}
