package quota

import (
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// Connections measures how fast connections come: to the broker, to each of its listeners,
// and from each address (Kafka's ConnectionQuotas). Safe for concurrent use.
//
// Where they come too fast to the broker or a listener, the listener waits before it serves
// the next one; one that an address may not have now is not served, and closed after the
// pause. No pause is longer than a window.
type Connections struct {
	window window
	clock  clock

	mu        sync.Mutex
	broker    gauge
	listeners map[string]*listenerGauge
	perIP     map[string]float64 // limits, by address as hostOf writes it
	anyIP     float64            // of any other
	meters    meters[string]
}

// gauge is a rate with its limit, +Inf for none.
type gauge struct {
	rate  rate
	limit float64
}

type listenerGauge struct {
	gauge
	waits   average // of the listener, in ms
	refused average // pauses of addresses on it, in ms
}

func newConnections(w window, c clock) *Connections {
	none := math.Inf(1)
	return &Connections{
		window: w, clock: c, broker: gauge{limit: none}, anyIP: none,
		listeners: map[string]*listenerGauge{}, perIP: map[string]float64{},
	}
}

// SetLimits takes limits in a second for the broker and for listeners by name, +Inf for none.
func (c *Connections) SetLimits(broker float64, listeners map[string]float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broker.limit = broker
	for name, limit := range listeners {
		c.listener(name).limit = limit
	}
}

// set makes the quota of an address what metadata says.
func (c *Connections) set(ip metadata.QuotaName, quotas map[string]float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit, ok := quotas[string(ConnectionCreationRate)]
	switch {
	case ip.Kind == metadata.QuotaDefault && ok:
		c.anyIP = limit
	case ip.Kind == metadata.QuotaDefault:
		c.anyIP = math.Inf(1)
	case ok:
		c.perIP[hostOf(ip.Name)] = limit
	default:
		delete(c.perIP, hostOf(ip.Name))
	}
}

// hostOf is one way to write each address.
func hostOf(text string) string {
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.Unmap().String()
	}
	return text
}

// Arrive counts a connection to a listener, and to the broker unless the listener is exempt
// from that. It gives the time for which the listener has to wait before it serves it.
func (c *Connections) Arrive(now time.Time, listener string, exempt bool) (wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.clock.at(now)
	if !exempt {
		wait = c.record(&c.broker, 1, at)
	}
	l := c.listener(listener)
	if wait = max(wait, c.record(&l.gauge, 1, at)); wait > 0 {
		l.waits.record(float64(wait.Milliseconds()), at)
	}
	return wait
}

// Admit counts a connection against its address, when nothing else is in its way. If it gives
// a time, the connection is not served but closed after it, and counts nowhere.
func (c *Connections) Admit(now time.Time, listener, ip string, exempt bool) (refuse time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	host := hostOf(ip)
	limit, ok := c.perIP[host]
	if !ok {
		limit = c.anyIP
	}
	if math.IsInf(limit, 1) {
		return 0
	}
	at := c.clock.at(now)
	m := c.meters.get(host, at)
	m.limit = limit
	m.rate.record(c.window, 1, at)
	refuse = min(m.rate.pause(c.window, limit, at), c.window.length)
	if refuse <= 0 {
		return 0
	}
	m.rate.record(c.window, -1, at)
	if !exempt {
		c.broker.rate.record(c.window, -1, at)
	}
	l := c.listener(listener)
	l.rate.record(c.window, -1, at)
	l.refused.record(float64(refuse.Milliseconds()), at)
	return refuse
}

func (c *Connections) record(g *gauge, n float64, at moment) time.Duration {
	g.rate.record(c.window, n, at)
	return min(g.rate.pause(c.window, g.limit, at), c.window.length)
}

func (c *Connections) listener(name string) *listenerGauge {
	l := c.listeners[name]
	if l == nil {
		l = &listenerGauge{gauge: gauge{limit: math.Inf(1)}}
		c.listeners[name] = l
	}
	return l
}
