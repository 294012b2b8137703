package crash

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// watch reads a topic along from its start until ctx ends, and fails on a gap or a step
// back: nothing is compacted and there are no transactions, so offsets rise by one.
func watch(ctx context.Context, addr, topic string, h *history) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer client.Close()
	next := map[int32]int64{}
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("reader of %s: %w", topic, err)
		}
		for _, r := range fetches.Records() {
			if r.Offset != next[r.Partition] {
				return fmt.Errorf("reader of %s-%d: offset %d came when %d was due", topic, r.Partition, r.Offset, next[r.Partition])
			}
			next[r.Partition] = r.Offset + 1
			n, ok := parse(string(r.Value))
			if !ok {
				return fmt.Errorf("reader of %s-%d: nobody wrote what stands at offset %d: %q", topic, r.Partition, r.Offset, r.Value)
			}
			h.see(n, place{r.Partition, r.Offset})
		}
	}
}

// served is what a topic holds: each partition's records in order, the first at offset 0.
type served map[int32][]name

func (s served) records() (n int) {
	for _, names := range s {
		n += len(names)
	}
	return n
}

// readAll reads a topic from its start to its present end.
func readAll(ctx context.Context, addr, topic string) (served, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	want := int64(0)
	ends.Each(func(o kadm.ListedOffset) { want += o.Offset })
	s := served{}
	for got := int64(0); got < want; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("after %d of %d records: %w", got, want, err)
		}
		for _, r := range fetches.Records() {
			n, ok := parse(string(r.Value))
			if due := int64(len(s[r.Partition])); r.Offset != due || !ok {
				return nil, fmt.Errorf("partition %d: offset %d when %d was due, %q", r.Partition, r.Offset, due, r.Value)
			}
			s[r.Partition] = append(s[r.Partition], n)
			got++
		}
	}
	return s, nil
}
