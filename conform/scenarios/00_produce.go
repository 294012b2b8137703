package scenarios

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func produce() []conform.Scenario {
	return slices.Concat(
		[]conform.Scenario{
			{Name: "produce/acks", Key: 0, Run: produceAcks},
			{Name: "produce/acks-zero", Key: 0, Run: produceAcksZero},
			{Name: "produce/requests", Key: 0, Run: produceRequests},
			{Name: "produce/several-partitions", Key: 0, Run: produceSeveral},
			{Name: "produce/duplicates", Key: 0, Run: produceDuplicates},
			{Name: "produce/by-id", Key: 0, Run: produceByID},
			{Name: "produce/internal-topics", Key: 0, Needs: []int16{10}, Run: produceInternal},
			{Name: "produce/unknown-tags", Key: 0, Run: produceTags},
			{Name: "produce/malformed", Key: 0, Run: produceMalformed},
			{Name: "produce/null-records", Key: 0, Run: produceNullRecords},
			{Name: "produce/transactional", Key: 0, Run: produceTransactional},
			{Name: "produce/recreated-topic", Key: 0, Run: produceRecreated},
			{Name: "produce/pipelined", Key: 0, Run: producePipelined},
			{Name: "produce/many-records", Key: 0, Run: produceManyRecords},
			{Name: "produce/header-keys", Key: 0, Run: produceHeaderKeys},
		},
		produceBatches(), producePayloads(), produceMutated(), produceSizes(), produceTimes(), produceIdempotence(), produceDrawn(),
	)
}

// data is what a Produce sends to one partition.
type data struct {
	topic     string
	partition int32
	records   []byte
}

// produceOf is a Produce with acks=all. Neighbours of one topic share its entry.
func produceOf(r *conform.R, version int16, parts ...data) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, -1, 5_000
	last := ""
	for _, p := range parts {
		if p.topic != last || len(req.Topics) == 0 {
			t := kmsg.NewProduceRequestTopic()
			t.Topic, t.TopicID = r.Name(p.topic), r.TopicID(p.topic)
			req.Topics = append(req.Topics, t)
			last = p.topic
		}
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = p.partition, p.records
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, part)
	}
	return req
}

// produceVersions are versions that differ in what they answer: about records, about
// errors of records, in compact form, by id.
func produceVersions() []int16 { return []int16{3, 5, 8, 9, 13} }

// batchOf is a batch of these values.
func batchOf(r *conform.R, values ...string) []byte {
	return conform.Batch{Records: r.Values(values...)}.Bytes()
}

// produceAcks tries every value of acks in every version.
func produceAcks(r *conform.R) {
	r.CreateTopic("a", 1)
	for _, v := range conform.Versions(0) {
		for _, acks := range []int16{-32768, -2, -1, 0, 1, 2} {
			req := r.ProduceTo(v, "a", 0, batchOf(r, "x"))
			req.Acks = acks
			if acks == 0 {
				r.SendWithoutAnswer("main", label(v, "acks 0"), req)
				continue
			}
			r.Send(label(v, "acks %d", acks), req)
		}
		r.Send(label(v, "read back"), fetchOf(r, 12, from{"a", 0, 0}))
	}
}

// produceAcksZero finds out which failures end the connection when there is no answer to
// tell of them.
func produceAcksZero(r *conform.R) {
	r.CreateTopic("a", 1)
	damaged := batchOf(r, "x")
	damaged[20]++
	for _, v := range conform.Versions(0) {
		for _, c := range []struct {
			label string
			parts []data
		}{
			{"good", []data{{"a", 0, batchOf(r, "x", "y")}}},
			{"unknown topic", []data{{"nope", 0, batchOf(r, "x")}}},
			{"unknown partition", []data{{"a", 7, batchOf(r, "x")}}},
			{"damaged", []data{{"a", 0, damaged}}},
			{"good and unknown", []data{{"a", 0, batchOf(r, "z")}, {"a", 7, batchOf(r, "x")}}},
			{"nothing", nil},
		} {
			req := produceOf(r, v, c.parts...)
			req.Acks = 0
			r.SendWithoutAnswer("main", label(v, "%s", c.label), req)
			r.Send(label(v, "end after %s", c.label), listOf(r, 7, -1, place{"a", 0}))
		}
	}
}

// produceRequests tries the fields of a request around one partition's records.
func produceRequests(r *conform.R) {
	r.CreateTopic("a", 1)
	for _, v := range conform.Versions(0) {
		request := func() *kmsg.ProduceRequest { return produceOf(r, v, data{"a", 0, batchOf(r, "x")}) }
		sendVariantsIn(r, v, request, produceVariants(r))
		r.Send(label(v, "end"), listOf(r, 7, -1, place{"a", 0}))
	}
}

func produceVariants(r *conform.R) []variant[*kmsg.ProduceRequest] {
	type req = *kmsg.ProduceRequest
	part := func(q req) *kmsg.ProduceRequestTopicPartition { return &q.Topics[0].Partitions[0] }
	topic := func(q req, name string) { q.Topics[0].Topic, q.Topics[0].TopicID = r.Name(name), r.TopicID(name) }
	return []variant[req]{
		plain[req](),
		with("partition 1", func(q req) { part(q).Partition = 1 }),
		with("partition -1", func(q req) { part(q).Partition = -1 }),
		with("partition max", func(q req) { part(q).Partition = 1<<31 - 1 }),
		with("unknown topic", func(q req) { topic(q, "nope") }),
		with("a name that none can have", func(q req) { topic(q, "=a b/c") }),
		with("empty name, zero id", func(q req) { topic(q, "="); q.Topics[0].TopicID = [16]byte{} }),
		with("metadata topic", func(q req) { topic(q, "=__cluster_metadata") }),
		with("no topics", func(q req) { q.Topics = nil }),
		with("no topics, acks 1", func(q req) { q.Topics, q.Acks = nil, 1 }),
		with("no topics, acks 2", func(q req) { q.Topics, q.Acks = nil, 2 }),
		with("topic without partitions", func(q req) { q.Topics[0].Partitions = nil }),
		with("empty records", func(q req) { part(q).Records = []byte{} }),
		with("unknown topic, empty records", func(q req) { topic(q, "nope"); part(q).Records = []byte{} }),
		with("acks 2, unknown topic", func(q req) { topic(q, "nope"); q.Acks = 2 }),
		with("acks 2, empty records", func(q req) { part(q).Records, q.Acks = []byte{}, 2 }),
		with("timeout 0", func(q req) { q.TimeoutMillis = 0 }),
		with("timeout -1", func(q req) { q.TimeoutMillis = -1 }),
		with("timeout min", func(q req) { q.TimeoutMillis = minInt32 }),
		with("timeout 0, acks 1", func(q req) { q.TimeoutMillis, q.Acks = 0, 1 }),
		with("timeout -1, acks 1", func(q req) { q.TimeoutMillis, q.Acks = -1, 1 }),
		with("transactional id for plain records", func(q req) { q.TransactionID = kmsg.StringPtr("x") }),
		with("empty transactional id for plain records", func(q req) { q.TransactionID = kmsg.StringPtr("") }),
	}
}

// produceSeveral sends to several partitions with failures among them.
func produceSeveral(r *conform.R) {
	r.CreateTopic("a", 3)
	r.CreateTopic("b", 2)
	damaged, future := batchOf(r, "x"), batchOf(r, "x")
	damaged[20]++
	future[16] = 9 // magic
	for _, v := range conform.Versions(0) {
		good := func() []byte { return batchOf(r, "x") }
		r.Send(label(v, "in odd order"), produceOf(r, v, data{"b", 1, good()}, data{"a", 2, good()}, data{"b", 0, good()}, data{"a", 0, good()}))
		r.Send(label(v, "unknown ones between"), produceOf(r, v, data{"b", 1, good()}, data{"nope", 2, good()}, data{"b", 9, good()}, data{"a", 0, good()}))
		r.Send(label(v, "bad ones between"), produceOf(r, v, data{"b", 1, damaged}, data{"a", 2, good()}, data{"b", 0, []byte{}}, data{"a", 0, good()[:70]}))
		r.Send(label(v, "magic of the future between"), produceOf(r, v, data{"b", 1, good()}, data{"a", 2, future}))
		refused := produceOf(r, v, data{"b", 1, good()}, data{"a", 2, []byte{}}, data{"nope", 1, good()})
		refused.Acks = 2
		r.Send(label(v, "acks 2"), refused)
		r.Send(label(v, "ends"), listOf(r, 7, -1, place{"a", 0}, place{"a", 1}, place{"a", 2}, place{"b", 0}, place{"b", 1}))
	}
}

// produceDuplicates names one partition more than once in a request.
func produceDuplicates(r *conform.R) {
	r.CreateTopic("a", 2)
	damaged := batchOf(r, "x")
	damaged[20]++
	for _, v := range conform.Versions(0) {
		r.Send(label(v, "both good"), produceOf(r, v, data{"a", 1, batchOf(r, "x", "y")}, data{"a", 1, batchOf(r, "z")}))
		r.Send(label(v, "in two entries of the topic"), produceOf(r, v, data{"a", 1, batchOf(r, "x")}, data{"nope", 0, batchOf(r, "x")}, data{"a", 1, batchOf(r, "z")}))
		r.Send(label(v, "first bad"), produceOf(r, v, data{"a", 1, []byte{}}, data{"a", 1, batchOf(r, "z")}))
		r.Send(label(v, "second bad"), produceOf(r, v, data{"a", 1, batchOf(r, "z")}, data{"a", 1, []byte{}}))
		r.Send(label(v, "both bad"), produceOf(r, v, data{"a", 1, damaged}, data{"a", 1, []byte{}}))
		r.Send(label(v, "both unknown"), produceOf(r, v, data{"a", 8, batchOf(r, "x")}, data{"a", 8, batchOf(r, "x")}))
		r.Send(label(v, "ends"), listOf(r, 7, -1, place{"a", 0}, place{"a", 1}))
	}
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
