package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newClusterRemove(std streams) *cobra.Command {
	var f clientFlags
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "remove NODE",
		Short: "Forget a broker that has no partitions and is stopped",
		Long: "Make the cluster forget a broker. That is refused while it has replicas, which `klamm cluster drain` moves\n" +
			"away, and while it runs, since it would register again.",
		Example: "  klamm cluster remove 3 --dry-run\n" +
			"  klamm cluster remove 3",
		Args: oneArg("node"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseNode(args[0])
			if err != nil {
				return err
			}
			return withClient(cmd.Context(), std, f, func(ctx context.Context, client *kgo.Client) error {
				view, err := viewCluster(ctx, client)
				if err != nil {
					return err
				}
				if err := mayRemove(view, id); err != nil {
					return err
				}
				done := "would remove"
				if !dryRun {
					done = "removed"
					if err := unregister(ctx, client, id); err != nil {
						return fmt.Errorf("node %d: %w", id, err)
					}
				}
				fmt.Fprintln(std.out, done, id)
				if view.node(id).voter {
					fmt.Fprintf(std.err, "node %d stays a voter of the metadata quorum: a majority of voters, it included, has to run\n", id)
				}
				return nil
			})
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check that it may be removed, and change nothing")
	return cmd
}

// mayRemove tells what is against it.
func mayRemove(view *clusterView, id int32) error {
	var held []topicPartition
	view.partitions(func(p kadm.PartitionDetail) {
		if slices.Contains(p.Replicas, id) {
			held = append(held, topicPartition{p.Topic, p.Partition})
		}
	})
	switch n := view.node(id); {
	case n == nil || !n.broker:
		return fmt.Errorf("there is no broker %d", id)
	case len(held) > 0:
		return fmt.Errorf("node %d has replicas of %d partitions, %s the first; `klamm cluster drain %d` moves them away", id, len(held), held[0], id)
	case n.active():
		return fmt.Errorf("node %d runs; stop it first", id)
	}
	return nil
}

func unregister(ctx context.Context, client *kgo.Client, id int32) error {
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = id
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return refused(kerr.ErrorForCode(resp.ErrorCode), text(resp.ErrorMessage))
}
