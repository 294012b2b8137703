package scenarios

import (
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// produceByID tries the ids by which version 13 names topics.
func produceByID(r *conform.R) {
	r.CreateTopic("a", 1)
	r.CreateTopic("b", 1)
	r.Send("good and unknown", produceOf(r, 13, data{"a", 0, batchOf(r, "x")}, data{"nope", 0, batchOf(r, "x")}, data{"b", 0, batchOf(r, "x")}))
	r.Send("two unknown ids", produceOf(r, 13, data{"nope", 0, batchOf(r, "x")}, data{"no", 3, batchOf(r, "x")}))
	r.Send("zero id", produceOf(r, 13, data{"", 0, batchOf(r, "x")}))
	r.Send("zero id twice", produceOf(r, 13, data{"", 0, batchOf(r, "x")}, data{"", 1, batchOf(r, "x")}))
	r.Send("zero id and good", produceOf(r, 13, data{"", 0, batchOf(r, "x")}, data{"a", 0, batchOf(r, "x")}))
	r.Send("unknown partition", produceOf(r, 13, data{"a", 4, batchOf(r, "x")}))
	bad := produceOf(r, 13, data{"nope", 0, batchOf(r, "x")})
	bad.Acks = 3
	r.Send("unknown id, acks 3", bad)
	r.Send("ends", listOf(r, 7, -1, place{"a", 0}, place{"b", 0}))
}

// produceInternal writes to the topic of the group coordinators.
func produceInternal(r *conform.R) {
	const internal = "=__consumer_offsets"
	awaitCoordinator(r, "g")
	r.LearnTopic(internal)
	for _, v := range conform.Versions(0) {
		r.Send(label(v, "internal topic"), produceOf(r, v, data{internal, 0, batchOf(r, "x")}))
		r.Send(label(v, "internal topic, unknown partition"), produceOf(r, v, data{internal, 5000, batchOf(r, "x")}))
		r.Send(label(v, "internal topic, bad records"), produceOf(r, v, data{internal, 0, []byte{}}))
	}
}

// produceTags puts unknown tagged fields everywhere.
func produceTags(r *conform.R) {
	r.CreateTopic("a", 1)
	for _, v := range conform.Versions(0) {
		if v < 9 {
			continue
		}
		req := produceOf(r, v, data{"a", 0, batchOf(r, "x")})
		unknownTags(&req.UnknownTags)
		unknownTags(&req.Topics[0].UnknownTags)
		unknownTags(&req.Topics[0].Partitions[0].UnknownTags)
		r.Send(label(v, "unknown tags"), req)
	}
}

// produceMalformed sends bodies that are no request.
func produceMalformed(r *conform.R) {
	r.CreateTopic("a", 1)
	for _, v := range conform.Versions(0) {
		tryMalformed(r, produceOf(r, v, data{"a", 0, batchOf(r, "x")}))
	}
	r.Send("end", listOf(r, 7, -1, place{"a", 0}))
	tryVersionsOutside(r, 0)
}

// produceNullRecords sends null for records.
func produceNullRecords(r *conform.R) {
	r.CreateTopic("a", 1)
	req := produceOf(r, 9, data{"a", 0, nil})
	r.RawRequest("main", "null records", req, req.AppendTo(nil))
	r.Send("end", listOf(r, 7, -1, place{"a", 0}))
}

// produceTransactional sends batches of transactions that were never begun: a broker may
// have no transactions, but then has to say so in a way that clients understand.
func produceTransactional(r *conform.R) {
	r.Ignore("Topics.Partitions.ErrorMessage", "Topics.Partitions.BaseOffset", "Topics.Partitions.LogStartOffset")
	r.CreateTopic("a", 2)
	awaitTransactions(r)
	of := func(producer int64, attributes int16) []byte {
		return conform.Batch{Records: r.Values("x"), Attributes: attributes, Idempotent: true, ProducerID: producer}.Bytes()
	}
	noProducer := conform.Batch{Records: r.Values("x"), Attributes: 0x10}.Bytes()
	id := r.Name("t")
	one, other := of(1<<40, 0x10), of(1<<40+1, 0x10)
	for _, v := range conform.Versions(0) {
		for _, c := range []struct {
			name  string
			parts []data
		}{
			{"one", []data{{"a", 0, one}}},
			{"two producers", []data{{"a", 0, one}, {"a", 1, other}}},
			{"one without producer", []data{{"a", 0, noProducer}}},
			{"a control batch", []data{{"a", 0, of(1<<40, 0x30)}}},
			{"an unknown partition", []data{{"a", 7, one}}},
		} {
			req := produceOf(r, v, c.parts...)
			r.Send(label(v, "%s, no transactional id", c.name), req)
			req.TransactionID = &id
			r.Send(label(v, "%s, unknown transactional id", c.name), req)
		}
	}
}

// produceRecreated writes to a topic that was deleted and made anew: it is another one.
func produceRecreated(r *conform.R) {
	r.CreateTopic("a", 1)
	batch := func(sequence int32) []byte {
		return conform.Batch{Records: r.Values("x"), Idempotent: true, ProducerID: 7000, FirstSequence: sequence}.Bytes()
	}
	old := r.TopicID("a")
	r.Send("first", produceOf(r, 13, data{"a", 0, batch(0)}))
	r.Send("second", produceOf(r, 13, data{"a", 0, batch(1)}))
	r.DeleteTopic("a")
	r.Send("deleted, by name", produceOf(r, 12, data{"a", 0, batch(2)}))
	r.Send("deleted, by id", produceOf(r, 13, data{"a", 0, batch(2)}))
	r.CreateTopic("a", 1)
	byOldID := produceOf(r, 13, data{"a", 0, batch(2)})
	byOldID.Topics[0].TopicID = old
	r.Send("recreated, by the old id", byOldID)
	r.Send("recreated, the sequence goes on", produceOf(r, 13, data{"a", 0, batch(2)}))
	r.Send("recreated, by name", produceOf(r, 12, data{"a", 0, batch(3)}))
	r.Send("recreated, a duplicate of the old topic", produceOf(r, 12, data{"a", 0, batch(1)}))
	r.Send("read back", r.FetchFrom(13, "a", 0, 0))
}

// producePipelined sends requests behind others that were not answered yet: each sees
// what those before it have done.
func producePipelined(r *conform.R) {
	r.CreateTopic("a", 1)
	for i := range 4 {
		at := int64(3 * i)
		bad := produceOf(r, 9, data{"a", 0, batchOf(r, "x")[:70]})
		silent := produceOf(r, 9, data{"a", 0, batchOf(r, "z")})
		silent.Acks = 0
		var pending []*conform.Pending
		send := func(what string, req kmsg.Request) {
			pending = append(pending, r.Start("main", label(req.GetVersion(), "%d: %s", i, what), req))
		}
		send("first", produceOf(r, 9, data{"a", 0, batchOf(r, "x")}))
		send("end after the first", listOf(r, 7, -1, place{"a", 0}))
		send("read the first", fetchOf(r, 12, from{"a", 0, at}))
		send("second", produceOf(r, 13, data{"a", 0, batchOf(r, "y")}))
		send("a bad one", bad)
		send("read the second", fetchOf(r, 12, from{"a", 0, at + 1}))
		for _, p := range pending {
			p.Wait()
		}
		r.SendWithoutAnswer("main", label(9, "%d: without an answer", i), silent)
		r.Send(label(7, "%d: end", i), listOf(r, 7, -1, place{"a", 0}))
	}
}

// produceManyRecords has batches of many records.
func produceManyRecords(r *conform.R) {
	r.CreateTopic("a", 1)
	for codec, name := range codecNames {
		var times []int64
		for i := range 4000 {
			times = append(times, int64(codec*10_000+i))
		}
		many := conform.Batch{Records: recordsAt(times...), Codec: kgo.CompressionCodecType(codec)}
		r.Send(name, produceOf(r, 9, data{"a", 0, many.Bytes()}))
		for _, i := range []int{0, 1, 2500, 3999, 4000} {
			r.Send(label(7, "%s: time of record %d", name, i), listOf(r, 7, int64(codec*10_000+i), place{"a", 0}))
		}
	}
	r.Send("largest", listOf(r, 7, -3, place{"a", 0}))
}

// produceHeaderKeys has keys of headers that are not UTF-8: kept as they are, unless the
// batch is recoded.
func produceHeaderKeys(r *conform.R) {
	for _, kind := range []topicKind{{"plain", nil}, {"to-gzip", []string{"compression.type", "gzip"}}} {
		r.CreateTopic(kind.name, 1, kind.configs...)
		recs := r.Values("x")
		recs[0].Headers = []kmsg.Header{{Key: "a\xff", Value: []byte("b\xff")}, {Key: "ä"}}
		r.Send(kind.name, produceOf(r, 9, data{kind.name, 0, conform.Batch{Records: recs}.Bytes()}))
		r.Send(kind.name+": read back", fetchOf(r, 12, from{kind.name, 0, 0}))
	}
}
