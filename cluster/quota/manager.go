package quota

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// Manager measures one kind of quota of users and clients. Safe for concurrent use.
type Manager struct {
	key      Key
	window   window
	maxPause time.Duration // 0: no bound
	clock    clock
	enabled  atomic.Bool // there is a quota of this kind at all

	mu     sync.Mutex
	limits limits
	meters meters[meterID]
}

func newManager(key Key, w window, maxPause time.Duration, c clock) *Manager {
	return &Manager{key: key, window: w, maxPause: maxPause, clock: c, limits: limits{}}
}

// Enabled tells whether anybody has a quota of this kind: as long as nobody has, whoever asks
// need not know how much was used. It costs next to nothing.
func (m *Manager) Enabled() bool { return m.enabled.Load() }

// set makes the quota of an entity what metadata says.
func (m *Manager) set(e metadata.QuotaEntity, quotas map[string]float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	limit, ok := quotas[string(m.key)]
	m.limits.set(e, limit, ok)
	m.enabled.Store(len(m.limits) > 0)
}

// with calls fn with the meter of a client and its limit, unless it has no quota.
func (m *Manager) with(now time.Time, c Client, fn func(meter *meter[meterID], limit float64, at moment)) {
	if !m.Enabled() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	limit, id, found := m.limits.find(c)
	if !found {
		return
	}
	at := m.clock.at(now)
	meter := m.meters.get(id, at)
	meter.limit = limit
	fn(meter, limit, at)
}

// Record counts what a client has used (bytes, or percent of a second) and gives the time
// for which it has to pause, 0 if it is within its quota or has none.
func (m *Manager) Record(now time.Time, c Client, used float64) (pause time.Duration) {
	m.with(now, c, func(meter *meter[meterID], limit float64, at moment) {
		meter.rate.record(m.window, used, at)
		pause = meter.rate.pause(m.window, limit, at)
		if m.maxPause > 0 {
			pause = min(pause, m.maxPause)
		}
	})
	return pause
}

// Note counts what a client has used without a look at its limit: it counts for the next
// Record. A negative use takes back what was recorded and then not done, such as a fetch that
// is answered without records because its client has to pause.
func (m *Manager) Note(now time.Time, c Client, used float64) {
	m.with(now, c, func(meter *meter[meterID], _ float64, at moment) {
		meter.rate.record(m.window, used, at)
	})
}

// Paused notes, for metrics, that a client was told to pause.
func (m *Manager) Paused(now time.Time, c Client, pause time.Duration) {
	m.with(now, c, func(meter *meter[meterID], _ float64, at moment) {
		meter.pauses.record(float64(pause.Milliseconds()), at)
	})
}

// Take counts n changes unless the client used too much before; then it counts nothing and
// gives the time after which it may try again. What it asks for at once may exceed the
// quota: the time after it grows.
func (m *Manager) Take(now time.Time, c Client, n float64) (pause time.Duration) {
	m.with(now, c, func(meter *meter[meterID], limit float64, at moment) {
		if pause = meter.bucket.take(m.window, limit, n, at); pause == 0 {
			meter.rate.record(m.window, n, at)
		}
	})
	return pause
}

// Force counts n changes whatever the client used before, for requests that cannot be
// refused, and gives the time for which it has to pause.
func (m *Manager) Force(now time.Time, c Client, n float64) (pause time.Duration) {
	m.with(now, c, func(meter *meter[meterID], limit float64, at moment) {
		meter.rate.record(m.window, n, at)
		pause = meter.bucket.force(m.window, limit, n, at)
	})
	return pause
}

// MostAtOnce is how much a client can use in all windows but the current one: no single
// fetch answers more than that, since it would have to pause whatever it did before. found is
// false if the client has no quota.
func (m *Manager) MostAtOnce(c Client) (most float64, found bool) {
	if !m.Enabled() {
		return 0, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	limit, _, found := m.limits.find(c)
	return limit * float64(m.window.samples-1) * m.window.length.Seconds(), found
}
