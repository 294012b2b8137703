package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newCluster(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the nodes of a cluster, move everything away from one, add one, forget one; upgrade; backup and restore of metadata",
		Long: "Show the nodes of a cluster, and take one out of it: `drain` moves its partitions to the others while\n" +
			"clients go on, then it is stopped, and `remove` makes the cluster forget it. `add` has a new controller vote.\n" +
			"`features` and `upgrade` are the last step of an upgrade of all nodes.\n" +
			"`backup` saves the metadata of all nodes, and `restore` begins anew with it when it is lost.",
		Example: "  klamm cluster status\n" +
			"  klamm cluster drain 3 --dry-run\n" +
			"  klamm cluster remove 3",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newClusterStatus(std), newClusterDrain(std), newClusterAdd(std), newClusterRemove(std),
		newClusterFeatures(std), newClusterUpgrade(std), newClusterBackup(std), newClusterRestore(std))
	return cmd
}

// parseNode reads the argument that names a node.
func parseNode(arg string) (int32, error) {
	id, err := strconv.ParseInt(arg, 10, 32)
	if err != nil || id < 0 {
		return 0, usagef("%q is not the number of a node", arg)
	}
	return int32(id), nil
}

// clusterView is what a cluster says of itself.
type clusterView struct {
	id     string
	leader int32 // of the metadata quorum; -1: not told
	epoch  int32
	nodes  []clusterNode // by id
	topics kadm.TopicDetails
	moving map[topicPartition]reassignment
}

// clusterNode is a broker, a member of the metadata quorum, or both.
type clusterNode struct {
	id              int32
	broker, fenced  bool
	voter, observer bool
	directory       [16]byte // of the metadata log, of a member of the quorum
	rack, address   string   // of the broker, else of the controller
	// lag is how many entries of the metadata log the node lacks, silence for how long its
	// leader has not heard of it; -1: not told.
	lag               int64
	silence           time.Duration
	leaders, replicas int
	offline           int // replicas of which metadata says that they are out of service
}

// reassignment is a partition whose replicas are being changed.
type reassignment struct{ replicas, adding, removing []int32 }

// target is where it leads to.
func (r reassignment) target() []int32 { return without(r.replicas, r.removing...) }

// without is a list less some of its members, as a new slice.
func without(list []int32, gone ...int32) []int32 {
	return slices.DeleteFunc(slices.Clone(list), func(id int32) bool { return slices.Contains(gone, id) })
}

// active tells whether a broker takes part.
func (n *clusterNode) active() bool { return n.broker && !n.fenced }

// node finds one by its id; nil if there is none.
func (v *clusterView) node(id int32) *clusterNode {
	i, ok := slices.BinarySearchFunc(v.nodes, id, func(n clusterNode, id int32) int { return cmp.Compare(n.id, id) })
	if !ok {
		return nil
	}
	return &v.nodes[i]
}

// knowsVoters is an error where the quorum did not say who votes. Without a leader it does not,
// as in the middle of an election: a voter that is to go would pass for none, and keep its vote.
func (v *clusterView) knowsVoters() error {
	if v.leader < 0 {
		return errors.New("the metadata quorum has no leader to tell who votes; try again")
	}
	return nil
}

// partitions calls fn for each partition, by topic and number.
func (v *clusterView) partitions(fn func(kadm.PartitionDetail)) {
	for _, t := range v.topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			fn(p)
		}
	}
}

// viewCluster asks the cluster for everything that the commands about it need.
func viewCluster(ctx context.Context, client *kgo.Client) (*clusterView, error) {
	v := &clusterView{leader: -1, epoch: -1}
	nodes := map[int32]*clusterNode{}
	from := whoAnswers(ctx, client)
	if err := v.addBrokers(ctx, from, nodes); err != nil {
		return nil, err
	}
	if err := v.addQuorum(ctx, from, nodes); err != nil {
		return nil, err
	}
	// The moves first: one that ends meanwhile is then known as a move, or over. The other way
	// round, the replicas it had on its way would look like those that it is to have.
	var err error
	if v.moving, err = listReassignments(ctx, from); err != nil {
		return nil, err
	}
	if v.topics, err = kadm.NewClient(client).ListTopicsWithInternal(ctx); err != nil {
		return nil, err
	}
	v.partitions(func(p kadm.PartitionDetail) {
		if n := nodes[p.Leader]; n != nil {
			n.leaders++
		}
		for _, id := range p.Replicas {
			if n := nodes[id]; n != nil {
				n.replicas++
			}
		}
		for _, id := range p.OfflineReplicas {
			if n := nodes[id]; n != nil {
				n.offline++
			}
		}
	})
	v.setNodes(nodes)
	return v, nil
}

// whoAnswers is the first broker to answer. The library would send what is for the controller to
// the one that Metadata names, again and again: to nobody, while that one is paused, or its machine
// is gone, and its session has not ended. If none answers, the client finds out why.
func whoAnswers(ctx context.Context, client *kgo.Client) kmsg.Requestor {
	all := append(client.DiscoveredBrokers(), client.SeedBrokers()...)
	answers := make(chan *kgo.Broker, len(all))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, b := range all {
		go func() {
			if _, err := kmsg.NewPtrDescribeClusterRequest().RequestWith(ctx, b); err != nil {
				b = nil
			}
			answers <- b
		}()
	}
	for range all {
		if b := <-answers; b != nil {
			return oneBroker{b}
		}
	}
	return client
}

// oneBroker asks one broker, again if its connection ends.
type oneBroker struct{ *kgo.Broker }

// Request implements kmsg.Requestor.
func (b oneBroker) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return b.RetriableRequest(ctx, req)
}

// setNodes puts the nodes in the order that node relies on.
func (v *clusterView) setNodes(nodes map[int32]*clusterNode) {
	for _, n := range nodes {
		v.nodes = append(v.nodes, *n)
	}
	slices.SortFunc(v.nodes, func(a, b clusterNode) int { return cmp.Compare(a.id, b.id) })
}

func (v *clusterView) addBrokers(ctx context.Context, from kmsg.Requestor, nodes map[int32]*clusterNode) error {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeFencedBrokers = true
	resp, err := req.RequestWith(ctx, from)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return refused(err, text(resp.ErrorMessage))
	}
	v.id = resp.ClusterID
	for _, b := range resp.Brokers {
		nodes[b.NodeID] = &clusterNode{
			id: b.NodeID, broker: true, fenced: b.IsFenced, rack: text(b.Rack),
			address: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), lag: -1, silence: -1,
		}
	}
	return nil
}

// addQuorum adds what the leader of the metadata quorum tells. Clusters that have none, or
// no leader now, are shown without.
func (v *clusterView) addQuorum(ctx context.Context, from kmsg.Requestor, nodes map[int32]*clusterNode) error {
	part := kmsg.NewDescribeQuorumRequestTopicPartition()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic, topic.Partitions = "__cluster_metadata", append(topic.Partitions, part)
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, from)
	if err != nil {
		return ctx.Err()
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		return nil
	}
	p := resp.Topics[0].Partitions[0]
	v.leader, v.epoch = p.LeaderID, p.LeaderEpoch
	v.addMembers(p.CurrentVoters, &p, nodes, func(n *clusterNode) { n.voter = true })
	v.addMembers(p.Observers, &p, nodes, func(n *clusterNode) { n.observer = true })
	for _, listed := range resp.Nodes {
		if n := nodes[listed.NodeID]; n != nil && n.address == "" && len(listed.Listeners) > 0 {
			l := listed.Listeners[0]
			n.address = net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
		}
	}
	return nil
}

type quorumMember = kmsg.DescribeQuorumResponseTopicPartitionReplicaState

func (v *clusterView) addMembers(members []quorumMember, p *kmsg.DescribeQuorumResponseTopicPartition, nodes map[int32]*clusterNode, mark func(*clusterNode)) {
	leader := slices.IndexFunc(p.CurrentVoters, func(m quorumMember) bool { return m.ReplicaID == p.LeaderID })
	for _, m := range members {
		n := nodes[m.ReplicaID]
		if n == nil {
			n = &clusterNode{id: m.ReplicaID, lag: -1, silence: -1}
			nodes[m.ReplicaID] = n
		}
		mark(n)
		n.directory = m.ReplicaDirectoryID
		if leader < 0 {
			continue
		}
		l := p.CurrentVoters[leader]
		if m.LogEndOffset >= 0 && l.LogEndOffset >= 0 {
			n.lag = max(0, l.LogEndOffset-m.LogEndOffset)
		}
		// Both are by the leader's clock, whose own time is that of its answer.
		if m.LastFetchTimestamp >= 0 && l.LastFetchTimestamp >= 0 {
			n.silence = time.Duration(max(0, l.LastFetchTimestamp-m.LastFetchTimestamp)) * time.Millisecond
		}
	}
}

// listReassignments lists what is under way.
func listReassignments(ctx context.Context, from kmsg.Requestor) (map[topicPartition]reassignment, error) {
	resp, err := kmsg.NewPtrListPartitionReassignmentsRequest().RequestWith(ctx, from)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, refused(err, text(resp.ErrorMessage))
	}
	moving := map[topicPartition]reassignment{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			moving[topicPartition{t.Topic, p.Partition}] = reassignment{p.Replicas, p.AddingReplicas, p.RemovingReplicas}
		}
	}
	return moving, nil
}
