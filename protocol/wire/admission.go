package wire

import (
	"context"
	"errors"
	"net"
	"sync"

	"golang.org/x/time/rate"
)

// errTooManyFromIP refuses a connection above its address's limit.
var errTooManyFromIP = errors.New("too many connections from this address")

// admission counts connections against max.connections, max.connections.per.ip and
// max.connection.creation.rate (Kafka's ConnectionQuotas).
type admission struct {
	mu        sync.Mutex
	limits    Limits
	rate      *rate.Limiter // nil: no bound
	total     int
	byIP      map[string]int
	listeners map[string]*listenerQuota
	freed     chan struct{} // closed and renewed when a connection ends
}

// listenerQuota is what one listener has used of its own limits.
type listenerQuota struct {
	info  ListenerInfo
	rate  *rate.Limiter
	count int
}

func newAdmission(l Limits) *admission {
	return &admission{
		limits: l, rate: newRate(l.MaxCreationRate),
		byIP: map[string]int{}, listeners: map[string]*listenerQuota{}, freed: make(chan struct{}),
	}
}

// setLimits takes other limits for connections. Those that are there stay, as in Kafka:
// only the next ones meet them.
func (a *admission) setLimits(l Limits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.MaxCreationRate != a.limits.MaxCreationRate {
		a.rate = newRate(l.MaxCreationRate)
	}
	a.limits = l
	close(a.freed) // whoever waits looks again
	a.freed = make(chan struct{})
}

// newRate allows a burst of one second's connections.
func newRate(perSecond float64) *rate.Limiter {
	if perSecond <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond)))
}

// addListener must precede the first enter on it.
func (a *admission) addListener(info ListenerInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listeners[info.Name] == nil { // one name may have several addresses
		a.listeners[info.Name] = &listenerQuota{info: info, rate: newRate(info.MaxCreationRate)}
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

func (a *admission) awaitRate(ctx context.Context, listener string, waiting func()) error {
	a.mu.Lock()
	own, broker := a.listeners[listener].rate, a.rate
	if a.protected(listener) {
		broker = nil
	}
	a.mu.Unlock()
	for _, limiter := range []*rate.Limiter{broker, own} {
		if limiter == nil || limiter.Allow() {
			continue
		}
		waiting()
		if err := limiter.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (a *admission) hasRoom(listener string) bool {
	l := a.listeners[listener]
	if l.info.MaxConnections > 0 && l.count >= l.info.MaxConnections {
		return false
	}
	return a.limits.MaxConnections <= 0 || a.total < a.limits.MaxConnections || a.protected(listener)
}

func (a *admission) take(listener, ip string) (evict bool, err error) {
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
