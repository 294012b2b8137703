package metalog

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// maxInFlight bounds proposals whose outcome is not known. It also bounds what a leader
// that was cut off can leave as a tail on its own log, which must stay below trailingLogs:
// Raft cannot replace a longer tail that reaches beyond a snapshot it is sent.
const maxInFlight = 256

// proposals is the queue between proposers and Raft. It numbers the entries of one
// leadership (D17), and it stops numbering when one has failed, until a barrier has passed.
type proposals struct {
	metrics *metrics
	places  chan struct{} // one element for each proposal in flight
	wake    chan struct{} // capacity 1: the queue is not empty, or closed
	sent    chan struct{} // send has ended
	closing chan struct{}

	mu     sync.Mutex
	queue  []*Proposal // not given to Raft yet
	bytes  int         // of proposals in flight
	closed bool

	term     Term   // of the last barrier that passed; 0: none
	next     uint64 // number of the next entry
	barriers int    // in flight
	open     bool   // a transaction is open behind the last entry that was decided
	// epoch counts barriers that have passed, from 1. In brokenEpoch a proposal failed: if
	// that is the current one, what follows would be dropped and is not sent. A failure
	// that is noticed after a barrier spoils nothing.
	epoch, brokenEpoch uint64
}

func newProposals(m *metrics) *proposals {
	return &proposals{
		metrics: m,
		places:  make(chan struct{}, maxInFlight),
		wake:    make(chan struct{}, 1),
		sent:    make(chan struct{}),
		closing: make(chan struct{}),
	}
}

// enter takes one of the places; whoever entered leaves, or adds a proposal, which leaves
// when it is decided.
func (q *proposals) enter(ctx context.Context) error {
	select {
	case q.places <- struct{}{}:
		q.metrics.inFlight.Inc()
		return nil
	case <-ctx.Done():
		return notController("no place in the queue", context.Cause(ctx))
	case <-q.closing:
		return ErrClosed
	}
}

func (q *proposals) leave() {
	<-q.places
	q.metrics.inFlight.Dec()
}

// size is how many bytes are in flight.
func (q *proposals) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

// add numbers an entry, has it encoded, and puts it in the queue.
func (q *proposals) add(term Term, encode func(number uint64) ([]byte, error)) (*Proposal, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return nil, ErrClosed
	case q.term != term || q.term == 0 || q.barriers > 0:
		return nil, notController("not sent", fmt.Errorf("no barrier has passed in term %d", term))
	case q.brokenEpoch == q.epoch:
		return nil, notController("not sent", errors.New("a proposal failed and no barrier has passed since"))
	}
	b, err := encode(q.next)
	if err != nil {
		return nil, err
	}
	q.next++
	return q.push(&Proposal{bytes: b, term: term}), nil
}

// intact reports that a barrier has passed in term, that no proposal has failed since, and
// that none is in flight and no transaction open, which a barrier would end: another one
// would say and do nothing new.
func (q *proposals) intact(term Term) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.closed && term != 0 && q.term == term && q.brokenEpoch != q.epoch && q.barriers == 0 && q.bytes == 0 && !q.open
}

// addBarrier puts a barrier in the queue. Nothing is added behind it before it has passed.
func (q *proposals) addBarrier(term Term, b []byte) (*Proposal, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, ErrClosed
	}
	q.barriers++
	return q.push(&Proposal{bytes: b, barrier: true, term: term}), nil
}

func (q *proposals) push(p *Proposal) *Proposal {
	p.epoch, p.queue, p.done = q.epoch, q, make(chan struct{})
	q.queue = append(q.queue, p)
	q.bytes += len(p.bytes)
	q.signal()
	return p
}

func (q *proposals) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take waits for proposals and gives as many as fit in one entry of Raft's log. It reports
// false when the queue is closed and empty.
func (q *proposals) take() ([]*Proposal, bool) {
	for {
		q.mu.Lock()
		batch, closed := q.cut(), q.closed
		q.mu.Unlock()
		if len(batch) > 0 || closed {
			return batch, len(batch) > 0
		}
		<-q.wake
	}
}

func (q *proposals) cut() []*Proposal {
	n, size := 0, 0
	for ; n < len(q.queue); n++ {
		size += len(q.queue[n].bytes) + metadata.BatchOverhead
		if n > 0 && size > MaxEntryBytes {
			break
		}
	}
	batch := q.queue[:n:n]
	q.queue = q.queue[n:]
	return batch
}

// decided notes the outcomes of a batch and tells those who wait for them.
func (q *proposals) decided(batch []*Proposal) {
	q.mu.Lock()
	for _, p := range batch {
		q.bytes -= len(p.bytes)
		q.open = p.out.open
		switch {
		case p.out.err != nil:
			q.metrics.failed.Inc()
			q.broke(p)
		case p.barrier:
			q.term, q.next = p.term, p.out.next
			q.epoch++
		}
		if p.barrier {
			q.barriers--
		}
	}
	q.mu.Unlock()
	for _, p := range batch {
		close(p.done)
		q.leave()
	}
}

// fail counts a proposal as failed whose outcome nobody waited for.
func (q *proposals) fail(p *Proposal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.broke(p)
}

func (q *proposals) broke(p *Proposal) { q.brokenEpoch = max(q.brokenEpoch, p.epoch) }

// close refuses what comes from now on, and returns when everything before is decided.
func (q *proposals) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	close(q.closing)
	q.signal()
	<-q.sent
}
