package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func describeProducers() []conform.Scenario {
	return []conform.Scenario{
		{Name: "describeproducers/states", Key: 61, Run: producersStates},
		{Name: "describeproducers/requests", Key: 61, Run: producersRequests},
		{Name: "describeproducers/malformed", Key: 61, Run: producersMalformed},
	}
}

// producersOf is a DescribeProducers of these places.
func producersOf(r *conform.R, places ...place) *kmsg.DescribeProducersRequest {
	req := kmsg.NewPtrDescribeProducersRequest()
	last := ""
	for _, p := range places {
		if p.topic != last || len(req.Topics) == 0 {
			t := kmsg.NewDescribeProducersRequestTopic()
			t.Topic = r.Name(p.topic)
			req.Topics = append(req.Topics, t)
			last = p.topic
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p.partition)
	}
	return req
}

// producersStates describes producers after each of their batches.
func producersStates(r *conform.R) {
	r.CreateTopic("a", 1)
	at := place{"a", 0}
	r.Send("empty", producersOf(r, at))
	r.Produce("a", 0, "x")
	r.Send("a producer without id", producersOf(r, at))
	for i, b := range []conform.Batch{
		{ProducerID: 11, FirstSequence: 0, Records: r.Values("x")},
		{ProducerID: 11, FirstSequence: 1, Records: r.Values("x", "y", "z")},
		{ProducerID: 11, FirstSequence: 1, Records: r.Values("x", "y", "z")},
		{ProducerID: 11, FirstSequence: 9, Records: r.Values("x")},
		{ProducerID: 11, ProducerEpoch: 3, FirstSequence: 0, Records: r.Values("x", "y")},
		{ProducerID: 12, ProducerEpoch: 7, FirstSequence: 40, Records: r.Values("x")},
		{ProducerID: 13, FirstSequence: 1<<31 - 1, Records: r.Values("x", "y")},
	} {
		b.Idempotent = true
		what := label(0, "batch %d: producer %d, epoch %d, sequence %d, %d records", i, b.ProducerID, b.ProducerEpoch, b.FirstSequence, len(b.Records))
		r.Send("produce "+what, produceOf(r, 9, data{"a", 0, b.Bytes()}))
		r.Send("describe after "+what, producersOf(r, at))
	}
}

// producersRequests tries the fields of the request.
func producersRequests(r *conform.R) {
	type req = *kmsg.DescribeProducersRequest
	r.CreateTopic("a", 2)
	sendVariants(r, func() req { return producersOf(r, place{"a", 0}) }, []variant[req]{
		plain[req](),
		with("partition 2", func(q req) { q.Topics[0].Partitions[0] = 2 }),
		with("partition -1", func(q req) { q.Topics[0].Partitions[0] = -1 }),
		with("both and an unknown one", func(q req) { q.Topics[0].Partitions = []int32{1, 7, 0} }),
		with("one twice", func(q req) { q.Topics[0].Partitions = []int32{1, 1} }),
		with("unknown topic", func(q req) { q.Topics[0].Topic = r.Name("nope") }),
		with("empty topic", func(q req) { q.Topics[0].Topic = "" }),
		with("metadata topic", func(q req) { q.Topics[0].Topic = "__cluster_metadata" }),
		with("no partitions", func(q req) { q.Topics[0].Partitions = nil }),
		with("no topics", func(q req) { q.Topics = nil }),
		with("the topic twice", func(q req) { q.Topics = append(q.Topics, q.Topics[0]) }),
		with("unknown tags", func(q req) { unknownTags(&q.UnknownTags); unknownTags(&q.Topics[0].UnknownTags) }),
	})
}

// producersMalformed sends bodies that are no request.
func producersMalformed(r *conform.R) {
	r.CreateTopic("a", 1)
	tryMalformed(r, producersOf(r, place{"a", 0}))
	tryVersionsOutside(r, 61)
}
