package crash

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// served is what a topic holds: for each value where it stands.
type served struct {
	places map[string][]place
	order  map[int32][]string // values of each partition in order
}

// read reads a topic from its start to its present end.
func read(ctx context.Context, addr, topic string) (*served, error) {
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
	s := &served{places: map[string][]place{}, order: map[int32][]string{}}
	for got := int64(0); got < want; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("after %d of %d records: %w", got, want, err)
		}
		for _, r := range fetches.Records() {
			value := string(r.Value)
			s.places[value] = append(s.places[value], place{r.Partition, r.Offset})
			s.order[r.Partition] = append(s.order[r.Partition], value)
			got++
		}
	}
	return s, nil
}

// check compares what is served with what was acknowledged, and returns the faults.
func check(h *history, s *served) (faults []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for value, at := range h.places {
		if where := s.places[value]; len(where) != 1 || where[0] != at {
			faults = append(faults, fmt.Sprintf("%q was acknowledged at %v and is at %v", value, at, where))
		}
	}
	for value := range h.acked {
		if where := s.places[value]; len(where) != 1 {
			faults = append(faults, fmt.Sprintf("%q was acknowledged and is at %v", value, where))
		}
	}
	for partition, values := range s.order {
		faults = append(faults, outOfOrder(partition, values)...)
	}
	return faults
}

// outOfOrder finds records of one run of a writer that stand before an earlier one.
func outOfOrder(partition int32, values []string) (faults []string) {
	last := map[string]int{}
	for _, value := range values {
		cut := strings.LastIndexByte(value, ' ')
		run, number := value[:cut], value[cut+1:]
		n, err := strconv.Atoi(number)
		if err != nil {
			faults = append(faults, fmt.Sprintf("partition %d holds %q, which nobody wrote", partition, value))
			continue
		}
		if before, seen := last[run]; seen && n <= before {
			faults = append(faults, fmt.Sprintf("partition %d: %q stands after number %d of its run", partition, value, before))
		}
		last[run] = n
	}
	return faults
}
