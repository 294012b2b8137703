package crash

import (
	"sync"
	"sync/atomic"
	"time"
)

// place is where a record stands.
type place struct {
	partition int32
	offset    int64
}

// unknownPlace is where a record stands of which only the acknowledgement is known.
var unknownPlace = place{-1, -1}

// history is what the writers and the reader of one topic were told.
type history struct {
	acks atomic.Int64

	mu    sync.Mutex
	acked map[name]place
	seen  map[place]name // by the reader along the way
}

func newHistory() *history {
	return &history{acked: map[name]place{}, seen: map[place]name{}}
}

func (h *history) ack(n name, at place) {
	h.acks.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked[n] = at
}

func (h *history) see(n name, at place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen[at] = n
}

// readerPatience is how long a reader may take to come to the end.
const readerPatience = time.Minute

// waitSeen waits until the reader has seen n records.
func (h *history) waitSeen(n int) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(readerPatience); time.Now().Before(deadline); <-tick.C {
		h.mu.Lock()
		seen := len(h.seen)
		h.mu.Unlock()
		if seen >= n {
			return true
		}
	}
	return false
}
