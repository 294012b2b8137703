package wire

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics shows each limit being reached. What is touched per request is a plain atomic,
// read when the metrics are collected.
type metrics struct {
	requests  atomic.Int64 // since the start
	inFlight  atomic.Int64 // without an answer yet
	bytesSent atomic.Int64
	accepted  *prometheus.CounterVec
	closed    *prometheus.CounterVec
	blocked   *prometheus.CounterVec
	times     *requestTimes
}

func (m *metrics) started() {
	m.requests.Add(1)
	m.inFlight.Add(1)
}

func (m *metrics) ended(r *Request) {
	m.inFlight.Add(-1)
	m.times.took(r.Key, time.Since(r.Received))
}

func (m *metrics) sent(n int) { m.bytesSent.Add(int64(n)) }

// newMetrics registers the server's metrics, if there is a registry to do so.
func newMetrics(s *Server, reg prometheus.Registerer) *metrics {
	m := &metrics{
		accepted: counters("connections_accepted_total", "Connections accepted.", "listener"),
		closed:   counters("connections_closed_total", "Connections ended, by reason.", "reason"),
		blocked:  counters("accept_waits_total", "Connections that waited for max.connections or the creation rate.", "listener"),
		times:    newRequestTimes(),
	}
	if reg == nil {
		return m
	}
	reg.MustRegister(
		m.accepted, m.closed, m.blocked, m.times,
		gauge("connections", "Connections open.", func() float64 { return float64(s.numConns()) }),
		gauge("connections_muted", "Connections whose next request waits because of a quota.", func() float64 { return float64(s.numMuted()) }),
		gauge("requests_in_flight", "Requests without an answer yet.", func() float64 { return float64(m.inFlight.Load()) }),
		gauge("requests_working", "Requests counted against queued.max.requests.", func() float64 { return float64(s.slots.used.Load() + s.brokerSlots.used.Load()) }),
		gauge("frame_memory_bytes", "Memory of frames counted against queued.max.request.bytes.", func() float64 { return float64(s.budget.used.Load() + s.brokerBudget.used.Load()) }),
		gauge("answer_copy_bytes", "Memory of answers above 64 KiB that are copied, at most 32 MiB.", func() float64 { return float64(s.copies.used.Load()) }),
		gauge("free_buffer_bytes", "Memory kept for large buffers and not in use.", func() float64 { return float64(s.buffers.FreeBytes()) }),
		counter("buffer_misses_total", "Large buffers for which that had no room, left to the garbage collector.", func() float64 { return float64(s.buffers.large.missed()) }),
		counter("answer_copies_refused_total", "Answers sent by the kernel with one call more, because copies held 32 MiB.", func() float64 { return float64(s.copies.refused.Load()) }),
		counter("requests_total", "Requests handed to handlers.", func() float64 { return float64(m.requests.Load()) }),
		counter("sent_bytes_total", "Bytes of answers sent.", func() float64 { return float64(m.bytesSent.Load()) }),
		counter("request_waits_total", "Requests that waited because of queued.max.requests.", func() float64 { return float64(s.slots.waits.Load() + s.brokerSlots.waits.Load()) }),
		counter("frame_memory_waits_total", "Frames that waited because of queued.max.request.bytes.", func() float64 { return float64(s.budget.waits.Load() + s.brokerBudget.waits.Load()) }),
	)
	return m
}

const (
	namespace = "klamm"
	subsystem = "network"
)

func counters(name, help, label string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, []string{label})
}

func gauge(name, help string, fn func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, fn)
}

func counter(name, help string, fn func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, fn)
}
