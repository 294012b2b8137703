package matrix

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/compat-tests/matrix/programs"
	"github.com/klamm-mq/klamm/compat-tests/tap"
)

// written is how many records a command writes.
const written = 200

// producing is what a producer shows.
func producing() (all []capability) {
	for _, acks := range []string{"0", "1", "all"} {
		all = append(all, capability{"acks=" + acks, func(r *run) { r.acks(acks) }})
	}
	for code, codec := range codecs() {
		all = append(all, capability{"codec " + codec, func(r *run) { r.codec(codec, int16(code)) }})
	}
	return append(all,
		capability{"idempotent producer", (*run).idempotent},
		capability{"headers and times", (*run).fields},
	)
}

// codecs are in the order of their codes.
func codecs() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

func text(s string) *string { return &s }

// plain are records with a key and a value that is worth compressing.
func plain() (all []programs.Record) {
	for i := range written {
		all = append(all, programs.Record{Key: text(fmt.Sprintf("key-%d", i)), Value: text(strings.Repeat(fmt.Sprintf("value-%d ", i), 10))})
	}
	return all
}

// batch is one batch of a Produce request.
type batch struct {
	partition int32
	kmsg.RecordBatch
}

// produced are the Produce requests for a topic from a number on, and their batches.
func (r *run) produced(topic string, from int) (all []*kmsg.ProduceRequest, batches []batch) {
	r.t.Helper()
	id := r.id(topic)
	for _, req := range requests[*kmsg.ProduceRequest](r.tap, from) {
		of := slices.IndexFunc(req.Topics, func(t kmsg.ProduceRequestTopic) bool { return t.Topic == topic || t.TopicID == id })
		if of < 0 {
			continue
		}
		all = append(all, req)
		for _, p := range req.Topics[of].Partitions {
			b := batch{partition: p.Partition}
			if err := b.ReadFrom(p.Records); err != nil {
				r.t.Fatalf("a batch that cannot be read: %v", err)
			}
			batches = append(batches, b)
		}
	}
	if len(batches) == 0 {
		r.t.Fatalf("no Produce request for %s was seen", topic)
	}
	return all, batches
}

// produce carries out a command on a new topic, and compares what the broker has then.
func (r *run) produce(topic string, c programs.Command) (stored []*kgo.Record, from int) {
	r.t.Helper()
	r.topic(topic)
	from = r.tap.Count()
	c.Do, c.Topic = "produce", topic
	lines := r.do(c)
	r.await("the records are there", func() (bool, error) {
		ends, err := r.ends(topic)
		return sum(ends) >= int64(len(c.Records)), err
	})
	stored = r.stored(topic)
	r.compareStored(c.Records, stored)
	r.compareAcked(c.Records, stored, lines)
	return stored, from
}

func sum(ends map[int32]int64) (n int64) {
	for _, end := range ends {
		n += end
	}
	return n
}

// compareStored expects each record once, in order within its partition.
func (r *run) compareStored(sent []programs.Record, stored []*kgo.Record) {
	r.t.Helper()
	index := map[string]int{}
	for i, s := range sent {
		index[*s.Key] = i
	}
	var wrong faults
	last := map[int32]int{}
	found := map[int]bool{}
	for _, s := range stored {
		i, known := index[string(s.Key)]
		before, any := last[s.Partition]
		switch {
		case !known:
			wrong.add("partition %d offset %d: nobody has sent the key %q", s.Partition, s.Offset, s.Key)
			continue
		case found[i]:
			wrong.add("partition %d offset %d: record %d is there twice", s.Partition, s.Offset, i)
		case any && before > i:
			wrong.add("partition %d offset %d: record %d comes after %d", s.Partition, s.Offset, i, before)
		case !same(programs.Text(s.Value), sent[i].Value):
			wrong.add("record %d: stored is %q, sent was %s", i, s.Value, show(sent[i].Value))
		}
		last[s.Partition], found[i] = i, true
	}
	if len(found) != len(sent) {
		wrong.add("%d of %d records are there", len(found), len(sent))
	}
	wrong.report(r)
}

func same(a, b *string) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func show(s *string) string {
	if s == nil {
		return "null"
	}
	return fmt.Sprintf("%q", *s)
}

// compareAcked expects each record where the client has been told that it is.
func (r *run) compareAcked(sent []programs.Record, stored []*kgo.Record, lines []programs.Line) {
	r.t.Helper()
	var wrong faults
	for _, line := range lines {
		if line.Acked == nil {
			continue
		}
		a := *line.Acked
		if !slices.ContainsFunc(stored, func(s *kgo.Record) bool {
			return s.Partition == a.Partition && s.Offset == a.Offset && string(s.Key) == *sent[a.Index].Key
		}) {
			wrong.add("record %d is not at partition %d offset %d, as acknowledged", a.Index, a.Partition, a.Offset)
		}
	}
	wrong.report(r)
}

func (r *run) acks(acks string) {
	_, from := r.produce("acks-"+acks, programs.Command{Acks: acks, Records: plain()})
	sent, _ := r.produced("acks-"+acks, from)
	want := map[string]int16{"0": 0, "1": 1, "all": -1}[acks]
	for _, req := range sent {
		if req.Acks != want {
			r.t.Errorf("a Produce request has acks=%d", req.Acks)
		}
	}
}

func (r *run) codec(codec string, code int16) {
	stored, from := r.produce("codec-"+codec, programs.Command{Codec: codec, Records: plain()})
	_, batches := r.produced("codec-"+codec, from)
	for _, b := range batches {
		if b.Attributes&7 != code {
			r.t.Errorf("a batch has codec %d", b.Attributes&7)
		}
	}
	for _, s := range stored {
		if int16(s.Attrs.CompressionType()) != code {
			r.t.Fatalf("offset %d is stored with codec %d", s.Offset, s.Attrs.CompressionType())
		}
	}
	read := r.do(programs.Command{Do: "consume", Topic: "codec-" + codec, Partitions: partitions, From: "start", Count: written})
	r.compareRead(fromStored(stored), read)
}

// idempotent loses the answer to the first Produce request: the client sends it again, and
// the records are there once.
func (r *run) idempotent() {
	const topic = "idempotent"
	r.tap.LoseAnswer(func(seen tap.Request) bool { return seen.Key == int16(kmsg.Produce) })
	_, from := r.produce(topic, programs.Command{Idempotent: true, Records: plain()})
	if len(requests[*kmsg.InitProducerIDRequest](r.tap, from)) == 0 {
		r.t.Error("no InitProducerId was sent")
	}
	_, batches := r.produced(topic, from)
	again := 0
	known := map[string]bool{}
	for _, b := range batches {
		if b.ProducerID < 0 || b.FirstSequence < 0 {
			r.t.Errorf("a batch has producer %d and sequence %d", b.ProducerID, b.FirstSequence)
		}
		place := fmt.Sprint(b.partition, b.ProducerID, b.ProducerEpoch, b.FirstSequence)
		if known[place] {
			again++
		}
		known[place] = true
	}
	if again == 0 {
		r.t.Errorf("no batch of %d was sent again after its answer was lost", len(batches))
	}
}

// fields writes what a record can have beside key and value.
func (r *run) fields() {
	begin := time.Now().Add(-time.Hour).UnixMilli()
	records := plain()
	for i := range records {
		records[i].Time = begin + int64(i)*1000
		records[i].Headers = map[string]string{"number": fmt.Sprint(i), "empty": ""}
	}
	records[1].Value, records[2].Value = nil, text("")
	stored, _ := r.produce("fields", programs.Command{Records: records})
	sent := map[string]programs.Record{}
	for _, s := range records {
		sent[*s.Key] = s
	}
	var wrong faults
	for _, s := range stored {
		want := sent[string(s.Key)]
		if s.Timestamp.UnixMilli() != want.Time {
			wrong.add("%s: time %d, sent was %d", s.Key, s.Timestamp.UnixMilli(), want.Time)
		}
		if got := fromKgo(s).Headers; fmt.Sprint(got) != fmt.Sprint(want.Headers) {
			wrong.add("%s: headers %v, sent were %v", s.Key, got, want.Headers)
		}
	}
	wrong.report(r)
}
