package replica

import (
	"sync"
	"time"
)

// isrTimer looks after in-sync replicas by the clock while any partition led here has
// followers: one timer for all of them, none for a cluster of one.
type isrTimer struct {
	every time.Duration
	tick  func(now time.Time)

	mu      sync.Mutex
	timer   *time.Timer
	wanted  bool
	stopped bool
	running sync.WaitGroup // Add only under mu and before stopped
}

func (t *isrTimer) init(every time.Duration, tick func(time.Time)) {
	t.every, t.tick = every, tick
}

// set starts or ends the ticking.
func (t *isrTimer) set(wanted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.wanted
	t.wanted = wanted
	if !wanted || was || t.stopped {
		return
	}
	if t.timer == nil {
		t.timer = time.AfterFunc(t.every, t.fire)
		return
	}
	t.timer.Reset(t.every)
}

func (t *isrTimer) fire() {
	t.mu.Lock()
	if t.stopped || !t.wanted {
		t.mu.Unlock()
		return
	}
	t.running.Add(1)
	defer t.running.Done()
	t.mu.Unlock()
	t.tick(time.Now())
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wanted && !t.stopped {
		t.timer.Reset(t.every)
	}
}

// stop returns when no tick runs and none will.
func (t *isrTimer) stop() {
	t.mu.Lock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
	t.mu.Unlock()
	t.running.Wait()
}

// tickAll lets every led partition look at its followers.
func (m *Manager) tickAll(now time.Time) {
	for _, h := range m.all() {
		if h.LeadsFollowers() {
			m.carryOut(h, h.Tick(now))
		}
	}
}

// noteFollowers remembers the replicas that led followers when they were last given a role, so
// that not all thousands of them are asked after each change of metadata.
func (m *Manager) noteFollowers(h *hosted) {
	if h.LeadsFollowers() {
		m.leading[h.ID()] = h
	} else {
		delete(m.leading, h.ID())
	}
}

// leadsFollowers tells whether any partition led here has followers.
func (m *Manager) leadsFollowers() bool {
	for id, h := range m.leading {
		if h.LeadsFollowers() {
			return true
		}
		delete(m.leading, id) // deleted, or failed
	}
	return false
}
