package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

func dial(b *testing.B, addr string, opts ...kgo.Opt) *kgo.Client {
	b.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(addr, ",")...)}, opts...)...)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// firstAnswer asks for Metadata until it is answered.
func firstAnswer(b *testing.B, addr string) {
	b.Helper()
	c := dial(b, addr)
	defer c.Close()
	for {
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		_, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, c)
		cancel()
		if err == nil {
			return
		}
	}
}

// start runs a broker until its first answer, and reports how long that took.
func start(b *testing.B, broker *harness.Broker) time.Duration {
	begin := time.Now()
	broker.Start()
	firstAnswer(b, broker.Addr)
	return time.Since(begin)
}

// BenchmarkStartEmpty: from exec to the first answered Metadata, in a new directory.
func BenchmarkStartEmpty(b *testing.B) {
	var took time.Duration
	for b.Loop() {
		broker := harness.New(b)
		took += start(b, broker)
		broker.Kill()
	}
	b.ReportMetric(float64(took.Milliseconds())/float64(b.N), "ms/start")
}

// partitions and bytesTotal of BenchmarkStartAfterKill.
const (
	partitions = 2000
	bytesTotal = 5 << 30
)

// BenchmarkStartAfterKill: the same after SIGKILL, with 2,000 partitions and 5 GB.
func BenchmarkStartAfterKill(b *testing.B) {
	broker := harness.Start(b)
	fill(b, broker.Addr, "full", partitions, bytesTotal)
	broker.Kill()
	var took time.Duration
	for b.Loop() {
		took += start(b, broker)
		broker.Kill()
	}
	b.ReportMetric(float64(took.Milliseconds())/float64(b.N), "ms/start")
}

// fill writes random-looking records of 10 KiB, total bytes in all.
func fill(b *testing.B, addr, topic string, partitions int32, total int) {
	b.Helper()
	c := dial(b, addr, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	defer c.Close()
	if _, err := kadm.NewClient(c).CreateTopic(b.Context(), partitions, 1, nil, topic); err != nil {
		b.Fatal(err)
	}
	value := make([]byte, 10<<10)
	for i := range value {
		value[i] = byte(i * 7)
	}
	var failed atomic.Pointer[error]
	for written := 0; written < total; written += len(value) {
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

// BenchmarkIdle: memory, and CPU over 20 s, of a broker that nobody uses.
func BenchmarkIdle(b *testing.B) {
	broker := harness.Start(b)
	firstAnswer(b, broker.Addr)
	const window = 20 * time.Second
	var used time.Duration
	for b.Loop() {
		before := cpu(b, broker.Pid())
		<-time.After(window)
		used += cpu(b, broker.Pid()) - before
	}
	b.ReportMetric(100*used.Seconds()/(float64(b.N)*window.Seconds()), "%core")
	b.ReportMetric(float64(resident(b, broker.Pid()))/(1<<20), "MiB-resident")
}

// cpu is the user and system time that processes have used.
func cpu(b *testing.B, pids ...int) (used time.Duration) {
	b.Helper()
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Fatal(err)
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, f := range fields[11:13] {
			ticks, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			used += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return used
}

func resident(b *testing.B, pid int) int64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// BenchmarkBinary: the size of the binary that `make build` makes.
func BenchmarkBinary(b *testing.B) {
	info, err := os.Stat("../../bin/klamm")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
	}
	b.ReportMetric(float64(info.Size())/(1<<20), "MiB")
}

// BenchmarkProduce and BenchmarkFetch carry 1 KiB records, acks=all, with franz-go on the
// same machine.
func BenchmarkProduce(b *testing.B) {
	for _, parts := range []int32{1, 12} {
		b.Run(fmt.Sprintf("partitions=%d", parts), func(b *testing.B) {
			broker := harness.Start(b)
			const total = 512 << 20
			begin, before := time.Now(), cpu(b, broker.Pid())
			for i := 0; b.Loop(); i++ {
				fillSmall(b, broker.Addr, fmt.Sprint("t", i), parts, total)
			}
			report(b, broker, total, time.Since(begin), cpu(b, broker.Pid())-before)
		})
	}
}

func BenchmarkFetch(b *testing.B) {
	for _, parts := range []int32{1, 12} {
		b.Run(fmt.Sprintf("partitions=%d", parts), func(b *testing.B) {
			broker := harness.Start(b)
			const total = 512 << 20
			fillSmall(b, broker.Addr, "read", parts, total)
			begin, before := time.Now(), cpu(b, broker.Pid())
			for b.Loop() {
				drain(b, broker.Addr, "read", total)
			}
			report(b, broker, total, time.Since(begin), cpu(b, broker.Pid())-before)
		})
	}
}

// drain reads a topic from the start until it has so many bytes of values.
func drain(b *testing.B, addr, topic string, total int) {
	b.Helper()
	c := dial(b, addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	for got := 0; got < total; {
		fetches := c.PollFetches(b.Context())
		if err := fetches.Err(); err != nil {
			b.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got += len(r.Value) })
	}
}

func report(b *testing.B, broker *harness.Broker, total int, wall, used time.Duration) {
	bytes := float64(total) * float64(b.N)
	b.ReportMetric(bytes/1e6/wall.Seconds(), "MB/s")
	b.ReportMetric(used.Seconds()/(bytes/1e9), "broker-cpu-s/GB")
	b.ReportMetric(float64(resident(b, broker.Pid()))/(1<<20), "MiB-resident")
}

func fillSmall(b *testing.B, addr, topic string, partitions int32, total int) {
	b.Helper()
	c := dial(b, addr, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer c.Close()
	if _, err := kadm.NewClient(c).CreateTopic(b.Context(), partitions, 1, nil, topic); err != nil {
		b.Fatal(err)
	}
	value := make([]byte, 1<<10)
	var failed atomic.Pointer[error]
	for written := 0; written < total; written += len(value) {
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
