package bench

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

// BenchmarkClusterTargets holds three nodes of Klamm to what they promise beside three of
// Apache Kafka 4.4, each of them broker and controller, in one run on one machine.
//
//	make bench PART=cluster                    # all but elections, in half an hour
//	make bench PART=elections MINUTES=10       # full load that must not look like a failure
//	make bench PART=cluster/produce ROUNDS=1   # a trial; so are cluster/kill, idle and ten-thousand
//	make bench PART=cluster/move MB=10000 ROUNDS=1 RATE_MB=100   # needs 20 GB of disk; without MB, 4
//
// Kafka runs with the flags of its start script, a heap of 1 GB for each node. The tables
// at the end are those of docs/performance.md. It needs Java and Maven.
func BenchmarkClusterTargets(b *testing.B) {
	parts := []struct {
		name    string
		measure func(*testing.B, *table)
		table   table
	}{
		{name: "cluster/produce", measure: clusterProduce},
		{name: "cluster/idle", measure: clusterIdle},
		{name: "cluster/kill", measure: clusterKill},
		{name: "cluster/move", measure: clusterMove},
		{name: "cluster/ten-thousand", measure: clusterTenThousand},
		{name: "elections", measure: elections},
	}
	for i := range parts {
		p := &parts[i]
		b.Run(p.name, func(b *testing.B) { p.measure(b, &p.table) })
	}
	for i := range parts {
		if t := &parts[i].table; len(t.lines) > 0 {
			b.Log("\n" + t.String())
		}
	}
}

const clusterNodes = 3

// node is one process of a cluster.
type node interface {
	Start()
	Kill()
	Pid() int
}

// cluster is a subject with its processes.
type cluster struct {
	subject
	nodes []node // of node ids 1, 2, …
}

// startKlamm starts three nodes with these settings, and those of the environment variable
// SETTINGS: key=value pairs with spaces between them.
func startKlamm(b *testing.B, name string, settings ...string) cluster {
	b.Helper()
	settings = append(settings, strings.Fields(os.Getenv("SETTINGS"))...)
	c := harness.StartCluster(b, clusterNodes, settings...)
	nodes := make([]node, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = n
	}
	return newCluster(name, c.Addr(), nodes)
}

func startKafka(b *testing.B, settings ...string) cluster {
	b.Helper()
	var ports []int
	for range 2 * clusterNodes {
		ports = append(ports, harness.FreePort(b))
	}
	c := java.NewCluster(b, ports, settings...)
	nodes := make([]node, len(c.Nodes))
	for i, n := range c.Nodes {
		n.JVM = java.ScriptJVM()
		nodes[i] = n
	}
	c.Start()
	return newCluster("kafka", c.Addr(), nodes)
}

func newCluster(name, addr string, nodes []node) cluster {
	c := cluster{subject{name: name, addr: addr}, nodes}
	for _, n := range nodes {
		c.pids = append(c.pids, n.Pid())
	}
	return c
}

// clusterProduce measures what a gigabyte costs the three brokers together, and how fast
// it is taken, when Kafka's producer sends it with its defaults (acks=all). The first
// cluster acknowledges what the page caches have, as Kafka does, and is held to the
// targets; the second waits for the disk.
func clusterProduce(b *testing.B, t *table) {
	f := &field{
		subjects: []subject{
			startKlamm(b, "klamm-replicated", "durability=replicated").subject,
			startKlamm(b, "klamm-fsync").subject,
			startKafka(b).subject,
		},
		rounds: number(b, "ROUNDS", 5),
		bytes:  int64(number(b, "MB", 512)) << 20,
	}
	warm := int64(number(b, "WARM_MB", 1024)) << 20
	for _, s := range f.subjects {
		createTopic(b, s, "warm", 12)
		produceJava(b, s, "warm", warm)
		deleteTopics(b, s, "warm")
	}
	for _, partitions := range []int32{1, 12} {
		plural := ""
		if partitions > 1 {
			plural = "s"
		}
		what := fmt.Sprintf("three replicas, %d partition%s", partitions, plural)
		used, rate := make([]spread, len(f.subjects)), make([]spread, len(f.subjects))
		for round := range f.rounds {
			for i, s := range f.subjects {
				cpu, mib := f.produceOnce(b, s, fmt.Sprintf("p-%d-%d", partitions, round), partitions)
				used[i], rate[i] = append(used[i], cpu), append(rate[i], mib)
			}
		}
		t.add(target{what + ": CPU s/GB of all brokers", 0.5, ofKafka}, f.subjects, used)
		b.Log("\n" + t.last())
		t.add(target{what + ": MiB/s", 1, atLeastOfKafka}, f.subjects, rate)
		b.Log("\n" + t.last())
	}
}

func (f *field) produceOnce(b *testing.B, s subject, topic string, partitions int32) (cpuPerGB, mibPerSecond float64) {
	createTopic(b, s, topic, partitions)
	before := cpu(b, s.pids...)
	rate := produceJava(b, s, topic, f.bytes)
	used := cpu(b, s.pids...) - before
	deleteTopics(b, s, topic)
	return used.Seconds() / (float64(f.bytes) / 1e9), rate
}

// clusterIdle measures what the busiest and the largest of three brokers take when nobody
// uses their 1,000 partitions.
func clusterIdle(b *testing.B, t *table) {
	window := time.Duration(number(b, "IDLE_SECONDS", 60)) * time.Second
	list := []subject{startKlamm(b, "klamm-replicated", "durability=replicated").subject, startKlamm(b, "klamm-fsync").subject, startKafka(b).subject}
	for _, s := range list {
		manyPartitions(b, s)
	}
	settle := time.NewTimer(10 * time.Second)
	<-settle.C
	before := make([][]time.Duration, len(list))
	for i, s := range list {
		for _, pid := range s.pids {
			before[i] = append(before[i], cpu(b, pid))
		}
	}
	begin := time.Now()
	settle.Reset(window)
	<-settle.C
	used, memory := make([]spread, len(list)), make([]spread, len(list))
	for i, s := range list {
		var most, largest float64
		for j, pid := range s.pids {
			most = max(most, 100*(cpu(b, pid)-before[i][j]).Seconds()/time.Since(begin).Seconds())
			largest = max(largest, float64(resident(b, pid))/(1<<20))
		}
		used[i], memory[i] = spread{most}, spread{largest}
	}
	t.add(target{"1,000 partitions × 3, idle: % of a core, busiest broker", 2, atMost}, list, used)
	t.add(target{"1,000 partitions × 3, idle: MiB resident, largest broker", 150, atMost}, list, memory)
	b.Log("\n" + t.String())
}

const (
	manyTopic      = "many"
	manyCount      = 1000
	manyReplicas   = 3
	manyMinInSync  = "2"
	settlePatience = 2 * time.Minute
)

// manyPartitions makes a topic of 1,000 partitions, and waits until all replicas are in sync.
func manyPartitions(b *testing.B, s subject) {
	b.Helper()
	admin := kadm.NewClient(dial(b, s.addr))
	defer admin.Close()
	minInSync := manyMinInSync
	if _, err := admin.CreateTopic(b.Context(), manyCount, manyReplicas, map[string]*string{"min.insync.replicas": &minInSync}, manyTopic); err != nil {
		b.Fatal(err)
	}
	awaitPartitions(b, admin, manyTopic, "has all replicas in sync", func(list []kadm.PartitionDetail) bool {
		return len(list) == manyCount && all(list, func(p kadm.PartitionDetail) bool { return p.Leader >= 0 && len(p.ISR) == manyReplicas })
	})
}

// awaitPartitions polls the partitions of a topic until they are as wanted.
func awaitPartitions(b *testing.B, admin *kadm.Client, topic, want string, is func([]kadm.PartitionDetail) bool) []kadm.PartitionDetail {
	b.Helper()
	deadline := time.Now().Add(settlePatience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := admin.ListTopics(b.Context(), topic)
		if parts := list[topic].Partitions.Sorted(); err == nil && is(parts) {
			return parts
		}
		if time.Now().After(deadline) {
			b.Fatalf("after %s no metadata in which topic %s %s; last error: %v", settlePatience, topic, want, err)
		}
		<-tick.C
	}
}

func all[T any](list []T, is func(T) bool) bool {
	for _, v := range list {
		if !is(v) {
			return false
		}
	}
	return true
}
