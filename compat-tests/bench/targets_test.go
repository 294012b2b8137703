package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

// BenchmarkTargets holds Klamm to what it promises beside Apache Kafka 4.4, the two taking
// turns in one run: what a gigabyte costs the broker in CPU when Kafka's own programs
// produce and consume it with their defaults, how long a record takes from end to end, how
// much memory full load takes, and how long 5,000 topics take.
//
//	make bench                                # all of it, in a quarter of an hour
//	make bench PART=consume ROUNDS=1 MB=256   # a trial
//
// The first broker acknowledges what the page cache has, as Kafka does, and is held to the
// targets; the second waits for the disk. Kafka runs with the flags of its start script.
// The table at the end is that of docs/performance.md. It needs Java and Maven.
func BenchmarkTargets(b *testing.B) {
	f := newField(b)
	f.part(b, "produce/partitions=1", target{"broker CPU s/GB produced, 1 partition", 0.5, ofKafka}, f.produced(1))
	f.part(b, "produce/partitions=12", target{"broker CPU s/GB produced, 12 partitions", 0.5, ofKafka}, f.produced(12))
	f.part(b, "consume", target{"broker CPU s/GB consumed, 12 partitions", 1, ofKafka}, f.consumed(12))
	f.part(b, "latency", target{"end to end, p99 in ms at 1,000 records/s", 1, ofKafka}, f.latency(99))
	f.part(b, "topics/one-by-one", target{"500 topics, one after the other, s", 0.2, ofKafka}, f.topics(500, 1))
	f.part(b, "topics/in-hundreds", target{"5,000 topics, 100 with each request, s", 0.2, ofKafka}, f.topics(5000, 100))
	f.part(b, "resident", target{"peak resident, MiB", 300, atMost}, f.resident(12))
	b.Log("\n" + f.table.String())
}

// field is the brokers that are compared, warmed.
type field struct {
	subjects []subject
	rounds   int
	bytes    int64 // of each measured load
	table    table
}

// value is what a part measures of one broker in one round; the names of topics that it
// makes begin with the name.
type value func(b *testing.B, s subject, name string) float64

// soonGone is how long files of deleted topics stay. Kafka maps two of each log into memory,
// and ends when a process may have no more mappings: with 25,000 logs at the latest.
const soonGone = "log.segment.delete.delay.ms=1000"

func newField(b *testing.B) *field {
	b.Helper()
	kafka := java.NewBroker(b, harness.FreePort(b), harness.FreePort(b), soonGone)
	kafka.JVM = java.ScriptJVM()
	kafka.Start()
	replicated, fsync := harness.Start(b, "durability=replicated", soonGone), harness.Start(b, soonGone)
	f := &field{
		subjects: []subject{
			{"klamm-replicated", replicated.Addr, []int{replicated.Pid()}},
			{"klamm-fsync", fsync.Addr, []int{fsync.Pid()}},
			{"kafka", kafka.Addr, []int{kafka.Pid()}},
		},
		rounds: number(b, "ROUNDS", 5),
		bytes:  int64(number(b, "MB", 1024)) << 20,
	}
	warm := int64(number(b, "WARM_MB", 2048)) << 20
	for _, s := range f.subjects {
		createTopic(b, s, "warm", 12)
		produceJava(b, s, "warm", warm)
		consumeJava(b, s, "warm", warm/2)
		deleteTopics(b, s, "warm")
	}
	return f
}

// part measures each broker in each round, in turns.
func (f *field) part(b *testing.B, name string, t target, measure value) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		found := make([]spread, len(f.subjects))
		for round := range f.rounds {
			for i, s := range f.subjects {
				f.settle(b)
				takeMemory(b)
				found[i] = append(found[i], measure(b, s, fmt.Sprintf("%s-%d", t.topic(), round)))
			}
		}
		for i, s := range f.subjects {
			b.ReportMetric(found[i].median(), s.name)
		}
		f.table.add(t, f.subjects, found)
		b.Log("\n" + f.table.last())
	})
}

// settle waits until no broker has anything left to do of the turns before: to delete the
// files of thousands of topics takes one some seconds, and the next one's time.
func (f *field) settle(b *testing.B) {
	b.Helper()
	const look, busy, patience = time.Second, 50 * time.Millisecond, time.Minute
	var pids []int
	for _, s := range f.subjects {
		pids = append(pids, s.pids...)
	}
	for quiet, begin := 0, time.Now(); quiet < 3; {
		before := cpu(b, pids...)
		<-time.After(look)
		if quiet++; cpu(b, pids...)-before > busy {
			quiet = 0
		}
		if time.Since(begin) > patience {
			b.Logf("a broker is still busy after %v", patience)
			return
		}
	}
}

// produced is the CPU that a broker spends on a gigabyte of 1 KiB records from Kafka's
// producer with its defaults.
func (f *field) produced(partitions int32) value {
	return func(b *testing.B, s subject, name string) float64 {
		createTopic(b, s, name, partitions)
		before := cpu(b, s.pids...)
		produceJava(b, s, name, f.bytes)
		used := cpu(b, s.pids...) - before
		deleteTopics(b, s, name)
		return used.Seconds() / (float64(f.bytes) / 1e9)
	}
}

// consumed is the CPU that a broker spends on a gigabyte that Kafka's consumer reads, just
// after it was written.
func (f *field) consumed(partitions int32) value {
	return func(b *testing.B, s subject, name string) float64 {
		createTopic(b, s, name, partitions)
		produceJava(b, s, name, f.bytes)
		before := cpu(b, s.pids...)
		consumeJava(b, s, name, f.bytes)
		used := cpu(b, s.pids...) - before
		deleteTopics(b, s, name)
		return used.Seconds() / (float64(f.bytes) / 1e9)
	}
}

// topics is how long a client waits for so many topics of one partition, some with each
// request.
func (f *field) topics(count, perRequest int) value {
	return func(b *testing.B, s subject, name string) float64 {
		admin := kadm.NewClient(dial(b, s.addr))
		defer admin.Close()
		names := make([]string, count)
		for i := range names {
			names[i] = fmt.Sprintf("%s-%04d", name, i)
		}
		begin := time.Now()
		for at := 0; at < count; at += perRequest {
			made, err := admin.CreateTopics(b.Context(), 1, 1, nil, names[at:at+perRequest]...)
			if err == nil {
				err = made.Error()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		took := time.Since(begin)
		deleteTopics(b, s, names...)
		return took.Seconds()
	}
}
