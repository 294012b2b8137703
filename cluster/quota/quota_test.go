package quota

import (
	"math"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// imageOf has quotas of one key.
func imageOf(t testing.TB, key Key, limits map[metadata.QuotaEntity]float64) *metadata.Image {
	t.Helper()
	d := metadata.NewDelta(nil)
	for e, limit := range limits {
		if err := d.Replay(metadata.QuotaRecord{Entity: e, Key: string(key), Value: &limit}); err != nil {
			t.Fatal(err)
		}
	}
	return d.Image(metadata.Position{Index: 1})
}

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
	limits := map[metadata.QuotaEntity]float64{{User: metadata.QuotaFor("other")}: 99}
	for i := len(order) - 1; i >= 0; i-- {
		limits[order[i].entity] = float64(i)
		limit, id, found := find(imageOf(t, ProducerByteRate, limits), ProducerByteRate, Client{"u", "c"})
		if !found || limit != float64(i) || id != order[i].id {
			t.Errorf("%v: %v %+v %v", order[i].entity, limit, id, found)
		}
	}
	image := imageOf(t, ProducerByteRate, limits)
	if _, _, found := find(image, ConsumerByteRate, Client{"u", "c"}); found {
		t.Error("a quota of another key counts")
	}
	if _, _, found := find(imageOf(t, ProducerByteRate, map[metadata.QuotaEntity]float64{{User: user}: 1}), ProducerByteRate, Client{"x", "c"}); found {
		t.Error("a quota of another user counts")
	}
}

// The numbers are those of Kafka's Rate, with 11 samples of a second.
func TestRate(t *testing.T) {
	w := window{11, time.Second}
	start := time.Unix(1000, 0)
	var r rate
	for i, step := range []struct {
		at    time.Duration
		value float64
		rate  float64
		over  time.Duration
		pause time.Duration // with a limit of 100 in a second
	}{
		{0, 500, 50, 10 * time.Second, 0},
		{500 * time.Millisecond, 1000, 1500 / 10.5, 10500 * time.Millisecond, 4500 * time.Millisecond},
		{1500 * time.Millisecond, 0, 1500 / 10.5, 10500 * time.Millisecond, 4500 * time.Millisecond},
		{10 * time.Second, 0, 150, 10 * time.Second, 5 * time.Second},
		// The first sample was used last at 0.5 s, and counts until 11.5 s.
		{11400 * time.Millisecond, 0, 1500 / 11.4, 11400 * time.Millisecond, 3600 * time.Millisecond},
		{11500 * time.Millisecond, 0, 0, 10 * time.Second, 0},
	} {
		now := start.Add(step.at)
		r.record(w, step.value, now)
		got, over := r.measure(w, now)
		if math.Abs(got-step.rate) > 1e-6 || over != step.over {
			t.Errorf("step %d: %v in a second over %v, want %v", i, got, over, step.rate)
		}
		if pause := r.pause(w, 100, now); pause != step.pause {
			t.Errorf("step %d: pause %v, want %v", i, pause, step.pause)
		}
	}
}

// A client that pauses as long as it is told is within its quota afterwards, whatever it does.
func TestPauseBringsTheRateDown(t *testing.T) {
	user := map[metadata.QuotaEntity]float64{{User: metadata.QuotaForDefault()}: 1000}
	image := imageOf(t, ProducerByteRate, user)
	m, now, sent := New(Options{Key: ProducerByteRate}), time.Unix(1000, 0), 0.0
	begin := now
	for range 200 {
		sent += 700
		now = now.Add(100*time.Millisecond + m.Record(now, image, Client{User: "u"}, 700))
	}
	if perSecond := sent / now.Sub(begin).Seconds(); perSecond > 1200 || perSecond < 900 {
		t.Errorf("%v bytes in a second with a quota of 1000", perSecond)
	}
}

func TestBucket(t *testing.T) {
	w, start := window{10, time.Second}, time.Unix(1000, 0)
	var b bucket // of 5 in a second, so at most 50
	for i, step := range []struct {
		at    time.Duration
		n     float64
		pause time.Duration
		left  float64
	}{
		{0, 20, 0, 30},
		{time.Second, 95, 0, -60}, // more than there is, at once
		{time.Second, 1, 12 * time.Second, -60},
		{11 * time.Second, 1, 2 * time.Second, -10},
		{13 * time.Second, 1, 0, -1},
		{time.Minute, 1, 0, 49},
		{time.Minute, -100, 0, 50},
	} {
		pause := b.take(w, 5, step.n, start.Add(step.at))
		if pause != step.pause || b.tokens != step.left {
			t.Errorf("step %d: pause %v, %v left", i, pause, b.tokens)
		}
	}
}

func TestManager(t *testing.T) {
	image := imageOf(t, RequestPercentage, map[metadata.QuotaEntity]float64{{ClientID: metadata.QuotaForDefault()}: 10})
	m, now := New(Options{Key: RequestPercentage, MaxPause: time.Second, MaxMeters: 2}), time.Unix(1000, 0)
	a, b, c := Client{ClientID: "a"}, Client{ClientID: "b"}, Client{User: "somebody", ClientID: "c"}
	if pause := m.Record(now, image, a, 1000); pause != time.Second {
		t.Errorf("a far above its quota pauses for %v", pause)
	}
	if pause := m.Record(now, image, b, 50); pause != 0 {
		t.Errorf("b, which did little, pauses for %v", pause)
	}
	m.Unrecord(now, image, a, 1000)
	if pause := m.Record(now, image, a, 50); pause != 0 {
		t.Errorf("a, whose use was taken back, pauses for %v", pause)
	}
	m.Record(now, image, c, 1) // b was used least recently
	if len(m.meters) != 2 || m.byUse.Len() != 2 || m.meters[meterID{clientID: "b", byClient: true}] != nil {
		t.Errorf("meters %v", m.meters)
	}
	m.Record(now.Add(idleMeter), image, c, 1)
	if len(m.meters) != 1 {
		t.Errorf("meters that nobody uses: %v", m.meters)
	}
	if most, found := m.MostAtOnce(image, a); !found || most != 100 {
		t.Errorf("at once %v %v", most, found)
	}
	none := imageOf(t, RequestPercentage, nil)
	if pause := m.Record(now, none, a, 1e9); pause != 0 || m.Take(now, none, a, 1e9) != 0 {
		t.Error("a client without quota pauses")
	}
	if _, found := m.MostAtOnce(none, a); found {
		t.Error("a client without quota has a bound")
	}
}

func TestTake(t *testing.T) {
	image := imageOf(t, ControllerMutationRate, map[metadata.QuotaEntity]float64{{User: metadata.QuotaFor("u")}: 2})
	m, now := New(Options{Key: ControllerMutationRate}), time.Unix(1000, 0)
	if pause := m.Take(now, image, Client{"u", "a"}, 30); pause != 0 {
		t.Errorf("first: %v", pause)
	}
	// Whatever its clients are called, it is the same user.
	if pause := m.Take(now, image, Client{"u", "b"}, 1); pause != 4*time.Second {
		t.Errorf("eight too many at two in a second: %v", pause)
	}
	if pause := m.Take(now, image, Client{"v", "b"}, 1); pause != 0 {
		t.Errorf("another user: %v", pause)
	}
}
