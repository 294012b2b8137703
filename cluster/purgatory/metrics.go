package purgatory

import "github.com/prometheus/client_golang/prometheus"

// register makes the metrics. The first two have the names that Kafka's usual Prometheus
// exporter gives to kafka.server:type=DelayedOperationPurgatory; both count each
// operation once, while Kafka's PurgatorySize counts it once per key.
func (p *Purgatory[K]) register(o Options) {
	label := prometheus.Labels{"delayedoperation": o.Name}
	p.refused = prometheus.NewCounter(prometheus.CounterOpts{
		Name:        "klamm_purgatory_refused_total",
		Help:        "Operations answered at once because the purgatory was full or closed.",
		ConstLabels: label,
	})
	p.expired = prometheus.NewCounter(prometheus.CounterOpts{
		Name:        "klamm_purgatory_expired_total",
		Help:        "Operations that reached their deadline.",
		ConstLabels: label,
	})
	if o.Registerer == nil {
		return
	}
	waiting := func() float64 { return float64(p.Len()) }
	for _, name := range []string{"purgatorysize", "numdelayedoperations"} {
		o.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "kafka_server_delayedoperationpurgatory_" + name,
			Help:        "Operations that wait.",
			ConstLabels: label,
		}, waiting))
	}
	o.Registerer.MustRegister(p.refused, p.expired)
}
