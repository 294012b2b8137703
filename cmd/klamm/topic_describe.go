package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func newTopicDescribe(std streams) *cobra.Command {
	var f clientFlags
	var show shownPartitions
	var output string
	cmd := &cobra.Command{
		Use:   "describe [TOPIC...]",
		Short: "Show leader, replicas, in-sync replicas and offsets of each partition",
		Long: "Show leader, replicas, in-sync replicas and offsets of each partition of the topics, or of all topics but\n" +
			"those that brokers keep for themselves. Of several flags that choose partitions, each adds its own.",
		Example: "  klamm topic describe orders\n" +
			"  klamm topic describe orders --output json\n" +
			"  klamm topic describe --under-replicated",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withAdmin(cmd.Context(), std, f, func(ctx context.Context, admin *kadm.Client) error {
				return describeTopics(ctx, std, output, admin, args, show)
			})
		},
	}
	f.register(cmd)
	registerOutput(cmd, &output)
	flags := cmd.Flags()
	flags.BoolVar(&show.underReplicated, "under-replicated", false, "only partitions that lack a replica in sync")
	flags.BoolVar(&show.underMinISR, "under-min-isr", false, "only partitions with fewer replicas in sync than min.insync.replicas: acks=all is refused")
	flags.BoolVar(&show.atMinISR, "at-min-isr", false, "only partitions with as many replicas in sync as min.insync.replicas: one fewer, and acks=all is refused")
	flags.BoolVar(&show.unavailable, "unavailable", false, "only partitions without a leader")
	return cmd
}

// shownPartitions choose some of a topic's partitions; without any, all.
type shownPartitions struct {
	underReplicated, underMinISR, atMinISR, unavailable bool
}

func (s shownPartitions) has(p kadm.PartitionDetail, minISR int) bool {
	return s == shownPartitions{} ||
		s.underReplicated && len(p.ISR) < len(p.Replicas) ||
		s.underMinISR && len(p.ISR) < minISR ||
		s.atMinISR && len(p.ISR) == minISR ||
		s.unavailable && p.Leader < 0
}

func describeTopics(ctx context.Context, std streams, output string, admin *kadm.Client, names []string, show shownPartitions) error {
	table, err := newTable(std.out, output, "TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "START", "END")
	if err != nil {
		return err
	}
	topics, failed, err := namedTopics(ctx, admin, names)
	if err != nil || len(topics) == 0 && len(failed) > 0 {
		return errors.Join(append(failed, err)...)
	}
	minISR, err := show.minISRs(ctx, admin, topics)
	if err != nil {
		return err
	}
	var begins, ends kadm.ListedOffsets
	if len(topics) > 0 { // none would be all
		if begins, err = partly(admin.ListStartOffsets(ctx, topics.Names()...)); err != nil {
			return err
		}
		if ends, err = partly(admin.ListEndOffsets(ctx, topics.Names()...)); err != nil {
			return err
		}
	}
	table.showHead()
	for _, t := range topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			if !show.has(p, minISR[t.Topic]) {
				continue
			}
			if err := table.row(
				t.Topic, p.Partition, nodeName(p.Leader), p.LeaderEpoch, nodeList(p.Replicas), nodeList(p.ISR),
				offsetCell(begins, t.Topic, p.Partition), offsetCell(ends, t.Topic, p.Partition),
			); err != nil {
				return err
			}
		}
	}
	return errors.Join(append(failed, table.flush())...)
}

// namedTopics are the topics of these names, without names all but internal ones, and what
// is wrong with the rest.
func namedTopics(ctx context.Context, admin *kadm.Client, names []string) (kadm.TopicDetails, []error, error) {
	list := admin.ListTopics
	if len(names) > 0 {
		list = admin.ListTopicsWithInternal
	}
	topics, err := list(ctx, names...)
	if err != nil {
		return nil, nil, err
	}
	var failed []error
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if err := topics[name].Err; err != nil {
			failed = append(failed, topicError(name, err))
			delete(topics, name)
		}
	}
	return topics, failed, nil
}

// minISRs are the topics' min.insync.replicas, if a flag needs them.
func (s shownPartitions) minISRs(ctx context.Context, admin *kadm.Client, topics kadm.TopicDetails) (map[string]int, error) {
	if !s.underMinISR && !s.atMinISR || len(topics) == 0 {
		return nil, nil
	}
	described, err := admin.DescribeTopicConfigs(ctx, topics.Names()...)
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, topic := range described {
		if topic.Err != nil {
			return nil, topicError(topic.Name, topic.Err)
		}
		for _, c := range topic.Configs {
			if c.Key == "min.insync.replicas" {
				found[topic.Name], err = strconv.Atoi(c.MaybeValue())
			}
		}
		if err != nil || found[topic.Name] == 0 {
			return nil, fmt.Errorf("topic %s: the cluster does not tell its min.insync.replicas", topic.Name)
		}
	}
	return found, nil
}

// nodeName is a node's id, or a word where there is none.
func nodeName(id int32) cell {
	if id < 0 {
		return cell{nil, "none"}
	}
	return cell{id, fmt.Sprint(id)}
}

// nodeList is a list of ids, for people with commas between them.
func nodeList(ids []int32) cell { return cell{ids, nodes(ids)} }

func nodes(ids []int32) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(ids), "[]"), " ", ",")
}

// partly takes offsets also where some leaders could not be asked, or there is none.
func partly(offsets kadm.ListedOffsets, err error) (kadm.ListedOffsets, error) {
	if _, some := errors.AsType[*kadm.ShardErrors](err); some {
		return offsets, nil
	}
	return offsets, err
}

// offsetCell is an offset, or "?" where the leader did not tell.
func offsetCell(offsets kadm.ListedOffsets, topic string, partition int32) cell {
	o, ok := offsets.Lookup(topic, partition)
	if !ok || o.Err != nil {
		return cell{nil, "?"}
	}
	return cell{o.Offset, fmt.Sprint(o.Offset)}
}
