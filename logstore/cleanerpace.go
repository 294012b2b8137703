package logstore

import (
	"context"
	"math"
	"sync"
	"time"
)

// maxCleanerWait is after how long a changed limit is noticed.
const maxCleanerWait = time.Second

// cleanerPace keeps what all threads of the cleaner read and write together below a number of
// bytes a second. It allows each step whatever the limit, and then waits until that has been
// worth it.
type cleanerPace struct {
	mu    sync.Mutex
	limit float64 // bytes a second; 0: none
	debt  float64 // bytes ahead of the limit at time at
	at    time.Time
}

// set changes the limit. Kafka divides by it, so one below 0 is none, and one of 0 is never
// met: here it is a byte a second, until it is changed.
func (p *cleanerPace) set(limit float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case limit < 0, limit >= math.MaxFloat64:
		p.limit = 0
	default:
		p.limit = max(1, limit)
	}
}

// spend counts bytes and returns how long to wait for them.
func (p *cleanerPace) spend(now time.Time, bytes int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit == 0 {
		p.debt = 0
		return 0
	}
	if !p.at.IsZero() {
		p.debt = max(0, p.debt-now.Sub(p.at).Seconds()*p.limit)
	}
	p.at = now
	p.debt += float64(bytes)
	return time.Duration(min(p.debt/p.limit, math.MaxInt64/float64(2*time.Second)) * float64(time.Second))
}

// pass counts bytes and waits for as long as they cost; what ends it early is in ctx. A limit
// that is raised meanwhile counts at once.
func (p *cleanerPace) pass(ctx context.Context, bytes int) error {
	for {
		wait := p.spend(time.Now(), bytes)
		if wait <= 0 || ctx.Err() != nil {
			return ctx.Err()
		}
		bytes = 0
		timer := time.NewTimer(min(wait, maxCleanerWait))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}
