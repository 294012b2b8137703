package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func newClusterStatus(std streams) *cobra.Command {
	var f clientFlags
	var output string
	var dirs bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show nodes, controllers, feature levels and the health of partitions",
		Long: "Show the nodes of a cluster with their roles, who leads the metadata quorum, how far its members are behind,\n" +
			"how many partitions each broker has, are under-replicated, or have no leader, and which level of features is in\n" +
			"force; of one that could be higher, who holds it back.\n" +
			"A broker that is fenced is down, or has not been heard of for its session's length.\n" +
			"Log directories that are offline are named below, with the replicas that are out of service.",
		Example: "  klamm cluster status\n" +
			"  klamm cluster status --log-dirs\n" +
			"  klamm cluster status --output json",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			asJSON, err := isJSON(output)
			if err != nil {
				return err
			}
			return withClient(cmd.Context(), std, f, func(ctx context.Context, client *kgo.Client) error {
				view, err := viewCluster(ctx, client)
				if err != nil {
					return err
				}
				status := view.status()
				levels, failed := view.features(ctx, f.clientID)
				status.Features = levels
				failed = errors.Join(failed, status.addLogDirs(ctx, client, dirs))
				if asJSON {
					return errors.Join(json.NewEncoder(std.out).Encode(status), failed)
				}
				return errors.Join(status.print(std.out, dirs), failed)
			}, kgo.RequestTimeoutOverhead(askPatience)) // then another node is asked: one may be paused and not fenced yet
		},
	}
	f.register(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or json: one object")
	cmd.Flags().BoolVar(&dirs, "log-dirs", false, "also the log directories of each broker")
	return cmd
}

// clusterStatus is the answer of `klamm cluster status`, as JSON shows it.
type clusterStatus struct {
	Cluster         string `json:"cluster"`
	Leader          *int32 `json:"controller"` // null: not known
	Epoch           *int32 `json:"epoch"`
	Partitions      int    `json:"partitions"`
	UnderReplicated int    `json:"under_replicated"`
	Offline         int    `json:"offline"` // without a leader
	Moving          int    `json:"moving"`
	// Features are levels in force, and what could be.
	Features []featureLevel `json:"features"`
	Nodes    []nodeStatus   `json:"nodes"`
}

type nodeStatus struct {
	ID       int32    `json:"node"`
	Roles    []string `json:"roles"`
	State    string   `json:"state"` // active, fenced; of a controller alone: active, silent or unknown
	Rack     *string  `json:"rack"`
	Address  *string  `json:"address"`
	Leaders  *int     `json:"leaders"` // null for a controller alone
	Replicas *int     `json:"replicas"`
	Quorum   *string  `json:"quorum"`       // leader, voter, observer
	Lag      *int64   `json:"lag"`          // entries of the metadata log
	Silence  *int64   `json:"last_seen_ms"` // ago, by the leader of the quorum
	// OfflineReplicas are those whose broker, or log directory, is out of service.
	OfflineReplicas *int     `json:"offline_replicas"`
	OfflineLogDirs  []string `json:"offline_log_dirs"` // null: not told
	LogDirs         []logDir `json:"log_dirs,omitempty"`
}

// silentAfter is when a controller that is no broker counts as silent. Brokers have
// sessions, which the cluster judges.
const silentAfter = 10 * time.Second

// unless is a value for JSON, null where it stands for nothing.
func unless[T comparable](nothing, value T) *T {
	if value == nothing {
		return nil
	}
	return &value
}

func (v *clusterView) status() clusterStatus {
	s := clusterStatus{Cluster: v.id, Leader: unless(-1, v.leader), Epoch: unless(-1, v.epoch), Moving: len(v.moving)}
	v.partitions(func(p kadm.PartitionDetail) {
		s.Partitions++
		if p.Leader < 0 {
			s.Offline++
		}
		// Replicas that a move adds are not missed yet.
		want := p.Replicas
		if m, ok := v.moving[topicPartition{p.Topic, p.Partition}]; ok {
			want = without(p.Replicas, m.adding...)
		}
		if len(without(want, p.ISR...)) > 0 {
			s.UnderReplicated++
		}
	})
	for i := range v.nodes {
		s.Nodes = append(s.Nodes, v.nodes[i].status(v.leader))
	}
	return s
}

func (n *clusterNode) status(leader int32) nodeStatus {
	s := nodeStatus{
		ID: n.id, Roles: n.roles(), State: n.state(), Rack: unless("", n.rack), Address: unless("", n.address),
		Lag: unless(-1, n.lag),
	}
	if n.silence >= 0 {
		ms := n.silence.Milliseconds()
		s.Silence = &ms
	}
	if n.broker {
		s.Leaders, s.Replicas, s.OfflineReplicas = &n.leaders, &n.replicas, &n.offline
	}
	switch {
	case n.voter && n.id == leader:
		s.Quorum = unless("", "leader")
	case n.voter:
		s.Quorum = unless("", "voter")
	case n.observer:
		s.Quorum = unless("", "observer")
	}
	return s
}

// roles are those that show: an observer without a broker is a controller on its way in,
// or the copy of a broker that has gone.
func (n *clusterNode) roles() []string {
	roles := []string{}
	if n.broker {
		roles = append(roles, "broker")
	}
	if n.voter || !n.broker {
		roles = append(roles, "controller")
	}
	return roles
}

func (n *clusterNode) state() string {
	switch {
	case n.broker && n.fenced:
		return "fenced"
	case n.broker || n.silence >= 0 && n.silence < silentAfter:
		return "active"
	case n.silence < 0:
		return "unknown"
	}
	return "silent"
}

// shown is a value for people, a dash where there is none.
func shown[T any](value *T) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprint(*value)
}

func (s *clusterStatus) print(out io.Writer, dirs bool) error {
	controller := "unknown"
	if s.Leader != nil {
		controller = fmt.Sprintf("%d, epoch %s", *s.Leader, shown(s.Epoch))
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "cluster\t%s\ncontroller\t%s\npartitions\t%d: %d under-replicated, %d offline, %d moving\n",
		s.Cluster, controller, s.Partitions, s.UnderReplicated, s.Offline, s.Moving)
	for _, l := range s.Features {
		fmt.Fprintf(w, "feature\t%s\n", l)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	table, err := newTable(out, "text", "NODE", "ROLES", "STATE", "RACK", "ADDRESS", "LEADERS", "REPLICAS", "QUORUM", "LAG")
	if err != nil {
		return err
	}
	for _, n := range s.Nodes {
		if err := table.row(n.ID, strings.Join(n.Roles, ","), n.State, shown(n.Rack), shown(n.Address),
			shown(n.Leaders), shown(n.Replicas), shown(n.Quorum), shown(n.Lag)); err != nil {
			return err
		}
	}
	if err := table.flush(); err != nil {
		return err
	}
	if dirs {
		if err := s.printLogDirs(out); err != nil {
			return err
		}
	}
	if trouble := s.diskTrouble(); len(trouble) > 0 {
		_, err = fmt.Fprintf(out, "\n%s\n", strings.Join(trouble, "\n"))
	}
	return err
}
