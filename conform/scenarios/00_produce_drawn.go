package scenarios

import (
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/conform"
)

// produceDrawn makes scenarios of a few producers whose batches are drawn, the same ones
// in every run: sequences that go on, repeat, skip and wrap, epochs that rise and fall.
func produceDrawn() (all []conform.Scenario) {
	for seed := range uint64(6) {
		all = append(all, conform.Scenario{
			Name: fmt.Sprintf("produce/idempotence-drawn-%d", seed), Key: 0,
			Run: func(r *conform.R) { drawProducers(r, rand.New(rand.NewPCG(seed, 2))) },
		})
	}
	return all
}

// sequence is where a producer believes to be in a partition.
type sequence struct {
	epoch int16
	next  int32
	sent  []conform.Batch // newest last
}

func drawProducers(r *conform.R, rnd *rand.Rand) {
	kind := topicKinds()[rnd.IntN(len(topicKinds()))]
	topic := kind.name
	r.CreateTopic(topic, 2, kind.configs...)
	producers := map[string]*sequence{}
	for i := range 60 {
		id, partition := int64(100+rnd.IntN(3)), int32(rnd.IntN(2))
		at := fmt.Sprintf("%d in %d", id, partition)
		p := producers[at]
		if p == nil {
			p = &sequence{next: []int32{0, 0, 7, 1<<31 - 3}[rnd.IntN(4)]}
			producers[at] = p
		}
		b := p.draw(r, rnd)
		b.Idempotent, b.ProducerID = true, id
		what := label(9, "%d: producer %s, epoch %d, sequence %d, %d records", i, at, b.ProducerEpoch, b.FirstSequence, len(b.Records))
		r.Send(what, produceOf(r, 9, data{topic, partition, b.Bytes()}))
	}
	r.Send("ends", listOf(r, 7, -1, place{topic, 0}, place{topic, 1}))
	r.Send("read back", fetchOf(r, 12, from{topic, 0, 0}, from{topic, 1, 0}))
}

// draw is the producer's next batch, an old one, or one that does not fit.
func (p *sequence) draw(r *conform.R, rnd *rand.Rand) conform.Batch {
	n := 1 + rnd.IntN(3)
	b := conform.Batch{Records: r.Values("a", "b", "c")[:n], Codec: kgo.CompressionCodecType(rnd.IntN(2) * rnd.IntN(5)), ProducerEpoch: p.epoch, FirstSequence: p.next}
	switch rnd.IntN(10) {
	case 0, 1:
		if len(p.sent) > 0 {
			return p.sent[max(0, len(p.sent)-1-rnd.IntN(7))]
		}
	case 2:
		b.FirstSequence += int32(rnd.IntN(5)) - 2
		return b
	case 3:
		b.ProducerEpoch += int16(rnd.IntN(3)) - 1
		return b
	case 4:
		p.epoch++
		p.next = 0
		b.ProducerEpoch, b.FirstSequence = p.epoch, 0
	}
	p.sent = append(p.sent, b)
	p.next += int32(n)
	if p.next < 0 { // the sequence after the largest is 0
		p.next -= -1 << 31
	}
	return b
}
