package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/java"
)

// steadyRate is records a second of a steady producer, each to the next partition.
const steadyRate = 1000

// wait is a record that did not get its acknowledgement at once.
type wait struct {
	partition   int32
	sent, acked time.Time
}

// shortestWait is the least that is noted.
const shortestWait = 20 * time.Millisecond

// steady is a producer with default settings that goes on until it is stopped, at the latest
// at the end of the benchmark.
type steady interface {
	// waits gives those so far of records sent since then, and the failures.
	waits(since time.Time) ([]wait, []string)
	stop()
}

// franzSteady is franz-go's.
type franzSteady struct {
	mu     sync.Mutex
	waited []wait
	failed []string

	end func()
}

func startFranzSteady(b *testing.B, addr, topic string, partitions int32) *franzSteady {
	b.Helper()
	f := &franzSteady{}
	c := dial(b, addr, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run(ctx, c, partitions)
	}()
	f.end = sync.OnceFunc(func() {
		cancel()
		<-done
		c.Close()
	})
	b.Cleanup(f.end)
	return f
}

func (f *franzSteady) stop() { f.end() }

func (f *franzSteady) run(ctx context.Context, c *kgo.Client, partitions int32) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	begin := time.Now()
	for i := int64(0); ctx.Err() == nil; {
		for due := int64(time.Since(begin) * steadyRate / time.Second); i < due; i++ {
			f.send(ctx, c, int32(i%int64(partitions)))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (f *franzSteady) send(ctx context.Context, c *kgo.Client, partition int32) {
	sent := time.Now()
	c.Produce(ctx, &kgo.Record{Value: make([]byte, 100), Partition: partition}, func(_ *kgo.Record, err error) {
		acked := time.Now()
		if err == nil && acked.Sub(sent) < shortestWait || ctx.Err() != nil {
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if err != nil {
			f.failed = append(f.failed, fmt.Sprintf("partition %d: %v", partition, err))
			return
		}
		f.waited = append(f.waited, wait{partition, sent, acked})
	})
}

func (f *franzSteady) waits(since time.Time) (found []wait, failed []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.waited {
		if !w.acked.Before(since) {
			found = append(found, w)
		}
	}
	return found, f.failed
}

// javaSteady is Kafka's.
type javaSteady struct {
	b *testing.B
	p *java.Process
}

func startJavaSteady(b *testing.B, addr, topic string, partitions int32) *javaSteady {
	b.Helper()
	p := java.Run(b, "producer", "SteadyProducer.java", addr, topic, strconv.Itoa(int(partitions)), strconv.Itoa(steadyRate))
	p.Await("^waited") // the first record waits for metadata
	return &javaSteady{b, p}
}

func (j *javaSteady) waits(since time.Time) (found []wait, failed []string) {
	j.b.Helper()
	for _, line := range j.p.Lines() {
		if rest, isFailure := strings.CutPrefix(line, "failed "); isFailure {
			failed = append(failed, "partition "+rest)
			continue
		}
		var partition int32
		var sent, acked int64
		if n, _ := fmt.Sscanf(line, "waited %d %d %d", &partition, &sent, &acked); n != 3 {
			continue // what its logger says
		}
		if w := (wait{partition, time.UnixMilli(sent), time.UnixMilli(acked)}); !w.acked.Before(since) {
			found = append(found, w)
		}
	}
	return found, failed
}

func (j *javaSteady) stop() { j.p.Kill() }
