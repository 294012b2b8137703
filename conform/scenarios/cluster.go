package scenarios

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// Cluster are the scenarios for a cluster of three nodes, each controller and broker. They
// are kept apart from All, whose brokers may be alone.
//
// Where a partition is, and who leads it next, each scenario decides by an assignment of
// its own: chance has no part in it.
func Cluster() []conform.Scenario {
	all := slices.Concat(clusterMetadata(), clusterLeaders(), clusterInSync(), clusterElections(), clusterAdmin(), clusterReassign(), clusterThrottles(), clusterGroups(), clusterNodes(), clusterRacks(), clusterVoters(), clusterDirs())
	for i := range all {
		all[i].Nodes = 3
	}
	return all
}

// ClusterSettings are what every node of a cluster that is compared must be configured
// with: nobody moves a leader unasked, and internal topics survive a node.
func ClusterSettings() []string {
	return []string{
		"group.initial.rebalance.delay.ms=0",
		"auto.leader.rebalance.enable=false",
		"auto.create.topics.enable=false",
		"offsets.topic.replication.factor=3",
		"offsets.topic.num.partitions=3",
		"log.retention.check.interval.ms=86400000",
	}
}

// racks are where the nodes of a cluster with racks are, in the order of their ids.
var racks = []string{"east", "west", "west"}

// RackSettings are what node i (from 0) of a cluster with racks is configured with beside
// ClusterSettings. Further, it needs two log directories, and a quorum whose voters can be
// changed.
func RackSettings(i int) []string {
	return []string{
		"broker.rack=" + racks[i],
		"replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
	}
}

// everywhere sends what mk makes to every node that is up.
func everywhere[Q kmsg.Request](r *conform.R, title string, mk func() Q) {
	for _, at := range r.Up() {
		req := mk()
		r.SendTo(at, label(req.GetVersion(), "%s, at node %d", title, at+1), req)
	}
}

// roles are what the nodes are for a partition that is on the first two: its leader, its
// follower, and one that has no replica.
var roles = []string{"leader", "follower", "other"}

// anyEpoch asks for no fence.
const anyEpoch = -1

// ends are what a partition's end is to a consumer and to somebody who may see all.
func ends(r *conform.R, at int, title, topic string, partition int32) {
	for _, asks := range []struct {
		who     string
		replica int32
	}{{"high watermark", -1}, {"log end", -2}} {
		req := listOf(r, 7, -1, place{topic, partition})
		req.ReplicaID = asks.replica
		r.SendTo(at, fmt.Sprintf("%s: %s of %s-%d", title, asks.who, topic, partition), req)
	}
}

// produceTo writes values at node i, without a step.
func produceAtNode(r *conform.R, i int, topic string, partition int32, values ...string) {
	req := r.ProduceTo(9, topic, partition, conform.Batch{Records: r.Values(values...)}.Bytes())
	resp := r.QuietAt(i, req).(*kmsg.ProduceResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		r.Fail("produce to %s-%d at node %d: error %d", topic, partition, i, code)
	}
}

// moveLeader makes nodes the replicas of a partition, in this order, and the first of them
// its leader, in the next leader epoch. They must be its replicas already.
func moveLeader(r *conform.R, topic string, partition int32, nodes ...int) {
	moved := r.Quiet(reassignTo(r, 0, target{topic, partition, r.Nodes(nodes...)})).(*kmsg.AlterPartitionAssignmentsResponse)
	if code := moved.Topics[0].Partitions[0].ErrorCode; code != 0 {
		r.Fail("other order of %s-%d: error %d", topic, partition, code)
	}
	elected := r.Quiet(elect(r, 2, 0, topic, partition)).(*kmsg.ElectLeadersResponse)
	if code := elected.Topics[0].Partitions[0].ErrorCode; code != 0 {
		r.Fail("election for %s-%d: error %d", topic, partition, code)
	}
	r.AwaitPartition(topic, partition, conform.Replicas{Leader: nodes[0]})
}
