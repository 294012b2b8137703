package quota

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// bench is meters whose quotas a test changes as metadata does.
type bench struct {
	t testing.TB
	*Quotas
	image *metadata.Image
	start time.Time
}

func newBench(t testing.TB, key Key, limits map[metadata.QuotaEntity]float64) *bench {
	t.Helper()
	b := &bench{t: t, start: time.Unix(1000, 0), image: metadata.Empty()}
	b.Quotas = New(Options{Epoch: b.start})
	for e, limit := range limits {
		b.set(e, key, &limit)
	}
	return b
}

// set makes one quota, or removes it if limit is nil.
func (b *bench) set(e metadata.QuotaEntity, key Key, limit *float64) {
	b.t.Helper()
	d := metadata.NewDelta(b.image)
	if err := d.Replay(metadata.QuotaRecord{Entity: e, Key: string(key), Value: limit}); err != nil {
		b.t.Fatal(err)
	}
	b.image = d.Image(metadata.Position{Index: b.image.Position().Index + 1})
	b.OnMetadataUpdate(d, b.image)
}

// at is a time of the test.
func (b *bench) at(d time.Duration) time.Time { return b.start.Add(d) }

// The more exact quota counts; it says, too, who is measured together.
func TestPrecedence(t *testing.T) {
	user, client, any := metadata.QuotaFor("u"), metadata.QuotaFor("c"), metadata.QuotaForDefault()
	both := meterID{"u", "c", true, true}
	order := []struct {
		entity metadata.QuotaEntity
		id     meterID
	}{
		{metadata.QuotaEntity{User: user, ClientID: client}, both},
		{metadata.QuotaEntity{User: user, ClientID: any}, both},
		{metadata.QuotaEntity{User: user}, meterID{user: "u", byUser: true}},
		{metadata.QuotaEntity{User: any, ClientID: client}, both},
		{metadata.QuotaEntity{User: any, ClientID: any}, both},
		{metadata.QuotaEntity{User: any}, meterID{user: "u", byUser: true}},
		{metadata.QuotaEntity{ClientID: client}, meterID{clientID: "c", byClient: true}},
		{metadata.QuotaEntity{ClientID: any}, meterID{clientID: "c", byClient: true}},
	}
	l := limits{{User: metadata.QuotaFor("other")}: 99}
	for i := len(order) - 1; i >= 0; i-- {
		l[order[i].entity] = float64(i)
		limit, id, found := l.find(Client{"u", "c"})
		if !found || limit != float64(i) || id != order[i].id {
			t.Errorf("%v: %v %+v %v", order[i].entity, limit, id, found)
		}
	}
	if _, _, found := (limits{{User: user}: 1}).find(Client{"x", "c"}); found {
		t.Error("a quota of another user counts")
	}
}

// Kafka writes a client without an id as one whose name is empty, and takes that for none.
func TestClientWithoutID(t *testing.T) {
	user, any := metadata.QuotaFor("u"), metadata.QuotaForDefault()
	for _, c := range []struct {
		limits limits
		want   float64 // 0: none
	}{
		{limits{{ClientID: any}: 1}, 0},
		{limits{{User: user, ClientID: any}: 1}, 0},
		{limits{{User: any, ClientID: any}: 1}, 0},
		{limits{{User: user, ClientID: any}: 1, {User: user}: 2}, 2},
		{limits{{User: any, ClientID: any}: 1, {User: any}: 3, {ClientID: any}: 4}, 3},
	} {
		limit, id, found := c.limits.find(Client{User: "u"})
		if limit != c.want || found != (c.want > 0) || found && id != (meterID{user: "u", byUser: true}) {
			t.Errorf("%v: %v %+v %v, want %v", c.limits, limit, id, found, c.want)
		}
	}
}

// The numbers are those of Kafka's Rate, with 11 samples of a second.
func TestRate(t *testing.T) {
	w := window{11, time.Second}
	var r rate
	for i, step := range []struct {
		at    moment
		value float64
		rate  float64
		over  time.Duration
		pause time.Duration // with a limit of 100 in a second
	}{
		{0, 500, 50, 10 * time.Second, 0},
		{500, 1000, 1500 / 10.5, 10500 * time.Millisecond, 4500 * time.Millisecond},
		{1500, 0, 1500 / 10.5, 10500 * time.Millisecond, 4500 * time.Millisecond},
		{10_000, 0, 150, 10 * time.Second, 5 * time.Second},
		// The first sample was used last at 0.5 s, and counts until 11.5 s.
		{11_400, 0, 1500 / 11.4, 11400 * time.Millisecond, 3600 * time.Millisecond},
		{11_500, 0, 0, 10 * time.Second, 0},
	} {
		r.record(w, step.value, step.at+1)
		got, over := r.measure(w, step.at+1)
		if math.Abs(got-step.rate) > 1e-6 || over != step.over {
			t.Errorf("step %d: %v in a second over %v, want %v", i, got, over, step.rate)
		}
		if pause := r.pause(w, 100, step.at+1); pause != step.pause {
			t.Errorf("step %d: pause %v, want %v", i, pause, step.pause)
		}
	}
}

func TestBucket(t *testing.T) {
	w := window{10, time.Second}
	var b bucket // of 5 in a second, so at most 50
	for i, step := range []struct {
		at    moment
		n     float64
		force bool
		pause time.Duration
		left  float64
	}{
		{0, 20, false, 0, 30},
		{1000, 95, false, 0, -60}, // more than there is, at once
		{1000, 1, false, 12 * time.Second, -60},
		{11_000, 1, false, 2 * time.Second, -10},
		{11_000, 5, true, 3 * time.Second, -15},
		{14_000, 1, false, 0, -1},
		{60_000, 1, false, 0, 49},
		{60_000, -100, false, 0, 50},
		{60_000, 50, true, 0, 0},
	} {
		do := b.take
		if step.force {
			do = b.force
		}
		pause := do(w, 5, step.n, step.at+1)
		if pause != step.pause || b.tokens != step.left {
			t.Errorf("step %d: pause %v, %v left", i, pause, b.tokens)
		}
	}
}

func TestAverage(t *testing.T) {
	var a average
	for i, step := range []struct {
		at, value moment // value 0: only measured
		want      float64
	}{
		{0, 0, 0}, {0, 10, 10}, {29_000, 20, 15}, {31_000, 60, 30}, {59_000, 0, 30}, {61_500, 0, 60}, {91_500, 0, 0}, {92_000, 7, 7},
	} {
		if step.value > 0 {
			a.record(float64(step.value), step.at+1)
		}
		if got := a.measure(step.at + 1); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}

// A client that pauses as long as it is told is within its quota afterwards, whatever it does.
func TestPauseBringsTheRateDown(t *testing.T) {
	b := newBench(t, ProducerByteRate, map[metadata.QuotaEntity]float64{{User: metadata.QuotaForDefault()}: 1000})
	now, sent := b.start, 0.0
	for range 200 {
		sent += 700
		now = now.Add(100*time.Millisecond + b.Produce.Record(now, Client{User: "u"}, 700))
	}
	if perSecond := sent / now.Sub(b.start).Seconds(); perSecond > 1200 || perSecond < 900 {
		t.Errorf("%v bytes in a second with a quota of 1000", perSecond)
	}
}

func TestManager(t *testing.T) {
	everybody := metadata.QuotaEntity{ClientID: metadata.QuotaForDefault()}
	b := newBench(t, RequestPercentage, map[metadata.QuotaEntity]float64{everybody: 10})
	m, now := b.Request, b.start
	if !m.Enabled() || b.Produce.Enabled() {
		t.Error("enabled is what has no quota, or not what has one")
	}
	one, two := Client{ClientID: "a"}, Client{ClientID: "b"}
	if pause := m.Record(now, one, 1000); pause != time.Second {
		t.Errorf("a, far above its quota, pauses for %v", pause)
	}
	if pause := m.Record(now, two, 50); pause != 0 {
		t.Errorf("b, which did little, pauses for %v", pause)
	}
	m.Note(now, one, -1000)
	if pause := m.Record(now, one, 50); pause != 0 {
		t.Errorf("a, whose use was taken back, pauses for %v", pause)
	}
	m.Note(now, two, 100) // counts for what comes
	if pause := m.Record(now, two, 1); pause != time.Second {
		t.Errorf("b pauses for %v", pause)
	}
	if most, found := m.MostAtOnce(one); !found || most != 100 {
		t.Errorf("at once %v %v", most, found)
	}
	b.set(everybody, RequestPercentage, metadata.Ptr(1000.0))
	if pause := m.Record(now, two, 1); pause != 0 {
		t.Errorf("b, whose quota was raised, pauses for %v", pause)
	}
	b.set(everybody, RequestPercentage, nil)
	if pause := m.Record(now, one, 1e9); pause != 0 || m.Take(now, one, 1e9) != 0 || m.Enabled() {
		t.Error("a client without quota pauses")
	}
	if _, found := m.MostAtOnce(one); found {
		t.Error("a client without quota has a bound")
	}
}

// Client ids are clients' choice: the meters are bounded, and forgotten after an hour.
func TestMetersAreBounded(t *testing.T) {
	b := newBench(t, ProducerByteRate, map[metadata.QuotaEntity]float64{{ClientID: metadata.QuotaForDefault()}: 1000})
	for i := range maxMeters + 10 {
		b.Produce.Record(b.at(time.Duration(i)*time.Millisecond), Client{ClientID: fmt.Sprint(i)}, 1)
	}
	if n := len(b.Produce.meters.byID); n != maxMeters || b.Produce.meters.byUse.Len() != n {
		t.Errorf("%d meters", n)
	}
	b.Produce.Record(b.at(idleMeter+20*time.Second), Client{ClientID: "late"}, 1)
	if n := len(b.Produce.meters.byID); n != 1 {
		t.Errorf("%d meters after an hour", n)
	}
}

// Many client ids of the greatest length do not stay in memory, and are still told apart.
func TestMetersKeepNoLongNames(t *testing.T) {
	b := newBench(t, ProducerByteRate, map[metadata.QuotaEntity]float64{{ClientID: metadata.QuotaForDefault()}: 1000})
	long := strings.Repeat("x", 32<<10)
	for _, id := range []string{long + "a", long + "b", long + "b"} {
		b.Produce.Record(b.start, Client{ClientID: id}, 20_000)
	}
	if n := len(b.Produce.meters.byID); n != 2 {
		t.Errorf("%d meters", n)
	}
	for id := range b.Produce.meters.byID {
		if len(id.clientID) > maxName || showable(id.clientID) {
			t.Errorf("a meter keeps %d bytes that may be shown: %v", len(id.clientID), showable(id.clientID))
		}
	}
	if a, other := b.Produce.Record(b.start, Client{ClientID: long + "a"}, 0), b.Produce.Record(b.start, Client{ClientID: long + "b"}, 0); a != 10*time.Second || other != 30*time.Second {
		t.Errorf("pauses %v and %v", a, other)
	}
}

// A bucket below zero refuses, be it for less than a millisecond: what passes is counted.
func TestBucketBelowZeroRefuses(t *testing.T) {
	b := newBench(t, ControllerMutationRate, map[metadata.QuotaEntity]float64{{User: metadata.QuotaFor("u")}: 1000})
	m, u := b.Mutations, Client{User: "u"}
	m.Take(b.start, u, 11_000.3)
	if pause := m.Take(b.start, u, 1_000_000); pause != time.Millisecond {
		t.Errorf("below zero: %v", pause)
	}
	if pause := m.Take(b.at(time.Millisecond), u, 1_000_000); pause != 0 {
		t.Errorf("not below zero: %v", pause)
	}
	if pause := m.Take(b.at(time.Millisecond), u, 1); pause < 999*time.Second {
		t.Errorf("after a million: %v", pause)
	}
}

func TestMutations(t *testing.T) {
	b := newBench(t, ControllerMutationRate, map[metadata.QuotaEntity]float64{{User: metadata.QuotaFor("u")}: 2})
	m, now := b.Mutations, b.start
	if pause := m.Take(now, Client{"u", "a"}, 30); pause != 0 {
		t.Errorf("first: %v", pause)
	}
	// Whatever its clients are called, it is the same user.
	if pause := m.Take(now, Client{"u", "b"}, 1); pause != 4*time.Second {
		t.Errorf("eight too many at two in a second: %v", pause)
	}
	if pause := m.Force(now, Client{"u", "b"}, 2); pause != 5*time.Second {
		t.Errorf("two more: %v", pause)
	}
	if pause := m.Take(now, Client{"v", "b"}, 1); pause != 0 {
		t.Errorf("another user: %v", pause)
	}
}

// Kafka's ConnectionQuotas: ten times the limit may come at once, since a rate is of ten
// windows at least; then each waits, at most a window.
func TestConnections(t *testing.T) {
	b := newBench(t, ConnectionCreationRate, nil)
	c := b.Connections
	c.SetLimits(2, map[string]float64{"A": math.Inf(1), "B": 1})
	wait := func(listener string, exempt bool, at time.Duration) time.Duration {
		return c.Arrive(b.at(at), listener, exempt)
	}
	for i := range 20 {
		if d := wait("A", false, 0); d != 0 {
			t.Fatalf("connection %d waits for %v", i, d)
		}
	}
	if d := wait("A", false, 0); d != 500*time.Millisecond {
		t.Errorf("the 21st waits for %v", d)
	}
	if d := wait("A", true, 0); d != 0 {
		t.Errorf("one on an exempt listener waits for %v", d)
	}
	for range 10 {
		wait("B", true, 0)
	}
	if d := wait("B", true, 0); d != time.Second {
		t.Errorf("the 11th of B waits for %v", d)
	}
	for range 50 {
		wait("A", false, 0)
	}
	if d := wait("A", false, 0); d != time.Second {
		t.Errorf("one of very many waits for %v", d)
	}
}

// An address above its own limit is refused, and what is refused counts nowhere.
func TestConnectionsOfAnAddress(t *testing.T) {
	one, any := metadata.QuotaFor("::ffff:10.0.0.1"), metadata.QuotaForDefault()
	b := newBench(t, ConnectionCreationRate, map[metadata.QuotaEntity]float64{{IP: one}: 1, {IP: any}: 2})
	c := b.Connections
	admitted := func(ip string, n int) (admitted int, refused time.Duration) {
		for range n {
			c.Arrive(b.start, "A", false)
			if d := c.Admit(b.start, "A", ip, false); d > 0 {
				refused = d
				continue
			}
			admitted++
		}
		return admitted, refused
	}
	if n, d := admitted("10.0.0.1", 15); n != 10 || d != time.Second {
		t.Errorf("%d were admitted, others refused for %v", n, d)
	}
	if n, d := admitted("10.0.0.2", 25); n != 20 || d != 500*time.Millisecond {
		t.Errorf("of another address %d were admitted, others refused for %v", n, d)
	}
	if n, _ := c.broker.rate.measure(c.window, 1); n != 3 { // 30 in ten seconds
		t.Errorf("%v in a second for the broker", n)
	}
	b.set(metadata.QuotaEntity{IP: one}, ConnectionCreationRate, nil)
	b.set(metadata.QuotaEntity{IP: any}, ConnectionCreationRate, nil)
	if n, _ := admitted("10.0.0.1", 100); n != 100 {
		t.Errorf("%d were admitted without a quota", n)
	}
}

func TestMetrics(t *testing.T) {
	b := newBench(t, ProducerByteRate, nil)
	b.Quotas = New(Options{Epoch: time.Now().Add(-time.Hour)})
	everybody := metadata.QuotaEntity{User: metadata.QuotaForDefault(), ClientID: metadata.QuotaForDefault()}
	for _, key := range []Key{ProducerByteRate, ConsumerByteRate, RequestPercentage, ControllerMutationRate} {
		b.set(everybody, key, metadata.Ptr(10.0))
	}
	c, now := Client{"u", "c"}, time.Now()
	for _, m := range b.managers() {
		m.Record(now, c, 100)
		m.Record(now, Client{"u", "\xff"}, 1)
		m.Paused(now, c, time.Second)
	}
	b.set(metadata.QuotaEntity{IP: metadata.QuotaForDefault()}, ConnectionCreationRate, metadata.Ptr(5.0))
	b.Connections.Arrive(now, "A", false)
	b.Connections.Admit(now, "A", "10.0.0.1", false)
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(b.Quotas))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetValue() != "" {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
			}
			got[fmt.Sprintf("%s{%s} %.0f", f.GetName(), strings.Join(labels, ","), m.GetGauge().GetValue())] = true
		}
	}
	for _, want := range []string{
		"kafka_server_quota_byte_rate{clientId=c,resource=Produce,user=u} 10",
		"kafka_server_quota_byte_rate{clientId=c,resource=Fetch,user=u} 10",
		"kafka_server_quota_request_time{clientId=c,resource=Request,user=u} 10",
		"kafka_server_quota_tokens{clientId=c,resource=ControllerMutation,user=u} 110",
		"kafka_server_quota_throttle_time{clientId=c,resource=Fetch,user=u} 1000",
		"kafka_server_socket_server_metrics_connection_accept_rate{ip=10.0.0.1} 0",
		"kafka_server_socket_server_metrics_connection_accept_rate{listener=A} 0",
		"kafka_server_socket_server_metrics_broker_connection_accept_rate{} 0",
		"klamm_quota_meters_left_out{resource=Produce} 1",
	} {
		if !got[want] {
			t.Errorf("no %s", want)
		}
	}
	if t.Failed() {
		for line := range maps.Keys(got) {
			t.Log(line)
		}
	}
}

// Whoever is slow to take the metrics keeps no request waiting.
func TestMetricsDoNotHoldMeters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, ProducerByteRate, map[metadata.QuotaEntity]float64{{ClientID: metadata.QuotaForDefault()}: 1000})
		b.Produce.Record(b.start, Client{ClientID: "c"}, 1)
		out := make(chan prometheus.Metric)
		go func() {
			defer close(out)
			NewCollector(b.Quotas).Collect(out)
		}()
		<-out
		synctest.Wait()
		if !b.Produce.mu.TryLock() {
			t.Error("the meters are locked")
		} else {
			b.Produce.mu.Unlock()
		}
		for range out {
			continue
		}
	})
}
