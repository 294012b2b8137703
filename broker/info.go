package broker

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// registerInfo makes the metrics whose value is in a label: what runs here, and what an
// acknowledgement means in this cluster.
func (b *Broker) registerInfo(durability metadata.Durability) {
	info := func(name, help string, labels prometheus.Labels) {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
		g.Set(1)
		b.env.Registry.MustRegister(g)
	}
	info("klamm_build_info", "The release, as labels.", prometheus.Labels{
		"version": Version, "kafka_version": KafkaVersion, "go_version": runtime.Version(),
	})
	info("klamm_durability_info", "The cluster's durability, as a label: what an acknowledgement of acks=all survives.",
		prometheus.Labels{"durability": durability.String()})
}
