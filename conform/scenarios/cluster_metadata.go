package scenarios

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func clusterMetadata() []conform.Scenario {
	return []conform.Scenario{
		{Name: "cluster-metadata/whole", Key: 3, Needs: []int16{60, 75}, Run: metadataWhole},
		{Name: "cluster-metadata/a-node-is-killed", Key: 3, Needs: []int16{60, 75}, Faults: true, Run: metadataKilled},
		{Name: "cluster-metadata/a-node-is-stopped", Key: 3, Needs: []int16{60, 75}, Faults: true, Run: metadataStopped},
		{Name: "cluster-metadata/the-controller-is-killed", Key: 3, Needs: []int16{55}, Faults: true, Run: metadataController},
	}
}

// describeAll asks every node that is up in every way what the cluster and topics are.
func describeAll(r *conform.R, title string, topics ...string) {
	for _, v := range conform.Versions(3) {
		everywhere(r, title, func() *kmsg.MetadataRequest { req := metadataFor(r, topics...); req.Version = v; return req })
	}
	everywhere(r, title, func() *kmsg.DescribeTopicPartitionsRequest { return partitionsOf(r, topics...) })
	for _, v := range conform.Versions(60) {
		everywhere(r, title, func() *kmsg.DescribeClusterRequest {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.Version = v
			return req
		})
	}
	everywhere(r, title+", fenced ones, too", func() *kmsg.DescribeClusterRequest {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.Version, req.IncludeFencedBrokers = 2, true
		return req
	})
}

// placesOfAll are topics with one, two and three replicas, by every node first.
func placesOfAll(r *conform.R, name string, configs ...string) (topics []string) {
	for count := 1; count <= r.Count(); count++ {
		var replicas [][]int
		for first := range r.Count() {
			var nodes []int
			for i := range count {
				nodes = append(nodes, (first+i)%r.Count())
			}
			replicas = append(replicas, nodes)
		}
		topics = append(topics, fmt.Sprintf("%s-%d", name, count))
		r.CreateOn(topics[count-1], replicas, configs...)
	}
	return topics
}

func metadataWhole(r *conform.R) {
	topics := placesOfAll(r, "a")
	describeAll(r, "whole", append(topics, "nope")...)
	for at := range r.Count() {
		for _, kind := range []int8{1, 2, 3} {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.Version, req.EndpointType = 2, kind
			r.SendTo(at, fmt.Sprintf("endpoints of type %d, at node %d", kind, at+1), req)
		}
	}
}

// metadataKilled takes the third node away, without a word.
func metadataKilled(r *conform.R) {
	topics := append(placesOfAll(r, "one", "min.insync.replicas", "1"), placesOfAll(r, "two", "min.insync.replicas", "2")...)
	describeAll(r, "whole", topics...)
	r.Kill(2)
	awaitWithout(r, "one", "two")
	describeAll(r, "without the third", topics...)
	r.StartAgain(2)
	awaitAllBack(r, "one", "two")
	describeAll(r, "with it again", topics...)
	r.Send("preferred leaders", elect(r, 2, 0, "one-3", 0, 1, 2))
	r.AwaitPartition("one-3", 2, conform.Replicas{Leader: 2})
	describeAll(r, "after the election", topics...)
}

// metadataStopped has the third node hand over before it goes.
func metadataStopped(r *conform.R) {
	topics := append(placesOfAll(r, "one", "min.insync.replicas", "1"), placesOfAll(r, "two", "min.insync.replicas", "2")...)
	r.Stop(2)
	awaitWithout(r, "one", "two")
	describeAll(r, "without the third", topics...)
	r.StartAgain(2)
	awaitAllBack(r, "one", "two")
	describeAll(r, "with it again", topics...)
}

// awaitWithout waits until topics of placesOfAll are without the third node.
func awaitWithout(r *conform.R, topics ...string) {
	for _, t := range topics {
		r.AwaitPartition(t+"-3", 2, conform.Replicas{Leader: 0, ISR: []int{0, 1}})
		r.AwaitPartition(t+"-1", 2, conform.Replicas{Leader: conform.NoLeader})
		r.AwaitPartition(t+"-2", 1, conform.Replicas{Leader: 1, ISR: []int{1}})
		r.AwaitPartition(t+"-2", 2, conform.Replicas{Leader: 0, ISR: []int{0}})
	}
	r.AwaitBrokers()
}

// awaitAllBack waits until all of their replicas are in sync again.
func awaitAllBack(r *conform.R, topics ...string) {
	for _, t := range topics {
		r.AwaitPartition(t+"-1", 2, conform.Replicas{Leader: 2})
		r.AwaitPartition(t+"-2", 1, conform.Replicas{Leader: 1, ISR: []int{1, 2}})
		r.AwaitPartition(t+"-2", 2, conform.Replicas{Leader: 0, ISR: []int{0, 2}})
		for p, leader := range []int{0, 1, 0} {
			r.AwaitPartition(t+"-3", int32(p), conform.Replicas{Leader: leader, ISR: []int{0, 1, 2}})
		}
	}
}

// metadataController kills the active controller, which the others do not miss for long.
func metadataController(r *conform.R) {
	r.NumberFrom(r.Controller())
	r.CreateOn("a", [][]int{{0, 1, 2}, {1, 2, 0}})
	r.CreateOn("b", [][]int{{0}})
	r.Kill(0)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 1, ISR: []int{1, 2}})
	r.AwaitPartition("b", 0, conform.Replicas{Leader: conform.NoLeader})
	r.AwaitBrokers()
	r.Controller()
	describeAll(r, "without the controller", "a", "b")
	everywhere(r, "create a topic", func() *kmsg.CreateTopicsRequest {
		r.Owns("new")
		return validate(7, assigned(r, "new", -1, -1, r.Nodes(1, 2)))
	})
}
