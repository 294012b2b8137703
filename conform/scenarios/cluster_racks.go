package scenarios

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// clusterRacks are the scenarios of nodes in racks: the first is in one of its own, the two
// others share one.
func clusterRacks() []conform.Scenario {
	return inRacks([]conform.Scenario{
		{Name: "racks/metadata", Key: 3, Needs: []int16{60}, Run: racksInMetadata},
		{Name: "racks/placement", Key: 19, Needs: []int16{37}, Run: placeInRacks},
		{Name: "racks/preferred-read-replica", Key: 1, Needs: []int16{45}, Run: preferredReplica},
		{Name: "racks/preferred-and-sessions", Key: 1, Run: preferredInSessions},
		{Name: "racks/preferred-is-not-in-sync", Key: 1, Faults: true, Run: preferredNotInSync},
	})
}

func inRacks(list []conform.Scenario) []conform.Scenario {
	for i := range list {
		list[i].Racks = true
	}
	return list
}

func racksInMetadata(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1}, {1, 2}})
	for _, v := range conform.Versions(3) {
		everywhere(r, "brokers", func() metadataRequest {
			req := metadataFor(r, "a")
			req.Version = v
			return req
		})
	}
	for _, v := range conform.Versions(60) {
		everywhere(r, "brokers", func() *kmsg.DescribeClusterRequest {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.Version = v
			return req
		})
	}
	for at := range r.Count() {
		everywhere(r, fmt.Sprintf("rack of node %d", at+1), func() describeConfigsRequest {
			return configsOf(resource(brokerResource, fmt.Sprint(r.Node(at)), "broker.rack", "replica.selector.class"))
		})
	}
}

// placeInRacks notes of how many partitions, wherever they are, both racks have replicas.
func placeInRacks(r *conform.R) {
	for replicas := int16(1); replicas <= 4; replicas++ {
		name := fmt.Sprintf("a%d", replicas)
		r.Owns(name)
		made := r.Quiet(create(7, newTopic(r, name, 12, replicas))).(*kmsg.CreateTopicsResponse)
		r.Note(name+" is made", "error %d", made.Topics[0].ErrorCode)
		if replicas == 1 || made.Topics[0].ErrorCode != 0 {
			continue
		}
		for _, count := range []int32{12, 30} {
			r.Quiet(grow(3, grown(r, name, count)))
			r.Settle()
			m := r.QuietAt(0, metadataFor(r, name)).(*kmsg.MetadataResponse)
			inBoth := 0
			for _, p := range m.Topics[0].Partitions {
				if slices.Contains(p.Replicas, r.Node(0)) && len(p.Replicas) > 1 {
					inBoth++
				}
			}
			r.Note(fmt.Sprintf("%s has %d partitions", name, count), "%d in both racks", inBoth)
		}
	}
}

// inRack is a Fetch of a consumer that says where it is.
func inRack(r *conform.R, version int16, rack string, places ...from) *kmsg.FetchRequest {
	req := fetchOf(r, version, places...)
	req.Rack = rack
	return req
}

// awaitFollower waits until a follower knows that so many records may be read.
func awaitFollower(r *conform.R, at int, topic string, partition int32, end int64) {
	r.UntilAt(at, "the high watermark at the follower", func() kmsg.Request { return fetchOf(r, 12, from{topic, partition, 0}) }, func(resp kmsg.Response) bool {
		return resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].HighWatermark == end
	})
}

// preferredReplica reads from racks with and without replicas (KIP-392).
func preferredReplica(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1}, {1, 2}, {1, 0}, {2, 0}})
	for p, leader := range []int{0, 1, 1, 2} {
		r.SendTo(leader, fmt.Sprintf("everybody has partition %d", p), produceWith(r, 9, "a", int32(p), -1, "x"))
	}
	awaitFollower(r, 1, "a", 0, 1)
	awaitFollower(r, 2, "a", 1, 1)
	awaitFollower(r, 0, "a", 2, 1)
	awaitFollower(r, 0, "a", 3, 1)
	for _, v := range conform.Versions(1) {
		for _, rack := range []string{"", "east", "west", "north", "WEST"} {
			if v < 11 && rack != "" {
				continue
			}
			title := fmt.Sprintf("a consumer in %q", rack)
			for p := range int32(4) {
				everywhere(r, fmt.Sprintf("%s of partition %d", title, p), func() *kmsg.FetchRequest { return inRack(r, v, rack, from{"a", p, 0}) })
			}
			everywhere(r, title+" of all", func() *kmsg.FetchRequest {
				return inRack(r, v, rack, from{"a", 0, 0}, from{"a", 1, 0}, from{"a", 2, 0}, from{"a", 3, 0})
			})
		}
		if v < 11 {
			continue
		}
		for _, offset := range []int64{1, 2, 99, -1} {
			everywhere(r, fmt.Sprintf("a consumer in \"west\" at offset %d", offset), func() *kmsg.FetchRequest { return inRack(r, v, "west", from{"a", 0, offset}) })
		}
		follower := inRack(r, v, "west", from{"a", 0, 0})
		follower.ReplicaID = -2
		r.SendTo(0, label(v, "a debugger in \"west\""), follower)
	}
	for _, epoch := range []int32{0, 1} {
		everywhere(r, fmt.Sprintf("a consumer in \"west\" in epoch %d", epoch), func() *kmsg.FetchRequest {
			req := inRack(r, 12, "west", from{"a", 0, 0})
			req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
			return req
		})
	}
	moveLeader(r, "a", 0, 1, 0)
	everywhere(r, "the leader is in \"west\" now", func() *kmsg.FetchRequest { return inRack(r, 12, "west", from{"a", 0, 0}) })
	inEast := func() *kmsg.FetchRequest { return inRack(r, 12, "east", from{"a", 0, 0}) }
	// Before the new leader has heard of its follower it does not know what that one has.
	r.UntilAt(1, "the new leader knows its follower", func() kmsg.Request { return inEast() }, func(resp kmsg.Response) bool {
		return resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].PreferredReadReplica >= 0
	})
	everywhere(r, "and a consumer in \"east\"", inEast)
}

// preferredInSessions tells a consumer of its rack when a session is opened, and later.
func preferredInSessions(r *conform.R) {
	for _, v := range []int16{11, 13, 18} {
		name := fmt.Sprintf("a%d", v)
		r.CreateOn(name, [][]int{{0, 1}, {0, 2}})
		for p := range int32(2) {
			r.SendTo(0, label(v, "everybody has partition %d", p), produceWith(r, 9, name, p, -1, "x"))
		}
		full := inRack(r, v, "west", from{name, 0, 0}, from{name, 1, 0})
		full.SessionID, full.SessionEpoch = 0, 0
		open, ok := r.SendTo(0, label(v, "open a session"), full).(*kmsg.FetchResponse)
		if !ok {
			r.Fail("no session")
		}
		for i, rack := range []string{"west", "", "east", "west"} {
			again := inRack(r, v, rack)
			again.SessionID, again.SessionEpoch = open.SessionID, int32(i+1)
			r.SendTo(0, label(v, "go on in %q", rack), again)
		}
	}
}

// preferredNotInSync reads while the follower in the consumer's rack is gone. That it has
// left, the leader knows at once from its metadata.
func preferredNotInSync(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 2}}, "min.insync.replicas", "1")
	r.SendTo(0, "both have it", produceWith(r, 9, "a", 0, -1, "x"))
	r.SendTo(0, "a consumer in \"west\"", inRack(r, 12, "west", from{"a", 0, 0}))
	r.Kill(2)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 0, ISR: []int{0}})
	r.AwaitBrokers()
	r.SendTo(0, "the follower is gone", inRack(r, 12, "west", from{"a", 0, 0}))
	r.SendTo(0, "one has it", produceWith(r, 9, "a", 0, -1, "y"))
	r.SendTo(0, "a consumer of what one has", inRack(r, 12, "west", from{"a", 0, 1}))
	r.StartAgain(2)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 0, ISR: []int{0, 2}})
	awaitFollower(r, 2, "a", 0, 2)
	r.SendTo(0, "the follower is back", inRack(r, 12, "west", from{"a", 0, 0}))
	r.SendTo(2, "what it has", inRack(r, 12, "west", from{"a", 0, 0}))
}
