package confined

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func dial(t testing.TB, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// carry has clients write so many records of 1 KiB to twelve partitions, while as many
// members of a group read them all.
func carry(t testing.TB, addr string, clients, records int) {
	t.Helper()
	const topic = "load"
	createTopic(t, addr, topic, 12)
	var work sync.WaitGroup
	var failed atomic.Pointer[error]
	for range clients {
		c := dial(t, addr, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
		work.Go(func() {
			for range records / clients {
				c.Produce(t.Context(), &kgo.Record{Value: make([]byte, 1<<10)}, func(_ *kgo.Record, err error) {
					if err != nil {
						failed.CompareAndSwap(nil, &err)
					}
				})
			}
			if err := c.Flush(t.Context()); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	ctx, done := context.WithCancel(t.Context())
	defer done()
	var seen atomic.Int64
	for range clients {
		c := dial(t, addr, kgo.ConsumeTopics(topic), kgo.ConsumerGroup("readers"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		work.Go(func() {
			for ctx.Err() == nil {
				if seen.Add(int64(c.PollFetches(ctx).NumRecords())) >= int64(records) {
					done()
				}
			}
		})
	}
	work.Wait()
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
	if t.Context().Err() != nil {
		t.Fatalf("%d of %d records were read", seen.Load(), records)
	}
}

func createTopic(t testing.TB, addr, name string, partitions int32) {
	t.Helper()
	if _, err := kadm.NewClient(dial(t, addr)).CreateTopic(t.Context(), partitions, 1, nil, name); err != nil {
		t.Fatal(err)
	}
}

// createTopics makes so many topics of one partition.
func createTopics(t testing.TB, addr string, count int) {
	t.Helper()
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("topic-%d", i)
	}
	made, err := kadm.NewClient(dial(t, addr)).CreateTopics(t.Context(), 1, 1, nil, names...)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}
