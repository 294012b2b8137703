package quota

import (
	"cmp"
	"container/list"
	"sync"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// DefaultMaxMeters bounds the meters of a Manager. Client ids are the clients' choice, and
// under a default quota each has a meter: beyond the bound the one that was used least
// recently is forgotten, and begins anew when it is used again.
const DefaultMaxMeters = 100_000

// idleMeter is how long a meter is kept that nobody uses (Kafka's
// INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS).
const idleMeter = time.Hour

// Options configure a Manager. Key is required.
type Options struct {
	Key     Key
	Samples int           // quota.window.num; 11
	Window  time.Duration // quota.window.size.seconds; 1 s
	// MaxPause bounds a pause; 0: no bound. Kafka bounds those of RequestPercentage to
	// one window.
	MaxPause  time.Duration
	MaxMeters int // DefaultMaxMeters
}

// Manager measures one kind of quota. Safe for concurrent use.
type Manager struct {
	key       Key
	window    window
	maxPause  time.Duration
	maxMeters int

	mu     sync.Mutex
	meters map[meterID]*list.Element // of *meter
	byUse  list.List                 // the one used last is in front
}

// meter has both ways to measure; a Manager uses one.
type meter struct {
	id     meterID
	used   time.Time
	rate   rate
	bucket bucket
}

// New makes a Manager.
func New(o Options) *Manager {
	return &Manager{
		key:      o.Key,
		window:   window{cmp.Or(o.Samples, 11), cmp.Or(o.Window, time.Second)},
		maxPause: o.MaxPause, maxMeters: cmp.Or(o.MaxMeters, DefaultMaxMeters),
		meters: map[meterID]*list.Element{},
	}
}

// Record counts what a client has used (bytes, or percent of a second) and gives the time
// for which it has to pause, 0 if it is within its quota or has none.
func (m *Manager) Record(now time.Time, image *metadata.Image, c Client, used float64) time.Duration {
	limit, id, found := find(image, m.key, c)
	if !found {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	meter := m.meter(now, id)
	meter.rate.record(m.window, used, now)
	pause := meter.rate.pause(m.window, limit, now)
	if m.maxPause > 0 {
		pause = min(pause, m.maxPause)
	}
	return pause
}

// Unrecord takes back what was recorded and then not done, such as a fetch that is
// answered without records because its client has to pause.
func (m *Manager) Unrecord(now time.Time, image *metadata.Image, c Client, used float64) {
	if _, id, found := find(image, m.key, c); found {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.meter(now, id).rate.record(m.window, -used, now)
	}
}

// Take counts n changes unless the client used too much before; then it counts nothing and
// gives the time after which it may try again. What it asks for at once may exceed the
// quota: the time after it grows.
func (m *Manager) Take(now time.Time, image *metadata.Image, c Client, n float64) time.Duration {
	limit, id, found := find(image, m.key, c)
	if !found {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.meter(now, id).bucket.take(m.window, limit, n, now)
}

// MostAtOnce is how much a client can use in all windows but the current one: no single
// fetch answers more than that. found is false if the client has no quota.
func (m *Manager) MostAtOnce(image *metadata.Image, c Client) (most float64, found bool) {
	limit, _, found := find(image, m.key, c)
	return limit * float64(m.window.samples-1) * m.window.length.Seconds(), found
}

// meter finds or makes a meter, and drops those that nobody uses.
func (m *Manager) meter(now time.Time, id meterID) *meter {
	e := m.meters[id]
	if e == nil {
		e = m.byUse.PushFront(&meter{id: id})
		m.meters[id] = e
	}
	m.byUse.MoveToFront(e)
	e.Value.(*meter).used = now
	for last := m.byUse.Back(); last != e; last = m.byUse.Back() {
		old := last.Value.(*meter)
		if len(m.meters) <= m.maxMeters && now.Sub(old.used) < idleMeter {
			break
		}
		m.byUse.Remove(last)
		delete(m.meters, old.id)
	}
	return e.Value.(*meter)
}
