package controller

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// Census counts what metadata holds, and what becomes of leaderships. It is a metadata
// publisher of every controller, active or not, as Kafka's ControllerMetadataMetrics is: a
// change costs what has changed, and a scrape nothing. Elections count one by one, also where changes
// were merged before they came here.
type Census struct {
	activeBrokers, fencedBrokers, leavingBrokers prometheus.Gauge
	topics, partitions, offline, notPreferred    prometheus.Gauge
	elections, fromELR, unclean                  prometheus.Counter
}

// NewCensus makes one. A nil reg registers nothing.
func NewCensus(reg prometheus.Registerer) *Census {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "kafka_controller_kafkacontroller_" + name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	c := &Census{
		activeBrokers:  gauge("activebrokercount", "Brokers in service."),
		fencedBrokers:  gauge("fencedbrokercount", "Registered brokers that are out of service."),
		leavingBrokers: gauge("controlledshutdownbrokercount", "Brokers that are about to stop."),
		topics:         gauge("globaltopiccount", "Topics."),
		partitions:     gauge("globalpartitioncount", "Partitions."),
		offline:        gauge("offlinepartitionscount", "Partitions without a leader."),
		notPreferred:   gauge("preferredreplicaimbalancecount", "Partitions that another replica leads than the first of their assignment, or none."),
		elections: counter("klamm_controller_leader_elections_total",
			"Partitions that got another leader, for whatever reason."),
		fromELR: counter("kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total",
			"Of these, those whose leader was no in-sync replica but known to have everything (KIP-966)."),
		unclean: counter("kafka_controller_controllerstats_uncleanleaderelections_total",
			"Of these, those whose leader may lack acknowledged records."),
	}
	if reg != nil {
		reg.MustRegister(c.activeBrokers, c.fencedBrokers, c.leavingBrokers, c.topics, c.partitions, c.offline, c.notPreferred,
			c.elections, c.fromELR, c.unclean)
	}
	return c
}

// Name implements metalog.Publisher.
func (c *Census) Name() string { return "census" }

// OnMetadataUpdate implements metalog.Publisher.
func (c *Census) OnMetadataUpdate(delta *metadata.Delta, next *metadata.Image) {
	for change := range delta.Brokers() {
		c.broker(change.Old, -1)
		c.broker(change.New, 1)
	}
	for topic := range delta.Topics() {
		for change := range topic.Partitions() {
			c.partition(change.Old, -1)
			c.partition(change.New, 1)
		}
	}
	if delta.Base().Position() != (metadata.Position{}) { // else it was before this process was there
		e := delta.Elections()
		c.elections.Add(float64(e.All))
		c.fromELR.Add(float64(e.FromELR))
		c.unclean.Add(float64(e.Unclean))
	}
	c.topics.Set(float64(next.NumTopics()))
	c.partitions.Set(float64(next.NumPartitions()))
}

func (c *Census) broker(b *metadata.Broker, n float64) {
	switch {
	case b == nil:
		return
	case b.Fenced:
		c.fencedBrokers.Add(n)
	default:
		c.activeBrokers.Add(n)
	}
	if b.InControlledShutdown {
		c.leavingBrokers.Add(n)
	}
}

func (c *Census) partition(p *metadata.Partition, n float64) {
	if p == nil {
		return
	}
	if p.Leader == metadata.NoLeader {
		c.offline.Add(n)
	}
	if len(p.Replicas) > 0 && p.Leader != p.Replicas[0] {
		c.notPreferred.Add(n)
	}
}
