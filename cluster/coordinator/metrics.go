package coordinator

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics have the names that Kafka's usual Prometheus exporter gives to
// kafka.server:type=group-coordinator-metrics; where Kafka has gauges of quantiles they are
// histograms. What Kafka has no name for begins with klamm_.
type metrics struct {
	queueTime, processingTime, purgatoryTime, lingerTime prometheus.Histogram
	refused, timeouts, full, unknown                     prometheus.Counter
	loads                                                recentLoads
}

// timeBuckets are in ms: from what an operation takes to what it may wait.
var timeBuckets = []float64{0.01, 0.05, 0.1, 0.5, 1, 5, 10, 50, 100, 500, 1000, 5000}

// newMetrics makes the metrics of a runtime called name. states counts its shards by
// state, queued the operations in all queues.
func newMetrics(reg prometheus.Registerer, name string, states func(state) int, queued func() int) *metrics {
	prefix := "kafka_server_" + strings.ReplaceAll(name, "-", "_") + "_coordinator_metrics_"
	own := "klamm_" + strings.ReplaceAll(name, "-", "_") + "_coordinator_"
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: timeBuckets})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: own + name, Help: help})
	}
	x := &metrics{
		queueTime:      histogram("event_queue_time_ms", "Time that operations spent in the queue of their shard."),
		processingTime: histogram("event_processing_time_ms", "Time that operations took to run."),
		purgatoryTime:  histogram("event_purgatory_time_ms", "Time from an operation to its commit."),
		lingerTime:     histogram("batch_linger_time_ms", "Time from the first record of a batch to its append."),
		refused:        counter("refused_records_total", "Records that their log refused: too few in-sync replicas, too large, disk full."),
		timeouts:       counter("write_timeouts_total", "Operations that were not committed in time."),
		full:           counter("refused_operations_total", "Operations refused because too many were waiting."),
		unknown:        counter("unknown_records_total", "Records that were not understood when a shard was loaded."),
	}
	if reg == nil {
		return x
	}
	reg.MustRegister(x.queueTime, x.processingTime, x.purgatoryTime, x.lingerTime, x.refused, x.timeouts, x.full, x.unknown)
	for state, label := range map[state]string{stateLoading: "loading", stateActive: "active", stateFailed: "failed"} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "num_partitions", Help: "Shards by state.", ConstLabels: prometheus.Labels{"state": label},
		}, func() float64 { return float64(states(state)) }))
	}
	gauge := func(name, help string, value func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + name, Help: help}, value))
	}
	gauge("event_queue_size", "Operations in the queues of all shards.", func() float64 { return float64(queued()) })
	gauge("partition_load_time_max", "Longest load of a shard in the last 30 s, in ms.", func() float64 { longest, _ := x.loads.stats(time.Now()); return longest })
	gauge("partition_load_time_avg", "Average load of a shard in the last 30 s, in ms.", func() float64 { _, average := x.loads.stats(time.Now()); return average })
	return x
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (x *metrics) settled(after time.Duration)  { x.purgatoryTime.Observe(ms(after)) }
func (x *metrics) flushing(after time.Duration) { x.lingerTime.Observe(ms(after)) }

// loadWindow is how far back the load times look, as in Kafka.
const loadWindow = 30 * time.Second

// maxRecentLoads bounds what they remember; it is more than the partitions that a broker
// usually leads of one topic.
const maxRecentLoads = 1000

// recentLoads remembers the loads of the last half minute.
type recentLoads struct {
	mu    sync.Mutex
	loads []recentLoad
}

type recentLoad struct {
	at   time.Time
	took time.Duration
}

func (l *recentLoads) note(now time.Time, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	if len(l.loads) < maxRecentLoads {
		l.loads = append(l.loads, recentLoad{now, took})
	}
}

func (l *recentLoads) expire(now time.Time) {
	n := 0
	for n < len(l.loads) && now.Sub(l.loads[n].at) > loadWindow {
		n++
	}
	l.loads = append(l.loads[:0], l.loads[n:]...)
}

// stats are in ms, 0 without any load.
func (l *recentLoads) stats(now time.Time) (longest, average float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	for _, load := range l.loads {
		longest = max(longest, ms(load.took))
		average += ms(load.took) / float64(len(l.loads))
	}
	return longest, average
}
