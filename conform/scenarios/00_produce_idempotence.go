package scenarios

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/conform"
)

func produceIdempotence() []conform.Scenario {
	return []conform.Scenario{
		{Name: "produce/idempotence-versions", Key: 0, Run: sequencesInVersions},
		{Name: "produce/idempotence-duplicates", Key: 0, Run: sequencesDuplicates},
		{Name: "produce/idempotence-epochs", Key: 0, Run: sequencesEpochs},
		{Name: "produce/idempotence-wrap-around", Key: 0, Run: sequencesWrap},
		{Name: "produce/idempotence-odd-producers", Key: 0, Run: sequencesOdd},
		{Name: "produce/idempotence-in-flight", Key: 0, Run: sequencesInFlight},
		{Name: "produce/idempotence-several-partitions", Key: 0, Run: sequencesPartitions},
		{Name: "produce/idempotence-LogAppendTime", Key: 0, Run: sequencesAppendTime},
		{Name: "produce/idempotence-recoded", Key: 0, Run: sequencesRecoded},
		{Name: "produce/idempotence-acks", Key: 0, Run: sequencesAcks},
		{Name: "produce/idempotence-refused-batches", Key: 0, Run: sequencesRefused},
		{Name: "produce/idempotence-truncation", Key: 0, Needs: []int16{21}, Run: sequencesTruncated},
	}
}

// sequenced is a batch of n records of a producer.
func sequenced(r *conform.R, id int64, epoch int16, first int32, n int) []byte {
	values := []string{"a", "b", "c", "d", "e", "f"}
	return conform.Batch{Records: r.Values(values[:n]...), Idempotent: true, ProducerID: id, ProducerEpoch: epoch, FirstSequence: first}.Bytes()
}

// attempt is a batch that a producer sends.
type attempt struct {
	name  string
	id    int64
	epoch int16
	first int32
	n     int
}

// sendAttempts sends attempts to a partition one after the other, and reads all back.
func sendAttempts(r *conform.R, topic string, partition int32, attempts []attempt) {
	for _, a := range attempts {
		r.Send(label(9, "%s: producer %d, epoch %d, sequence %d, %d records", a.name, a.id, a.epoch, a.first, a.n),
			produceOf(r, 9, data{topic, partition, sequenced(r, a.id, a.epoch, a.first, a.n)}))
	}
	r.Send(label(9, "%s/%d read back", topic, partition), fetchOf(r, 12, from{topic, partition, 0}))
}

// sequencesInVersions is the life of a producer in every version.
func sequencesInVersions(r *conform.R) {
	r.CreateTopic("a", 1)
	for _, v := range conform.Versions(0) {
		id := 100 + int64(v)
		for _, a := range []attempt{
			{"first", id, 0, 0, 1},
			{"again", id, 0, 0, 1},
			{"gap", id, 0, 5, 1},
			{"next", id, 0, 1, 3},
			{"next again", id, 0, 1, 3},
			{"next, other size", id, 0, 1, 2},
			{"new epoch, not from 0", id, 1, 4, 1},
			{"new epoch", id, 1, 0, 1},
			{"old epoch", id, 0, 4, 1},
			{"unknown producer, not from 0", id + 1000, 0, 9, 1},
		} {
			r.Send(label(v, "%s", a.name), produceOf(r, v, data{"a", 0, sequenced(r, a.id, a.epoch, a.first, a.n)}))
		}
	}
	r.Send("end", listOf(r, 7, -1, place{"a", 0}))
}

// sequencesDuplicates repeats batches near the five that are remembered.
func sequencesDuplicates(r *conform.R) {
	r.CreateTopic("a", 1)
	sendAttempts(r, "a", 0, []attempt{
		{"1st", 100, 0, 0, 3},
		{"2nd", 100, 0, 3, 2},
		{"3rd", 100, 0, 5, 1},
		{"4th", 100, 0, 6, 1},
		{"5th", 100, 0, 7, 1},
		{"6th", 100, 0, 8, 1},
		{"7th", 100, 0, 9, 1},
		{"the last again", 100, 0, 9, 1},
		{"the fifth last again", 100, 0, 5, 1},
		{"the sixth last again", 100, 0, 3, 2},
		{"the oldest again", 100, 0, 0, 3},
		{"two in one", 100, 0, 8, 2},
		{"overlap at the end", 100, 0, 9, 2},
		{"overlap at the begin", 100, 0, 4, 2},
		{"gap", 100, 0, 12, 1},
		{"back", 100, 0, 2, 1},
		{"next", 100, 0, 10, 4},
		{"next again", 100, 0, 10, 4},
		{"its first half", 100, 0, 10, 2},
		{"its second half", 100, 0, 12, 2},
		{"after it", 100, 0, 14, 1},
	})
}

// sequencesEpochs moves a producer's epoch forward and back.
func sequencesEpochs(r *conform.R) {
	r.CreateTopic("a", 1)
	sendAttempts(r, "a", 0, []attempt{
		{"first", 100, 0, 0, 2},
		{"new epoch, not from 0", 100, 1, 2, 1},
		{"new epoch", 100, 1, 0, 2},
		{"old epoch goes on", 100, 0, 2, 1},
		{"old epoch again", 100, 0, 0, 2},
		{"new epoch again", 100, 1, 0, 2},
		{"new epoch from 0 again, other size", 100, 1, 0, 1},
		{"next", 100, 1, 2, 1},
		{"epoch skips", 100, 7, 0, 1},
		{"last epoch", 100, 32767, 0, 1},
		{"epoch -1", 100, -1, 0, 1},
		{"epoch -2", 100, -2, 0, 1},
		{"last epoch goes on", 100, 32767, 1, 1},
		{"unknown producer of an epoch", 101, 9, 0, 1},
		{"unknown producer of an epoch, not from 0", 102, 9, 4, 1},
		{"its next", 102, 9, 5, 1},
		{"its epoch falls", 102, 8, 6, 1},
	})
}

// sequencesWrap goes over the largest sequence.
func sequencesWrap(r *conform.R) {
	const last = 1<<31 - 1
	r.CreateTopic("a", 1)
	sendAttempts(r, "a", 0, []attempt{
		{"before", 101, 0, last - 1, 1},
		{"at", 101, 0, last, 1},
		{"after", 101, 0, 0, 1},
		{"after again", 101, 0, 0, 1},
		{"at again", 101, 0, last, 1},
		{"next", 101, 0, 1, 1},
		{"inside a batch", 102, 0, last - 1, 4},
		{"inside again", 102, 0, last - 1, 4},
		{"after it", 102, 0, 2, 1},
		{"ends at the last", 103, 0, last - 2, 3},
		{"goes on at 1", 103, 0, 1, 1},
		{"goes on at 0", 103, 0, 0, 1},
	})
}

// sequencesOdd uses ids, epochs and sequences that no broker gives out.
func sequencesOdd(r *conform.R) {
	r.CreateTopic("a", 1)
	sendAttempts(r, "a", 0, []attempt{
		{"producer 0", 0, 0, 0, 1},
		{"producer 0 again", 0, 0, 0, 1},
		{"producer 0 goes on", 0, 0, 1, 1},
		{"producer -2", -2, 0, 0, 1},
		{"no producer, epoch and sequence", -1, 0, 0, 1},
		{"the same again", -1, 0, 0, 1},
		{"no producer, sequence", -1, -1, 0, 1},
		{"no sequence", 103, 0, -1, 1},
		{"sequence -5", 103, 0, -5, 1},
		{"no epoch", 104, -1, 0, 1},
		{"largest producer", 1<<63 - 1, 0, 0, 1},
	})
}

// sequencesInFlight sends five batches before the first answer, and all of them again.
func sequencesInFlight(r *conform.R) {
	r.CreateTopic("a", 1)
	burst := func(what string, ns ...int32) {
		var pending []*conform.Pending
		for i, n := range ns {
			req := produceOf(r, 9, data{"a", 0, sequenced(r, 100, 0, n, 1)})
			pending = append(pending, r.Start("main", label(9, "%s, request %d: sequence %d", what, i, n), req))
		}
		for _, p := range pending {
			p.Wait()
		}
	}
	burst("five", 0, 1, 2, 3, 4)
	burst("five again", 0, 1, 2, 3, 4)
	burst("one lost", 5, 7, 8)
	burst("and again", 5, 6, 7, 8, 9)
	burst("six more", 10, 11, 12, 13, 14, 15)
	burst("six again", 10, 11, 12, 13, 14, 15)
	r.Send("read back", fetchOf(r, 12, from{"a", 0, 0}))
}

// sequencesPartitions has sequences of their own in each partition.
func sequencesPartitions(r *conform.R) {
	r.CreateTopic("a", 2)
	both := func(first0, first1 int32) []data {
		return []data{{"a", 0, sequenced(r, 100, 0, first0, 1)}, {"a", 1, sequenced(r, 100, 0, first1, 1)}}
	}
	r.Send("first of both", produceOf(r, 9, both(0, 0)...))
	r.Send("first of both again", produceOf(r, 9, both(0, 0)...))
	r.Send("one with a gap", produceOf(r, 9, both(1, 5)...))
	r.Send("retry of both, repaired", produceOf(r, 9, both(1, 1)...))
	r.Send("in the other order", produceOf(r, 9, data{"a", 1, sequenced(r, 100, 0, 2, 1)}, data{"a", 0, sequenced(r, 100, 0, 2, 1)}))
	r.Send("twice in one request", produceOf(r, 9, data{"a", 0, sequenced(r, 100, 0, 3, 1)}, data{"a", 0, sequenced(r, 100, 0, 4, 1)}))
	r.Send("other producers", produceOf(r, 9, data{"a", 0, sequenced(r, 200, 0, 0, 1)}, data{"a", 1, sequenced(r, 201, 4, 7, 1)}))
	r.Send("ends", listOf(r, 7, -1, place{"a", 0}, place{"a", 1}))
}

// sequencesAppendTime sees which time a duplicate is answered with.
func sequencesAppendTime(r *conform.R) {
	r.CreateTopic("a", 1, "message.timestamp.type", "LogAppendTime")
	sendAttempts(r, "a", 0, []attempt{{"first", 100, 0, 0, 2}, {"first again", 100, 0, 0, 2}, {"next", 100, 0, 2, 1}, {"first once more", 100, 0, 0, 2}, {"gap", 100, 0, 9, 1}})
}

// sequencesRecoded lets the broker recode the batches of a producer.
func sequencesRecoded(r *conform.R) {
	r.CreateTopic("a", 1, "compression.type", "zstd")
	for codec, name := range codecNames {
		b := conform.Batch{Records: r.Values("x", "y"), Codec: kgo.CompressionCodecType(codec), Idempotent: true, ProducerID: 100, FirstSequence: int32(2 * codec)}
		r.Send(name, produceOf(r, 9, data{"a", 0, b.Bytes()}))
		r.Send(name+" again", produceOf(r, 9, data{"a", 0, b.Bytes()}))
	}
	r.Send("read back", fetchOf(r, 12, from{"a", 0, 0}))
}

// sequencesAcks repeats with other acks what was sent with some.
func sequencesAcks(r *conform.R) {
	r.CreateTopic("a", 1)
	send := func(acks int16, first int32) {
		req := produceOf(r, 9, data{"a", 0, sequenced(r, 100, 0, first, 1)})
		req.Acks = acks
		if acks == 0 {
			r.SendWithoutAnswer("main", label(9, "sequence %d, acks 0", first), req)
			return
		}
		r.Send(label(9, "sequence %d, acks %d", first, acks), req)
	}
	for i, acks := range []int16{0, 1, -1} {
		first := int32(2 * i)
		send(acks, first)
		r.Send(label(9, "end after sequence %d", first), listOf(r, 7, -1, place{"a", 0}))
		for _, again := range []int16{-1, 1, 0} {
			if again != acks {
				send(again, first)
			}
		}
	}
	r.Send("end", listOf(r, 7, -1, place{"a", 0}))
}

// sequencesRefused has batches refused that would have been in sequence.
func sequencesRefused(r *conform.R) {
	r.CreateTopic("a", 1, "cleanup.policy", "compact", "max.message.bytes", "300")
	noKey := conform.Batch{Records: []conform.Record{{Time: r.T(0)}}, Idempotent: true, ProducerID: 100, FirstSequence: 1}.Bytes()
	large := conform.Batch{Records: []conform.Record{{Time: r.T(0), Key: []byte("k"), Value: make([]byte, 400)}}, Idempotent: true, ProducerID: 100, FirstSequence: 1}.Bytes()
	r.Send("first", produceOf(r, 9, data{"a", 0, sequenced(r, 100, 0, 0, 1)}))
	r.Send("no key", produceOf(r, 9, data{"a", 0, noKey}))
	r.Send("behind the refused one", produceOf(r, 9, data{"a", 0, sequenced(r, 100, 0, 2, 1)}))
	r.Send("too large", produceOf(r, 9, data{"a", 0, large}))
	r.Send("new epoch, too large", produceOf(r, 9, data{"a", 0, conform.Batch{Records: []conform.Record{{Value: make([]byte, 400)}}, Idempotent: true, ProducerID: 100, ProducerEpoch: 1}.Bytes()}))
	r.Send("in its place", produceOf(r, 9, data{"a", 0, sequenced(r, 100, 0, 1, 1)}))
	r.Send("next", produceOf(r, 9, data{"a", 0, sequenced(r, 100, 0, 2, 1)}))
}

// sequencesTruncated deletes a producer's records between its batches.
func sequencesTruncated(r *conform.R) {
	r.CreateTopic("a", 1)
	r.Send("first", produceOf(r, 9, data{"a", 0, sequenced(r, 100, 0, 0, 2)}))
	r.Send("second", produceOf(r, 9, data{"a", 0, sequenced(r, 100, 0, 2, 2)}))
	r.Send("delete", deleteOf(r, 2, 3, place{"a", 0}))
	r.Send("first again", produceOf(r, 9, data{"a", 0, sequenced(r, 100, 0, 0, 2)}))
	r.Send("second again", produceOf(r, 9, data{"a", 0, sequenced(r, 100, 0, 2, 2)}))
	r.Send("delete all", deleteOf(r, 2, -1, place{"a", 0}))
	r.Send("third", produceOf(r, 9, data{"a", 0, sequenced(r, 100, 0, 4, 1)}))
	r.Send("gap", produceOf(r, 9, data{"a", 0, sequenced(r, 100, 0, 9, 1)}))
}
