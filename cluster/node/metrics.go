package node

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	failures prometheus.Counter
	retries  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, n *Node) *metrics {
	m := &metrics{
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "klamm_node_controller_requests_failed_total",
			Help: "Registrations and heartbeats that failed for another reason than that no controller is active.",
		}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "klamm_node_controller_calls_repeated_total",
			Help: "Forwarded requests sent again because no controller was active.",
		}),
	}
	if reg == nil {
		return m
	}
	state := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kafka_server_kafkaserver_brokerstate",
		Help: "Kafka's BrokerState: 1 starting, 2 recovery, 3 running, 6 pending controlled shutdown, 7 shutting down.",
	}, func() float64 { return kafkaBrokerState(n.State()) })
	reg.MustRegister(m.failures, m.retries, state)
	return m
}

// kafkaBrokerState gives the number that Kafka's metric has for a state.
func kafkaBrokerState(s State) float64 {
	return [...]float64{Starting: 1, Fenced: 2, Unfenced: 3, ShuttingDown: 6, Stopped: 7}[s]
}
