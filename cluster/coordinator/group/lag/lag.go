package lag

import (
	"context"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/cluster/coordinator/group"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

const (
	// MaxSeries is the default of Options.MaxSeries.
	MaxSeries = 10_000
	// maxAges is how many headers of batches are read for one answer.
	maxAges = 1000
	// maxName is the longest name of a group that becomes a label. A group may be called
	// by 32 KiB, also of bytes that are no text.
	maxName = 256
	// patience is how long shards may take to answer.
	patience = 5 * time.Second
)

// Groups lists what groups have committed (*group.Service).
type Groups interface {
	CommittedOffsets(ctx context.Context, limit int) (list []group.CommittedOffset, more int)
}

// Logs are the partitions that this broker leads.
type Logs interface {
	// Bounds are where a partition begins and where consumers may read to.
	Bounds(topic uuid.UUID, partition int32) (logStart, highWatermark int64, err error)
	// BatchTime is when the batch at an offset was written, in ms; -1 if nobody knows.
	BatchTime(topic uuid.UUID, partition int32, offset int64) (ms int64, err error)
}

// Options are what a Collector needs.
type Options struct {
	Groups    Groups
	Logs      Logs
	Image     func() *metadata.Image
	MaxSeries int // 0: MaxSeries
}

// Collector is a prometheus.Collector of the lag of every group.
type Collector struct {
	Options
	committed, lag, age, leftOut *prometheus.Desc

	// turn is held by the one Collect that works; it is a channel since who holds it
	// waits for shards.
	turn chan struct{}
	ages map[key]age // of the last time
}

// key is one partition of one group.
type key struct {
	group     string
	topic     uuid.UUID
	partition int32
}

// age is when the batch at an offset was written.
type age struct{ offset, writtenMs int64 }

// New makes a Collector; the caller registers it.
func New(o Options) *Collector {
	if o.MaxSeries == 0 {
		o.MaxSeries = MaxSeries
	}
	labels := []string{"consumergroup", "topic", "partition"}
	return &Collector{
		Options: o, turn: make(chan struct{}, 1),
		committed: prometheus.NewDesc("kafka_consumergroup_current_offset", "Offset that the group has committed.", labels, nil),
		lag:       prometheus.NewDesc("kafka_consumergroup_lag", "Records that the group has yet to read.", labels, nil),
		age:       prometheus.NewDesc("klamm_consumergroup_lag_seconds", "Time since the first record that the group has yet to read was written; 0 without lag.", labels, nil),
		leftOut:   prometheus.NewDesc("klamm_consumergroup_partitions_left_out", "Partitions of groups without metrics of their own, because there are too many.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.committed, c.lag, c.age, c.leftOut} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	list, more := c.Groups.CommittedOffsets(ctx, c.MaxSeries)
	r := reading{c: c, image: c.Image(), now: time.Now(), ages: map[key]age{}}
	for _, o := range list {
		if len(o.Group) > maxName || !utf8.ValidString(o.Group) {
			more++
			continue
		}
		r.measure(o, func(d *prometheus.Desc, value float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, o.Group, o.Topic, strconv.Itoa(int(o.Partition)))
		})
	}
	c.ages = r.ages
	out <- prometheus.MustNewConstMetric(c.leftOut, prometheus.GaugeValue, float64(more))
}

// reading is one answer of a Collector.
type reading struct {
	c     *Collector
	image *metadata.Image
	now   time.Time
	ages  map[key]age
	read  int // ages that were read from logs
}

// measure says about one committed offset what is known. Where the partition is led by
// another broker that is the offset alone.
func (r *reading) measure(o group.CommittedOffset, say func(d *prometheus.Desc, value float64)) {
	topic := r.image.Topic(o.Topic)
	if topic.Partition(o.Partition) == nil || !o.TopicID.IsZero() && o.TopicID != topic.ID {
		return
	}
	say(r.c.committed, float64(o.Offset))
	start, end, err := r.c.Logs.Bounds(topic.ID, o.Partition)
	if err != nil {
		return
	}
	next := max(o.Offset, start)
	say(r.c.lag, float64(max(0, end-next)))
	if next >= end {
		say(r.c.age, 0)
		return
	}
	if writtenMs, known := r.writtenAt(key{o.Group, topic.ID, o.Partition}, next); known {
		say(r.c.age, max(0, r.now.Sub(time.UnixMilli(writtenMs)).Seconds()))
	}
}

// writtenAt is when the batch at an offset was written, as it was found last time or is
// found now.
func (r *reading) writtenAt(k key, offset int64) (ms int64, known bool) {
	a, found := r.c.ages[k]
	if !found || a.offset != offset {
		if r.read++; r.read > maxAges {
			return 0, false
		}
		written, err := r.c.Logs.BatchTime(k.topic, k.partition, offset)
		if err != nil || written < 0 {
			return 0, false
		}
		a = age{offset, written}
	}
	r.ages[k] = a
	return a.writtenMs, true
}
