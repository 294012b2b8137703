package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	loadProducers = 16
	loadConsumers = 16 // each reads everything
	loadLasts     = 10 * time.Second
)

// resident is the most memory that the broker has had so far, when many clients produce as
// fast as they can and as many read it all.
func (f *field) resident(partitions int32) value {
	return func(b *testing.B, s subject, name string) float64 {
		createTopic(b, s, name, partitions)
		ctx, cancel := context.WithTimeout(b.Context(), loadLasts)
		defer cancel()
		var clients sync.WaitGroup
		for range loadProducers {
			c := dial(b, s.addr, kgo.DefaultProduceTopic(name), kgo.ProducerBatchCompression(kgo.NoCompression()))
			clients.Go(func() {
				defer c.Close()
				produceUntil(ctx, c)
			})
		}
		for range loadConsumers {
			c := dial(b, s.addr, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			clients.Go(func() {
				defer c.Close()
				for ctx.Err() == nil {
					c.PollFetches(ctx)
				}
			})
		}
		clients.Wait()
		deleteTopics(b, s, name)
		return float64(peakResident(b, s.pids[0])) / (1 << 20)
	}
}

func produceUntil(ctx context.Context, c *kgo.Client) {
	value := make([]byte, recordSize)
	for ctx.Err() == nil {
		c.Produce(ctx, &kgo.Record{Value: value}, nil)
	}
}

// peakResident is what the kernel has seen since the process began.
func peakResident(b *testing.B, pid int) int64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		rest, found := strings.CutPrefix(line, "VmHWM:")
		if !found {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		return kib << 10
	}
	b.Fatalf("no VmHWM in /proc/%d/status", pid)
	return 0
}
