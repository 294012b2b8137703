package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newClusterAdd(std streams) *cobra.Command {
	var f clientFlags
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "add NODE LISTENER://HOST:PORT",
		Short: "Have another controller vote in the metadata quorum",
		Long: "Make a controller that runs and observes the metadata log one of those that vote in its quorum. The address is\n" +
			"that of its listener for controllers. It observes when its controller.quorum.bootstrap.servers name those that\n" +
			"there are. Brokers that are no controllers need not be added. Name all controllers in\n" +
			"controller.quorum.bootstrap.servers of each of them afterwards.",
		Example: "  klamm cluster add 2 CONTROLLER://klamm-2.example:9093 --dry-run\n" +
			"  klamm cluster add 2 CONTROLLER://klamm-2.example:9093",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("want a node and its address, got %d arguments (see %s --help)", len(args), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseNode(args[0])
			if err != nil {
				return err
			}
			listener, err := parseVoterListener(args[1])
			if err != nil {
				return err
			}
			return withClient(cmd.Context(), std, f, func(ctx context.Context, client *kgo.Client) error {
				view, err := viewCluster(ctx, client)
				if err != nil {
					return err
				}
				if err := mayAdd(view, id); err != nil {
					return err
				}
				done := "would add"
				if !dryRun {
					done = "added"
					if err := addVoter(ctx, client, view.node(id), listener, f.timeout.Milliseconds()); err != nil {
						return fmt.Errorf("node %d: %w", id, err)
					}
				}
				_, err = fmt.Fprintln(std.out, done, id)
				return err
			})
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check that it may be added, and change nothing")
	return cmd
}

func parseVoterListener(arg string) (l kmsg.AddRaftVoterRequestListener, err error) {
	name, address, named := strings.Cut(arg, "://")
	host, port, err := net.SplitHostPort(address)
	n, numErr := strconv.ParseUint(port, 10, 16)
	if !named || name == "" || err != nil || numErr != nil || host == "" || n == 0 {
		return l, usagef("%q: want LISTENER://HOST:PORT, as in CONTROLLER://klamm-2.example:9093", arg)
	}
	l.Name, l.Host, l.Port = strings.ToUpper(name), host, uint16(n)
	return l, nil
}

// mayAdd tells what is against it.
func mayAdd(view *clusterView, id int32) error {
	if err := view.knowsVoters(); err != nil {
		return err
	}
	switch n := view.node(id); {
	case n != nil && n.voter:
		return fmt.Errorf("node %d is a voter already", id)
	case n == nil || !n.observer:
		return fmt.Errorf("node %d does not observe the metadata log: start it with controller.quorum.bootstrap.servers that name the controllers", id)
	}
	return nil
}

func addVoter(ctx context.Context, client *kgo.Client, n *clusterNode, l kmsg.AddRaftVoterRequestListener, timeout int64) error {
	req := kmsg.NewPtrAddRaftVoterRequest()
	req.TimeoutMillis, req.VoterID, req.VoterDirectoryID = int32(timeout), n.id, n.directory
	req.Listeners = append(req.Listeners, l)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return refused(kerr.ErrorForCode(resp.ErrorCode), text(resp.ErrorMessage))
}
