package fetchsession

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// DefaultWalkEvery is how often a follower's session is walked in full, whatever has become
// of its news.
const DefaultWalkEvery = 10 * time.Second

// Watch is a partition of a follower's session, for the one who reads it: it is told when the
// partition may rest, and when there is news of it. Its methods take a lock that is a leaf, and
// do not block.
type Watch struct {
	of   *watches
	part *cachedPartition

	// Guarded by watches.mu.
	resting bool
	gone    bool      // out of the session
	last    time.Time // fetch with it
}

// Rest says that the follower knows all that there is to know of the partition: it is left out
// of the session's walks until Signal.
func (w *Watch) Rest() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.resting = !w.gone
}

// Signal says that there may be news of the partition.
func (w *Watch) Signal() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if w.gone {
		return
	}
	if w.resting {
		w.resting = false
		w.of.woken = append(w.of.woken, w)
	}
	select {
	case w.of.news <- struct{}{}:
	default:
	}
}

// LastFetch is when the follower fetched the partition last, by itself or resting.
func (w *Watch) LastFetch() time.Time {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if w.gone {
		return w.last
	}
	return w.of.lastFetch
}

// watches are the partitions of a follower's session by whether they rest.
type watches struct {
	news chan struct{} // room for one: somebody was signalled

	// Guarded by session.mu.
	awake    []*cachedPartition // those to be walked, and such as rest since they were gathered
	walkedAt time.Time          // in full
	follower follower           // of the last request

	mu        sync.Mutex // a leaf
	lastFetch time.Time
	woken     []*Watch // signalled while they rested, not gathered yet
}

// follower is a broker that fetches, in one of its lives.
type follower struct {
	id    int32
	epoch int64
}

func (r *Request) follower() follower { return follower{r.ReplicaID, r.ReplicaEpoch} }

// watch begins with everything awake.
func (s *session) watch(now time.Time, f follower) {
	s.watches = &watches{news: make(chan struct{}, 1), follower: f, walkedAt: now, lastFetch: now}
	for e := s.parts.order.Front(); e != nil; e = e.Next() {
		s.wake(e.Value.(*cachedPartition))
	}
}

// wake has a partition walked, one that is new in the session included. Caller holds s.mu.
func (s *session) wake(c *cachedPartition) {
	w := s.watches
	if c.watch == nil {
		c.watch = &Watch{of: w, part: c}
	}
	w.mu.Lock()
	c.watch.resting = false
	w.mu.Unlock()
	if !c.listed {
		c.listed = true
		w.awake = append(w.awake, c)
	}
}

// end lets a partition go. Caller holds s.mu.
func (w *Watch) end() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.gone, w.resting, w.last = true, false, w.of.lastFetch
}

// fetched begins a request of a follower, and decides whether it walks everything. Caller holds
// s.mu.
func (s *session) fetched(now time.Time, r *Request, every time.Duration) {
	w := s.watches
	w.mu.Lock()
	w.lastFetch = now
	w.mu.Unlock()
	if !r.WalkAll && r.follower() == w.follower && now.Sub(w.walkedAt) < every {
		return
	}
	w.walkedAt, w.follower = now, r.follower()
	for e := s.parts.order.Front(); e != nil; e = e.Next() {
		s.wake(e.Value.(*cachedPartition))
	}
}

// gather gives the partitions that are awake, in the order of the session. Caller holds s.mu.
func (s *session) gather() []*cachedPartition {
	w := s.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := w.awake[:0]
	for _, c := range w.awake {
		if c.listed = !c.watch.resting && !c.watch.gone; c.listed {
			kept = append(kept, c)
		}
	}
	for _, woken := range w.woken {
		if c := woken.part; !c.listed && !woken.resting && !woken.gone {
			c.listed = true
			kept = append(kept, c)
		}
	}
	clear(w.awake[min(len(kept), len(w.awake)):])
	clear(w.woken)
	w.awake, w.woken = kept, w.woken[:0]
	slices.SortFunc(w.awake, func(a, b *cachedPartition) int { return cmp.Compare(a.turn, b.turn) })
	return w.awake
}
