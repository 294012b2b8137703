package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func offsetForLeaderEpoch() []conform.Scenario {
	return []conform.Scenario{
		{Name: "offsetforleaderepoch/epochs", Key: 23, Run: epochGrid},
		{Name: "offsetforleaderepoch/requests", Key: 23, Run: epochRequests},
		{Name: "offsetforleaderepoch/several-partitions", Key: 23, Run: epochSeveral},
		{Name: "offsetforleaderepoch/recreated-topic", Key: 23, Run: epochRecreated},
		{Name: "offsetforleaderepoch/truncation", Key: 23, Needs: []int16{21}, Run: epochTruncated},
		{Name: "offsetforleaderepoch/malformed", Key: 23, Run: epochMalformed},
	}
}

// epochOf asks for the end of an epoch in each of the places, without a fence.
func epochOf(r *conform.R, version int16, epoch int32, places ...place) *kmsg.OffsetForLeaderEpochRequest {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.Version, req.ReplicaID = version, -1
	last := ""
	for _, p := range places {
		if p.topic != last || len(req.Topics) == 0 {
			t := kmsg.NewOffsetForLeaderEpochRequestTopic()
			t.Topic = r.Name(p.topic)
			req.Topics = append(req.Topics, t)
			last = p.topic
		}
		part := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		part.Partition, part.LeaderEpoch, part.CurrentLeaderEpoch = p.partition, epoch, -1
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, part)
	}
	return req
}

// epochGrid combines asked epochs and fences, on an empty and a written partition.
func epochGrid(r *conform.R) {
	r.CreateTopic("a", 2)
	r.Produce("a", 0, "x", "y")
	for _, v := range conform.Versions(23) {
		for _, epoch := range []int32{-1 << 31, -2, -1, 0, 1, 5, 1<<31 - 1} {
			for _, fence := range []int32{-2, -1, 0, 1, 5} {
				req := epochOf(r, v, epoch, place{"a", 0}, place{"a", 1}, place{"a", 2}, place{"nope", 0})
				for t := range req.Topics {
					for p := range req.Topics[t].Partitions {
						req.Topics[t].Partitions[p].CurrentLeaderEpoch = fence
					}
				}
				r.Send(label(v, "epoch %d, fence %d", epoch, fence), req)
			}
		}
	}
}

// epochRequests tries the fields around one partition.
func epochRequests(r *conform.R) {
	type req = *kmsg.OffsetForLeaderEpochRequest
	r.CreateTopic("a", 1)
	r.Produce("a", 0, "x", "y")
	part := func(q req) *kmsg.OffsetForLeaderEpochRequestTopicPartition { return &q.Topics[0].Partitions[0] }
	replica := func(name string, id int32) variant[req] {
		return since(3, "replica "+name, func(q req) { q.ReplicaID = id })
	}
	sendVariants(r, func() req { return epochOf(r, 0, 0, place{"a", 0}) }, []variant[req]{
		plain[req](),
		with("partition -1", func(q req) { part(q).Partition = -1 }),
		with("unknown topic", func(q req) { q.Topics[0].Topic = r.Name("nope") }),
		with("empty topic", func(q req) { q.Topics[0].Topic = "" }),
		with("no topics", func(q req) { q.Topics = nil }),
		with("topic without partitions", func(q req) { q.Topics[0].Partitions = nil }),
		replica("of the leader", r.Node(0)), replica("5000", 5000), replica("-2", -2), replica("-3", -3), replica("0", 0),
		since(4, "unknown tags", func(q req) {
			unknownTags(&q.UnknownTags)
			unknownTags(&q.Topics[0].UnknownTags)
			unknownTags(&part(q).UnknownTags)
		}),
	})
}

// epochSeveral names several partitions, some of them wrongly or twice.
func epochSeveral(r *conform.R) {
	r.CreateTopic("a", 2)
	r.CreateTopic("b", 1)
	r.Produce("a", 0, "x", "y")
	r.Produce("b", 0, "x")
	for _, v := range conform.Versions(23) {
		r.Send(label(v, "in odd order"), epochOf(r, v, 0, place{"b", 0}, place{"a", 1}, place{"nope", 4}, place{"a", 0}, place{"a", 7}))
		r.Send(label(v, "twice"), epochOf(r, v, 0, place{"a", 0}, place{"a", 0}))
		two := epochOf(r, v, 0, place{"a", 0}, place{"b", 0}, place{"a", 0})
		two.Topics[2].Partitions[0].LeaderEpoch = 7
		r.Send(label(v, "in two entries with other epochs"), two)
		r.Send(label(v, "unknown twice"), epochOf(r, v, 0, place{"nope", 0}, place{"nope", 0}))
	}
}

// epochRecreated asks for a topic that is deleted, and made anew.
func epochRecreated(r *conform.R) {
	r.CreateTopic("a", 1)
	r.Produce("a", 0, "x", "y")
	r.Send("before", epochOf(r, 4, 0, place{"a", 0}))
	r.DeleteTopic("a")
	r.Send("deleted", epochOf(r, 4, 0, place{"a", 0}))
	r.CreateTopic("a", 1)
	r.Send("recreated", epochOf(r, 4, 0, place{"a", 0}))
	r.Produce("a", 0, "z")
	r.Send("recreated and written to", epochOf(r, 4, 0, place{"a", 0}))
}

// epochTruncated asks after all records of the epoch were deleted.
func epochTruncated(r *conform.R) {
	r.CreateTopic("a", 1)
	r.Produce("a", 0, "x", "y", "z")
	for _, offset := range []int64{1, 3} {
		r.Send(label(2, "delete up to %d", offset), deleteOf(r, 2, offset, place{"a", 0}))
		for _, epoch := range []int32{-1, 0, 1} {
			r.Send(label(4, "epoch %d after %d", epoch, offset), epochOf(r, 4, epoch, place{"a", 0}))
		}
	}
}

// epochMalformed sends bodies that are no request.
func epochMalformed(r *conform.R) {
	r.CreateTopic("a", 1)
	for _, v := range conform.Versions(23) {
		tryMalformed(r, epochOf(r, v, 0, place{"a", 0}))
	}
	tryVersionsOutside(r, 23)
}
