package scenarios

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func clusterGroups() []conform.Scenario {
	group := []int16{8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47}
	return []conform.Scenario{
		{Name: "cluster-groups/coordinators", Key: 10, Run: coordinatorsOnCluster},
		{Name: "cluster-groups/another-coordinator", Key: 11, Needs: group, Run: otherCoordinator},
		{Name: "cluster-groups/the-coordinator-dies", Key: 11, Needs: group, Faults: true, Run: coordinatorDies},
		{Name: "cluster-groups/the-coordinator-stops", Key: 11, Needs: group, Faults: true, Run: coordinatorStops},
	}
}

// placeCoordinators has the three partitions of __consumer_offsets led by the three nodes,
// each followed by those after it, if nobody did so before.
func placeCoordinators(r *conform.R) {
	made := r.Quiet(create(7, assigned(r, "=__consumer_offsets", -1, -1, r.Nodes(0, 1, 2), r.Nodes(1, 2, 0), r.Nodes(2, 0, 1)))).(*kmsg.CreateTopicsResponse)
	if code := made.Topics[0].ErrorCode; code != 0 && code != 36 {
		r.Fail("create __consumer_offsets: error %d", code)
	}
	leadAgain(r)
	for p := range int32(3) {
		r.AwaitPartition("=__consumer_offsets", p, conform.Replicas{Leader: int(p), ISR: []int{0, 1, 2}})
	}
}

// leadAgain has the coordinators be where they were put first, when all replicas are in
// sync. Most often they are.
func leadAgain(r *conform.R) {
	ask := func() kmsg.Request { return metadataFor(r, "=__consumer_offsets") }
	r.Until("replicas of __consumer_offsets in sync", ask, func(resp kmsg.Response) bool {
		for _, p := range resp.(*kmsg.MetadataResponse).Topics[0].Partitions {
			if len(p.ISR) < len(p.Replicas) {
				return false
			}
		}
		return true
	})
	r.Quiet(elect(r, 2, 0, "=__consumer_offsets", 0, 1, 2))
}

// groupOfFirst is a group whose coordinator is the first node, by the numbers of nodes from
// then on: the second one follows it.
func groupOfFirst(r *conform.R, group string) {
	placeCoordinators(r)
	resp := r.Quiet(find(3, 0, r.Name(group))).(*kmsg.FindCoordinatorResponse)
	for i := range r.Count() {
		if r.Node(i) == resp.NodeID {
			r.NumberFrom(i)
			break
		}
	}
	awaitLoaded(r, 0, group)
}

// awaitLoaded waits until a node says that it is a group's coordinator, and all that are
// up say so, too.
func awaitLoaded(r *conform.R, at int, group string) {
	for _, i := range r.Up() {
		r.UntilAt(i, "coordinator of "+group, func() kmsg.Request { return find(3, 0, r.Name(group)) }, func(resp kmsg.Response) bool {
			f := resp.(*kmsg.FindCoordinatorResponse)
			return f.ErrorCode == 0 && f.NodeID == r.Node(at)
		})
	}
	r.UntilAt(at, "offsets of "+group, func() kmsg.Request { return fetchOffsets(r, 5, r.Name(group)) }, func(resp kmsg.Response) bool {
		return resp.(*kmsg.OffsetFetchResponse).ErrorCode == 0
	})
}

func coordinatorsOnCluster(r *conform.R) {
	groupOfFirst(r, "g")
	for _, v := range conform.Versions(10) {
		everywhere(r, "a group's", func() *kmsg.FindCoordinatorRequest { return find(v, 0, r.Name("g")) })
		everywhere(r, "an unknown kind", func() *kmsg.FindCoordinatorRequest { return find(v, 9, r.Name("g")) })
	}
}

// askCoordinator sends each request of groups to a node.
func askCoordinator(r *conform.R, at int, title string, m *member) {
	send := func(what string, req kmsg.Request) { r.SendTo(at, label(req.GetVersion(), "%s: %s", title, what), req) }
	for _, v := range conform.Versions(11) {
		req := m.join(v)
		req.MemberID = "nobody"
		send("join", req)
	}
	for _, v := range conform.Versions(14) {
		send("sync", m.sync(v, m, "all"))
	}
	for _, v := range conform.Versions(12) {
		send("heartbeat", m.heartbeat(v))
	}
	for _, v := range conform.Versions(13) {
		req := leave(v, m.group, m)
		req.MemberID = "nobody"
		for i := range req.Members {
			req.Members[i].MemberID = "nobody"
		}
		send("leave", req)
	}
	for _, v := range conform.Versions(8) {
		req := m.commit(v, "a", 0, 7)
		req.MemberID = "nobody"
		send("commit", req)
	}
	for _, v := range conform.Versions(9) {
		send("offsets", fetchOffsets(r, v, m.group, "a"))
		send("all offsets", fetchOffsets(r, v, m.group))
	}
	for _, v := range conform.Versions(15) {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Version, req.Groups = v, []string{m.group}
		send("describe", req)
	}
	delOffsets := kmsg.NewPtrOffsetDeleteRequest()
	delOffsets.Group = m.group
	t := kmsg.NewOffsetDeleteRequestTopic()
	t.Topic = r.Name("nope")
	t.Partitions = append(t.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: 0})
	delOffsets.Topics = append(delOffsets.Topics, t)
	send("delete offsets", delOffsets)
	for _, v := range conform.Versions(16) {
		req := kmsg.NewPtrListGroupsRequest()
		req.Version = v
		r.SendToOnly(at, label(v, "%s: list", title), req, func(resp kmsg.Response) {
			answer := resp.(*kmsg.ListGroupsResponse)
			var own []kmsg.ListGroupsResponseGroup
			for _, g := range answer.Groups {
				if g.Group == m.group {
					own = append(own, g)
				}
			}
			answer.Groups = own
		})
	}
}

// stable is a group of one member, which has committed an offset.
func stable(r *conform.R) *member {
	r.CreateOn("a", [][]int{{0, 1, 2}, {1, 2, 0}})
	r.Ignore("Groups.Members.ClientHost")
	m := newMember(r, "g", conform.At(0, "m"))
	m.session = 120_000
	m.doJoin("join", 9)
	m.send("sync", m.sync(5, m, "all"))
	m.send("commit", m.commit(9, "a", 0, 3))
	return m
}

func otherCoordinator(r *conform.R) {
	groupOfFirst(r, "g")
	m := stable(r)
	for at := range r.Count() {
		askCoordinator(r, at, fmt.Sprintf("at node %d", at+1), m)
	}
	for _, v := range conform.Versions(42) {
		for at := 1; at < r.Count(); at++ {
			req := kmsg.NewPtrDeleteGroupsRequest()
			req.Version, req.Groups = v, []string{m.group}
			r.SendTo(at, label(v, "delete at node %d", at+1), req)
		}
	}
	m.send("leave", leave(5, m.group, m))
}

// coordinatorDies has a group's coordinator killed.
func coordinatorDies(r *conform.R) { moveCoordinator(r, (*conform.R).Kill) }

// coordinatorStops has it hand over.
func coordinatorStops(r *conform.R) { moveCoordinator(r, (*conform.R).Stop) }

func moveCoordinator(r *conform.R, end func(*conform.R, int)) {
	groupOfFirst(r, "g")
	m := stable(r)
	end(r, 0)
	awaitLoaded(r, 1, "g")
	m.name = conform.At(1, "m")
	m.send("heartbeat at the next one", m.heartbeat(4))
	m.send("commit at the next one", m.commit(9, "a", 1, 4))
	for _, at := range r.Up() {
		askCoordinator(r, at, fmt.Sprintf("without it, at node %d", at+1), m)
	}
	r.StartAgain(0)
	leadAgain(r)
	awaitLoaded(r, 0, "g")
	m.name = conform.At(0, "m")
	m.send("heartbeat at the first one again", m.heartbeat(4))
	for at := range r.Count() {
		askCoordinator(r, at, fmt.Sprintf("with it again, at node %d", at+1), m)
	}
	m.send("leave", leave(5, m.group, m))
}
