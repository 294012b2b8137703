package logstore

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// cleanerMetrics are those of Kafka's LogCleaner and LogCleanerManager, under the names that
// the usual configuration of the JMX exporter gives them. A nil *cleanerMetrics counts
// nothing.
type cleanerMetrics struct {
	utilization, recopy, cleanSeconds, delaySeconds, dirtyPercent prometheus.Gauge

	uncleanable, stuckBytes   map[*Dir]prometheus.Gauge
	logs, bytesRead, bytesOut prometheus.Counter

	mu       sync.Mutex
	lookedAt time.Time
}

func newCleanerMetrics(r prometheus.Registerer, dirs []*Dir) *cleanerMetrics {
	if r == nil {
		return nil
	}
	m := &cleanerMetrics{uncleanable: make(map[*Dir]prometheus.Gauge), stuckBytes: make(map[*Dir]prometheus.Gauge), lookedAt: time.Now()}
	var all []prometheus.Collector
	gauge := func(name, help string, labels prometheus.Labels) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
		all = append(all, g)
		return g
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		all = append(all, c)
		return c
	}
	m.utilization = gauge("kafka_log_logcleaner_max_buffer_utilization_percent", "How full the memory for keys was when a log was cleaned last.", nil)
	m.recopy = gauge("kafka_log_logcleaner_cleaner_recopy_percent", "Share of the bytes that was kept when a log was cleaned last.", nil)
	m.cleanSeconds = gauge("kafka_log_logcleaner_max_clean_time_secs", "Seconds that the last cleaning took.", nil)
	m.delaySeconds = gauge("kafka_log_logcleaner_max_compaction_delay_secs", "By how much max.compaction.lag.ms of a log was over at the last look.", nil)
	gauge("kafka_log_logcleaner_deadthreadcount", "Threads of the cleaner that have died; 0, since a broker ends with them.", nil)
	m.dirtyPercent = gauge("kafka_log_logcleanermanager_max_dirty_percent", "Dirty share of the dirtiest log at the last look.", nil)
	for _, d := range dirs {
		labels := prometheus.Labels{"logDirectory": d.Path()}
		m.uncleanable[d] = gauge("kafka_log_logcleanermanager_uncleanable_partitions_count", "Logs that could not be cleaned and are left alone until the next start.", labels)
		m.stuckBytes[d] = gauge("kafka_log_logcleanermanager_uncleanable_bytes", "Bytes of them that would else be cleaned.", labels)
	}
	all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kafka_log_logcleanermanager_time_since_last_run_ms", Help: "Milliseconds since logs to clean were looked for.",
	}, m.sinceLook))
	m.logs = counter("klamm_log_cleanings_total", "Logs that were cleaned.")
	m.bytesRead = counter("klamm_log_cleaner_read_bytes_total", "Bytes of segments that were cleaned.")
	m.bytesOut = counter("klamm_log_cleaner_kept_bytes_total", "Bytes of them that were kept.")
	r.MustRegister(all...)
	return m
}

func (m *cleanerMetrics) sinceLook() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(time.Since(m.lookedAt).Milliseconds())
}

func (m *cleanerMetrics) lookedInto(d *Dir, uncleanable int64) {
	if m != nil {
		m.stuckBytes[d].Set(float64(uncleanable))
	}
}

func (m *cleanerMetrics) looked(now time.Time, seen dirtiness) {
	if m == nil {
		return
	}
	m.mu.Lock()
	m.lookedAt = now
	m.mu.Unlock()
	m.dirtyPercent.Set(float64(int(100 * seen.maxRatio)))
	m.delaySeconds.Set(float64(seen.maxDelayMs / 1000))
}

func (m *cleanerMetrics) cleaned(stats CleanStats, took time.Duration) {
	if m == nil {
		return
	}
	m.logs.Inc()
	m.bytesRead.Add(float64(stats.Kept.BytesRead))
	m.bytesOut.Add(float64(stats.Kept.BytesKept))
	m.utilization.Set(float64(int(100 * stats.MapUtilization)))
	m.recopy.Set(float64(100 * stats.Kept.BytesKept / max(1, stats.Kept.BytesRead)))
	m.cleanSeconds.Set(float64(int(took.Seconds())))
}

func (m *cleanerMetrics) uncleanableAre(logs map[*Log]struct{}) {
	if m == nil {
		return
	}
	count := make(map[*Dir]int)
	for l := range logs {
		count[l.dir]++
	}
	for d, g := range m.uncleanable {
		g.Set(float64(count[d]))
	}
}
