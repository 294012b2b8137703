package scenarios

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/conform"
)

// produceMutated makes scenarios of good batches in which single bytes were changed, the
// same ones in every run.
func produceMutated() (all []conform.Scenario) {
	for _, kind := range topicKinds() {
		for seed := range uint64(3) {
			all = append(all, conform.Scenario{
				Name: fmt.Sprintf("produce/mutated-%s-%d", kind.name, seed), Key: 0,
				Run: func(r *conform.R) { sendMutated(r, kind, rand.New(rand.NewPCG(seed, 0))) },
			})
		}
	}
	return all
}

func sendMutated(r *conform.R, kind topicKind, rnd *rand.Rand) {
	topic := kind.name
	r.CreateTopic(topic, 1, kind.configs...)
	for i := range 60 {
		codec := kgo.CompressionCodecType(0)
		if rnd.IntN(3) == 0 {
			codec = kgo.CompressionCodecType(rnd.IntN(5))
		}
		batch := conform.Batch{Records: someRecords(r, rnd), Codec: codec}.Bytes()
		batch, what := mutated(batch, codec != 0, rnd)
		if len(batch) > headerSize && rnd.IntN(6) > 0 {
			batch = conform.Sum(batch)
		}
		if len(batch) > 22 && batch[22]&0x10 != 0 { // of a transaction
			batch[22] &^= 0x10
			batch = conform.Sum(batch)
		}
		version := int16(3 + rnd.IntN(11))
		r.Send(label(version, "%d: %s,%s", i, codecNames[codec], what), produceOf(r, version, data{topic, 0, batch}))
	}
	r.Send("read back", fetchOf(r, 12, from{topic, 0, 0}))
	r.Send("end", listOf(r, 7, -1, place{topic, 0}))
	if kind.name != "appendtime" { // where it depends on the clock
		r.Send("largest", listOf(r, 7, -3, place{topic, 0}))
	}
}

// someRecords are up to four records; their times do not depend on the clock.
func someRecords(r *conform.R, rnd *rand.Rand) []conform.Record {
	var recs []conform.Record
	for range 1 + rnd.IntN(4) {
		rec := conform.Record{Time: 1000 + int64(rnd.IntN(5)), Value: bytes.Repeat([]byte("v"), rnd.IntN(20))}
		if rnd.IntN(3) > 0 {
			rec.Key = []byte("k")
		}
		recs = append(recs, rec)
	}
	return recs
}

// mutated changes one to three bytes of a batch, or cuts it, and says what it did. Of a
// compressed one only the header is changed: encoders differ.
func mutated(batch []byte, compressed bool, rnd *rand.Rand) (_ []byte, what string) {
	interesting := []int{8, 11, 16, 21, 22, 23, 26, 27, 35, 43, 51, 53, 57, 60}
	for range 1 + rnd.IntN(3) {
		at := rnd.IntN(len(batch))
		if compressed {
			at = min(rnd.IntN(headerSize), len(batch)-1)
		}
		switch rnd.IntN(5) {
		case 0:
			bit := rnd.IntN(8)
			batch[at] ^= 1 << bit
			what += fmt.Sprintf(" byte %d flips %d", at, bit)
		case 1:
			batch[at] = byte(rnd.IntN(256))
			what += fmt.Sprintf(" byte %d is %d", at, batch[at])
		case 2:
			batch[at]++
			what += fmt.Sprintf(" byte %d rises", at)
		case 3:
			at = min(interesting[rnd.IntN(len(interesting))], len(batch)-1)
			batch[at] += byte(rnd.IntN(3) - 1)
			what += fmt.Sprintf(" field at %d", at)
		case 4:
			if at > headerSize && rnd.IntN(2) == 0 {
				batch = batch[:at]
				what += fmt.Sprintf(" cut at %d", at)
			}
		}
	}
	return batch, what
}
