package group

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count what all shards of a broker do and hold, under the names that Kafka's
// usual Prometheus configuration gives to GroupCoordinatorMetrics: those of 4.4, and the
// older ones (GroupMetadataManager) that dashboards ask for.
type Metrics struct {
	rebalances, commits, deletions, expirations prometheus.Counter
	pendingDrops                                prometheus.Counter

	groups  [Dead]atomic.Int64 // by state
	offsets atomic.Int64
}

const metricsPrefix = "kafka_server_group_coordinator_metrics_"

// NewMetrics registers the metrics; reg may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		if reg != nil {
			reg.MustRegister(c)
		}
		return c
	}
	m := &Metrics{
		rebalances:   counter(metricsPrefix+"group_completed_rebalance_count", "Rebalances of classic groups that were completed."),
		commits:      counter(metricsPrefix+"offset_commit_count", "Offsets that were committed."),
		deletions:    counter(metricsPrefix+"offset_deletion_count", "Offsets that were deleted by administrators."),
		expirations:  counter(metricsPrefix+"offset_expiration_count", "Offsets that expired."),
		pendingDrops: counter("klamm_group_pending_members_dropped_total", "Members forgotten before they joined, because too many of their group did not come back."),
	}
	if reg != nil {
		m.registerGauges(reg)
	}
	return m
}

func (m *Metrics) registerGauges(reg prometheus.Registerer) {
	gauge := func(name, help string, labels prometheus.Labels, value func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value))
	}
	const older = "kafka_coordinator_group_groupmetadatamanager_"
	offsets := func() float64 { return float64(m.offsets.Load()) }
	all := func() (sum float64) {
		for state := range m.groups {
			sum += float64(m.groups[state].Load())
		}
		return sum
	}
	gauge(metricsPrefix+"offset_count", "Committed offsets that are kept.", nil, offsets)
	gauge(older+"numoffsets", "Committed offsets that are kept.", nil, offsets)
	gauge(metricsPrefix+"group_count", "Groups by protocol.", prometheus.Labels{"protocol": classicType}, all)
	gauge(older+"numgroups", "Groups.", nil, all)
	for state, name := range map[State]string{
		Empty: "empty", PreparingRebalance: "preparingrebalance", CompletingRebalance: "completingrebalance", Stable: "stable",
	} {
		value := func() float64 { return float64(m.groups[state].Load()) }
		gauge(metricsPrefix+"classic_group_count", "Classic groups by state.", prometheus.Labels{"state": state.String()}, value)
		gauge(older+"numgroups"+name, "Groups in this state.", nil, value)
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

// censusInterval is how long after a change a shard counts its groups. Kafka counts every
// minute; here a shard that nothing happens to is not woken.
const censusInterval = 10 * time.Second

// census is what a shard holds, as it has told Metrics.
type census struct {
	timer   *timer
	groups  [Dead]int64
	offsets int64
}

// expectCensus makes sure that a change is counted some time.
func (s *Shard) expectCensus(o *op) {
	if s.metrics != nil && s.loaded && s.census.timer.index < 0 {
		s.timers.set(s.census.timer, o.now.Add(censusInterval))
	}
}

// count tells Metrics what is here now.
func (s *Shard) count() {
	var now census
	for _, g := range s.groups.All() {
		now.groups[g.state]++
	}
	for _, offsets := range s.offsets {
		now.offsets += int64(offsets.Len())
	}
	s.tell(now)
}

// tell passes on the difference to what was told before.
func (s *Shard) tell(now census) {
	if s.metrics == nil {
		return
	}
	for state := range now.groups {
		s.metrics.groups[state].Add(now.groups[state] - s.census.groups[state])
	}
	s.metrics.offsets.Add(now.offsets - s.census.offsets)
	s.census.groups, s.census.offsets = now.groups, now.offsets
}
