package replica

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are computed when they are asked for: an idle partition costs nothing.
type metrics struct {
	partitions, leaders, offline, underReplicated, underMinISR, atMinISR, producers *prometheus.Desc
	moving, moveLag, reassigning, fetchLag, fetchFailed                             *prometheus.Desc

	movedBytes                          prometheus.Counter
	isrShrinks, isrExpands, isrFailures prometheus.Counter
}

// register makes the metrics under the names that Kafka's usual Prometheus exporter gives
// to kafka.server:type=ReplicaManager.
func (x *metrics) register(reg prometheus.Registerer, m *Manager) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("kafka_server_replicamanager_"+name, help, nil, nil)
	}
	x.partitions = desc("partitioncount", "Replicas on this broker.")
	x.leaders = desc("leadercount", "Partitions led by this broker.")
	x.offline = desc("offlinereplicacount", "Replicas on this broker that cannot serve.")
	x.underReplicated = desc("underreplicatedpartitions", "Partitions led here with fewer in-sync replicas than replicas.")
	x.underMinISR = desc("underminisrpartitioncount", "Partitions led here with fewer in-sync replicas than min.insync.replicas.")
	x.atMinISR = desc("atminisrpartitioncount", "Partitions led here with just min.insync.replicas in-sync replicas.")
	x.producers = desc("produceridcount", "Producer ids that the partitions remember, each for producer.id.expiration.ms.")
	x.moving = prometheus.NewDesc("klamm_replica_moving", "Replicas that are on their way to another log directory.", nil, nil)
	x.moveLag = prometheus.NewDesc("kafka_server_replicaalterlogdirsmanager_maxlag",
		"Most messages that a replica lacks in the log directory to which it moves.", nil, nil)
	x.reassigning = desc("reassigningpartitions", "Partitions led here whose replicas are being changed.")
	follower := prometheus.Labels{"clientId": "Replica"} // Kafka's
	x.fetchLag = prometheus.NewDesc("kafka_server_replicafetchermanager_maxlag",
		"Most records below the high watermark that a follower here lacks, as far as its leader has told.", nil, follower)
	x.fetchFailed = prometheus.NewDesc("kafka_server_replicafetchermanager_failedpartitionscount",
		"Followers here that are not fetched until their partition has a new leader epoch, since what was fetched could not be taken in.", nil, follower)
	x.isrShrinks, x.isrExpands, x.isrFailures = isrCounters()
	x.movedBytes = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "klamm_replica_moved_bytes_total", Help: "Bytes copied of replicas that move to another log directory.",
	})
	if reg != nil {
		reg.MustRegister(&collector{m}, x.movedBytes, x.isrShrinks, x.isrExpands, x.isrFailures)
		m.traffic.register(reg)
	}
}

func isrCounters() (shrinks, expands, failures prometheus.Counter) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "kafka_server_replicamanager_" + name, Help: help})
	}
	return counter("isrshrinks_total", "Times that replicas left the ISR of a partition led here."),
		counter("isrexpands_total", "Times that a replica joined the ISR of a partition led here."),
		counter("failedisrupdates_total", "Changes of an ISR that the controller refused.")
}

// alteredISR counts an answer of the controller.
func (x *metrics) alteredISR(change *ISRChange, err error) {
	switch {
	case err != nil:
		x.isrFailures.Inc()
	case change.Joining == nobody:
		x.isrShrinks.Inc()
	default:
		x.isrExpands.Inc()
	}
}

// collector walks over the partitions once per scrape.
type collector struct{ m *Manager }

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	x := &c.m.metrics
	for _, d := range []*prometheus.Desc{x.partitions, x.leaders, x.offline, x.underReplicated, x.underMinISR, x.atMinISR, x.producers, x.moving, x.moveLag, x.reassigning, x.fetchLag, x.fetchFailed} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	var leaders, offline, underReplicated, underMin, atMin, producers, reassigning, failed int
	var lag int64
	hs := c.m.all()
	for _, h := range hs {
		s := h.Health()
		leaders += count(s.Leads)
		offline += count(s.Offline)
		underReplicated += count(s.Leads && s.InSync < s.Replicas)
		underMin += count(s.Leads && s.InSync < s.MinInSync)
		atMin += count(s.Leads && s.InSync == s.MinInSync)
		producers += s.Producers
		reassigning += count(s.Reassigning)
		failed += count(s.FetchFailed)
		lag = max(lag, s.Lag)
	}
	x := &c.m.metrics
	moving, moveLag := c.m.moves.state()
	for d, n := range map[*prometheus.Desc]int{
		x.partitions: len(hs), x.leaders: leaders, x.offline: offline,
		x.underReplicated: underReplicated, x.underMinISR: underMin, x.atMinISR: atMin, x.producers: producers,
		x.moving: moving, x.moveLag: moveLag, x.reassigning: reassigning, x.fetchLag: int(lag), x.fetchFailed: failed,
	} {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
