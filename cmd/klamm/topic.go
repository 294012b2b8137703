package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

func newTopic(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "Make, list, describe, configure and delete topics",
		Example: "  klamm topic create orders --partitions 6\n" +
			"  klamm topic list",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTopicCreate(std), newTopicList(std), newTopicDescribe(std), newTopicConfig(std), newTopicDelete(std))
	return cmd
}

func newTopicCreate(std streams) *cobra.Command {
	var f clientFlags
	var partitions int32
	var replicas int16
	var configs []string
	cmd := &cobra.Command{
		Use:   "create TOPIC...",
		Short: "Make topics",
		Example: "  klamm topic create orders --partitions 6\n" +
			"  klamm topic create audit --config retention.ms=-1 --config durability=fsync",
		Args: someArgs("topic"),
		RunE: func(cmd *cobra.Command, topics []string) error {
			settings, err := parseSettings(configs)
			if err != nil {
				return err
			}
			return withAdmin(cmd.Context(), std, f, func(ctx context.Context, admin *kadm.Client) error {
				made, err := admin.CreateTopics(ctx, partitions, replicas, settings, topics...)
				if err != nil {
					return err
				}
				return printEach(std, "created", topics, func(topic string) error {
					answer, err := made.On(topic, nil)
					return refused(cmp.Or(err, answer.Err), answer.ErrMessage)
				})
			})
		},
	}
	f.register(cmd)
	cmd.Flags().Int32VarP(&partitions, "partitions", "p", -1, "number of partitions; -1 is the broker's num.partitions")
	cmd.Flags().Int16VarP(&replicas, "replicas", "r", -1, "copies of each partition; -1 is the broker's default.replication.factor")
	cmd.Flags().StringArrayVarP(&configs, "config", "c", nil, "setting name=value of the topic; may be repeated")
	return cmd
}

func parseSettings(pairs []string) (map[string]*string, error) {
	settings := map[string]*string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usagef("--config %q: want name=value", pair)
		}
		settings[name] = &value
	}
	return settings, nil
}

// printEach prints a line for each topic that went well, in the order given, and
// collects the failures.
func printEach(std streams, verb string, topics []string, outcome func(topic string) error) error {
	var failed []error
	for _, topic := range topics {
		if err := outcome(topic); err != nil {
			failed = append(failed, topicError(topic, err))
			continue
		}
		fmt.Fprintln(std.out, verb, topic)
	}
	return errors.Join(failed...)
}

// refused is err with the broker's own words where it gave any.
func refused(err error, message string) error {
	var kafka *kerr.Error
	if message == "" || !errors.As(err, &kafka) {
		return err
	}
	return refusal{kafka, message}
}

// refusal is a Kafka error whose description is the broker's instead of the library's.
type refusal struct {
	kind    *kerr.Error
	message string
}

func (r refusal) Error() string { return r.kind.Message + ": " + r.message }
func (r refusal) Unwrap() error { return r.kind }

func newTopicList(std streams) *cobra.Command {
	var f clientFlags
	var internal bool
	var output string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List topics with their partition and replica counts",
		Example: "  klamm topic list --bootstrap broker-1:9092,broker-2:9092",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withAdmin(cmd.Context(), std, f, func(ctx context.Context, admin *kadm.Client) error {
				topics, err := admin.ListTopicsWithInternal(ctx)
				if err != nil {
					return err
				}
				table, err := newTable(std.out, output, "TOPIC", "PARTITIONS", "REPLICAS", "ID")
				if err != nil {
					return err
				}
				table.showHead()
				for _, t := range topics.Sorted() {
					if t.IsInternal && !internal {
						continue
					}
					if err := table.row(t.Topic, len(t.Partitions), t.Partitions.NumReplicas(), uuid.UUID(t.ID)); err != nil {
						return err
					}
				}
				return table.flush()
			})
		},
	}
	f.register(cmd)
	registerOutput(cmd, &output)
	cmd.Flags().BoolVar(&internal, "internal", false, "also the topics that brokers keep for themselves")
	return cmd
}

func newTopicDescribe(std streams) *cobra.Command {
	var f clientFlags
	var output string
	cmd := &cobra.Command{
		Use:     "describe TOPIC...",
		Short:   "Show leader, replicas, in-sync replicas and offsets of each partition",
		Example: "  klamm topic describe orders\n  klamm topic describe orders --output json",
		Args:    someArgs("topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withAdmin(cmd.Context(), std, f, func(ctx context.Context, admin *kadm.Client) error {
				return describeTopics(ctx, std.out, output, admin, args)
			})
		},
	}
	f.register(cmd)
	registerOutput(cmd, &output)
	return cmd
}

func describeTopics(ctx context.Context, out io.Writer, output string, admin *kadm.Client, names []string) error {
	table, err := newTable(out, output, "TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "START", "END")
	if err != nil {
		return err
	}
	topics, err := admin.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range names {
		if err := topics[name].Err; err != nil {
			failed = append(failed, topicError(name, err))
			delete(topics, name)
		}
	}
	if len(topics) == 0 {
		return errors.Join(failed...)
	}
	begins, err := admin.ListStartOffsets(ctx, topics.Names()...)
	if err != nil {
		return err
	}
	ends, err := admin.ListEndOffsets(ctx, topics.Names()...)
	if err != nil {
		return err
	}
	table.showHead()
	for _, t := range topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
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

// offsetCell is an offset, or "?" where the leader did not tell.
func offsetCell(offsets kadm.ListedOffsets, topic string, partition int32) cell {
	o, ok := offsets.Lookup(topic, partition)
	if !ok || o.Err != nil {
		return cell{nil, "?"}
	}
	return cell{o.Offset, fmt.Sprint(o.Offset)}
}

func newTopicDelete(std streams) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:     "delete TOPIC...",
		Short:   "Delete topics and all their records",
		Example: "  klamm topic delete orders audit",
		Args:    someArgs("topic"),
		RunE: func(cmd *cobra.Command, topics []string) error {
			return withAdmin(cmd.Context(), std, f, func(ctx context.Context, admin *kadm.Client) error {
				gone, err := admin.DeleteTopics(ctx, topics...)
				if err != nil {
					return err
				}
				return printEach(std, "deleted", topics, func(topic string) error {
					answer, err := gone.On(topic, nil)
					return refused(cmp.Or(err, answer.Err), answer.ErrMessage)
				})
			})
		},
	}
	f.register(cmd)
	return cmd
}
