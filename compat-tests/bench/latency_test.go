package bench

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	perSecond     = 1000
	latencyWarm   = 2 * perSecond // records that are not counted
	latencyCounts = 8 * perSecond
)

// latency is a percentile, in ms, of the time from when a record was due to be sent until a
// consumer has it: one partition, acks=all, 1,000 records a second whether or not the
// broker keeps up.
func (f *field) latency(percentile int) value {
	return func(b *testing.B, s subject, name string) float64 {
		createTopic(b, s, name, 1)
		defer deleteTopics(b, s, name)
		in := dial(b, s.addr, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer in.Close()
		out := dial(b, s.addr, kgo.DefaultProduceTopic(name), kgo.ProducerLinger(0), kgo.RequiredAcks(kgo.AllISRAcks()))
		defer out.Close()

		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		defer cancel()
		sent := make(chan error, 1)
		go func() { sent <- sendSteadily(ctx, out, latencyWarm+latencyCounts) }()
		took := receive(ctx, b, in, latencyWarm+latencyCounts)[latencyWarm:]
		if err := <-sent; err != nil {
			b.Fatal(err)
		}
		slices.Sort(took)
		return float64(took[len(took)*percentile/100-1].Microseconds()) / 1000
	}
}

// sendSteadily sends count records, each of which says when it was due.
func sendSteadily(ctx context.Context, c *kgo.Client, count int) error {
	failed := make(chan error, 1)
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	begin := time.Now()
	for i := 0; i < count; {
		for ; i < count; i++ {
			due := begin.Add(time.Duration(i) * time.Second / perSecond)
			if time.Until(due) > 0 {
				break
			}
			value := make([]byte, recordSize)
			binary.BigEndian.PutUint64(value, uint64(due.UnixNano()))
			c.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
		}
		<-tick.C
	}
	if err := c.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// receive returns how late each of count records came, in the order of the log.
func receive(ctx context.Context, b *testing.B, c *kgo.Client, count int) (took []time.Duration) {
	b.Helper()
	for len(took) < count {
		fetches := c.PollFetches(ctx)
		now := time.Now()
		if err := fetches.Err(); err != nil {
			b.Fatalf("%d records of %d: %v", len(took), count, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			due := time.Unix(0, int64(binary.BigEndian.Uint64(r.Value)))
			took = append(took, now.Sub(due))
		})
	}
	return took
}
