package controller

import "github.com/prometheus/client_golang/prometheus"

// metrics are named as Kafka's usual exporter configuration names them where the meaning
// is the same (D13).
type metrics struct {
	active    prometheus.Gauge
	failed    prometheus.Counter
	abandoned prometheus.Counter
	fenced    prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, c *Controller) *metrics {
	m := &metrics{
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kafka_controller_kafkacontroller_activecontrollercount",
			Help: "1 if this node is the active controller.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "klamm_controller_proposals_failed_total",
			Help: "Metadata proposals that failed; what was decided on top of them was decided anew.",
		}),
		abandoned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "klamm_controller_requests_abandoned_total",
			Help: "Requests whose sender stopped waiting, in the queue or for the commit.",
		}),
		fenced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "klamm_controller_sessions_ended_total",
			Help: "Brokers fenced because they were not heard or refused connections.",
		}),
	}
	if reg == nil {
		return m
	}
	queue := func(name string, q chan *request) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "klamm_controller_queue_length",
			Help:        "Requests that wait to be decided; the bound is klamm_controller_queue_limit.",
			ConstLabels: prometheus.Labels{"queue": name},
		}, func() float64 { return float64(len(q)) })
	}
	limit := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "klamm_controller_queue_limit",
		Help: "How many requests may wait in each queue; further ones block their senders.",
	}, func() float64 { return float64(c.opts.QueueLength) })
	reg.MustRegister(m.active, m.failed, m.abandoned, m.fenced, queue("brokers", c.brokers), queue("clients", c.clients), limit)
	return m
}
