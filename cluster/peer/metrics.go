package peer

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	sent, failed, connected prometheus.Counter
}

// newMetrics gives the counters of a registry, which all clients share.
func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		if reg == nil {
			return c
		}
		var taken prometheus.AlreadyRegisteredError
		if err := reg.Register(c); errors.As(err, &taken) {
			return taken.ExistingCollector.(prometheus.Counter)
		}
		return c
	}
	return &metrics{
		sent:      counter("klamm_peer_requests_total", "Requests sent to other nodes."),
		failed:    counter("klamm_peer_requests_failed_total", "Requests to other nodes that were not answered."),
		connected: counter("klamm_peer_connections_opened_total", "Connections opened to other nodes for requests."),
	}
}
