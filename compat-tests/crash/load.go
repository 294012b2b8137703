package crash

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// place is where a record was acknowledged to be.
type place struct {
	partition int32
	offset    int64
}

// history is what clients were told. Records are named by their value, which is
// "writer run number" and unique.
type history struct {
	acks atomic.Int64

	mu     sync.Mutex
	places map[string]place // acknowledged with a known place
	acked  map[string]bool  // acknowledged, place unknown to the client program
	sent   int
}

func newHistory() *history {
	return &history{places: map[string]place{}, acked: map[string]bool{}}
}

func (h *history) ackAt(value string, at place) {
	h.acks.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.places[value] = at
}

func (h *history) ackAll(values []string) {
	h.acks.Add(int64(len(values)))
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range values {
		h.acked[v] = true
	}
}

// franz writes with franz-go's default settings until ctx ends.
func franz(ctx context.Context, addr, topic string, h *history) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.MaxBufferedRecords(500))
	if err != nil {
		return err
	}
	defer client.Close()
	var failed atomic.Pointer[error]
	for i := 0; ctx.Err() == nil && failed.Load() == nil; i++ {
		value := fmt.Sprintf("franz 0 %d", i)
		// The record's own context never ends, so that its fate becomes known.
		client.Produce(context.WithoutCancel(ctx), &kgo.Record{Value: []byte(value)}, func(r *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
				return
			}
			h.ackAt(value, place{r.Partition, r.Offset})
		})
	}
	if err := client.Flush(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return fmt.Errorf("franz-go: %w", *err)
	}
	return nil
}

// runLines is how many records one run of a program writes.
const runLines = 300

// program starts a command that sends the lines of its standard input, run after run
// until ctx ends. Exit code 0 says that every line was acknowledged.
func program(ctx context.Context, name string, h *history, argv ...string) error {
	for run := 0; ctx.Err() == nil; run++ {
		values := make([]string, runLines)
		for i := range values {
			values[i] = fmt.Sprintf("%s %d %d", name, run, i)
		}
		cmd := exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...)
		cmd.Stdin = strings.NewReader(strings.Join(values, "\n") + "\n")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s, run %d: %w\n%s", name, run, err, &errs)
		}
		h.ackAll(values)
	}
	return nil
}
