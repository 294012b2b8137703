package chaos

import (
	"sync"
	"time"
)

// pulse knows the longest time between two beats.
type pulse struct {
	mu      sync.Mutex
	last    time.Time
	longest time.Duration
}

func (p *pulse) beat(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silence(now)
	p.last = now
}

func (p *pulse) silence(now time.Time) {
	if !p.last.IsZero() {
		p.longest = max(p.longest, now.Sub(p.last))
	}
}

// lap tells the longest silence since the lap before, the one that lasts included. One that
// had begun before that counts whole.
func (p *pulse) lap(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silence(now)
	longest := p.longest
	p.longest = 0
	return longest
}
