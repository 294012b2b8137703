package group

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the counters of all shards of a broker, under the names that Kafka's usual
// Prometheus configuration gives its own (GroupCoordinatorMetrics).
type Metrics struct {
	rebalances, commits, deletions, expirations prometheus.Counter
	pendingDrops                                prometheus.Counter
}

// NewMetrics registers the counters; reg may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		if reg != nil {
			reg.MustRegister(c)
		}
		return c
	}
	return &Metrics{
		rebalances: counter("kafka_server_group_coordinator_metrics_group_completed_rebalance_count",
			"Rebalances of classic groups that were completed."),
		commits: counter("kafka_server_group_coordinator_metrics_offset_commit_count",
			"Offsets that were committed."),
		deletions: counter("kafka_server_group_coordinator_metrics_offset_deletion_count",
			"Offsets that were deleted by administrators."),
		expirations: counter("kafka_server_group_coordinator_metrics_offset_expiration_count",
			"Offsets that expired."),
		pendingDrops: counter("klamm_group_pending_members_dropped_total",
			"Members forgotten before they joined, because too many of their group did not come back."),
	}
}

func (m *Metrics) rebalanced() { m.add(func(m *Metrics) prometheus.Counter { return m.rebalances }, 1) }
func (m *Metrics) committed(n int) {
	m.add(func(m *Metrics) prometheus.Counter { return m.commits }, n)
}
func (m *Metrics) deleted(n int) {
	m.add(func(m *Metrics) prometheus.Counter { return m.deletions }, n)
}
func (m *Metrics) expired(n int) {
	m.add(func(m *Metrics) prometheus.Counter { return m.expirations }, n)
}
func (m *Metrics) pendingDropped() {
	m.add(func(m *Metrics) prometheus.Counter { return m.pendingDrops }, 1)
}

func (m *Metrics) add(counter func(*Metrics) prometheus.Counter, n int) {
	if m != nil && n > 0 {
		counter(m).Add(float64(n))
	}
}
