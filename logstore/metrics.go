package logstore

import "github.com/prometheus/client_golang/prometheus"

// metrics of one directory; a nil *metrics counts nothing.
type metrics struct {
	isFull, isOffline prometheus.Gauge
	rounds, roundLogs prometheus.Counter
	failedRounds      prometheus.Counter
	tornTails         prometheus.Counter
}

func newMetrics(r prometheus.Registerer, dir string) *metrics {
	if r == nil {
		return nil
	}
	labels := prometheus.Labels{"dir": dir}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
	}
	m := &metrics{
		isFull:       gauge("klamm_log_dir_full", "1 while appends are refused for lack of room."),
		isOffline:    gauge("klamm_log_dir_offline", "1 after the disk has failed."),
		rounds:       counter("klamm_flush_rounds_total", "Group commits."),
		roundLogs:    counter("klamm_flush_round_logs_total", "Logs that took part in group commits."),
		failedRounds: counter("klamm_flush_rounds_failed_total", "Group commits that failed."),
		tornTails:    counter("klamm_log_torn_tails_total", "Logs that lost an unflushed tail at start."),
	}
	r.MustRegister(m.isFull, m.isOffline, m.rounds, m.roundLogs, m.failedRounds, m.tornTails)
	return m
}

func (m *metrics) full(yes bool) {
	switch {
	case m == nil:
	case yes:
		m.isFull.Set(1)
	default:
		m.isFull.Set(0)
	}
}

func (m *metrics) offline() {
	if m != nil {
		m.isOffline.Set(1)
	}
}

func (m *metrics) round(logs int, err error) {
	if m == nil {
		return
	}
	m.rounds.Inc()
	m.roundLogs.Add(float64(logs))
	if err != nil {
		m.failedRounds.Inc()
	}
}

func (m *metrics) tornTail() {
	if m != nil {
		m.tornTails.Inc()
	}
}
