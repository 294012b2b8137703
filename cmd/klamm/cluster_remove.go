package main

import (
	"context"
	"errors"
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
		Short: "Forget a broker that has no partitions and is stopped, or a controller",
		Long: "Make the cluster forget a node: as a voter of the metadata quorum, if it is one, and as a broker. That is refused\n" +
			"while the broker has replicas, which `klamm cluster drain` moves away, and while it runs, since it would register\n" +
			"again.",
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
				if dryRun {
					_, err = fmt.Fprintln(std.out, "would remove", id)
					return err
				}
				if err := removeNode(ctx, client, std, view.node(id)); err != nil {
					return fmt.Errorf("node %d: %w", id, err)
				}
				_, err = fmt.Fprintln(std.out, "removed", id)
				return err
			})
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check that it may be removed, and change nothing")
	return cmd
}

// mayRemove tells what is against it.
func mayRemove(view *clusterView, id int32) error {
	if err := view.knowsVoters(); err != nil {
		return err
	}
	var held []topicPartition
	view.partitions(func(p kadm.PartitionDetail) {
		if slices.Contains(p.Replicas, id) {
			held = append(held, topicPartition{p.Topic, p.Partition})
		}
	})
	switch n := view.node(id); {
	case n == nil || !n.broker && !n.voter:
		return fmt.Errorf("there is no broker and no voter %d", id)
	case len(held) > 0:
		return fmt.Errorf("node %d has replicas of %d partitions, %s the first; `klamm cluster drain %d` moves them away", id, len(held), held[0], id)
	case n.active():
		return fmt.Errorf("node %d runs; stop it first", id)
	}
	return nil
}

// removeNode takes a node's vote away first: then it counts for nothing any more. Where the
// configuration names the voters the vote stays, and the broker can be forgotten all the same.
func removeNode(ctx context.Context, client *kgo.Client, std streams, n *clusterNode) error {
	if n.voter {
		switch err := removeVoter(ctx, client, n); {
		case err != nil && n.broker && errors.Is(err, kerr.UnsupportedVersion):
			fmt.Fprintf(std.err, "node %d stays a voter: %v\n", n.id, err)
		case err != nil:
			return err
		}
	}
	if !n.broker {
		return nil
	}
	return unregister(ctx, client, n.id)
}

func removeVoter(ctx context.Context, client *kgo.Client, n *clusterNode) error {
	req := kmsg.NewPtrRemoveRaftVoterRequest()
	req.VoterID, req.VoterDirectoryID = n.id, n.directory
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return refused(kerr.ErrorForCode(resp.ErrorCode), text(resp.ErrorMessage))
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
