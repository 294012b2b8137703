package metalog

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the log's figures for the outside.
type metrics struct {
	registerer prometheus.Registerer // nil: none

	leader    prometheus.Gauge
	applied   prometheus.Gauge
	published prometheus.Gauge
	dropped   prometheus.Counter
	inFlight  prometheus.Gauge
	failed    prometheus.Counter
	refused   prometheus.Counter
	ballast   prometheus.Gauge
	silent    prometheus.GaugeFunc // nil before countSilent
}

func newMetrics(r prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "klamm", Subsystem: "metadata_log", Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "klamm", Subsystem: "metadata_log", Name: name, Help: help})
	}
	m := &metrics{
		registerer: r,

		leader:    gauge("leader", "1 while this node leads the metadata log."),
		applied:   gauge("applied_index", "Index of the newest applied entry."),
		published: gauge("published_index", "Index of the newest entry that every publisher has seen."),
		dropped:   counter("dropped_entries_total", "Committed entries that did not count (stale term or number, or records that do not fit)."),
		inFlight:  gauge("proposals_in_flight", "Proposals whose outcome is not known yet."),
		failed:    counter("failed_proposals_total", "Proposals that failed or whose outcome stayed unknown."),
		refused:   counter("refused_for_space_total", "Writes refused because the disk is below its reserve."),
		ballast:   gauge("ballast_bytes", "Size of the ballast file; 0 while it is given up."),
	}
	if r != nil {
		r.MustRegister(m.all()...)
	}
	return m
}

// countSilent adds a figure that is counted when it is asked for.
func (m *metrics) countSilent(members func() int) {
	m.silent = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "klamm", Subsystem: "metadata_log", Name: "silent_members",
		Help: "Controllers and brokers that have not answered the last message of this leader; 0 on the others.",
	}, func() float64 { return float64(members()) })
	if m.registerer != nil {
		m.registerer.MustRegister(m.silent)
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.leader, m.applied, m.published, m.dropped, m.inFlight, m.failed, m.refused, m.ballast}
}

// close takes the figures back, so that the log can be opened again.
func (m *metrics) close() {
	if m.registerer == nil {
		return
	}
	for _, c := range m.all() {
		m.registerer.Unregister(c)
	}
	if m.silent != nil {
		m.registerer.Unregister(m.silent)
	}
}
