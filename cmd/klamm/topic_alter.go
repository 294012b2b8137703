package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func newTopicAlter(std streams) *cobra.Command {
	var f clientFlags
	var partitions int
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "alter TOPIC... --partitions N",
		Short: "Give topics more partitions",
		Long: "Give topics more partitions; they never get fewer. Records stay where they are, and those of a key may\n" +
			"go to another partition from then on. `klamm topic config` changes the settings of a topic.",
		Example: "  klamm topic alter orders --partitions 12",
		Args:    someArgs("topic"),
		RunE: func(cmd *cobra.Command, topics []string) error {
			if partitions < 1 {
				return usagef("want --partitions, at least 1 (see %s --help)", cmd.CommandPath())
			}
			return withAdmin(cmd.Context(), std, f, func(ctx context.Context, admin *kadm.Client) error {
				update, done := admin.UpdatePartitions, "changed"
				if dryRun {
					update, done = admin.ValidateUpdatePartitions, "would change"
				}
				answers, err := update(ctx, partitions, topics...)
				if err != nil {
					return err
				}
				return printEach(std, done, topics, func(topic string) error {
					answer, err := answers.On(topic, nil)
					return refused(cmp.Or(err, answer.Err), answer.ErrMessage)
				})
			})
		},
	}
	f.register(cmd)
	cmd.Flags().IntVarP(&partitions, "partitions", "p", 0, "how many it shall have")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "have the cluster check it and change nothing")
	return cmd
}

func newTopicTrim(std streams) *cobra.Command {
	var f clientFlags
	var before string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "trim TOPIC... --before WHERE",
		Short: "Delete the oldest records of topics",
		Long:  "Delete the records of TOPIC or TOPIC:PARTITION,PARTITION that are before an offset, a time, or the end.",
		Example: "  klamm topic trim orders:0 --before 1000\n" +
			"  klamm topic trim orders --before 2026-11-01T00:00:00Z --dry-run\n" +
			"  klamm topic trim orders --before end",
		Args: someArgs("topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if before == "" {
				return usagef("want --before (see %s --help)", cmd.CommandPath())
			}
			where, err := parseBefore(before)
			if err != nil {
				return err
			}
			return withAdmin(cmd.Context(), std, f, func(ctx context.Context, admin *kadm.Client) error {
				parts, err := namedPartitions(ctx, admin, args)
				if err != nil {
					return err
				}
				return trim(ctx, std, admin, parts, where, dryRun)
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&before, "before", "", "an offset, end, or a time: 2026-11-01T00:00:00Z or @MS")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show which offset each partition would begin at")
	return cmd
}

// parseBefore reads an offset, which is the same for all partitions, or what says it of each.
func parseBefore(before string) (listOffsets, error) {
	if n, err := strconv.ParseUint(before, 10, 63); err == nil {
		return func(ctx context.Context, admin *kadm.Client, topics ...string) (kadm.ListedOffsets, error) {
			offsets, err := admin.ListStartOffsets(ctx, topics...)
			for _, parts := range offsets {
				for p, o := range parts {
					o.Offset = int64(n)
					parts[p] = o
				}
			}
			return offsets, err
		}, nil
	}
	list, err := parseAt(before)
	if err != nil || before == "start" || before == "newest" {
		return nil, usagef("--before %s: want an offset, end, or a time such as 2026-11-01T00:00:00Z or @MS", before)
	}
	return list, nil
}

func trim(ctx context.Context, std streams, admin *kadm.Client, parts []topicPartition, where listOffsets, dryRun bool) error {
	found, err := where(ctx, admin, topicsOf(parts)...)
	if err != nil {
		return err
	}
	offsets := kadm.Offsets{}
	for _, p := range parts {
		o, answered := found.Lookup(p.topic, p.partition)
		if o.Err != nil || !answered {
			return fmt.Errorf("offset of %s: %w", p, cmp.Or(o.Err, errNoAnswer))
		}
		if dryRun {
			fmt.Fprintf(std.out, "%s would begin at %d\n", p, o.Offset)
		}
		offsets.Add(kadm.Offset{Topic: p.topic, Partition: p.partition, At: o.Offset})
	}
	if dryRun {
		return nil
	}
	answers, err := admin.DeleteRecords(ctx, offsets)
	if err != nil && len(answers) == 0 {
		return err
	}
	var failed []error
	for _, p := range parts {
		answer, answered := answers.Lookup(p.topic, p.partition)
		if answer.Err != nil || !answered {
			failed = append(failed, fmt.Errorf("%s: %w", p, cmp.Or(answer.Err, errNoAnswer)))
			continue
		}
		fmt.Fprintf(std.out, "%s begins at %d\n", p, answer.LowWatermark)
	}
	return errors.Join(failed...)
}
