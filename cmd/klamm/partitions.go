package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// topicPartition names one partition.
type topicPartition struct {
	topic     string
	partition int32
}

func (p topicPartition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.partition) }

func comparePartitions(a, b topicPartition) int {
	return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}

// sortedPartitions are the keys of a map, by topic and number.
func sortedPartitions[V any](of map[topicPartition]V) []topicPartition {
	keys := make([]topicPartition, 0, len(of))
	for p := range of {
		keys = append(keys, p)
	}
	slices.SortFunc(keys, comparePartitions)
	return keys
}

// namedPartitions reads arguments TOPIC (all of its partitions) and
// TOPIC:PARTITION,PARTITION, and checks that there are such partitions.
func namedPartitions(ctx context.Context, admin *kadm.Client, args []string) ([]topicPartition, error) {
	asked := map[topicPartition]bool{}
	whole := map[string]bool{}
	for _, arg := range args {
		topic, list, some := strings.Cut(arg, ":")
		if topic == "" {
			return nil, usagef("%q: want TOPIC or TOPIC:PARTITION,PARTITION", arg)
		}
		whole[topic] = whole[topic] || !some
		if !some {
			continue
		}
		for number := range strings.SplitSeq(list, ",") {
			n, err := strconv.ParseUint(number, 10, 31)
			if err != nil {
				return nil, usagef("%s: %q is not the number of a partition", arg, number)
			}
			asked[topicPartition{topic, int32(n)}] = true
		}
	}
	return existing(ctx, admin, asked, whole)
}

// existing completes topics that are wanted as a whole, and refuses what does not exist.
func existing(ctx context.Context, admin *kadm.Client, asked map[topicPartition]bool, whole map[string]bool) ([]topicPartition, error) {
	names := map[string]bool{}
	for topic := range whole {
		names[topic] = true
	}
	for p := range asked {
		names[p.topic] = true
	}
	if len(names) == 0 {
		return nil, nil
	}
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	topics, err := admin.ListTopicsWithInternal(ctx, list...)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, name := range list {
		if err := topics[name].Err; err != nil {
			failed = append(failed, topicError(name, err))
			continue
		}
		for _, p := range topics[name].Partitions {
			if whole[name] {
				asked[topicPartition{name, p.Partition}] = true
			}
		}
	}
	parts := sortedPartitions(asked)
	for _, p := range parts {
		if t := topics[p.topic]; t.Err == nil && int(p.partition) >= len(t.Partitions) {
			failed = append(failed, fmt.Errorf("topic %s has no partition %d", p.topic, p.partition))
		}
	}
	return parts, errors.Join(failed...)
}
