package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func newGroup(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "group",
		Short: "List, describe, reset and delete consumer groups",
		Example: "  klamm group describe billing\n" +
			"  klamm group reset billing --topic orders --to-earliest",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGroupList(std), newGroupDescribe(std), newGroupReset(std), newGroupDelete(std))
	return cmd
}

// withGroups is withAdmin for commands about named groups: it waits for their coordinators.
func withGroups(ctx context.Context, std streams, f clientFlags, names []string, fn func(context.Context, *kadm.Client) error) error {
	return withAdmin(ctx, std, f, func(ctx context.Context, admin *kadm.Client) error {
		awaitCoordinators(ctx, admin, names)
		return fn(ctx, admin)
	})
}

// coordinatorPause lies between two looks for a coordinator.
const coordinatorPause = 100 * time.Millisecond

// awaitCoordinators waits while groups have no coordinator yet, or it is still reading its
// log: a cluster makes the place for groups when it is first asked for one. What is wrong
// after the wait shows in the command itself.
func awaitCoordinators(ctx context.Context, admin *kadm.Client, names []string) {
	if len(names) == 0 {
		return
	}
	pause := time.NewTicker(coordinatorPause)
	defer pause.Stop()
	for {
		described, err := admin.DescribeGroups(ctx, names...)
		waits := isStarting(err)
		for _, g := range described {
			waits = waits || isStarting(g.Err)
		}
		if !waits {
			return
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

func isStarting(err error) bool {
	return errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, kerr.NotCoordinator)
}

func newGroupList(std streams) *cobra.Command {
	var f clientFlags
	var states, types []string
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List groups with their kind and state",
		Example: "  klamm group list\n" +
			"  klamm group list --state Stable,Empty",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withAdmin(cmd.Context(), std, f, func(ctx context.Context, admin *kadm.Client) error {
				groups, err := admin.ListGroupsByType(ctx, types, states...)
				if err != nil {
					return err
				}
				table, err := newTable(std.out, output, "GROUP", "TYPE", "PROTOCOL", "STATE", "COORDINATOR")
				if err != nil {
					return err
				}
				table.showHead()
				for _, g := range groups.Sorted() {
					if err := table.row(g.Group, orDash(g.GroupType), orDash(g.ProtocolType), orDash(g.State), g.Coordinator); err != nil {
						return err
					}
				}
				return table.flush()
			})
		},
	}
	f.register(cmd)
	registerOutput(cmd, &output)
	cmd.Flags().StringSliceVar(&states, "state", nil, "only groups in these states: Stable, Empty, PreparingRebalance …")
	cmd.Flags().StringSliceVar(&types, "type", nil, "only groups of these kinds: classic, consumer, share, streams")
	return cmd
}

// dash stands in a table where there is nothing to say.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func newGroupDelete(std streams) *cobra.Command {
	var f clientFlags
	var topics []string
	cmd := &cobra.Command{
		Use:   "delete GROUP...",
		Short: "Delete groups without members, or what they have committed for some topics",
		Example: "  klamm group delete billing\n" +
			"  klamm group delete billing --topic orders:0,1",
		Args: someArgs("group"),
		RunE: func(cmd *cobra.Command, groups []string) error {
			return withGroups(cmd.Context(), std, f, groups, func(ctx context.Context, admin *kadm.Client) error {
				if len(topics) == 0 {
					return deleteGroups(ctx, std, admin, groups)
				}
				parts, err := namedPartitions(ctx, admin, topics)
				if err != nil {
					return err
				}
				var failed []error
				for _, group := range groups {
					failed = append(failed, deleteOffsets(ctx, std, admin, group, parts))
				}
				return errors.Join(failed...)
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringArrayVar(&topics, "topic", nil, "delete only the offsets of this TOPIC or TOPIC:PARTITION,PARTITION; may be repeated")
	return cmd
}

func deleteGroups(ctx context.Context, std streams, admin *kadm.Client, groups []string) error {
	gone, err := admin.DeleteGroups(ctx, groups...)
	if err != nil && len(gone) == 0 {
		return err
	}
	var failed []error
	for _, group := range groups {
		answer, err := gone.On(group, nil)
		if err == nil {
			err = refused(answer.Err, answer.ErrMessage)
		}
		if err != nil {
			failed = append(failed, groupError(group, err))
			continue
		}
		fmt.Fprintln(std.out, "deleted", group)
	}
	return errors.Join(failed...)
}

func deleteOffsets(ctx context.Context, std streams, admin *kadm.Client, group string, parts []topicPartition) error {
	set := kadm.TopicsSet{}
	for _, p := range parts {
		set.Add(p.topic, p.partition)
	}
	gone, err := admin.DeleteOffsets(ctx, group, set)
	if err != nil {
		return groupError(group, err)
	}
	var failed []error
	for _, p := range parts {
		if err, answered := gone.Lookup(p.topic, p.partition); err != nil || !answered {
			failed = append(failed, fmt.Errorf("group %s: %s: %w", group, p, orNoAnswer(err)))
			continue
		}
		fmt.Fprintln(std.out, "deleted", group, p)
	}
	return errors.Join(failed...)
}

var errNoAnswer = errors.New("the broker's answer does not mention it")

func orNoAnswer(err error) error {
	if err == nil {
		return errNoAnswer
	}
	return err
}

// groupError says in plain words what is the matter with a group.
func groupError(group string, err error) error {
	switch {
	case errors.Is(err, kerr.GroupIDNotFound):
		return fmt.Errorf("group %s does not exist", group)
	case errors.Is(err, kerr.NonEmptyGroup):
		return fmt.Errorf("group %s has members; stop them first", group)
	}
	return fmt.Errorf("group %s: %w", group, err)
}
