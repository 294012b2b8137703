package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func newGroups() []conform.Scenario {
	group := []int16{8, 9, 10, 42, 68, 69}
	share := []int16{10, 42, 76, 77, 78, 79, 90, 91, 92}
	return []conform.Scenario{
		{Name: "consumer_group_heartbeat/life", Key: 68, Needs: group, Run: consumerLife},
		{Name: "consumer_group_heartbeat/errors", Key: 68, Needs: group, Run: consumerErrors},
		{Name: "consumer_group_describe/states", Key: 69, Needs: group, Run: consumerDescribe},
		{Name: "share_group_heartbeat/errors", Key: 76, Needs: share, Run: shareErrors},
		{Name: "share_group_describe/none", Key: 77, Needs: share, Run: shareDescribe},
		{Name: "share_fetch/errors", Key: 78, Needs: share, Run: shareFetchErrors},
		{Name: "share_acknowledge/errors", Key: 79, Needs: share, Run: shareAcknowledgeErrors},
		{Name: "share_group_offsets/describe", Key: 90, Needs: share, Run: shareOffsets},
		{Name: "share_group_offsets/alter", Key: 91, Needs: share, Run: alterShareOffsets},
		{Name: "share_group_offsets/delete", Key: 92, Needs: share, Run: deleteShareOffsets},
		{Name: "streams_group_heartbeat/errors", Key: 88, Needs: []int16{10, 88, 89}, Run: streamsErrors},
		{Name: "streams_group_describe/none", Key: 89, Needs: []int16{10, 88, 89}, Run: streamsDescribe},
		{Name: "streams_group_topology/errors", Key: 93, Needs: []int16{10, 88}, Run: streamsTopology},
	}
}

const memberID = "AAAAAAAAAAAAAAAAAAAAAA" // such as clients make

func consumerHeartbeat(r *conform.R, group string) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.RebalanceTimeoutMillis = r.Name(group), memberID, 5_000
	req.SubscribedTopicNames = []string{r.Name("a")}
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return req
}

func consumerLife(r *conform.R) {
	r.CreateTopic("a", 2)
	awaitCoordinator(r, "g")
	for _, v := range conform.Versions(68) {
		r.OwnsGroup("g")
		join := consumerHeartbeat(r, "g")
		join.Version = v
		epoch := int32(0)
		learn := func(resp kmsg.Response) {
			if a, ok := resp.(*kmsg.ConsumerGroupHeartbeatResponse); ok {
				epoch = a.MemberEpoch
			}
		}
		learn(r.Send(label(v, "join"), join))
		beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		beat.Version, beat.Group, beat.MemberID, beat.MemberEpoch = v, join.Group, memberID, epoch
		learn(r.Send(label(v, "beat"), beat))
		beat.MemberEpoch = epoch + 1
		r.Send(label(v, "next epoch"), beat)
		beat.MemberEpoch = -1
		r.Send(label(v, "leave"), beat)
		r.Send(label(v, "leave again"), beat)
	}
}

func consumerErrors(r *conform.R) {
	r.Ignore("MemberID") // made by the broker for version 0
	r.CreateTopic("a", 2)
	awaitCoordinator(r, "g")
	type heartbeat = *kmsg.ConsumerGroupHeartbeatRequest
	sendVariants(r, func() heartbeat { return consumerHeartbeat(r, "g") }, []variant[heartbeat]{
		with("empty group", func(q heartbeat) { q.Group = "" }),
		with("empty member", func(q heartbeat) { q.MemberID = "" }),
		with("no rebalance timeout", func(q heartbeat) { q.RebalanceTimeoutMillis = -1 }),
		with("no topics", func(q heartbeat) { q.SubscribedTopicNames = nil }),
		with("owned partitions null", func(q heartbeat) { q.Topics = nil }),
		with("epoch -3", func(q heartbeat) { q.MemberEpoch = -3 }),
		with("epoch -2", func(q heartbeat) { q.MemberEpoch = -2 }),
		with("unknown member", func(q heartbeat) { q.MemberEpoch = 7 }),
		with("unknown assignor", func(q heartbeat) { q.ServerAssignor = of("nope") }),
		with("empty assignor", func(q heartbeat) { q.ServerAssignor = of("") }),
		with("empty instance", func(q heartbeat) { q.InstanceID = of("") }),
		with("empty rack", func(q heartbeat) { q.RackID = of("") }),
		since(1, "bad regex", func(q heartbeat) { q.SubscribedTopicRegex = of("(") }),
	})
}

func consumerDescribe(r *conform.R) {
	r.CreateTopic("a", 2)
	awaitCoordinator(r, "g")
	r.OwnsGroup("g")
	r.Ignore("Groups.Members.ClientHost")
	all := func(what string) {
		for _, v := range conform.Versions(69) {
			for _, operations := range []bool{false, true} {
				req := kmsg.NewPtrConsumerGroupDescribeRequest()
				req.Version, req.IncludeAuthorizedOperations, req.Groups = v, operations, []string{r.Name("g"), r.Name("none")}
				r.Send(label(v, "%s, operations %v", what, operations), req)
			}
		}
	}
	all("unknown")
	join := consumerHeartbeat(r, "g")
	join.Version = 1
	r.Send("join", join)
	all("stable")
	join.MemberEpoch = -1
	r.Send("leave", join)
	all("empty")
}

func shareErrors(r *conform.R) {
	type heartbeat = *kmsg.ShareGroupHeartbeatRequest
	r.CreateTopic("a", 1)
	awaitCoordinator(r, "g")
	mk := func() heartbeat {
		req := kmsg.NewPtrShareGroupHeartbeatRequest()
		req.GroupID, req.MemberID, req.SubscribedTopicNames = r.Name("g"), memberID, []string{r.Name("a")}
		return req
	}
	sendVariants(r, mk, []variant[heartbeat]{
		with("empty group", func(q heartbeat) { q.GroupID = "" }),
		with("empty member", func(q heartbeat) { q.MemberID = "" }),
		with("no topics", func(q heartbeat) { q.SubscribedTopicNames = nil }),
		with("epoch -3", func(q heartbeat) { q.MemberEpoch = -3 }),
		with("unknown member", func(q heartbeat) { q.MemberEpoch = 7 }),
		with("empty rack", func(q heartbeat) { q.RackID = of("") }),
	})
}

func shareDescribe(r *conform.R) {
	awaitCoordinator(r, "g")
	for _, operations := range []bool{false, true} {
		req := kmsg.NewPtrShareGroupDescribeRequest()
		req.Version, req.GroupIDs, req.IncludeAuthorizedOperations = 1, []string{r.Name("g")}, operations
		r.Send(label(1, "unknown, operations %v", operations), req)
	}
}

func shareFetchErrors(r *conform.R) {
	type fetch = *kmsg.ShareFetchRequest
	r.CreateTopic("a", 1)
	mk := func() fetch {
		req := kmsg.NewPtrShareFetchRequest()
		req.GroupID, req.MemberID = of(r.Name("g")), of(memberID)
		req.ShareSessionEpoch = 5
		return req
	}
	sendVariants(r, mk, []variant[fetch]{
		with("unknown session", func(fetch) {}),
		with("no group", func(q fetch) { q.GroupID = nil }),
		with("no member", func(q fetch) { q.MemberID = nil }),
		with("bad member", func(q fetch) { q.MemberID = of("nope") }),
	})
}

func shareAcknowledgeErrors(r *conform.R) {
	type acknowledge = *kmsg.ShareAcknowledgeRequest
	mk := func() acknowledge {
		req := kmsg.NewPtrShareAcknowledgeRequest()
		req.GroupID, req.MemberID, req.ShareSessionEpoch = of(r.Name("g")), of(memberID), 5
		return req
	}
	sendVariants(r, mk, []variant[acknowledge]{
		with("unknown session", func(acknowledge) {}),
		with("first epoch", func(q acknowledge) { q.ShareSessionEpoch = 0 }),
		with("no group", func(q acknowledge) { q.GroupID = nil }),
		with("no member", func(q acknowledge) { q.MemberID = nil }),
	})
}

func shareOffsets(r *conform.R) {
	awaitCoordinator(r, "g")
	for _, v := range conform.Versions(90) {
		req := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
		req.Version = v
		r.Send(label(v, "no groups"), req)
		g := kmsg.NewDescribeShareGroupOffsetsRequestGroup()
		g.GroupID = r.Name("g")
		req.Groups = append(req.Groups, g)
		r.Send(label(v, "unknown group, all topics"), req)
	}
}

func alterShareOffsets(r *conform.R) {
	awaitCoordinator(r, "g")
	req := kmsg.NewPtrAlterShareGroupOffsetsRequest()
	req.GroupID = r.Name("g")
	r.Send("unknown group, no topics", req)
	req.GroupID = ""
	r.Send("empty group", req)
}

func deleteShareOffsets(r *conform.R) {
	awaitCoordinator(r, "g")
	req := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
	req.GroupID = r.Name("g")
	r.Send("unknown group, no topics", req)
	req.GroupID = ""
	r.Send("empty group", req)
}

func streamsErrors(r *conform.R) {
	type heartbeat = *kmsg.StreamsGroupHeartbeatRequest
	awaitCoordinator(r, "g")
	mk := func() heartbeat {
		req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		req.Group, req.MemberID, req.MemberEpoch = r.Name("g"), memberID, 3
		return req
	}
	sendVariants(r, mk, []variant[heartbeat]{
		with("unknown member", func(heartbeat) {}),
		with("empty group", func(q heartbeat) { q.Group = "" }),
		with("empty member", func(q heartbeat) { q.MemberID = "" }),
		with("epoch -3", func(q heartbeat) { q.MemberEpoch = -3 }),
		with("join without topology", func(q heartbeat) { q.MemberEpoch = 0 }),
	})
}

func streamsDescribe(r *conform.R) {
	awaitCoordinator(r, "g")
	for _, v := range conform.Versions(89) {
		req := kmsg.NewPtrStreamsGroupDescribeRequest()
		req.Version, req.Groups = v, []string{r.Name("g")}
		r.Send(label(v, "unknown"), req)
		req.IncludeAuthorizedOperations = true
		r.Send(label(v, "unknown, operations"), req)
	}
}

func streamsTopology(r *conform.R) {
	awaitCoordinator(r, "g")
	req := kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateRequest()
	req.Group, req.MemberID, req.TopologyEpoch = r.Name("g"), memberID, 1
	r.Send("unknown group", req)
	req.Group = ""
	r.Send("empty group", req)
}
