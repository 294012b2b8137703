package scenarios

import (
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func listOffsets() []conform.Scenario {
	return []conform.Scenario{
		{Name: "listoffsets/empty-partition", Key: 2, Run: listEmpty},
		{Name: "listoffsets/special-timestamps", Key: 2, Run: listSpecial},
		{Name: "listoffsets/by-timestamp", Key: 2, Run: listByTimestamp},
		{Name: "listoffsets/by-timestamp-codecs", Key: 2, Run: listCodecs},
		{Name: "listoffsets/by-timestamp-LogAppendTime", Key: 2, Run: listLogAppendTime},
		{Name: "listoffsets/by-timestamp-segments", Key: 2, Run: listSegments},
		{Name: "listoffsets/by-timestamp-many-batches", Key: 2, Run: listMany},
		{Name: "listoffsets/by-timestamp-older-and-older", Key: 2, Run: listDescending},
		{Name: "listoffsets/requests", Key: 2, Run: listRequests},
		{Name: "listoffsets/several-partitions", Key: 2, Run: listSeveral},
		{Name: "listoffsets/recreated-topic", Key: 2, Run: listRecreated},
		{Name: "listoffsets/truncation", Key: 2, Needs: []int16{21}, Run: listTruncated},
		{Name: "listoffsets/malformed", Key: 2, Run: listMalformed},
		{Name: "listoffsets/names-of-bytes", Key: 2, Run: listByteNames},
	}
}

// place is a partition.
type place struct {
	topic     string
	partition int32
}

// listOf is a ListOffsets of a consumer that asks the same of every partition.
// Neighbours of one topic share its entry.
func listOf(r *conform.R, version int16, timestamp int64, places ...place) *kmsg.ListOffsetsRequest {
	req := listNothing(version)
	last := ""
	for _, p := range places {
		if p.topic != last || len(req.Topics) == 0 {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = r.Name(p.topic)
			req.Topics = append(req.Topics, t)
			last = p.topic
		}
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp = p.partition, timestamp
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, part)
	}
	return req
}

// specialTimestamps are those that have a meaning in some version, and their neighbours.
func specialTimestamps() []int64 { return []int64{-1, -2, -3, -4, -5, -6, -7, -8, -1 << 63} }

// listEmpty asks a partition that has no records.
func listEmpty(r *conform.R) {
	r.CreateTopic("a", 1)
	for _, v := range conform.Versions(2) {
		for _, ts := range append(specialTimestamps(), 0, 1, 1<<63-1) {
			r.Send(label(v, "timestamp %d", ts), listOf(r, v, ts, place{"a", 0}))
		}
	}
}

// recordsAt are records at these times in milliseconds since 1970.
func recordsAt(times ...int64) []conform.Record {
	var recs []conform.Record
	for _, t := range times {
		recs = append(recs, conform.Record{Time: t, Value: []byte("v")})
	}
	return recs
}

// produceAt writes a batch of records at these times, without a step.
func produceAt(r *conform.R, topic string, codec kgo.CompressionCodecType, times ...int64) {
	r.Quiet(produceOf(r, 9, data{topic, 0, conform.Batch{Records: recordsAt(times...), Codec: codec}.Bytes()}))
}

// listSpecial asks for the ends and the largest timestamp of a partition with records.
func listSpecial(r *conform.R) {
	r.CreateTopic("a", 1)
	produceAt(r, "a", 0, 5, 9, 3)
	produceAt(r, "a", 0, 9, 12, 12)
	produceAt(r, "a", 1, 1, 30, 2, 30)
	produceAt(r, "a", 0, 4)
	for _, v := range conform.Versions(2) {
		for _, ts := range specialTimestamps() {
			r.Send(label(v, "timestamp %d", ts), listOf(r, v, ts, place{"a", 0}))
			committed := listOf(r, v, ts, place{"a", 0})
			committed.IsolationLevel = 1
			r.Send(label(v, "timestamp %d, committed", ts), committed)
		}
	}
}

// listByTimestamp asks for the times of unordered records and those between them.
func listByTimestamp(r *conform.R) {
	r.CreateTopic("a", 1)
	produceAt(r, "a", 0, 5, 9, 3)
	produceAt(r, "a", 0, 9, 12, 12)
	produceAt(r, "a", 0, 1, 20, 2)
	produceAt(r, "a", 0, 7)
	for _, v := range conform.Versions(2) {
		for _, ts := range []int64{0, 1, 2, 3, 4, 5, 6, 9, 10, 12, 13, 20, 21, 1<<63 - 1} {
			r.Send(label(v, "timestamp %d", ts), listOf(r, v, ts, place{"a", 0}))
		}
	}
}

// listCodecs looks for times inside of batches of each codec.
func listCodecs(r *conform.R) {
	r.CreateTopic("a", 1)
	for codec := range kgo.CompressionCodecType(5) {
		from := int64(codec) * 100
		produceAt(r, "a", codec, from+10, from+30, from+20, from+30)
	}
	for ts := int64(0); ts < 450; ts += 15 {
		r.Send(label(11, "timestamp %d", ts), listOf(r, 11, ts, place{"a", 0}))
	}
	r.Send("largest", listOf(r, 11, -3, place{"a", 0}))
}

// listLogAppendTime asks a topic whose times are the broker's.
func listLogAppendTime(r *conform.R) {
	r.CreateTopic("a", 1, "message.timestamp.type", "LogAppendTime")
	for codec := range kgo.CompressionCodecType(5) {
		produceAt(r, "a", codec, r.T(10), r.T(30), r.T(20))
	}
	for _, v := range conform.Versions(2) {
		r.Send(label(v, "time of the records"), listOf(r, v, r.T(20), place{"a", 0}))
		r.Send(label(v, "first"), listOf(r, v, 0, place{"a", 0}))
		r.Send(label(v, "in the future"), listOf(r, v, r.T(20*3_600_000), place{"a", 0}))
	}
}

// listSegments asks across segments, each of which has an index of its own.
func listSegments(r *conform.R) {
	r.CreateTopic("a", 1, "segment.bytes", "1048576")
	for i := range int64(12) {
		big := conform.Record{Time: 1000 * (i ^ 1), Value: make([]byte, 300_000)} // neighbours swapped
		batch := conform.Batch{Records: append([]conform.Record{big}, recordsAt(1000*(i^1)+1, 1000*(i^1))...)}
		r.Quiet(produceOf(r, 9, data{"a", 0, batch.Bytes()}))
	}
	for ts := int64(0); ts <= 12_000; ts += 500 {
		r.Send(label(7, "timestamp %d", ts), listOf(r, 7, ts, place{"a", 0}))
	}
	r.Send("largest", listOf(r, 7, -3, place{"a", 0}))
	r.Send("end", listOf(r, 7, -1, place{"a", 0}))
}

// listMany asks for times between the entries of an index.
func listMany(r *conform.R) {
	r.CreateTopic("a", 1)
	produceMany(r, "a")
	for ts := int64(0); ts <= 12_100; ts += 155 {
		r.Send(label(7, "timestamp %d", ts), listOf(r, 7, ts, place{"a", 0}))
	}
	r.Send("largest", listOf(r, 7, -3, place{"a", 0}))
}

// listDescending asks a log in which each batch is older than the one before.
func listDescending(r *conform.R) {
	r.CreateTopic("a", 1)
	for i := range int64(6) {
		produceAt(r, "a", 0, 600-100*i, 600-100*i-50)
	}
	for ts := int64(0); ts <= 650; ts += 50 {
		r.Send(label(7, "timestamp %d", ts), listOf(r, 7, ts, place{"a", 0}))
	}
	r.Send("largest", listOf(r, 7, -3, place{"a", 0}))
}

// listRequests tries the fields around one partition.
func listRequests(r *conform.R) {
	type req = *kmsg.ListOffsetsRequest
	r.CreateTopic("a", 1)
	r.Produce("a", 0, "x", "y")
	part := func(q req) *kmsg.ListOffsetsRequestTopicPartition { return &q.Topics[0].Partitions[0] }
	epoch := func(name string, of int32) variant[req] {
		return since(4, "leader epoch "+name, func(q req) { part(q).CurrentLeaderEpoch = of })
	}
	replica := func(name string, id int32) variant[req] {
		return with("replica "+name, func(q req) { q.ReplicaID = id })
	}
	sendVariants(r, func() req { return listOf(r, 0, -1, place{"a", 0}) }, []variant[req]{
		plain[req](),
		with("partition 1", func(q req) { part(q).Partition = 1 }),
		with("partition -1", func(q req) { part(q).Partition = -1 }),
		with("unknown topic", func(q req) { q.Topics[0].Topic = r.Name("nope") }),
		with("empty topic", func(q req) { q.Topics[0].Topic = "" }),
		with("a name that none can have", func(q req) { q.Topics[0].Topic = "a b/c" }),
		with("unknown topic, bad timestamp", func(q req) { q.Topics[0].Topic = r.Name("nope"); part(q).Timestamp = -9 }),
		with("no topics", func(q req) { q.Topics = nil }),
		with("topic without partitions", func(q req) { q.Topics[0].Partitions = nil }),
		epoch("0", 0), epoch("1", 1), epoch("5", 5), epoch("-2", -2), epoch("max", 1<<31-1),
		since(4, "leader epoch 5, bad timestamp", func(q req) { part(q).CurrentLeaderEpoch, part(q).Timestamp = 5, -9 }),
		since(4, "leader epoch 5, by timestamp", func(q req) { part(q).CurrentLeaderEpoch, part(q).Timestamp = 5, 0 }),
		since(2, "isolation 1", func(q req) { q.IsolationLevel = 1 }),
		since(2, "isolation 3", func(q req) { q.IsolationLevel = 3 }),
		since(2, "isolation -1", func(q req) { q.IsolationLevel = -1 }),
		since(2, "isolation 3, unknown topic", func(q req) { q.IsolationLevel = 3; q.Topics[0].Topic = r.Name("nope") }),
		since(2, "isolation 3, a partition twice, a topic without any", func(q req) {
			q.IsolationLevel, q.Topics[0].Partitions = 3, append(q.Topics[0].Partitions, *part(q))
			q.Topics = append(q.Topics, q.Topics[0], kmsg.ListOffsetsRequestTopic{Topic: r.Name("nope")})
		}),
		replica("of the leader", r.Node(0)), replica("5000", 5000), replica("-2", -2), replica("-3", -3), replica("0", 0),
		with("replica 5000, unknown topic", func(q req) { q.ReplicaID = 5000; q.Topics[0].Topic = r.Name("nope") }),
		since(10, "timeout 0", func(q req) { q.TimeoutMillis = 0 }),
		since(10, "timeout -1", func(q req) { q.TimeoutMillis = -1 }),
		since(6, "unknown tags", func(q req) {
			unknownTags(&q.UnknownTags)
			unknownTags(&q.Topics[0].UnknownTags)
			unknownTags(&part(q).UnknownTags)
		}),
	})
}

// listSeveral asks for several partitions in odd orders.
func listSeveral(r *conform.R) {
	r.CreateTopic("a", 3)
	r.CreateTopic("b", 2)
	r.Produce("a", 0, "x", "y")
	r.Produce("b", 1, "x", "y", "z")
	for _, v := range conform.Versions(2) {
		r.Send(label(v, "in odd order"), listOf(r, v, -1, place{"a", 1}, place{"b", 1}, place{"a", 0}, place{"nope", 0}, place{"b", 0}, place{"b", 9}))
		r.Send(label(v, "duplicates"), listOf(r, v, -1, place{"a", 0}, place{"b", 1}, place{"a", 0}, place{"b", 0}))
		r.Send(label(v, "duplicates in one entry"), listOf(r, v, -1, place{"a", 0}, place{"a", 0}, place{"a", 1}))
		r.Send(label(v, "unknown duplicates"), listOf(r, v, -1, place{"nope", 0}, place{"nope", 0}, place{"a", 8}, place{"a", 8}))
		two := listOf(r, v, -1, place{"a", 0}, place{"a", 0})
		two.Topics[0].Partitions[1].Timestamp = -2
		r.Send(label(v, "duplicates with other timestamps"), two)
		mixed := listOf(r, v, -1, place{"a", 0}, place{"a", 1}, place{"b", 1})
		mixed.Topics[0].Partitions[1].Timestamp, mixed.Topics[1].Partitions[0].Timestamp = -8, 0
		r.Send(label(v, "good and bad timestamps"), mixed)
	}
}

// listRecreated asks for a topic that is deleted, and made anew.
func listRecreated(r *conform.R) {
	r.CreateTopic("a", 1)
	r.Produce("a", 0, "x", "y")
	r.Send("before", listOf(r, 11, -1, place{"a", 0}))
	r.DeleteTopic("a")
	r.Send("deleted", listOf(r, 11, -1, place{"a", 0}))
	r.CreateTopic("a", 2)
	r.Send("recreated", listOf(r, 11, -1, place{"a", 0}, place{"a", 1}))
	r.Produce("a", 0, "z")
	r.Send("recreated and written to", listOf(r, 11, -3, place{"a", 0}))
}

// listTruncated asks after records were deleted.
func listTruncated(r *conform.R) {
	r.CreateTopic("a", 1)
	produceAt(r, "a", 0, 10, 20, 30)
	produceAt(r, "a", 0, 5, 15, 40)
	for _, upTo := range []int64{0, 1, 3, 4, 6} {
		r.Send(label(2, "delete up to %d", upTo), deleteOf(r, 2, upTo, place{"a", 0}))
		for _, ts := range append(specialTimestamps(), 0, 15, 30, 41) {
			r.Send(label(11, "timestamp %d after %d", ts, upTo), listOf(r, 11, ts, place{"a", 0}))
		}
	}
}

// listMalformed sends bodies that are no request.
func listMalformed(r *conform.R) {
	r.CreateTopic("a", 1)
	for _, v := range conform.Versions(2) {
		tryMalformed(r, listOf(r, v, -1, place{"a", 0}))
	}
	tryVersionsOutside(r, 2)
}

// listByteNames asks for topics whose names are no UTF-8, or odd otherwise.
func listByteNames(r *conform.R) {
	for _, v := range []int16{1, 11} {
		for i, name := range []string{"=a\xffb", "=a\x00b", "=äöü", "=\u2028", "=" + longName + "x", "=.", "=.."} {
			r.Send(label(v, "name %d", i), listOf(r, v, -1, place{name, 0}))
		}
	}
}
