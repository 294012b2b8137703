package scenarios

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func deleteRecords() []conform.Scenario {
	return []conform.Scenario{
		{Name: "deleterecords/offsets", Key: 21, Run: deleteOffsets},
		{Name: "deleterecords/requests", Key: 21, Run: deleteRequests},
		{Name: "deleterecords/several-partitions", Key: 21, Run: deleteSeveral},
		{Name: "deleterecords/topic-kinds", Key: 21, Run: deleteKinds},
		{Name: "deleterecords/internal-topics", Key: 21, Needs: []int16{10}, Run: deleteInternal},
		{Name: "deleterecords/while-fetches-wait", Key: 21, Run: deleteWhileWaiting},
		{Name: "deleterecords/recreated-topic", Key: 21, Run: deleteRecreated},
		{Name: "deleterecords/segments", Key: 21, Run: deleteSegments},
		{Name: "deleterecords/producers", Key: 21, Run: deleteProducers},
		{Name: "deleterecords/described", Key: 21, Needs: []int16{35, 61}, Run: deleteDescribed},
		{Name: "deleterecords/malformed", Key: 21, Run: deleteMalformed},
	}
}

// deleteOf is a DeleteRecords of the same offset in every partition.
func deleteOf(r *conform.R, version int16, offset int64, places ...place) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = version, 5_000
	last := ""
	for _, p := range places {
		if p.topic != last || len(req.Topics) == 0 {
			t := kmsg.NewDeleteRecordsRequestTopic()
			t.Topic = r.Name(p.topic)
			req.Topics = append(req.Topics, t)
			last = p.topic
		}
		part := kmsg.NewDeleteRecordsRequestTopicPartition()
		part.Partition, part.Offset = p.partition, offset
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, part)
	}
	return req
}

// deleteOffsets moves the log start forward step by step, and tries to move it elsewhere.
func deleteOffsets(r *conform.R) {
	for _, v := range conform.Versions(21) {
		topic := fmt.Sprintf("t%d", v)
		r.CreateTopic(topic, 1)
		at := place{topic, 0}
		r.Send(label(v, "empty, high watermark"), deleteOf(r, v, -1, at))
		r.Send(label(v, "empty, 1"), deleteOf(r, v, 1, at))
		r.Produce(topic, 0, "a", "b", "c")
		r.Produce(topic, 0, "d", "e")
		for i, offset := range []int64{0, 1, 1, 0, 4, 6, -2, -1 << 63, 1<<63 - 1} {
			r.Send(label(v, "offset %d, as step %d", offset, i), deleteOf(r, v, offset, at))
			r.Send(label(v, "start after step %d", i), listOf(r, 7, -2, at))
		}
		r.Send(label(v, "read before the start"), fetchOf(r, 12, from{topic, 0, 3}))
		r.Send(label(v, "read at the start, within a batch"), fetchOf(r, 12, from{topic, 0, 4}))
		r.Send(label(v, "high watermark"), deleteOf(r, v, -1, at))
		r.Send(label(v, "read at the end"), fetchOf(r, 12, from{topic, 0, 5}))
		r.Produce(topic, 0, "f")
		r.Send(label(v, "read what came later"), fetchOf(r, 12, from{topic, 0, 5}))
	}
}

// deleteRequests tries the fields around one partition.
func deleteRequests(r *conform.R) {
	type req = *kmsg.DeleteRecordsRequest
	r.CreateTopic("a", 1)
	r.Produce("a", 0, "x", "y")
	part := func(q req) *kmsg.DeleteRecordsRequestTopicPartition { return &q.Topics[0].Partitions[0] }
	sendVariants(r, func() req { return deleteOf(r, 0, 0, place{"a", 0}) }, []variant[req]{
		plain[req](),
		with("partition 1", func(q req) { part(q).Partition = 1 }),
		with("partition -1", func(q req) { part(q).Partition = -1 }),
		with("unknown topic", func(q req) { q.Topics[0].Topic = r.Name("nope") }),
		with("empty topic", func(q req) { q.Topics[0].Topic = "" }),
		with("metadata topic", func(q req) { q.Topics[0].Topic = "__cluster_metadata" }),
		with("unknown topic, offset -5", func(q req) { q.Topics[0].Topic = r.Name("nope"); part(q).Offset = -5 }),
		with("no topics", func(q req) { q.Topics = nil }),
		with("topic without partitions", func(q req) { q.Topics[0].Partitions = nil }),
		with("timeout 0", func(q req) { q.TimeoutMillis = 0 }),
		with("timeout -1", func(q req) { q.TimeoutMillis = -1 }),
		since(2, "unknown tags", func(q req) {
			unknownTags(&q.UnknownTags)
			unknownTags(&q.Topics[0].UnknownTags)
			unknownTags(&part(q).UnknownTags)
		}),
	})
}

// deleteSeveral names several partitions, some of them wrongly or twice.
func deleteSeveral(r *conform.R) {
	r.CreateTopic("a", 3)
	r.CreateTopic("b", 1)
	for p := range int32(3) {
		r.Produce("a", p, "x", "y", "z")
	}
	for _, v := range conform.Versions(21) {
		r.Send(label(v, "good and unknown"), deleteOf(r, v, int64(v), place{"a", 1}, place{"nope", 0}, place{"a", 9}, place{"a", 0}, place{"b", 0}))
		r.Send(label(v, "starts"), listOf(r, 7, -2, place{"a", 0}, place{"a", 1}, place{"b", 0}))
		r.Send(label(v, "twice the same"), deleteOf(r, v, int64(v), place{"a", 2}, place{"a", 2}))
		two := deleteOf(r, v, 3, place{"a", 2}, place{"a", 2})
		two.Topics[0].Partitions[1].Offset = 1
		r.Send(label(v, "twice with other offsets"), two)
		r.Send(label(v, "in two entries"), deleteOf(r, v, 3, place{"a", 1}, place{"b", 0}, place{"a", 1}))
		r.Send(label(v, "starts at last"), listOf(r, 7, -2, place{"a", 0}, place{"a", 1}, place{"a", 2}))
	}
}

// deleteKinds tries topics of each cleanup policy, and internal ones.
func deleteKinds(r *conform.R) {
	for _, k := range []struct{ name, policy string }{{"d", "delete"}, {"c", "compact"}, {"dc", "compact,delete"}, {"none", ""}} {
		r.CreateTopic(k.name, 1, "cleanup.policy", k.policy)
		r.Produce(k.name, 0, "x", "y")
		for _, v := range conform.Versions(21) {
			r.Send(label(v, "policy %q", k.policy), deleteOf(r, v, 1, place{k.name, 0}))
			r.Send(label(v, "policy %q, offset out of range", k.policy), deleteOf(r, v, 5, place{k.name, 0}))
		}
	}
}

// deleteInternal tries the topic of the group coordinators.
func deleteInternal(r *conform.R) {
	awaitCoordinator(r, "g")
	for _, v := range conform.Versions(21) {
		r.Send(label(v, "internal topic"), deleteOf(r, v, 0, place{"=__consumer_offsets", 0}))
		r.Send(label(v, "internal topic, unknown partition"), deleteOf(r, v, 0, place{"=__consumer_offsets", 5000}))
	}
}

// deleteWhileWaiting deletes what lies before a Fetch that waits: it goes on waiting.
func deleteWhileWaiting(r *conform.R) {
	r.CreateTopic("a", 1)
	r.Produce("a", 0, "x", "y")
	parked := r.Start("main", "waits at the end", waiting(fetchOf(r, 12, from{"a", 0, 2}), longWait, 1))
	r.Note("answered before", "%t", parked.Within(notYet))
	r.SendOn("other", "delete all", deleteOf(r, 2, -1, place{"a", 0}))
	r.Note("answered by that", "%t", parked.Within(notYet))
	r.Produce("a", 0, "z")
	parked.Wait()
}

// deleteRecreated deletes records, and the topic, which begins at 0 again.
func deleteRecreated(r *conform.R) {
	r.CreateTopic("a", 1)
	r.Produce("a", 0, "x", "y")
	r.Send("delete all", deleteOf(r, 2, -1, place{"a", 0}))
	r.DeleteTopic("a")
	r.Send("topic deleted", deleteOf(r, 2, -1, place{"a", 0}))
	r.CreateTopic("a", 1)
	r.Send("recreated", deleteOf(r, 2, -1, place{"a", 0}))
	r.Send("recreated, beyond its end", deleteOf(r, 2, 2, place{"a", 0}))
	r.Send("start", listOf(r, 7, -2, place{"a", 0}))
}

// deleteSegments deletes records of whole segments and of a part of one.
func deleteSegments(r *conform.R) {
	r.CreateTopic("a", 1, "segment.bytes", "1048576")
	for range 8 {
		big := conform.Batch{Records: []conform.Record{{Time: r.T(0), Value: make([]byte, 400_000)}}}
		r.Quiet(produceOf(r, 9, data{"a", 0, big.Bytes()}))
	}
	for _, offset := range []int64{1, 2, 3, 7, 8} {
		r.Send(label(2, "offset %d", offset), deleteOf(r, 2, offset, place{"a", 0}))
		r.Send(label(2, "first timestamp after %d", offset), listOf(r, 7, 0, place{"a", 0}))
		r.Send(label(2, "read after %d", offset), fetchOf(r, 12, from{"a", 0, offset}))
	}
}

// deleteProducers deletes all records of a producer, which goes on.
func deleteProducers(r *conform.R) {
	r.CreateTopic("a", 1)
	batch := func(sequence int32) []byte {
		return conform.Batch{Records: r.Values("x"), Idempotent: true, ProducerID: 5, FirstSequence: sequence}.Bytes()
	}
	r.Send("first", produceOf(r, 9, data{"a", 0, batch(0)}))
	r.Send("second", produceOf(r, 9, data{"a", 0, batch(1)}))
	r.Send("delete all", deleteOf(r, 2, -1, place{"a", 0}))
	r.Send("duplicate", produceOf(r, 9, data{"a", 0, batch(1)}))
	r.Send("gap", produceOf(r, 9, data{"a", 0, batch(3)}))
	r.Send("next", produceOf(r, 9, data{"a", 0, batch(2)}))
}

// deleteDescribed looks at sizes and producers after deletions: both are what they were
// before files go.
func deleteDescribed(r *conform.R) {
	ignoreDisk(r)
	r.CreateTopic("a", 1)
	for sequence := range int32(4) {
		b := conform.Batch{Records: r.Values("x", "y"), Idempotent: true, ProducerID: 9, FirstSequence: 2 * sequence}
		r.Quiet(produceOf(r, 9, data{"a", 0, b.Bytes()}))
	}
	for _, offset := range []int64{0, 1, 4, 7, -1} {
		r.Send(label(2, "delete up to %d", offset), deleteOf(r, 2, offset, place{"a", 0}))
		r.Send(label(2, "producers after %d", offset), producersOf(r, place{"a", 0}))
		r.Send(label(2, "sizes after %d", offset), dirsOf(r, 4, "a", 0))
	}
}

// deleteMalformed sends bodies that are no request.
func deleteMalformed(r *conform.R) {
	r.CreateTopic("a", 1)
	for _, v := range conform.Versions(21) {
		tryMalformed(r, deleteOf(r, v, 0, place{"a", 0}))
	}
	tryVersionsOutside(r, 21)
}
