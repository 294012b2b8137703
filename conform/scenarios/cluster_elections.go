package scenarios

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func clusterElections() []conform.Scenario {
	return []conform.Scenario{
		{Name: "cluster-elections/none-needed", Key: 43, Run: electNotNeeded},
		{Name: "cluster-elections/preferred", Key: 43, Needs: []int16{45}, Run: electPreferred},
		{Name: "cluster-elections/preferred-is-gone", Key: 43, Needs: []int16{75}, Faults: true, Run: electWithoutPreferred},
		{Name: "cluster-elections/unclean", Key: 43, Needs: []int16{75}, Faults: true, Run: electUnclean},
		{Name: "cluster-elections/unclean-by-itself", Key: 43, Needs: []int16{75}, Faults: true, Run: electUncleanAlone},
		{Name: "cluster-elections/eligible-replicas", Key: 43, Needs: []int16{75}, Faults: true, Run: electEligible},
		{Name: "cluster-elections/stopped-one-after-the-other", Key: 43, Needs: []int16{75}, Faults: true, Run: electStopped},
	}
}

// electionKinds are preferred and unclean elections, by name.
var electionKinds = map[int8]string{0: "preferred", 1: "unclean"}

// electEvery asks for elections of some partitions in every version, at every node.
func electEvery(r *conform.R, title, topic string, partitions ...int32) {
	for _, v := range conform.Versions(43) {
		for kind := range int8(2) {
			if v == 0 && kind > 0 {
				continue
			}
			everywhere(r, title+", "+electionKinds[kind], func() *kmsg.ElectLeadersRequest { return elect(r, v, kind, topic, partitions...) })
		}
	}
}

// electAllOf asks for elections everywhere, and looks at the scenario's own topics.
func electAllOf(r *conform.R, title string, kind int8, topics ...string) {
	req := elect(r, 2, kind, "")
	req.Topics = nil
	r.SendOnly(title+", everywhere, "+electionKinds[kind], req, func(resp kmsg.Response) {
		answer := resp.(*kmsg.ElectLeadersResponse)
		var own []kmsg.ElectLeadersResponseTopic
		for _, t := range answer.Topics {
			for _, name := range topics {
				if t.Topic == r.Name(name) {
					own = append(own, t)
				}
			}
		}
		answer.Topics = own
	})
}

func electNotNeeded(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}})
	electEvery(r, "all are where they should be", "a", 0, 1, 2)
	electEvery(r, "unknown ones", "a", 9, -1)
	electEvery(r, "unknown topic", "nope", 0)
	describeTopic(r, "afterwards", "a")
}

// electPreferred moves leaders to where replicas that were put first are.
func electPreferred(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1, 2}, {1, 0, 2}})
	for i, v := range conform.Versions(43) {
		order := [][]int{{1, 2, 0}, {2, 0, 1}, {0, 1, 2}}[i]
		pair := [][]int{{0, 1, 2}, {1, 0, 2}, {0, 2, 1}}[i]
		r.SendTo(i, label(v, "other order"), reassignTo(r, 0, target{"a", 0, r.Nodes(order...)}, target{"a", 1, r.Nodes(pair...)}))
		r.Settle()
		describeTopic(r, label(v, "other order"), "a")
		r.SendTo(i, label(v, "elect"), elect(r, v, 0, "a", 0, 1))
		r.AwaitPartition("a", 0, conform.Replicas{Leader: order[0]})
		r.AwaitPartition("a", 1, conform.Replicas{Leader: pair[0]})
		describeTopic(r, label(v, "elected"), "a")
		r.SendTo(i, label(v, "elect again"), elect(r, v, 0, "a", 0, 1))
	}
	r.SendTo(1, "metadata", metadataFor(r, "a"))
}

// electWithoutPreferred has the third node, which is preferred somewhere, gone.
func electWithoutPreferred(r *conform.R) {
	topics := placesOfAll(r, "a", "min.insync.replicas", "1")
	r.Kill(2)
	awaitWithout(r, "a")
	for _, t := range topics {
		electEvery(r, "the third is gone, "+t, t, 0, 1, 2)
	}
	electAllOf(r, "the third is gone", 0, topics...)
	electAllOf(r, "the third is gone", 1, topics...)
	r.StartAgain(2)
	awaitAllBack(r, "a")
	r.Send("unclean is not needed", elect(r, 2, 1, "a-3", 2))
	electAllOf(r, "it is back", 0, topics...)
	r.AwaitPartition("a-3", 2, conform.Replicas{Leader: 2})
	r.AwaitPartition("a-2", 2, conform.Replicas{Leader: 2})
	for _, t := range topics {
		describeTopic(r, "elected", t)
	}
}

// onlyStale leaves a partition of the second and third node to the third, which has
// missed a record. For a moment no controller is active.
func onlyStale(r *conform.R, topic string, configs ...string) {
	r.CreateOn(topic, [][]int{{1, 2}}, configs...)
	produceAtNode(r, 1, topic, 0, "both")
	r.SendTo(1, "both have it", produceWith(r, 9, topic, 0, -1, "both"))
	r.Kill(2)
	r.AwaitPartition(topic, 0, conform.Replicas{Leader: 1, ISR: []int{1}})
	r.SendTo(1, "one has it", produceWith(r, 9, topic, 0, -1, "one"))
	r.Kill(1)
	r.Launch(2)
}

// electUnclean elects a replica that was not in sync, on request.
func electUnclean(r *conform.R) {
	onlyStale(r, "a", "min.insync.replicas", "1")
	r.AwaitPartition("a", 0, conform.Replicas{Leader: conform.NoLeader})
	describeTopic(r, "no leader", "a")
	everywhere(r, "no leader", func() *kmsg.MetadataRequest { return metadataFor(r, "a") })
	for v := range int16(3) {
		r.Send(label(v, "preferred"), elect(r, v, 0, "a", 0))
	}
	r.SendTo(2, "produce without a leader", produceWith(r, 12, "a", 0, -1, "x"))
	r.SendTo(2, "fetch without a leader", fetchOf(r, 16, from{"a", 0, 0}))
	r.SendTo(2, "list without a leader", listOf(r, 7, -1, place{"a", 0}))
	r.Send("unclean", elect(r, 2, 1, "a", 0))
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 2, ISR: []int{2}})
	describeTopic(r, "unclean leader", "a")
	r.SendTo(2, "what it has", fetchOf(r, 12, from{"a", 0, 0}))
	r.SendTo(2, "another record", produceWith(r, 9, "a", 0, -1, "instead"))
	r.SendTo(2, "ends of epoch 0", epochOf(r, 4, 0, place{"a", 0}))
	r.StartAgain(1)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 2, ISR: []int{1, 2}})
	describeTopic(r, "the old leader follows", "a")
	r.Send("the old leader again", elect(r, 2, 0, "a", 0))
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 1, ISR: []int{1, 2}})
	r.SendTo(1, "what it has kept", fetchOf(r, 12, from{"a", 0, 0}))
	for epoch := range int32(6) {
		r.SendTo(1, fmt.Sprintf("ends of epoch %d at the old leader", epoch), epochOf(r, 4, epoch, place{"a", 0}))
	}
	describeTopic(r, "in the end", "a")
}

// electUncleanAlone lets such a replica lead without being asked.
func electUncleanAlone(r *conform.R) {
	onlyStale(r, "a", "min.insync.replicas", "1", "unclean.leader.election.enable", "true")
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 2, ISR: []int{2}})
	describeTopic(r, "unclean leader", "a")
	r.SendTo(2, "what it has", fetchOf(r, 12, from{"a", 0, 0}))
	r.StartAgain(1)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 2, ISR: []int{1, 2}})
	describeTopic(r, "the old leader follows", "a")
}

// electEligible leaves a partition without in-sync replicas, whose last ones left when
// there were too few.
func electEligible(r *conform.R) {
	r.CreateOn("a", [][]int{{1, 2}}, "min.insync.replicas", "2")
	r.CreateOn("wide", [][]int{{1, 2, 0}}, "min.insync.replicas", "2")
	r.CreateOn("narrow", [][]int{{2}}, "min.insync.replicas", "2")
	r.SendTo(1, "both have it", produceWith(r, 9, "a", 0, -1, "both"))
	r.Stop(2)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 1, ISR: []int{1}})
	r.AwaitPartition("wide", 0, conform.Replicas{Leader: 1, ISR: []int{0, 1}})
	r.AwaitPartition("narrow", 0, conform.Replicas{Leader: conform.NoLeader})
	for _, t := range []string{"a", "wide", "narrow"} {
		describeTopic(r, "the third has been stopped", t)
		for kind := range int8(2) {
			r.Send("elect, "+t+", "+electionKinds[kind], elect(r, 2, kind, t, 0))
		}
	}
	r.StartAgain(2)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 1, ISR: []int{1, 2}})
	r.AwaitPartition("narrow", 0, conform.Replicas{Leader: 2})
	describeTopic(r, "it is back", "a")
	describeTopic(r, "it is back", "narrow")
	r.Kill(2)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 1, ISR: []int{1}})
	describeTopic(r, "it was killed", "a")
	r.Send("fewer must be in sync", change(topicResource, r.Name("a"), operation{0, "min.insync.replicas", of("1")}))
	r.Settle()
	describeTopic(r, "fewer must be in sync", "a")
}

// electStopped stops both replicas of a partition. The one that went first is eligible.
func electStopped(r *conform.R) {
	r.CreateOn("a", [][]int{{1, 2}, {2, 1}}, "min.insync.replicas", "2")
	r.CreateOn("narrow", [][]int{{1}}, "min.insync.replicas", "2")
	r.SendTo(1, "both have it", produceWith(r, 9, "a", 0, -1, "both"))
	r.Stop(2)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 1, ISR: []int{1}})
	r.AwaitPartition("a", 1, conform.Replicas{Leader: 1, ISR: []int{1}})
	r.Stop(1)
	r.Launch(2)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 2})
	describeTopic(r, "the first to go leads", "a")
	r.SendTo(2, "acks -1", produceWith(r, 9, "a", 0, -1, "x"))
	r.SendTo(2, "acks 1", produceWith(r, 9, "a", 0, 1, "y"))
	r.StartAgain(1)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 2, ISR: []int{1, 2}})
	r.AwaitPartition("narrow", 0, conform.Replicas{Leader: 1, ISR: []int{1}})
	describeTopic(r, "both are back", "a")
	describeTopic(r, "both are back", "narrow")
	r.SendTo(2, "acks -1 again", produceWith(r, 9, "a", 0, -1, "z"))
	readAll(r, 2, "both are back", "a", 0)
}
