package quota

import (
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxSeries bounds the users and clients of each kind that have metrics: those whose
	// meter was used last.
	maxSeries = 1000
	// maxName is the longest client id that becomes a label. It may have 32 KiB, also of
	// bytes that are no text.
	maxName = 256
)

// Collector gives the meters as metrics, under the names that Kafka's usual Prometheus
// exporter gives them. A label that does not apply is empty, which Prometheus takes for not
// there.
type Collector struct {
	quotas *Quotas
	descs  map[string]*prometheus.Desc
}

// NewCollector makes a Collector; the caller registers it.
func NewCollector(q *Quotas) *Collector {
	c := &Collector{quotas: q, descs: map[string]*prometheus.Desc{}}
	for _, m := range []struct{ name, help string }{
		{"byte_rate", "Bytes per second that a user or client with a quota has produced or fetched."},
		{"request_time", "Percent of a thread that the requests of a user or client with a quota have taken."},
		{"mutation_rate", "Partitions per second that a user or client with a quota has made and deleted."},
		{"tokens", "Partitions that a user or client with a quota may make or delete now; below 0 none until it is not."},
		{"throttle_time", "Average pause in ms that a user or client was told in the last minute."},
	} {
		c.descs[m.name] = prometheus.NewDesc("kafka_server_quota_"+m.name, m.help, []string{"resource", "user", "clientId"}, nil)
	}
	for _, m := range []struct {
		name, help string
		labels     []string
	}{
		{"broker_connection_accept_rate", "Connections per second on listeners that are not exempt.", nil},
		{"connection_accept_rate", "Connections per second on a listener, or from an address with a quota.", []string{"listener", "ip"}},
		{"connection_accept_throttle_time", "Average wait in ms of a listener for the creation rate, in the last minute.", []string{"listener"}},
		{"ip_connection_accept_throttle_time", "Average time in ms after which connections were closed because of the quota of their address, in the last minute.", []string{"listener"}},
	} {
		c.descs[m.name] = prometheus.NewDesc("kafka_server_socket_server_metrics_"+m.name, m.help, m.labels, nil)
	}
	c.descs["left_out"] = prometheus.NewDesc("klamm_quota_meters_left_out", "Users and clients with a quota, or addresses, without metrics of their own, because there are too many or their name is no text.", []string{"resource"}, nil)
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	var said []prometheus.Metric // sent when the meters are not locked: requests wait for them
	say := func(name string, value float64, labels ...string) {
		said = append(said, prometheus.MustNewConstMetric(c.descs[name], prometheus.GaugeValue, value, labels...))
	}
	now := time.Now()
	for i, resource := range [...]string{"Produce", "Fetch", "Request", "ControllerMutation"} {
		c.quotas.managers()[i].collect(now, resource, say)
	}
	c.quotas.Connections.collect(now, say)
	for _, m := range said {
		out <- m
	}
}

func (m *Manager) collect(now time.Time, resource string, say func(name string, value float64, labels ...string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.clock.at(now)
	m.meters.expire(at)
	shown, left := 0, 0
	for meter := range m.meters.all() {
		if shown == maxSeries || !showable(meter.id.user) || !showable(meter.id.clientID) {
			left++
			continue
		}
		shown++
		labels := []string{resource, meter.id.user, meter.id.clientID}
		perSecond, _ := meter.rate.measure(m.window, at)
		switch m.key {
		case RequestPercentage:
			say("request_time", perSecond, labels...)
		case ControllerMutationRate:
			meter.bucket.fill(m.window, meter.limit, at)
			say("mutation_rate", perSecond, labels...)
			say("tokens", meter.bucket.tokens, labels...)
		default:
			say("byte_rate", perSecond, labels...)
		}
		say("throttle_time", meter.pauses.measure(at), labels...)
	}
	say("left_out", float64(left), resource)
}

func (c *Connections) collect(now time.Time, say func(name string, value float64, labels ...string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.clock.at(now)
	perSecond, _ := c.broker.rate.measure(c.window, at)
	say("broker_connection_accept_rate", perSecond)
	for name, l := range c.listeners {
		perSecond, _ := l.rate.measure(c.window, at)
		say("connection_accept_rate", perSecond, name, "")
		say("connection_accept_throttle_time", l.waits.measure(at), name)
		say("ip_connection_accept_throttle_time", l.refused.measure(at), name)
	}
	c.meters.expire(at)
	shown, left := 0, 0
	for meter := range c.meters.all() {
		if shown == maxSeries || !showable(meter.id) {
			left++
			continue
		}
		shown++
		perSecond, _ := meter.rate.measure(c.window, at)
		say("connection_accept_rate", perSecond, "", meter.id)
	}
	say("left_out", float64(left), "Connection")
}

func showable(name string) bool { return len(name) <= maxName && utf8.ValidString(name) }
