package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Features that decide what may be in the metadata log: Klamm's, and Kafka's.
const (
	klammMetadata = "klamm.metadata"
	kafkaMetadata = "metadata.version"
)

func newClusterFeatures(std streams) *cobra.Command {
	var f clientFlags
	var output string
	cmd := &cobra.Command{
		Use:   "features",
		Short: "Show the levels of features in force, and which nodes hold them back",
		Long: "Show for each feature the level in force, the highest one that a node knows, and the nodes that know less:\n" +
			"a level can be raised when there are none of them, by `klamm cluster upgrade`. Nodes that do not answer are\n" +
			"unknown; what they know counts for the cluster all the same.",
		Example: "  klamm cluster features\n" +
			"  klamm cluster features --output json",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			table, err := newTable(std.out, output, "FEATURE", "LEVEL", "POSSIBLE", "NEWEST", "HELD BACK BY", "UNKNOWN")
			if err != nil {
				return err
			}
			return withClient(cmd.Context(), std, f, func(ctx context.Context, client *kgo.Client) error {
				levels, err := viewFeatures(ctx, client, f.clientID)
				if err != nil {
					return err
				}
				table.showHead()
				for _, l := range levels {
					if err := table.row(l.Feature, l.Level, l.Possible, l.Newest, idList(l.HeldBackBy), idList(l.Unknown)); err != nil {
						return err
					}
				}
				return table.flush()
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or json: one object for each feature")
	return cmd
}

// idList shows nodes in a table: for programs always as a list.
func idList(ids []int32) cell {
	if len(ids) == 0 {
		return cell{[]int32{}, "-"}
	}
	return cell{ids, nodes(ids)}
}

// featureLevel is a feature of a cluster, as JSON shows it.
type featureLevel struct {
	Feature    string  `json:"feature"`
	Level      int16   `json:"level"`        // in force; 0: none
	Possible   int16   `json:"possible"`     // the highest that all know that have answered
	Newest     int16   `json:"newest"`       // the highest that one of them knows
	HeldBackBy []int32 `json:"held_back_by"` // who knows less than that
	Unknown    []int32 `json:"unknown"`      // who has not answered
}

// String is a line for people.
func (l featureLevel) String() string {
	s := l.Feature + " " + strconv.Itoa(int(l.Level))
	switch {
	case l.Possible > l.Level:
		s += fmt.Sprintf(", may be raised to %d", l.Possible)
	case l.Newest > l.Level:
		s += fmt.Sprintf(", %d is held back by %s", l.Newest, nodes(l.HeldBackBy))
	}
	if l.Newest > l.Level && len(l.Unknown) > 0 {
		s += ", not known of " + nodes(l.Unknown)
	}
	return s
}

// nodeFeatures is what a node says of features.
type nodeFeatures struct {
	node      int32
	answered  bool
	epoch     int64            // of the levels in force
	finalized map[string]int16 // in force
	most      map[string]int16 // the highest that it knows
}

// viewFeatures asks all nodes of a cluster.
func viewFeatures(ctx context.Context, client *kgo.Client, clientID string) ([]featureLevel, error) {
	var view clusterView
	nodes := map[int32]*clusterNode{}
	if err := view.addBrokers(ctx, client, nodes); err != nil {
		return nil, err
	}
	if err := view.addQuorum(ctx, client, nodes); err != nil {
		return nil, err
	}
	view.setNodes(nodes)
	return view.features(ctx, clientID)
}

// features asks the nodes of the view, all at once.
func (v *clusterView) features(ctx context.Context, clientID string) ([]featureLevel, error) {
	told := make([]nodeFeatures, 0, len(v.nodes))
	for i := range v.nodes {
		// An observer that is no broker keeps nothing back: it may be the copy of one that has gone.
		if n := &v.nodes[i]; n.broker || n.voter {
			told = append(told, nodeFeatures{node: n.id})
		}
	}
	var asking sync.WaitGroup
	for i := range told {
		if address := v.node(told[i].node).address; address != "" {
			asking.Go(func() { told[i].ask(ctx, address, clientID) })
		}
	}
	asking.Wait()
	if !slices.ContainsFunc(told, func(n nodeFeatures) bool { return n.answered }) {
		return nil, fmt.Errorf("no node has told its features: %w", cmp.Or(ctx.Err(), errNoAnswer))
	}
	return compareFeatures(told), nil
}

// askPatience is how long one node may take: a cluster with one that is paused is still shown.
const askPatience = 2 * time.Second

// ask takes what the node at an address says. It is asked there and not through the client,
// which knows brokers in service alone.
func (n *nodeFeatures) ask(ctx context.Context, address, clientID string) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ClientID(clientID), kgo.DialTimeout(askPatience))
	if err != nil {
		return
	}
	defer client.Close()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "klamm", "1"
	answer, err := client.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return
	}
	resp, ok := answer.(*kmsg.ApiVersionsResponse)
	if !ok || kerr.ErrorForCode(resp.ErrorCode) != nil {
		return
	}
	n.answered, n.epoch = true, resp.FinalizedFeaturesEpoch
	n.finalized, n.most = map[string]int16{}, map[string]int16{}
	for _, f := range resp.FinalizedFeatures {
		n.finalized[f.Name] = f.MaxVersionLevel
	}
	for _, f := range resp.SupportedFeatures {
		n.most[f.Name] = f.MaxVersion
	}
}

// compareFeatures makes of what nodes say what the cluster can do. The levels in force are
// those of the node that has heard most.
func compareFeatures(told []nodeFeatures) []featureLevel {
	slices.SortFunc(told, func(a, b nodeFeatures) int { return cmp.Compare(a.node, b.node) })
	unknown := []int32{}
	byName := map[string]*featureLevel{}
	latest := slices.MaxFunc(told, func(a, b nodeFeatures) int { return cmp.Compare(a.heard(), b.heard()) })
	for _, n := range told {
		if !n.answered {
			unknown = append(unknown, n.node)
		}
		for name, most := range n.most {
			l := byName[name]
			if l == nil {
				l = &featureLevel{Feature: name, Level: latest.finalized[name]}
				byName[name] = l
			}
			l.Newest = max(l.Newest, most)
		}
	}
	levels := []featureLevel{}
	for _, l := range byName {
		l.Unknown, l.HeldBackBy, l.Possible = unknown, []int32{}, l.Newest
		for _, n := range told {
			if n.answered && n.most[l.Feature] < l.Newest {
				l.HeldBackBy = append(l.HeldBackBy, n.node)
				l.Possible = min(l.Possible, n.most[l.Feature])
			}
		}
		levels = append(levels, *l)
	}
	slices.SortFunc(levels, func(a, b featureLevel) int { return strings.Compare(a.Feature, b.Feature) })
	return levels
}

// heard is how much of the metadata log a node had when it answered.
func (n nodeFeatures) heard() int64 {
	if !n.answered {
		return -2 // below that of an answer that does not tell
	}
	return n.epoch
}
