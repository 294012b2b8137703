package fetchsession

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

var epochStart = time.Unix(1_000_000, 0)

func openSession(t testing.TB, c *Cache, ps ...Partition) int32 {
	t.Helper()
	x := c.NewContext(epochStart, Request{Version: 13, Partitions: ps})
	id, err := x.UpdateAndFilter(epochStart, answersTo(x))
	if err != nil || id == 0 {
		t.Fatalf("no session: id %d, %v", id, err)
	}
	return id
}

func answersTo(x *Context) []Answer {
	var as []Answer
	for _, p := range x.Partitions(nil, nil) {
		as = append(as, Answer{Key: p.Key})
	}
	return as
}

// unknown is the high watermark that a fetcher knows who does not tell.
const unknown = math.MaxInt64

func part(index int32) Partition {
	return Partition{Key: Key{TopicID: uuid.UUID{1}, Partition: index}, HighWatermark: unknown}
}

func TestEpochWraps(t *testing.T) {
	for epoch, next := range map[int32]int32{0: 1, 1: 2, math.MaxInt32: 1, -1: -1} {
		if got := nextEpoch(epoch); got != next {
			t.Errorf("after %d comes %d, want %d", epoch, got, next)
		}
	}
	c := NewCache(Options{})
	id := openSession(t, c, part(0))
	c.sessions[id].epoch = math.MaxInt32
	for _, epoch := range []int32{math.MaxInt32, 1} {
		x := c.NewContext(epochStart, Request{Version: 13, SessionID: id, Epoch: epoch})
		if _, err := x.UpdateAndFilter(epochStart, answersTo(x)); err != nil {
			t.Errorf("epoch %d: %v", epoch, err)
		}
	}
}

// TestNamesAreCopied: a request's strings may alias a frame that is used again.
func TestNamesAreCopied(t *testing.T) {
	c := NewCache(Options{})
	frame := []byte("orders")
	name := unsafe.String(&frame[0], len(frame))
	x := c.NewContext(epochStart, Request{Version: 12, Partitions: []Partition{{Key: Key{Topic: name}, HighWatermark: unknown}}})
	id, _ := x.UpdateAndFilter(epochStart, answersTo(x))
	copy(frame, "xxxxxx")
	x = c.NewContext(epochStart, Request{Version: 12, SessionID: id, Epoch: 1})
	if ps := x.Partitions(nil, nil); len(ps) != 1 || ps[0].Topic != "orders" {
		t.Errorf("session holds %+v", ps)
	}
}

// TestNamesOutliveTheirTopics: what was once the name of an id stays so in a session; an
// id without name is looked up again each time.
func TestNamesOutliveTheirTopics(t *testing.T) {
	c := NewCache(Options{})
	orders, later := uuid.UUID{1}, uuid.UUID{2}
	names := map[uuid.UUID]string{orders: "orders"}
	lookUp := func(id uuid.UUID) string { return names[id] }
	seen := func(x *Context) (s []string) {
		for _, p := range x.Partitions(nil, lookUp) {
			s = append(s, p.Name)
		}
		return s
	}
	request := func(version, epoch int32, id int32, ids ...uuid.UUID) *Context {
		r := Request{Version: int16(version), SessionID: id, Epoch: epoch}
		for _, topic := range ids {
			r.Partitions = append(r.Partitions, Partition{Key: Key{TopicID: topic}})
		}
		return c.NewContext(epochStart, r)
	}
	check := func(step string, x *Context, want ...string) {
		if got := seen(x); !slices.Equal(got, want) {
			t.Errorf("%s: names %q, want %q", step, got, want)
		}
	}
	x := request(13, 0, 0, orders, later)
	check("full", x, "orders", "")
	id, _ := x.UpdateAndFilter(epochStart, answersTo(x))
	names = map[uuid.UUID]string{later: "later"}
	check("one is deleted, one made", request(13, 1, id), "orders", "later")
	names = nil
	check("asked for again", request(13, 2, id, orders), "orders", "later")
	check("both without session", request(13, -1, 0, orders, later), "", "")
	check("names are no ids", request(12, -1, 0, orders), "")
}

func TestConcurrentSessions(t *testing.T) {
	c := NewCache(Options{Slots: 4})
	var clients sync.WaitGroup
	for i := range int32(8) {
		clients.Go(func() { fetchLoop(t, c, i) })
	}
	clients.Wait()
	total := 0
	for _, s := range c.sessions {
		total += s.parts.len()
	}
	if c.Sessions() > 4 || c.Partitions() != total || c.lastUsed.Len() != c.Sessions() {
		t.Errorf("%d sessions in %d slots, %d of %d partitions counted", c.Sessions(), c.slots, c.Partitions(), total)
	}
}

// fetchLoop is a client that opens sessions of growing size and uses each some times.
func fetchLoop(t *testing.T, c *Cache, client int32) {
	now := epochStart
	for round := range int32(100) {
		now = now.Add(time.Minute)
		r := Request{Version: 13, Follower: client%3 == 0, Partitions: []Partition{part(client), part(round)}}
		x := c.NewContext(now, r)
		id, _ := x.UpdateAndFilter(now, answersTo(x))
		for epoch := int32(1); epoch < 4 && id != 0; epoch++ {
			now = now.Add(time.Minute)
			r := Request{Version: 13, SessionID: id, Epoch: epoch, Partitions: []Partition{part(100 + epoch)}}
			if x = c.NewContext(now, r); x.Err() != nil {
				break // evicted by another client
			}
			if _, err := x.UpdateAndFilter(now, answersTo(x)); err != nil {
				t.Errorf("client %d: %v", client, err)
			}
		}
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := NewCache(Options{Slots: 1, Registerer: reg})
	openSession(t, c, part(0), part(1))
	x := c.NewContext(epochStart, Request{Version: 13, Partitions: []Partition{part(0)}})
	if id, _ := x.UpdateAndFilter(epochStart, answersTo(x)); id != 0 {
		t.Errorf("session %d beyond the last slot", id)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, f := range families {
		m := f.GetMetric()[0]
		got += fmt.Sprintln(f.GetName(), m.GetGauge().GetValue()+m.GetCounter().GetValue())
	}
	const want = `kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total 0
kafka_server_fetchsessioncache_numincrementalfetchpartitionscached 2
kafka_server_fetchsessioncache_numincrementalfetchsessions 1
klamm_fetch_session_refused_total 1
`
	if got != want {
		t.Errorf("metrics:\n%swant:\n%s", got, want)
	}
}

// TestSteadyIncrementalFetchAllocations is the budget of a consumer's steady state: the
// Context alone.
func TestSteadyIncrementalFetchAllocations(t *testing.T) {
	c := NewCache(Options{})
	id := openSession(t, c, part(0), part(1))
	changed := []Partition{part(1)}
	answers := []Answer{{Key: part(0).Key}, {Key: part(1).Key, RecordsBytes: 10}}
	var wanted []Partition
	epoch := int32(1)
	avg := testing.AllocsPerRun(100, func() {
		x := c.NewContext(epochStart, Request{Version: 13, SessionID: id, Epoch: epoch, Partitions: changed})
		wanted = x.Partitions(wanted[:0], nil)
		if _, err := x.UpdateAndFilter(epochStart, answers); err != nil {
			t.Fatal(err)
		}
		epoch = nextEpoch(epoch)
	})
	if avg > 1 {
		t.Errorf("%v allocations, want 1", avg)
	}
}

// TestFollowerThatKnowsLessIsToldAgain: it takes no high watermark from an answer that has
// it truncate. Without this it would fetch in a loop, and never learn.
func TestFollowerThatKnowsLessIsToldAgain(t *testing.T) {
	c := NewCache(Options{})
	want := part(0)
	want.HighWatermark = 84
	x := c.NewContext(epochStart, Request{Version: 18, Follower: true, Partitions: []Partition{want}})
	answers := []Answer{{Key: want.Key, HighWatermark: 86, Diverging: true}}
	id, err := x.UpdateAndFilter(epochStart, answers)
	if err != nil {
		t.Fatal(err)
	}
	for i, follower := range []struct {
		known    int64
		included bool
	}{{84, true}, {86, false}} {
		want.HighWatermark = follower.known
		x = c.NewContext(epochStart, Request{Version: 18, SessionID: id, Epoch: int32(i + 1), Follower: true, Partitions: []Partition{want}})
		answers = []Answer{{Key: want.Key, HighWatermark: 86}}
		if _, err := x.UpdateAndFilter(epochStart, answers); err != nil || answers[0].Include != follower.included {
			t.Errorf("a follower that knows %d of 86 is told: %v (%v)", follower.known, answers[0].Include, err)
		}
	}
}
