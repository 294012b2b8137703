package wire

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// errTooManyFromIP refuses a connection above its address's limit.
var errTooManyFromIP = errors.New("too many connections from this address")

// tooFast refuses a connection of an address that opens them too fast. It is closed later, so
// that its client does not try again at once.
type tooFast struct{ closeAfter time.Duration }

func (*tooFast) Error() string { return "this address opens connections too fast" }

// ConnectionRates decides how fast connections may come. A listener that is exempt does not
// count for what holds for the whole broker.
type ConnectionRates interface {
	// Arrive counts a connection and gives the time for which its listener is to wait before
	// it serves it.
	Arrive(now time.Time, listener string, exempt bool) (wait time.Duration)
	// Admit counts it against its address, when nothing else is in its way. If it gives a
	// time, the connection is not served but closed after it.
	Admit(now time.Time, listener, ip string, exempt bool) (refuse time.Duration)
}

// anyRate has no limits.
type anyRate struct{}

func (anyRate) Arrive(time.Time, string, bool) time.Duration        { return 0 }
func (anyRate) Admit(time.Time, string, string, bool) time.Duration { return 0 }

// admission counts connections against max.connections and max.connections.per.ip, and asks
// how fast they may come (Kafka's ConnectionQuotas).
type admission struct {
	rates ConnectionRates // may be asked under mu

	mu        sync.Mutex
	limits    Limits
	total     int
	byIP      map[string]int
	listeners map[string]*listenerQuota
	freed     chan struct{} // closed and renewed when a connection ends
}

// listenerQuota is what one listener has used of its own limits.
type listenerQuota struct {
	info  ListenerInfo
	count int
}

func newAdmission(l Limits, rates ConnectionRates) *admission {
	if rates == nil {
		rates = anyRate{}
	}
	return &admission{
		rates: rates, limits: l,
		byIP: map[string]int{}, listeners: map[string]*listenerQuota{}, freed: make(chan struct{}),
	}
}

// setLimits takes other limits for connections. Those that are there stay, as in Kafka:
// only the next ones meet them.
func (a *admission) setLimits(l Limits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limits = l
	close(a.freed) // whoever waits looks again
	a.freed = make(chan struct{})
}

// addListener must precede the first enter on it.
func (a *admission) addListener(info ListenerInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listeners[info.Name] == nil { // one name may have several addresses
		a.listeners[info.Name] = &listenerQuota{info: info}
	}
}

// enter waits until a connection from ip may be served on the listener. evict says that
// room must be made for it: it is on the inter-broker listener, which does not wait for
// the broker-wide bound. The caller calls leave when the connection has ended; waiting
// is called if it has to wait.
func (a *admission) enter(ctx context.Context, listener, ip string, waiting func()) (evict bool, err error) {
	if err := a.awaitRate(ctx, listener, waiting); err != nil {
		return false, err
	}
	for ; ; waiting() {
		a.mu.Lock()
		if a.hasRoom(listener) {
			defer a.mu.Unlock()
			return a.take(listener, ip)
		}
		freed := a.freed
		a.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// awaitRate waits, whatever becomes of the limits meanwhile.
func (a *admission) awaitRate(ctx context.Context, listener string, waiting func()) error {
	a.mu.Lock()
	exempt := a.protected(listener)
	a.mu.Unlock()
	wait := a.rates.Arrive(time.Now(), listener, exempt)
	if wait <= 0 {
		return nil
	}
	waiting()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *admission) hasRoom(listener string) bool {
	if own := a.limits.PerListener[listener]; own > 0 && a.listeners[listener].count >= own {
		return false
	}
	return a.limits.MaxConnections <= 0 || a.total < a.limits.MaxConnections || a.protected(listener)
}

func (a *admission) take(listener, ip string) (evict bool, err error) {
	if after := a.rates.Admit(time.Now(), listener, ip, a.protected(listener)); after > 0 {
		return false, &tooFast{after}
	}
	if limit := a.limitOf(ip); limit >= 0 && a.byIP[ip] >= limit {
		return false, errTooManyFromIP
	}
	a.byIP[ip]++
	a.total++
	a.listeners[listener].count++
	return a.limits.MaxConnections > 0 && a.total > a.limits.MaxConnections, nil
}

// limitOf is how many connections an address may have, negative for any number.
func (a *admission) limitOf(ip string) int {
	if own, ok := a.limits.PerIP[ip]; ok {
		return own
	}
	switch {
	case a.limits.MaxConnectionsPerIP == 0:
		return -1
	case a.limits.MaxConnectionsPerIP < 0:
		return 0
	}
	return a.limits.MaxConnectionsPerIP
}

// protected reports whether the listener is exempt from broker-wide bounds: the
// inter-broker listener, unless clients use the same.
func (a *admission) protected(listener string) bool {
	return a.listeners[listener].info.InterBroker && len(a.listeners) > 1
}

func (a *admission) leave(listener, ip string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byIP[ip]--; a.byIP[ip] == 0 {
		delete(a.byIP, ip)
	}
	a.total--
	a.listeners[listener].count--
	close(a.freed)
	a.freed = make(chan struct{})
}

// ipOf is the host part of an address, the key of the limits per address.
func ipOf(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return host
}
