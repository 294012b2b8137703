package scenarios

import "github.com/klamm-mq/klamm/conform"

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
	r.Send("read back", fetchOf(r, 13, from{"a", 0, 0}))
}
