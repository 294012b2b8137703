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
	return &metrics{
		sent:      counter(reg, "klamm_peer_requests_total", "Requests sent to other nodes."),
		failed:    counter(reg, "klamm_peer_requests_failed_total", "Requests to other nodes that were not answered."),
		connected: counter(reg, "klamm_peer_connections_opened_total", "Connections opened to other nodes for requests."),
	}
}

type suspectMetrics struct{ suspected, awaited prometheus.Counter }

func newSuspectMetrics(reg prometheus.Registerer) suspectMetrics {
	return suspectMetrics{
		suspected: counter(reg, "klamm_peer_suspected_total", "Brokers in service that seemed to have died, since a connection with them had ended."),
		awaited:   counter(reg, "klamm_peer_suspects_awaited_total", "Requests that waited until it was known what had become of such a broker."),
	}
}

func counter(reg prometheus.Registerer, name, help string) prometheus.Counter {
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
