package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

func newTopic(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "Make, list, describe, change and delete topics",
		Example: "  klamm topic create orders --partitions 6\n" +
			"  klamm topic list",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newTopicCreate(std), newTopicList(std), newTopicDescribe(std), newTopicOffsets(std), newTopicConfig(std),
		newTopicAlter(std), newTopicTrim(std), newTopicDelete(std),
	)
	return cmd
}

func newTopicCreate(std streams) *cobra.Command {
	var f clientFlags
	var partitions int32
	var replicas int16
	var configs []string
	var ifNotExists, dryRun bool
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
				create, done := admin.CreateTopics, "created"
				if dryRun {
					create, done = admin.ValidateCreateTopics, "would create"
				}
				made, err := create(ctx, partitions, replicas, settings, topics...)
				if err != nil {
					return err
				}
				return printEach(std, done, topics, func(topic string) error {
					answer, err := made.On(topic, nil)
					if ifNotExists && errors.Is(answer.Err, kerr.TopicAlreadyExists) {
						return errAsWanted
					}
					return refused(cmp.Or(err, answer.Err), answer.ErrMessage)
				})
			})
		},
	}
	f.register(cmd)
	cmd.Flags().Int32VarP(&partitions, "partitions", "p", -1, "number of partitions; -1 is the broker's num.partitions")
	cmd.Flags().Int16VarP(&replicas, "replicas", "r", -1, "copies of each partition; -1 is the broker's default.replication.factor")
	cmd.Flags().StringArrayVarP(&configs, "config", "c", nil, "setting name=value of the topic; may be repeated")
	cmd.Flags().BoolVar(&ifNotExists, "if-not-exists", false, "leave topics that exist as they are")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "have the cluster check it and make none")
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

// errAsWanted is the outcome of a topic that needs no change, and no word.
var errAsWanted = errors.New("it is so already")

// printEach prints a line for each topic that went well, in the order given, and
// collects the failures.
func printEach(std streams, verb string, topics []string, outcome func(topic string) error) error {
	var failed []error
	for _, topic := range topics {
		switch err := outcome(topic); {
		case err == nil:
			fmt.Fprintln(std.out, verb, topic)
		case !errors.Is(err, errAsWanted):
			failed = append(failed, topicError(topic, err))
		}
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

func newTopicDelete(std streams) *cobra.Command {
	var f clientFlags
	var ifExists bool
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
					if ifExists && errors.Is(answer.Err, kerr.UnknownTopicOrPartition) {
						return errAsWanted
					}
					return refused(cmp.Or(err, answer.Err), answer.ErrMessage)
				})
			})
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&ifExists, "if-exists", false, "topics that do not exist are no mistake")
	return cmd
}
