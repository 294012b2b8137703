package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/java"
)

const (
	fullTopic      = "full"
	fullPartitions = 12
	fullProducers  = 4
	fullConsumers  = 2
	isrPoll        = 200 * time.Millisecond
)

// elections puts full load on three nodes of Klamm for MINUTES, and counts what must not
// happen, since nothing fails: elections of the controller, changes of partitions' leaders,
// and replicas that are not in sync.
func elections(b *testing.B, t *table) {
	c := startKlamm(b, "klamm-fsync", "log.retention.check.interval.ms=5000", "log.segment.delete.delay.ms=1000")
	manyPartitions(b, c.subject)
	admin := kadm.NewClient(dial(b, c.addr))
	defer admin.Close()
	createFull(b, admin)
	startFranzSteady(b, c.addr, manyTopic, manyCount)
	_, before := quorum(b, c.addr)
	leadersBefore := leaderEpochs(b, admin)

	lasts := time.Duration(number(b, "MINUTES", 10)) * time.Minute
	begin, cpuBefore := time.Now(), cpu(b, c.pids...)
	ctx, cancel := context.WithTimeout(b.Context(), lasts)
	defer cancel()
	wait := fullLoad(ctx, b, c.subject)
	outOfSync := countOutOfSync(ctx, b, admin)
	wait()
	used := (cpu(b, c.pids...) - cpuBefore).Seconds() / time.Since(begin).Seconds()
	b.Logf("the brokers used %.2f cores for %s, and took in %.1f MB/s", used, time.Since(begin).Round(time.Second), takenIn(b, admin)/time.Since(begin).Seconds())

	_, after := quorum(b, c.addr)
	moved := 0
	for p, epoch := range leaderEpochs(b, admin) {
		moved += int(epoch - leadersBefore[p])
	}
	list := []subject{c.subject}
	what := fmt.Sprintf("%s of full load: ", lasts)
	t.add(target{what + "elections of the controller", 0, atMost}, list, []spread{{float64(after - before)}})
	t.add(target{what + "changes of partitions' leaders", 0, atMost}, list, []spread{{float64(moved)}})
	t.add(target{what + "looks (five a second) at which a replica was not in sync", 0, atMost}, list, []spread{{float64(outOfSync)}})
	b.Log("\n" + t.String())
}

// createFull makes a topic that keeps little of what it gets.
func createFull(b *testing.B, admin *kadm.Client) {
	b.Helper()
	configs := map[string]*string{}
	for key, value := range map[string]string{"min.insync.replicas": "2", "segment.bytes": strconv.Itoa(32 << 20), "retention.bytes": strconv.Itoa(64 << 20), "file.delete.delay.ms": "1000"} {
		configs[key] = &value
	}
	if _, err := admin.CreateTopic(b.Context(), fullPartitions, clusterNodes, configs, fullTopic); err != nil {
		b.Fatal(err)
	}
}

// fullLoad is of producers that send as fast as they can, Kafka's among them, and of
// consumers that read it all. What it returns waits for their end.
func fullLoad(ctx context.Context, b *testing.B, s subject) (wait func()) {
	var clients sync.WaitGroup
	for range fullProducers {
		c := dial(b, s.addr, kgo.DefaultProduceTopic(fullTopic), kgo.ProducerBatchCompression(kgo.NoCompression()))
		clients.Go(func() {
			defer c.Close()
			produceUntil(ctx, c)
		})
	}
	for range fullConsumers {
		c := dial(b, s.addr, kgo.ConsumeTopics(fullTopic))
		clients.Go(func() {
			defer c.Close()
			for ctx.Err() == nil {
				c.PollFetches(ctx)
			}
		})
	}
	p := java.Run(b, "producer", "org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", s.addr, "--topic", fullTopic,
		"--num-records", strconv.Itoa(1<<40), "--record-size", strconv.Itoa(recordSize), "--throughput", "-1")
	return func() {
		clients.Wait()
		p.Kill()
	}
}

// takenIn is how much the loaded topic has taken in, in MB.
func takenIn(b *testing.B, admin *kadm.Client) float64 {
	b.Helper()
	ends, err := admin.ListEndOffsets(b.Context(), fullTopic)
	if err != nil {
		b.Fatal(err)
	}
	records := int64(0)
	ends.Each(func(o kadm.ListedOffset) { records += o.Offset })
	return float64(records) * recordSize / 1e6
}

// leaderEpochs are those of all partitions.
func leaderEpochs(b *testing.B, admin *kadm.Client) map[string]int32 {
	b.Helper()
	list, err := admin.ListTopics(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	epochs := map[string]int32{}
	list.EachPartition(func(p kadm.PartitionDetail) { epochs[fmt.Sprintf("%s-%d", p.Topic, p.Partition)] = p.LeaderEpoch })
	return epochs
}

// countOutOfSync looks at the partitions until ctx ends, and counts how often one lacked a
// replica.
func countOutOfSync(ctx context.Context, b *testing.B, admin *kadm.Client) (looks int) {
	b.Helper()
	tick := time.NewTicker(isrPoll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return looks
		}
		list, err := admin.ListTopics(ctx)
		if err != nil {
			continue // the load may be over
		}
		lacking := false
		list.EachPartition(func(p kadm.PartitionDetail) { lacking = lacking || len(p.ISR) < len(p.Replicas) })
		if lacking {
			looks++
		}
	}
}
