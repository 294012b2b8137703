package wire

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// budget bounds the memory of frames in flight: queued.max.request.bytes.
type budget struct {
	sem      *semaphore.Weighted
	size     int64
	used     atomic.Int64
	waits    atomic.Int64  // reservations that had to wait
	patience time.Duration // of who holds a part already

	mu      sync.Mutex
	waiting int
	since   time.Time // when one that waited last got through, or the first began to wait
}

// newBudget makes one of n bytes.
func newBudget(n int64, patience time.Duration) *budget {
	return &budget{sem: semaphore.NewWeighted(n), size: n, patience: patience}
}

// counts is what a frame of n bytes counts for. A frame larger than half the budget counts
// as half of it: were it to have all of it, the beginnings of others would keep it waiting
// for ever. There are at most two such frames at a time.
func (b *budget) counts(n int) int64 { return min(int64(n), max(b.size/2, firstStep)) }

// acquire waits for n bytes. Who holds a part of its frame already waits only for the
// budget's patience: two half frames that wait for each other's memory must not do so
// for ever.
func (b *budget) acquire(ctx context.Context, n int64, holdsPart bool) error {
	if !b.sem.TryAcquire(n) {
		b.waits.Add(1)
		b.beginWait()
		err := b.wait(ctx, n, holdsPart)
		b.endWait(err == nil)
		if err != nil {
			return err
		}
	}
	b.used.Add(n)
	return nil
}

// isShort reports whether more than half is taken.
func (b *budget) isShort() bool { return b != nil && b.used.Load() > b.size/2 }

func (b *budget) beginWait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting++; b.waiting == 1 {
		b.since = time.Now()
	}
}

func (b *budget) endWait(got bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting--; got {
		b.since = time.Now()
	}
}

// starved: no reservation has got through for longer than the budget's patience, and some
// wait. Whoever holds memory then and does not go on is in the way of the others.
func (b *budget) starved() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting > 0 && time.Since(b.since) > b.patience
}

func (b *budget) wait(ctx context.Context, n int64, holdsPart bool) error {
	if !holdsPart {
		return b.sem.Acquire(ctx, n)
	}
	bounded, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	err := b.sem.Acquire(bounded, n)
	if err != nil && ctx.Err() == nil {
		return errMemory
	}
	return err
}

func (b *budget) release(n int64) {
	b.used.Add(-n)
	b.sem.Release(n)
}

// slots bounds the requests that are being worked on: queued.max.requests.
type slots struct {
	sem   *semaphore.Weighted
	used  atomic.Int64
	waits atomic.Int64
}

func newSlots(n int64) *slots { return &slots{sem: semaphore.NewWeighted(n)} }

func (s *slots) acquire(ctx context.Context) error {
	if !s.sem.TryAcquire(1) {
		s.waits.Add(1)
		if err := s.sem.Acquire(ctx, 1); err != nil {
			return err
		}
	}
	s.used.Add(1)
	return nil
}

func (s *slots) release() {
	s.used.Add(-1)
	s.sem.Release(1)
}
