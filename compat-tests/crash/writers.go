package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// franz writes with franz-go's default settings until ctx ends.
func franz(ctx context.Context, addr, topic string, h *history) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.MaxBufferedRecords(500))
	if err != nil {
		return err
	}
	defer client.Close()
	var failed atomic.Pointer[error]
	for i := 0; ctx.Err() == nil && failed.Load() == nil; i++ {
		// The record's own context never ends, so that its fate becomes known.
		record := &kgo.Record{Value: []byte(value("franz", 0, i))}
		client.Produce(context.WithoutCancel(ctx), record, func(r *kgo.Record, err error) {
			if err != nil {
				err = fmt.Errorf("record %d: %w", i, err)
				failed.CompareAndSwap(nil, &err)
				return
			}
			h.ack(name{"franz", 0, i}, place{r.Partition, r.Offset})
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

// maxRun bounds one run of a program: long enough for it to live through several kills.
const maxRun = 3 * time.Second

// program runs a command that sends the lines of its standard input, again and again
// until ctx ends. Lines come in bursts over the run. Exit code 0 acknowledges them all.
func program(ctx context.Context, writer string, rng *rand.Rand, h *history, argv ...string) error {
	for run := 0; ctx.Err() == nil; run++ {
		cmd := exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		stdin, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		lines, feedErr := feed(ctx, writer, run, rng, stdin)
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%s, run %d: %w\n%s", writer, run, err, &errs)
		}
		if feedErr != nil {
			return fmt.Errorf("%s, run %d: %w", writer, run, feedErr)
		}
		for i := range lines {
			h.ack(name{writer, run, i}, unknownPlace)
		}
	}
	return nil
}

// feed writes lines in bursts until the run's time is over, and returns their number.
func feed(ctx context.Context, writer string, run int, rng *rand.Rand, to io.WriteCloser) (lines int, err error) {
	defer func() { err = errors.Join(err, to.Close()) }()
	over := time.NewTimer(upTo(rng, maxRun))
	defer over.Stop()
	burst := time.NewTicker(5 * time.Millisecond)
	defer burst.Stop()
	for {
		for range rng.IntN(40) {
			if _, err := io.WriteString(to, value(writer, run, lines)+"\n"); err != nil {
				return lines, err
			}
			lines++
		}
		select {
		case <-burst.C:
		case <-over.C:
			return lines, nil
		case <-ctx.Done():
			return lines, nil
		}
	}
}
