package bench

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

// subject is a broker under load, or a cluster.
type subject struct {
	name string
	addr string // bootstrap servers
	pids []int
}

// replicas of each partition of a topic.
func (s subject) replicas() int16 { return int16(len(s.pids)) }

// subjects are three brokers, each on a directory of its own, that acknowledge at
// different times: Klamm after the disk has it, Klamm and Kafka after the page cache has.
func subjects(b *testing.B) []subject {
	fsync := harness.Start(b)
	replicated := harness.Start(b, "durability=replicated")
	kafka := java.StartBroker(b, harness.FreePort(b), harness.FreePort(b))
	list := []subject{
		{"klamm-fsync", fsync.Addr, []int{fsync.Pid()}},
		{"klamm-replicated", replicated.Addr, []int{replicated.Pid()}},
		{"kafka", kafka.Addr, []int{kafka.Pid()}},
	}
	for _, s := range list {
		newLoad(1<<10, 128<<20).produce(b, s, "warm") // also for the JVM's compiler
	}
	return list
}

// load is so many bytes in records of one size.
type load struct {
	record, total int
	opts          []kgo.Opt
}

func newLoad(record, total int, opts ...kgo.Opt) load {
	return load{record, total, append([]kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}, opts...)}
}

const loadPartitions = 6

func (l load) produce(b *testing.B, s subject, topic string) {
	b.Helper()
	c := dial(b, s.addr, append(l.opts, kgo.DefaultProduceTopic(topic))...)
	defer c.Close()
	if _, err := kadm.NewClient(c).CreateTopic(b.Context(), loadPartitions, 1, nil, topic); err != nil {
		b.Fatal(err)
	}
	value := make([]byte, l.record)
	var failed atomic.Pointer[error]
	for written := 0; written < l.total; written += l.record {
		c.Produce(b.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := c.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
}

func (l load) fetch(b *testing.B, s subject, topic string) {
	b.Helper()
	c := dial(b, s.addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	for got := 0; got < l.total; {
		fetches := c.PollFetches(b.Context())
		if err := fetches.Err(); err != nil {
			b.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got += len(r.Value) })
	}
}

// measure runs do and reports the rate and what the broker spent.
func (l load) measure(b *testing.B, s subject, do func(i int)) {
	begin, before := time.Now(), cpu(b, s.pids...)
	i := 0
	for b.Loop() {
		do(i)
		i++
	}
	bytes := float64(l.total) * float64(b.N)
	b.ReportMetric(bytes/1e6/time.Since(begin).Seconds(), "MB/s")
	b.ReportMetric((cpu(b, s.pids...)-before).Seconds()/(bytes/1e9), "broker-cpu-s/GB")
}

// BenchmarkBesideKafka puts the same loads of franz-go on Klamm and on a Kafka 4.4 with
// its defaults and 512 MB of heap, one after the other, on the same machine in one run.
// It needs Java and Maven.
func BenchmarkBesideKafka(b *testing.B) {
	list := subjects(b)
	loads := []struct {
		name string
		load load
	}{
		{"100B", newLoad(100, 64<<20)},
		{"1KiB", newLoad(1<<10, 512<<20)},
		{"1KiB-in-16KiB-batches", newLoad(1<<10, 128<<20, kgo.ProducerBatchMaxBytes(16<<10))},
		{"100KiB", newLoad(100<<10, 512<<20)},
	}
	for _, l := range loads {
		for _, s := range list {
			b.Run(fmt.Sprintf("produce/%s/%s", l.name, s.name), func(b *testing.B) {
				l.load.measure(b, s, func(i int) { l.load.produce(b, s, fmt.Sprintf("p-%s-%d", l.name, i)) })
			})
		}
	}
	for _, l := range loads {
		for _, s := range list {
			l.load.produce(b, s, "f-"+l.name)
			b.Run(fmt.Sprintf("fetch/%s/%s", l.name, s.name), func(b *testing.B) {
				l.load.measure(b, s, func(int) { l.load.fetch(b, s, "f-"+l.name) })
			})
		}
	}
	for _, s := range list {
		b.Run("one-at-a-time/"+s.name, func(b *testing.B) { oneAtATime(b, s) })
		b.Run("create-topic/"+s.name, func(b *testing.B) { createTopics(b, s) })
	}
	for _, s := range list {
		b.Run("resident/"+s.name, func(b *testing.B) {
			for b.Loop() {
			}
			b.ReportMetric(float64(resident(b, s.pids[0]))/(1<<20), "MiB-resident")
		})
	}
}

// oneAtATime is the time of an acks=all produce that nothing shares a flush with.
func oneAtATime(b *testing.B, s subject) {
	c := dial(b, s.addr, kgo.DefaultProduceTopic("one"), kgo.AllowAutoTopicCreation())
	defer c.Close()
	r := func() *kgo.Record { return &kgo.Record{Value: make([]byte, 100)} }
	if err := c.ProduceSync(b.Context(), r()).FirstErr(); err != nil {
		b.Fatal(err)
	}
	report := timed(b, 1000, func(int) {
		if err := c.ProduceSync(b.Context(), r()).FirstErr(); err != nil {
			b.Fatal(err)
		}
	})
	report("ms")
}

// createTopics is the time of a CreateTopics with one partition.
func createTopics(b *testing.B, s subject) {
	c := dial(b, s.addr)
	defer c.Close()
	admin := kadm.NewClient(c)
	report := timed(b, 200, func(i int) {
		if _, err := admin.CreateTopic(b.Context(), 1, 1, nil, fmt.Sprintf("made-%d-%d", time.Now().UnixNano(), i)); err != nil {
			b.Fatal(err)
		}
	})
	report("ms")
}

// timed calls do so many times and reports median and 99th percentile.
func timed(b *testing.B, times int, do func(i int)) (report func(unit string)) {
	var took []time.Duration
	for b.Loop() {
		for i := range times {
			begin := time.Now()
			do(i)
			took = append(took, time.Since(begin))
		}
	}
	slices.Sort(took)
	return func(unit string) {
		at := func(q float64) float64 {
			return took[int(q*float64(len(took)-1))].Seconds() * 1000
		}
		b.ReportMetric(at(0.5), unit+"-p50")
		b.ReportMetric(at(0.99), unit+"-p99")
	}
}
