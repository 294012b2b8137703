package fetchsession

import (
	"container/list"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Defaults of Options.
const (
	// DefaultSlots is max.incremental.fetch.session.cache.slots.
	DefaultSlots = 1000
	// DefaultMaxPartitions bounds the partitions of all sessions: about 300 bytes each.
	DefaultMaxPartitions = 1_000_000
	// DefaultEvictAfter is Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS.
	DefaultEvictAfter = 2 * time.Minute
)

// Options of a Cache; zero values mean the defaults.
type Options struct {
	Slots         int // sessions; negative: none at all
	MaxPartitions int // in all sessions together
	EvictAfter    time.Duration
	WalkEvery     time.Duration         // how often a follower's session is walked in full
	Rand          *rand.Rand            // draws session ids; nil: a random seed
	Registerer    prometheus.Registerer // nil: no metrics
}

// Cache holds the open sessions of a broker. It is safe for concurrent use.
//
// Kafka splits its cache into 8 shards with a lock and an eighth of the slots each
// (KAFKA-9401); with one lock that is held for microseconds the slots stay whole.
type Cache struct {
	slots, maxPartitions int
	evictAfter           time.Duration
	walkEvery            time.Duration
	evictions            prometheus.Counter
	refusals             prometheus.Counter

	mu         sync.Mutex
	rand       *rand.Rand
	sessions   map[int32]*session
	lastUsed   list.List // of *session, longest unused first
	partitions int       // in all sessions
}

// NewCache makes an empty cache.
func NewCache(o Options) *Cache {
	c := &Cache{
		slots:         orDefault(o.Slots, DefaultSlots),
		maxPartitions: orDefault(o.MaxPartitions, DefaultMaxPartitions),
		evictAfter:    orDefault(o.EvictAfter, DefaultEvictAfter),
		walkEvery:     orDefault(o.WalkEvery, DefaultWalkEvery),
		rand:          o.Rand,
		sessions:      make(map[int32]*session),
	}
	if c.rand == nil {
		c.rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	c.register(o.Registerer)
	return c
}

func orDefault[N int | time.Duration](n, def N) N {
	if n == 0 {
		return def
	}
	return n
}

// open makes a session of size partitions and returns its id, or 0 if there is no place
// for it; content is called only if there is (FetchSessionCacheShard.maybeCreateSession).
func (c *Cache) open(now time.Time, r *Request, usesIDs bool, size int, content func() *partitions) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.partitions+size > c.maxPartitions || !c.makeRoom(now, r.Follower, size) {
		c.refusals.Inc()
		return noSession
	}
	s := &session{id: c.newID(), privileged: r.Follower, usesTopicIDs: usesIDs, created: now, epoch: 1, parts: content()}
	if s.privileged {
		s.watch(now, r.follower())
	}
	c.sessions[s.id] = s
	s.place = c.lastUsed.PushBack(s)
	c.touch(now, s)
	return s.id
}

// newID draws a positive id that no session has.
func (c *Cache) newID() int32 {
	for {
		id := 1 + c.rand.Int32N(math.MaxInt32)
		if c.sessions[id] == nil {
			return id
		}
	}
}

// makeRoom finds a free slot, if need be by evicting a session that is worth less than
// the new one (FetchSessionCacheShard.tryEvict):
//
//	A  one that is unused for longer than evictAfter
//	B  the least of those that live longer than evictAfter, if it is smaller
//	C  for a follower, the least of the consumers' as well
func (c *Cache) makeRoom(now time.Time, privileged bool, size int) bool {
	if len(c.sessions) < c.slots {
		return true
	}
	oldest := c.lastUsed.Front()
	if oldest == nil {
		return false
	}
	if s := oldest.Value.(*session); now.Sub(s.lastUsed) > c.evictAfter {
		c.evict(s)
		return true
	}
	least := c.leastEvictable(privileged)
	if least == nil || (worth{privileged, size, 0}).less(least.worth()) {
		return false
	}
	c.evict(least)
	return true
}

// leastEvictable looks at every session: at most as many as there are slots, and only
// when all slots are taken.
func (c *Cache) leastEvictable(byPrivileged bool) (least *session) {
	for e := c.lastUsed.Front(); e != nil; e = e.Next() {
		s := e.Value.(*session)
		old := s.lastUsed.Sub(s.created) > c.evictAfter
		if !old && (!byPrivileged || s.privileged) {
			continue
		}
		if least == nil || s.worth().less(least.worth()) {
			least = s
		}
	}
	return least
}

func (c *Cache) evict(s *session) {
	c.remove(s)
	c.evictions.Inc()
}

// remove takes s out of the cache if it is still in.
func (c *Cache) remove(s *session) {
	if c.sessions[s.id] != s {
		return
	}
	delete(c.sessions, s.id)
	c.lastUsed.Remove(s.place)
	c.partitions -= s.cachedSize
}

// touch notes that s was used, and its present size. Caller holds s.mu, or owns s alone.
func (c *Cache) touch(now time.Time, s *session) {
	s.lastUsed = now
	c.lastUsed.MoveToBack(s.place)
	c.partitions += s.parts.len() - s.cachedSize
	s.cachedSize = s.parts.len()
}

// Sessions is the number of open sessions, Partitions the number in all of them.
func (c *Cache) Sessions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions)
}

// Partitions is the number of partitions in all open sessions.
func (c *Cache) Partitions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.partitions
}

// register makes the metrics; the first three have the names that Kafka's usual
// Prometheus exporter gives to kafka.server:type=FetchSessionCache.
func (c *Cache) register(reg prometheus.Registerer) {
	c.evictions = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
		Help: "Sessions that lost their slot to another one.",
	})
	c.refusals = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "klamm_fetch_session_refused_total",
		Help: "Full fetches answered without a session because there was no place for one.",
	})
	if reg == nil {
		return
	}
	reg.MustRegister(c.evictions, c.refusals,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "kafka_server_fetchsessioncache_numincrementalfetchsessions",
			Help: "Open sessions.",
		}, func() float64 { return float64(c.Sessions()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
			Help: "Partitions in all open sessions.",
		}, func() float64 { return float64(c.Partitions()) }))
}
