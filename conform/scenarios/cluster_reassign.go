package scenarios

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func clusterReassign() []conform.Scenario {
	return []conform.Scenario{
		{Name: "cluster-reassign/order-of-checks", Key: 45, Needs: []int16{46}, Run: reassignChecks},
		{Name: "cluster-reassign/to-a-node-that-is-gone", Key: 45, Needs: []int16{43, 46, 75}, Faults: true, Run: reassignToTheDead},
		{Name: "cluster-reassign/from-a-node-that-is-gone", Key: 45, Needs: []int16{46, 75}, Faults: true, Run: reassignFromTheDead},
	}
}

// sameCount is a reassignment that may not change how many replicas there are (KIP-860);
// before version 1 nobody can ask for that.
func sameCount(r *conform.R, version int16, targets ...target) *kmsg.AlterPartitionAssignmentsRequest {
	req := reassignTo(r, version, targets...)
	req.AllowReplicationFactorChange = false
	return req
}

// reassignChecks makes two mistakes at once.
func reassignChecks(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1}, {1, 2}})
	here, unknown := r.Nodes(0, 1), r.Node(2)+1000
	for _, v := range conform.Versions(45) {
		for _, c := range []struct {
			title   string
			targets []target
		}{
			{"unknown topic and node", []target{{"nope", 0, []int32{unknown}}}},
			{"unknown topic, no nodes", []target{{"nope", 0, []int32{}}}},
			{"unknown partition and node", []target{{"a", 9, []int32{unknown}}}},
			{"unknown partition, cancel", []target{{"a", 9, nil}}},
			{"an unknown node twice", []target{{"a", 0, []int32{unknown, unknown}}}},
			{"a known node twice and an unknown one", []target{{"a", 0, []int32{here[0], here[0], unknown}}}},
			{"a known node twice and a negative one", []target{{"a", 0, []int32{here[0], here[0], -1}}}},
			{"good and bad partitions", []target{{"a", 0, here}, {"a", 9, here}, {"a", 1, []int32{unknown}}, {"nope", 0, nil}}},
			{"twice, once bad", []target{{"a", 0, []int32{unknown}}, {"a", 0, here}}},
			{"twice, once to cancel", []target{{"a", 0, here}, {"a", 0, nil}}},
		} {
			everywhere(r, c.title, func() *kmsg.AlterPartitionAssignmentsRequest { return reassignTo(r, v, c.targets...) })
			everywhere(r, c.title+", same count", func() *kmsg.AlterPartitionAssignmentsRequest { return sameCount(r, v, c.targets...) })
		}
	}
	for _, c := range []struct {
		title string
		nodes []int32
	}{
		{"more", r.Nodes(0, 1, 2)},
		{"fewer", r.Nodes(0)},
		{"none", []int32{}},
		{"cancel", nil},
		{"more, one unknown", append(r.Nodes(0, 1), unknown)},
		{"fewer, unknown", []int32{unknown}},
		{"as many, one unknown", []int32{here[0], unknown}},
		{"more, one twice", append(r.Nodes(0, 1), here[0])},
		{"as they are", here},
	} {
		everywhere(r, "same count: "+c.title, func() *kmsg.AlterPartitionAssignmentsRequest { return sameCount(r, 1, target{"a", 0, c.nodes}) })
	}
	describeTopic(r, "nothing has moved", "a")
}

// movesOf shows which of the partitions are on the move, as every node says.
func movesOf(r *conform.R, title, topic string, partitions ...int32) {
	everywhere(r, title+": moves of "+topic, func() *kmsg.ListPartitionReassignmentsRequest { return moving(r, topic, partitions...) })
}

// allMoves asks for all partitions on the move, and looks at those of a topic.
func allMoves(r *conform.R, title, topic string) {
	for _, at := range r.Up() {
		req := moving(r, topic)
		req.Topics = nil
		r.SendToOnly(at, fmt.Sprintf("%s: all moves, at node %d", title, at+1), req, func(resp kmsg.Response) {
			answer := resp.(*kmsg.ListPartitionReassignmentsResponse)
			var own []kmsg.ListPartitionReassignmentsResponseTopic
			for _, t := range answer.Topics {
				if t.Topic == r.Name(topic) {
					own = append(own, t)
				}
			}
			answer.Topics = own
		})
	}
}

// onTheMove shows all there is to see of a topic whose partition 0 moves.
func onTheMove(r *conform.R, title, topic string) {
	r.Settle()
	movesOf(r, title, topic, 0)
	describeTopic(r, title, topic)
	everywhere(r, title, func() *kmsg.MetadataRequest { return metadataFor(r, topic) })
}

// awaitMoves waits until nothing of a topic moves.
func awaitMoves(r *conform.R, topic string, partitions ...int32) {
	r.UntilAt(r.Up()[0], topic+" moves no more", func() kmsg.Request { return moving(r, topic, partitions...) }, func(resp kmsg.Response) bool {
		return len(resp.(*kmsg.ListPartitionReassignmentsResponse).Topics) == 0
	})
	r.Settle()
}

// reassignToTheDead moves partitions to the third node, which is out of service: nothing
// of that ends until it is back.
func reassignToTheDead(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1}, {1, 0}})
	r.CreateOn("b", [][]int{{0}})
	r.CreateOn("c", [][]int{{0, 1}}, "min.insync.replicas", "2")
	r.CreateOn("gone", [][]int{{2, 0}})
	produceAtNode(r, 0, "a", 0, "x", "y")
	r.Kill(2)
	r.AwaitPartition("gone", 0, conform.Replicas{Leader: 0, ISR: []int{0}})
	r.AwaitBrokers()
	for _, v := range conform.Versions(37) {
		r.Send(label(v, "a new partition there"), growOnlyAsk(v, grown(r, "b", 2, r.Nodes(2))))
		r.Send(label(v, "new partitions there and here"), growOnlyAsk(v, grown(r, "a", 4, r.Nodes(2, 0), r.Nodes(0, 2))))
	}
	for _, v := range conform.Versions(19) {
		r.Send(label(v, "a new topic there"), validate(v, assigned(r, "new", -1, -1, r.Nodes(2))))
		r.Send(label(v, "a new topic there and here"), validate(v, assigned(r, "new", -1, -1, r.Nodes(0, 2))))
	}
	r.Send("replace the follower", reassignTo(r, 0, target{"a", 0, r.Nodes(0, 2)}))
	onTheMove(r, "the follower is to be replaced", "a")
	movesOf(r, "with others", "a", 0, 1, 9)
	movesOf(r, "of others", "a", 1)
	movesOf(r, "of none", "a")
	allMoves(r, "the follower is to be replaced", "a")
	whileItMoves(r)
	r.Send("another target", reassignTo(r, 1, target{"a", 0, r.Nodes(2, 1)}))
	onTheMove(r, "the leader is to be replaced", "a")
	r.Send("that target again", sameCount(r, 1, target{"a", 0, r.Nodes(2, 1)}))
	r.Send("with one more", reassignTo(r, 1, target{"a", 0, r.Nodes(2, 1, 0)}))
	onTheMove(r, "one more", "a")
	r.Send("cancel", sameCount(r, 1, target{"a", 0, nil}))
	onTheMove(r, "cancelled", "a")
	r.Send("cancel again", reassignTo(r, 0, target{"a", 0, nil}))
	r.Send("good, bad and cancelled", reassignTo(r, 1, target{"a", 0, r.Nodes(2)}, target{"a", 1, nil}, target{"nope", 0, r.Nodes(2)}))
	onTheMove(r, "all are to be replaced", "a")
	r.Send("the only one is to be replaced", reassignTo(r, 1, target{"b", 0, r.Nodes(2)}))
	r.Send("one is added", reassignTo(r, 1, target{"c", 0, r.Nodes(1, 0, 2)}))
	for _, t := range []string{"b", "c"} {
		onTheMove(r, "in the end", t)
	}
	r.SendTo(0, "acks -1 while it moves", produceWith(r, 9, "a", 0, -1, "z"))
	r.SendTo(0, "acks -1 while it grows", produceWith(r, 9, "c", 0, -1, "z"))
	r.Send("elect the one that is added", elect(r, 2, 0, "b", 0))
	r.Launch(2)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 2, ISR: []int{2}})
	r.AwaitPartition("b", 0, conform.Replicas{Leader: 2, ISR: []int{2}})
	r.AwaitPartition("c", 0, conform.Replicas{Leader: 0, ISR: []int{0, 1, 2}})
	for _, t := range []string{"a", "b", "c"} {
		awaitMoves(r, t, 0)
		onTheMove(r, "it is back", t)
	}
	readAll(r, 2, "it has all", "a", 0)
}

// whileItMoves asks, of a partition that was on the first two nodes and moves to the first
// and third, what cannot be done. Kafka counts the replicas of where it moves to.
func whileItMoves(r *conform.R) {
	unknown := r.Node(2) + 1000
	for _, c := range []struct {
		title string
		nodes []int32
	}{{"fewer", r.Nodes(0)}, {"more", r.Nodes(0, 1, 2)}, {"an unknown node", []int32{r.Node(0), unknown}}, {"no nodes", []int32{}}, {"a node twice", r.Nodes(0, 0)}} {
		r.Send("while it moves, same count: "+c.title, sameCount(r, 1, target{"a", 0, c.nodes}))
	}
	for kind := range int8(2) {
		r.Send("while it moves, elect, "+electionKinds[kind], elect(r, 2, kind, "a", 0))
	}
	r.Send("while it moves, more partitions", growOnlyAsk(3, grown(r, "a", 3)))
	r.Send("while it moves, more partitions with places", growOnlyAsk(3, grown(r, "a", 3, r.Nodes(0, 1))))
	r.Send("while it moves, more partitions with more replicas", growOnlyAsk(3, grown(r, "a", 3, r.Nodes(0, 1, 2))))
}

// reassignFromTheDead takes the third node, which is out of service, out of partitions.
func reassignFromTheDead(r *conform.R) {
	r.CreateOn("a", [][]int{{2, 0}})
	r.CreateOn("b", [][]int{{0, 2}})
	r.CreateOn("lost", [][]int{{2}})
	r.CreateOn("left", [][]int{{2}})
	produceAtNode(r, 2, "lost", 0, "x")
	r.Kill(2)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 0, ISR: []int{0}})
	r.AwaitPartition("b", 0, conform.Replicas{Leader: 0, ISR: []int{0}})
	r.AwaitPartition("lost", 0, conform.Replicas{Leader: conform.NoLeader})
	r.AwaitBrokers()
	r.Send("without it", reassignTo(r, 1, target{"a", 0, r.Nodes(0)}))
	awaitMoves(r, "a", 0)
	onTheMove(r, "without it", "a")
	r.Send("another in its place", sameCount(r, 1, target{"b", 0, r.Nodes(1, 0)}))
	awaitMoves(r, "b", 0)
	r.AwaitPartition("b", 0, conform.Replicas{Leader: 0, ISR: []int{0, 1}})
	onTheMove(r, "another in its place", "b")
	r.Send("the only one was there", reassignTo(r, 1, target{"lost", 0, r.Nodes(1)}))
	onTheMove(r, "the only one was there", "lost")
	r.Send("cancel that", reassignTo(r, 1, target{"lost", 0, nil}))
	onTheMove(r, "that is cancelled", "lost")
	for i, to := range [][]int{{1}, {1, 0}, {1}, {0}, {2}, {2, 1}} {
		title := fmt.Sprintf("another target, %d", i+1)
		r.Send(title, reassignTo(r, 1, target{"left", 0, r.Nodes(to...)}))
		onTheMove(r, title, "left")
	}
	r.StartAgain(2)
	awaitMoves(r, "lost", 0)
	r.AwaitPartition("lost", 0, conform.Replicas{Leader: 1, ISR: []int{1}})
	onTheMove(r, "it was back", "lost")
	readAll(r, 1, "it is kept", "lost", 0)
}
