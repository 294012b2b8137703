package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func newTopic(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "Make, list, describe and delete topics",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTopicCreate(std), newTopicList(std), newTopicDescribe(std), newTopicDelete(std))
	return cmd
}

// withAdmin runs fn with an admin client.
func withAdmin(ctx context.Context, f clientFlags, fn func(context.Context, *kadm.Client) error) error {
	client, err := f.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	return fn(ctx, kadm.NewClient(client))
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
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			settings, err := parseSettings(configs)
			if err != nil {
				return err
			}
			return withAdmin(cmd.Context(), f, func(ctx context.Context, admin *kadm.Client) error {
				made, err := admin.CreateTopics(ctx, partitions, replicas, settings, args...)
				if err != nil {
					return err
				}
				return printEach(std, "created", made.Sorted(), func(r kadm.CreateTopicResponse) (string, error) {
					return r.Topic, describeErr(r.Err, r.ErrMessage)
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

// printEach prints a line per success and collects the failures.
func printEach[T any](std streams, verb string, items []T, each func(T) (string, error)) error {
	var failed []error
	for _, item := range items {
		name, err := each(item)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
			continue
		}
		fmt.Fprintln(std.out, verb, name)
	}
	return errors.Join(failed...)
}

func describeErr(err error, message string) error {
	if err == nil || message == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, message)
}

func newTopicList(std streams) *cobra.Command {
	var f clientFlags
	var internal bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List topics with their partition and replica counts",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withAdmin(cmd.Context(), f, func(ctx context.Context, admin *kadm.Client) error {
				topics, err := admin.ListTopicsWithInternal(ctx)
				if err != nil {
					return err
				}
				w := tabwriter.NewWriter(std.out, 0, 8, 2, ' ', 0)
				fmt.Fprintln(w, "TOPIC\tPARTITIONS\tREPLICAS\tID")
				for _, t := range topics.Sorted() {
					if t.IsInternal && !internal {
						continue
					}
					fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", t.Topic, len(t.Partitions), t.Partitions.NumReplicas(), t.ID)
				}
				return w.Flush()
			})
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&internal, "internal", false, "also the topics that brokers keep for themselves")
	return cmd
}

func newTopicDescribe(std streams) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "describe TOPIC...",
		Short: "Show leader, replicas, in-sync replicas and offsets of each partition",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withAdmin(cmd.Context(), f, func(ctx context.Context, admin *kadm.Client) error {
				return describeTopics(ctx, std, admin, args)
			})
		},
	}
	f.register(cmd)
	return cmd
}

func describeTopics(ctx context.Context, std streams, admin *kadm.Client, names []string) error {
	topics, err := admin.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return err
	}
	if err := topics.Error(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(names, ", "), err)
	}
	begins, err := admin.ListStartOffsets(ctx, names...)
	if err != nil {
		return err
	}
	ends, err := admin.ListEndOffsets(ctx, names...)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(std.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "TOPIC\tPARTITION\tLEADER\tEPOCH\tREPLICAS\tIN SYNC\tSTART\tEND")
	for _, t := range topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			begin, _ := begins.Lookup(t.Topic, p.Partition)
			end, _ := ends.Lookup(t.Topic, p.Partition)
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%v\t%v\t%d\t%d\n",
				t.Topic, p.Partition, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR, begin.Offset, end.Offset)
		}
	}
	return w.Flush()
}

func newTopicDelete(std streams) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "delete TOPIC...",
		Short: "Delete topics and all their records",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withAdmin(cmd.Context(), f, func(ctx context.Context, admin *kadm.Client) error {
				gone, err := admin.DeleteTopics(ctx, args...)
				if err != nil {
					return err
				}
				return printEach(std, "deleted", gone.Sorted(), func(r kadm.DeleteTopicResponse) (string, error) {
					return r.Topic, describeErr(r.Err, r.ErrMessage)
				})
			})
		},
	}
	f.register(cmd)
	return cmd
}
