package scenarios

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func fetch() []conform.Scenario {
	return slices.Concat(
		[]conform.Scenario{
			{Name: "fetch/requests", Key: 1, Run: fetchRequests},
			{Name: "fetch/offsets", Key: 1, Run: fetchAtOffsets},
			{Name: "fetch/limits", Key: 1, Run: fetchLimits},
			{Name: "fetch/many-batches", Key: 1, Run: fetchMany},
			{Name: "fetch/large-batches", Key: 1, Run: fetchLarge},
			{Name: "fetch/several-partitions", Key: 1, Run: fetchSeveral},
			{Name: "fetch/duplicates", Key: 1, Run: fetchDuplicates},
			{Name: "fetch/replicas", Key: 1, Run: fetchReplicas},
			{Name: "fetch/leader-epochs", Key: 1, Run: fetchLeaderEpochs},
			{Name: "fetch/last-fetched-epochs", Key: 1, Run: fetchLastEpochs},
			{Name: "fetch/by-id", Key: 1, Run: fetchByID},
			{Name: "fetch/zero-ids", Key: 1, Run: fetchZeroIDs},
			{Name: "fetch/malformed", Key: 1, Run: fetchMalformed},
		},
		fetchTopics(), fetchSessions(), fetchRandom(), fetchWaits(),
	)
}

// from is where to read: a partition and an offset in it.
type from struct {
	topic     string
	partition int32
	offset    int64
}

// fetchOf is a Fetch of a consumer outside of a session that does not wait and takes up
// to 1 MiB. Neighbours of one topic share its entry.
func fetchOf(r *conform.R, version int16, places ...from) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MinBytes, req.MaxBytes, req.ReplicaID, req.SessionEpoch = version, 1, 1<<20, -1, -1
	last := ""
	for _, p := range places {
		if p.topic != last || len(req.Topics) == 0 {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = r.Name(p.topic), r.TopicID(p.topic)
			req.Topics = append(req.Topics, t)
			last = p.topic
		}
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.FetchOffset, part.PartitionMaxBytes = p.partition, p.offset, 1<<20
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, part)
	}
	return req
}

// fetchVersions are versions that differ in what they ask or answer: the first, with
// sessions, with racks, in compact form, by id, with leaders, the last. All but the first
// have sessions.
func fetchVersions() []int16 { return []int16{4, 7, 11, 12, 13, 16, 18} }

// fetchRequests tries the fields around one partition of three batches.
func fetchRequests(r *conform.R) {
	type req = *kmsg.FetchRequest
	r.CreateTopic("a", 1)
	r.Produce("a", 0, "x", "y")
	r.Produce("a", 0, "z")
	part := func(q req) *kmsg.FetchRequestTopicPartition { return &q.Topics[0].Partitions[0] }
	unknown := func(q req) { q.Topics[0].Topic, q.Topics[0].TopicID = r.Name("nope"), r.TopicID("nope") }
	sendVariants(r, func() req { return fetchOf(r, 0, from{"a", 0, 0}) }, []variant[req]{
		plain[req](),
		with("partition 1", func(q req) { part(q).Partition = 1 }),
		with("partition -1", func(q req) { part(q).Partition = -1 }),
		with("unknown topic", unknown),
		with("no topics", func(q req) { q.Topics = nil }),
		with("topic without partitions", func(q req) { q.Topics[0].Partitions = nil }),
		with("unknown topic without partitions", func(q req) { unknown(q); q.Topics[0].Partitions = nil }),
		with("isolation 1", func(q req) { q.IsolationLevel = 1 }),
		with("isolation 2", func(q req) { q.IsolationLevel = 2 }),
		with("isolation -1", func(q req) { q.IsolationLevel = -1 }),
		with("isolation 2, unknown topic", func(q req) { unknown(q); q.IsolationLevel = 2 }),
		with("isolation 2, no topics", func(q req) { q.Topics, q.IsolationLevel = nil, 2 }),
		since(5, "log start 0", func(q req) { part(q).LogStartOffset = 0 }),
		since(5, "log start 99", func(q req) { part(q).LogStartOffset = 99 }),
		since(5, "log start -9", func(q req) { part(q).LogStartOffset = -9 }),
		since(11, "rack", func(q req) { q.Rack = "r1" }),
		since(12, "cluster id", func(q req) { q.ClusterID = of(r.ClusterID()) }),
		since(12, "wrong cluster id", func(q req) { q.ClusterID = of("nobody") }),
		with("forgotten topic outside of a session", func(q req) { forget(r, q, place{"a", 0}) }),
		since(12, "unknown tags", func(q req) {
			forget(r, q, place{"nope", 0})
			unknownTags(&q.UnknownTags)
			unknownTags(&q.Topics[0].UnknownTags)
			unknownTags(&part(q).UnknownTags)
			unknownTags(&q.ForgottenTopics[0].UnknownTags)
		}),
		with("empty topic name", func(q req) { q.Topics[0].Topic = "" }),
		with("metadata topic", func(q req) { q.Topics[0].Topic, q.Topics[0].TopicID = "__cluster_metadata", [16]byte{15: 1} }),
	})
}

// forget adds places to the forgotten topics of req.
func forget(r *conform.R, req *kmsg.FetchRequest, places ...place) {
	for _, p := range places {
		t := kmsg.NewFetchRequestForgottenTopic()
		t.Topic, t.TopicID, t.Partitions = r.Name(p.topic), r.TopicID(p.topic), []int32{p.partition}
		req.ForgottenTopics = append(req.ForgottenTopics, t)
	}
}

// fetchAtOffsets reads from every offset, within batches and outside of the log.
func fetchAtOffsets(r *conform.R) {
	r.CreateTopic("a", 1)
	r.Produce("a", 0, "a", "b", "c")
	r.Produce("a", 0, "d")
	r.Produce("a", 0, "e", "f")
	for _, v := range fetchVersions() {
		for _, offset := range []int64{-1 << 63, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 1<<63 - 1} {
			r.Send(label(v, "offset %d", offset), fetchOf(r, v, from{"a", 0, offset}))
		}
		committed := fetchOf(r, v, from{"a", 0, 7})
		committed.IsolationLevel = 1
		r.Send(label(v, "offset 7, committed"), committed)
	}
}

// fetchLimits tries limits in bytes for the answer and for the partition. Each batch of
// the topic has 100 bytes.
func fetchLimits(r *conform.R) {
	r.CreateTopic("a", 1)
	r.CreateTopic("empty", 1)
	for range 4 {
		r.Quiet(produceOf(r, 9, data{"a", 0, ofSize(r, 100)}))
	}
	for _, v := range fetchVersions() {
		for _, n := range []int32{-1 << 31, -1, 0, 1, 99, 100, 101, 199, 200, 250, 400, 1<<31 - 1} {
			of := fetchOf(r, v, from{"a", 0, 0})
			of.Topics[0].Partitions[0].PartitionMaxBytes = n
			r.Send(label(v, "%d bytes of the partition", n), of)
			of = fetchOf(r, v, from{"a", 0, 0})
			of.MaxBytes = n
			r.Send(label(v, "%d bytes in all", n), of)
		}
		for _, n := range []int32{-1, 0, 100} {
			of := fetchOf(r, v, from{"empty", 0, 0}, from{"a", 0, 4}, from{"a", 0, 1})
			of.MaxBytes = n
			r.Send(label(v, "%d bytes in all, nothing in the first", n), of)
			of.MaxBytes, of.Topics[0].Partitions[0].PartitionMaxBytes = 1<<20, n
			r.Send(label(v, "%d bytes of the empty partition", n), of)
		}
	}
}

// fetchLarge has a batch that is larger than every limit.
func fetchLarge(r *conform.R) {
	r.CreateTopic("a", 3)
	large := ofSize(r, 300_000)
	r.Quiet(produceOf(r, 9, data{"a", 0, large}))
	r.Quiet(produceOf(r, 9, data{"a", 0, ofSize(r, 100)}))
	r.Quiet(produceOf(r, 9, data{"a", 1, ofSize(r, 100)}, data{"a", 2, large}))
	limited := func(v int16, total, each int32, places ...from) *kmsg.FetchRequest {
		req := fetchOf(r, v, places...)
		req.MaxBytes = total
		for i := range req.Topics[0].Partitions {
			req.Topics[0].Partitions[i].PartitionMaxBytes = each
		}
		return req
	}
	for _, v := range []int16{4, 11, 12, 13, 18} {
		r.Send(label(v, "large first"), limited(v, 1000, 1000, from{"a", 0, 0}, from{"a", 1, 0}))
		r.Send(label(v, "large second"), limited(v, 1000, 1000, from{"a", 1, 0}, from{"a", 0, 0}))
		r.Send(label(v, "two large"), limited(v, 1000, 1000, from{"a", 2, 0}, from{"a", 0, 0}))
		r.Send(label(v, "large limit in all, small ones each"), limited(v, 1<<20, 1, from{"a", 2, 0}, from{"a", 0, 0}, from{"a", 1, 0}))
		r.Send(label(v, "limit within the second of two"), limited(v, 1<<20, 300_050, from{"a", 0, 0}))
		r.Send(label(v, "from the end"), limited(v, 1, 1, from{"a", 2, 1}, from{"a", 1, 1}, from{"a", 0, 1}))
	}
}

// produceMany writes 120 batches of two records and about 1 KiB, so that indexes have
// several entries: record n of batch i has the time 100*(i^3) + 10*n.
func produceMany(r *conform.R, topic string) {
	for i := range int64(120) {
		recs := recordsAt(100*(i^3), 100*(i^3)+10)
		recs[0].Value = make([]byte, 900+i)
		r.Quiet(produceOf(r, 9, data{topic, 0, conform.Batch{Records: recs}.Bytes()}))
	}
}

// fetchMany reads at places between the entries of an index.
func fetchMany(r *conform.R) {
	r.CreateTopic("a", 1)
	produceMany(r, "a")
	for offset := int64(0); offset <= 240; offset += 7 {
		req := fetchOf(r, 12, from{"a", 0, offset})
		req.MaxBytes = 2500
		r.Send(label(12, "2500 bytes from %d", offset), req)
	}
}

// fetchSeveral reads several partitions, some of them unreadable, in odd orders.
func fetchSeveral(r *conform.R) {
	r.CreateTopic("a", 3)
	r.CreateTopic("b", 2)
	r.Produce("a", 0, "x", "y")
	r.Produce("a", 2, "x", "y", "z")
	r.Produce("b", 0, "x", "y")
	r.Produce("b", 1, "x")
	for _, v := range conform.Versions(1) {
		r.Send(label(v, "in odd order"), fetchOf(r, v, from{"b", 1, 0}, from{"a", 2, 0}, from{"b", 0, 0}, from{"a", 0, 0}, from{"a", 1, 0}))
		r.Send(label(v, "errors between"), fetchOf(r, v, from{"b", 1, 0}, from{"nope", 2, 0}, from{"b", 9, 0}, from{"a", 0, 0}, from{"a", 7, 0}, from{"a", 1, 3}))
		limited := fetchOf(r, v, from{"a", 0, 0}, from{"a", 2, 0}, from{"b", 0, 0})
		limited.MaxBytes = 150
		r.Send(label(v, "150 bytes in all"), limited)
		limited.MaxBytes, limited.MinBytes = 1, 1
		r.Send(label(v, "1 byte in all"), limited)
		level := fetchOf(r, v, from{"a", 0, 1}, from{"a", 9, 0}, from{"b", 0, 2})
		level.IsolationLevel = 1
		r.Send(label(v, "committed"), level)
		level.IsolationLevel = 5
		r.Send(label(v, "isolation 5"), level)
	}
}

// fetchDuplicates names one partition more than once.
func fetchDuplicates(r *conform.R) {
	r.CreateTopic("a", 2)
	r.CreateTopic("b", 1)
	r.Produce("a", 0, "x", "y")
	r.Produce("b", 0, "x")
	for _, v := range conform.Versions(1) {
		r.Send(label(v, "the same twice"), fetchOf(r, v, from{"a", 0, 0}, from{"a", 0, 0}))
		r.Send(label(v, "other offsets"), fetchOf(r, v, from{"a", 0, 0}, from{"a", 1, 0}, from{"a", 0, 1}))
		r.Send(label(v, "in two entries"), fetchOf(r, v, from{"a", 0, 0}, from{"b", 0, 0}, from{"a", 0, 2}))
		r.Send(label(v, "good, then out of range"), fetchOf(r, v, from{"a", 0, 0}, from{"a", 0, 9}))
		r.Send(label(v, "unknown twice"), fetchOf(r, v, from{"nope", 0, 0}, from{"nope", 0, 0}, from{"a", 8, 0}, from{"a", 8, 0}))
	}
}

// fetchReplicas reads under ids of replicas, real and not.
func fetchReplicas(r *conform.R) {
	r.CreateTopic("a", 1)
	r.Produce("a", 0, "x", "y")
	for _, v := range []int16{4, 11, 12, 13, 14, 15, 18} {
		for _, id := range []struct {
			name string
			id   int32
		}{{"0", 0}, {"of the leader", r.Node(0)}, {"5000", 5000}, {"-2", -2}, {"-3", -3}} {
			replica := func() *kmsg.FetchRequest {
				req := fetchOf(r, v, from{"a", 0, 0})
				req.ReplicaID, req.ReplicaState.ID, req.ReplicaState.Epoch = id.id, id.id, 77
				return req
			}
			r.Send(label(v, "replica %s", id.name), replica())
			fenced := replica()
			fenced.Topics[0].Partitions[0].CurrentLeaderEpoch = 0
			r.Send(label(v, "replica %s, leader epoch 0", id.name), fenced)
			committed := replica()
			committed.IsolationLevel = 1
			r.Send(label(v, "replica %s, committed", id.name), committed)
			outside := replica()
			outside.Topics[0].Partitions[0].FetchOffset = 9
			r.Send(label(v, "replica %s, out of range", id.name), outside)
		}
	}
}

// fetchLeaderEpochs fences with epochs before and after the leader's, which is 0.
func fetchLeaderEpochs(r *conform.R) {
	r.CreateTopic("a", 1)
	r.Produce("a", 0, "x", "y")
	for _, v := range conform.Versions(1) {
		for _, epoch := range []int32{-1 << 31, -2, -1, 0, 1, 1<<31 - 1} {
			for _, offset := range []int64{0, 2, 9} {
				req := fetchOf(r, v, from{"a", 0, offset})
				req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
				r.Send(label(v, "leader epoch %d, offset %d", epoch, offset), req)
			}
		}
		unknown := fetchOf(r, v, from{"a", 4, 0}, from{"nope", 0, 0})
		unknown.Topics[0].Partitions[0].CurrentLeaderEpoch = 5
		unknown.Topics[1].Partitions[0].CurrentLeaderEpoch = 5
		r.Send(label(v, "leader epoch 5, unknown partitions"), unknown)
	}
}

// fetchLastEpochs tells the epoch of the record before, from version 12 on: the answer
// may be where the logs diverge.
func fetchLastEpochs(r *conform.R) {
	r.CreateTopic("a", 1)
	r.CreateTopic("empty", 1)
	r.Produce("a", 0, "x", "y", "z")
	for _, v := range []int16{11, 12, 13, 16, 18} {
		for _, epoch := range []int32{-1 << 31, -2, -1, 0, 1, 5, 1<<31 - 1} {
			for _, offset := range []int64{-5, 0, 1, 3, 4, 100} {
				req := fetchOf(r, v, from{"a", 0, offset})
				req.Topics[0].Partitions[0].LastFetchedEpoch = epoch
				r.Send(label(v, "last epoch %d, offset %d", epoch, offset), req)
			}
			req := fetchOf(r, v, from{"empty", 0, 0}, from{"a", 0, 0})
			req.Topics[0].Partitions[0].LastFetchedEpoch = epoch
			r.Send(label(v, "last epoch %d, empty partition, and a good one", epoch), req)
		}
	}
}

// fetchByID names topics by their ids.
func fetchByID(r *conform.R) {
	r.CreateTopic("a", 1)
	r.CreateTopic("b", 1)
	r.Produce("a", 0, "x")
	r.Produce("b", 0, "y")
	for _, v := range []int16{13, 14, 15, 16, 17, 18} {
		r.Send(label(v, "two topics"), fetchOf(r, v, from{"b", 0, 0}, from{"a", 0, 0}))
		r.Send(label(v, "unknown between"), fetchOf(r, v, from{"b", 0, 0}, from{"nope", 0, 0}, from{"a", 0, 0}))
		r.Send(label(v, "unknown, several partitions"), fetchOf(r, v, from{"nope", 0, 0}, from{"nope", 3, 0}, from{"no", 0, 0}))
		r.Send(label(v, "zero id, one partition"), fetchOf(r, v, from{"", 0, 0}))
		r.Send(label(v, "zero id and a topic"), fetchOf(r, v, from{"", 0, 0}, from{"a", 0, 0}))
	}
}

// fetchZeroIDs names several partitions of no topic.
func fetchZeroIDs(r *conform.R) {
	const partition = "Topics.Partitions"
	r.Ignore("Topics", partition, partition+".DivergingEpoch", partition+".CurrentLeader", partition+".SnapshotID")
	for _, v := range []int16{13, 14, 15, 16, 17, 18} {
		r.Send(label(v, "zero id, two partitions"), fetchOf(r, v, from{"", 0, 0}, from{"", 1, 0}))
	}
}

// fetchMalformed sends bodies that are no request.
func fetchMalformed(r *conform.R) {
	r.CreateTopic("a", 1)
	for _, v := range conform.Versions(1) {
		tryMalformed(r, fetchOf(r, v, from{"a", 0, 0}))
	}
	tryVersionsOutside(r, 1)
}
