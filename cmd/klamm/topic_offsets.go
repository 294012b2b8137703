package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func newTopicOffsets(std streams) *cobra.Command {
	var f clientFlags
	var at, output string
	cmd := &cobra.Command{
		Use:   "offsets TOPIC...",
		Short: "Show the offset of each partition at its start, its end, or a time",
		Long: "Show the offset of each partition of TOPIC or TOPIC:PARTITION,PARTITION at its start, its end, or a time:\n" +
			"the first record at or after it, the end where there is none.",
		Example: "  klamm topic offsets orders\n" +
			"  klamm topic offsets orders:0,1 --at start\n" +
			"  klamm topic offsets orders --at 2026-11-01T00:00:00Z\n" +
			"  klamm topic offsets orders --at newest --output json",
		Args: someArgs("topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := parseAt(at)
			if err != nil {
				return err
			}
			table, err := newTable(std.out, output, "TOPIC", "PARTITION", "OFFSET", "TIME")
			if err != nil {
				return err
			}
			return withAdmin(cmd.Context(), std, f, func(ctx context.Context, admin *kadm.Client) error {
				parts, err := namedPartitions(ctx, admin, args)
				if err != nil {
					return err
				}
				offsets, err := list(ctx, admin, topicsOf(parts)...)
				if err != nil {
					return err
				}
				return printOffsets(table, parts, offsets)
			})
		},
	}
	f.register(cmd)
	registerOutput(cmd, &output)
	cmd.Flags().StringVar(&at, "at", "end", "start, end, newest (the record of the highest time), or a time: 2026-11-01T00:00:00Z or @MS")
	return cmd
}

// listOffsets asks for one offset of each partition of topics.
type listOffsets func(ctx context.Context, admin *kadm.Client, topics ...string) (kadm.ListedOffsets, error)

func parseAt(at string) (listOffsets, error) {
	switch at {
	case "start":
		return func(ctx context.Context, admin *kadm.Client, topics ...string) (kadm.ListedOffsets, error) {
			return admin.ListStartOffsets(ctx, topics...)
		}, nil
	case "end":
		return func(ctx context.Context, admin *kadm.Client, topics ...string) (kadm.ListedOffsets, error) {
			return admin.ListEndOffsets(ctx, topics...)
		}, nil
	case "newest":
		return func(ctx context.Context, admin *kadm.Client, topics ...string) (kadm.ListedOffsets, error) {
			return admin.ListMaxTimestampOffsets(ctx, topics...)
		}, nil
	}
	ms, ok := parseDatetime(at)
	if !ok {
		return nil, usagef("--at %s: want start, end, newest, or a time such as 2026-11-01T00:00:00Z or @MS", at)
	}
	return func(ctx context.Context, admin *kadm.Client, topics ...string) (kadm.ListedOffsets, error) {
		return admin.ListOffsetsAfterMilli(ctx, ms, topics...)
	}, nil
}

// topicsOf are the topics of partitions, each once.
func topicsOf(parts []topicPartition) []string {
	var topics []string
	for _, p := range parts {
		topics = append(topics, p.topic)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

func printOffsets(table *table, parts []topicPartition, offsets kadm.ListedOffsets) error {
	table.showHead()
	var failed []error
	for _, p := range parts {
		o, answered := offsets.Lookup(p.topic, p.partition)
		if o.Err != nil || !answered {
			failed = append(failed, fmt.Errorf("offset of %s: %w", p, cmp.Or(o.Err, errNoAnswer)))
			continue
		}
		offset, when := orDash(""), orDash("") // there is no newest record where there is none
		if o.Offset >= 0 {
			offset = cell{o.Offset, fmt.Sprint(o.Offset)}
		}
		if o.Timestamp >= 0 {
			when = cell{o.Timestamp, time.UnixMilli(o.Timestamp).UTC().Format("2006-01-02T15:04:05.000Z")}
		}
		if err := table.row(p.topic, p.partition, offset, when); err != nil {
			return err
		}
	}
	return errors.Join(append(failed, table.flush())...)
}
