package scenarios

import (
	"bytes"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/conform"
)

func produceSizes() []conform.Scenario {
	return []conform.Scenario{
		{Name: "produce/max.message.bytes", Key: 0, Run: produceMaxMessage},
		{Name: "produce/max.message.bytes-after-recoding", Key: 0, Run: produceMaxRecoded},
		{Name: "produce/default-max.message.bytes", Key: 0, Run: produceDefaultMax},
		{Name: "produce/segment.bytes", Key: 0, Run: produceSegmentSize},
		{Name: "produce/segment-boundaries", Key: 0, Run: produceSegments},
		{Name: "produce/min.insync.replicas", Key: 0, Run: produceMinISR},
		{Name: "produce/order-of-checks", Key: 0, Run: produceOrder},
	}
}

// ofSize is a batch of one record that takes size bytes in all.
func ofSize(r *conform.R, size int) []byte {
	build := func(n int) []byte {
		return conform.Batch{Records: []conform.Record{{Time: r.T(0), Key: []byte("k"), Value: make([]byte, n)}}}.Bytes()
	}
	n := size
	for range 3 { // the lengths inside take more or fewer bytes themselves
		n -= len(build(n)) - size
	}
	if b := build(n); len(b) == size {
		return b
	}
	panic(fmt.Sprintf("no batch of one record has %d bytes", size))
}

// compressedZeros is a batch of a record with n zero bytes, which compress well.
func compressedZeros(r *conform.R, codec kgo.CompressionCodecType, n int) []byte {
	return conform.Batch{Codec: codec, Records: []conform.Record{{Time: r.T(0), Key: []byte("k"), Value: make([]byte, n)}}}.Bytes()
}

// produceMaxMessage sends batches around the largest that a topic allows.
func produceMaxMessage(r *conform.R) {
	r.CreateTopic("zero", 1, "max.message.bytes", "0")
	r.CreateTopic("small", 1, "max.message.bytes", "1000")
	for _, v := range produceVersions() {
		r.Send(label(v, "limit 0"), produceOf(r, v, data{"zero", 0, batchOf(r, "x")}))
		for _, size := range []int{999, 1000, 1001, 2000} {
			r.Send(label(v, "%d bytes", size), produceOf(r, v, data{"small", 0, ofSize(r, size)}))
		}
		stray := append(ofSize(r, 1000), 1, 2, 3)
		r.Send(label(v, "1000 bytes and 3 behind"), produceOf(r, v, data{"small", 0, stray}))
		many := conform.Batch{Records: r.Values(string(bytes.Repeat([]byte("x"), 600)), string(bytes.Repeat([]byte("y"), 600)))}
		r.Send(label(v, "records small, batch large"), produceOf(r, v, data{"small", 0, many.Bytes()}))
		r.Send(label(v, "small as it is compressed"), produceOf(r, v, data{"small", 0, compressedZeros(r, 1, 20_000)}))
	}
	r.Send("ends", listOf(r, 7, -1, place{"zero", 0}, place{"small", 0}))
}

// produceMaxRecoded sends batches that become larger or smaller by recoding.
func produceMaxRecoded(r *conform.R) {
	for _, to := range []string{"uncompressed", "gzip", "zstd"} {
		r.CreateTopic(to, 1, "max.message.bytes", "1000", "compression.type", to)
		for codec, name := range codecNames {
			c := kgo.CompressionCodecType(codec)
			r.Send(label(9, "%s to %s, 500 zeros", name, to), produceOf(r, 9, data{to, 0, compressedZeros(r, c, 500)}))
			r.Send(label(9, "%s to %s, 5000 zeros", name, to), produceOf(r, 9, data{to, 0, compressedZeros(r, c, 5000)}))
		}
		r.Send(to+": end", listOf(r, 7, -1, place{to, 0}))
	}
}

// produceDefaultMax sends batches around Kafka's default of 1 MiB and 12 bytes.
func produceDefaultMax(r *conform.R) {
	r.CreateTopic("a", 1)
	for _, size := range []int{1<<20 + 11, 1<<20 + 12, 1<<20 + 13} {
		r.Send(label(9, "%d bytes", size), produceOf(r, 9, data{"a", 0, ofSize(r, size)}))
	}
	r.Send("end", listOf(r, 7, -1, place{"a", 0}))
}

// produceSegmentSize sends batches around the size of a segment.
func produceSegmentSize(r *conform.R) {
	r.CreateTopic("a", 1, "segment.bytes", "1048576", "max.message.bytes", "3000000")
	r.CreateTopic("recoded", 1, "segment.bytes", "1048576", "max.message.bytes", "3000000", "compression.type", "uncompressed")
	for _, size := range []int{1<<20 - 1, 1 << 20, 1<<20 + 1, 3_000_000, 3_000_001} {
		r.Send(label(9, "%d bytes", size), produceOf(r, 9, data{"a", 0, ofSize(r, size)}))
	}
	r.Send("small enough as it is compressed", produceOf(r, 9, data{"a", 0, compressedZeros(r, 1, 2_000_000)}))
	r.Send("too large when recoded", produceOf(r, 9, data{"recoded", 0, compressedZeros(r, 1, 2_000_000)}))
	r.Send("ends", listOf(r, 7, -1, place{"a", 0}, place{"recoded", 0}))
}

// produceSegments fills segments to the byte and reads across their borders.
func produceSegments(r *conform.R) {
	r.CreateTopic("a", 1, "segment.bytes", "1048576")
	for i, size := range []int{500_000, 548_576, 1_000, 1_048_576, 100, 1_048_476, 600_000, 600_000, 448_575, 120, 130} {
		r.Send(label(9, "batch %d of %d bytes", i, size), produceOf(r, 9, data{"a", 0, ofSize(r, size)}))
	}
	for offset := range int64(12) {
		req := fetchOf(r, 12, from{"a", 0, offset})
		req.MaxBytes = 1
		r.Send(label(12, "one batch at %d", offset), req)
		req.MaxBytes = 4 << 20
		req.Topics[0].Partitions[0].PartitionMaxBytes = 4 << 20
		r.Send(label(12, "many at %d", offset), req)
	}
}

// produceMinISR asks for more replicas than there are.
func produceMinISR(r *conform.R) {
	r.CreateTopic("a", 1, "min.insync.replicas", "3")
	for _, acks := range []int16{-1, 1} {
		req := r.ProduceTo(9, "a", 0, batchOf(r, "x"))
		req.Acks = acks
		r.Send(label(9, "acks %d", acks), req)
	}
}

// produceOrder has two faults in each batch: which one is told?
func produceOrder(r *conform.R) {
	r.CreateTopic("small", 1, "max.message.bytes", "200")
	r.CreateTopic("compacted", 1, "cleanup.policy", "compact", "max.message.bytes", "200")
	large := ofSize(r, 400)
	damaged := func(b []byte) []byte { b = bytes.Clone(b); b[17]++; return b }
	rebased := func(b []byte) []byte { b = bytes.Clone(b); b[7] = 1; return b }
	magic := func(b []byte, m byte) []byte { b = bytes.Clone(b); b[16] = m; return conform.Sum(b) }
	counted := func(b []byte) []byte { b = bytes.Clone(b); b[60] = 9; return conform.Sum(b) }
	control := func(b []byte) []byte { b = bytes.Clone(b); b[22] |= 0x20; return conform.Sum(b) }
	noKey := conform.Batch{Records: []conform.Record{{Time: r.T(0), Value: []byte("v")}}}.Bytes()
	idempotent := conform.Batch{Records: r.Values("x"), Idempotent: true, ProducerID: 9, FirstSequence: -1}.Bytes()
	gap := func(n int, sequence int32) []byte {
		return conform.Batch{Records: []conform.Record{{Time: r.T(0), Key: []byte("k"), Value: make([]byte, n)}}, Idempotent: true, ProducerID: 9, FirstSequence: sequence}.Bytes()
	}
	for _, topic := range []string{"small", "compacted"} {
		sendCrafted(r, 9, topic, []crafted{
			{"large and damaged", damaged(large)},
			{"large and base offset 1", rebased(large)},
			{"large and magic 1", magic(large, 1)},
			{"large and magic 7", magic(large, 7)},
			{"large and count 9", counted(large)},
			{"large and control", control(large)},
			{"damaged and base offset 1", damaged(rebased(noKey))},
			{"damaged and count 9", damaged(counted(noKey))},
			{"damaged and control", damaged(control(noKey))},
			{"damaged and magic 1", damaged(magic(noKey, 1))},
			{"control and count 9", control(counted(noKey))},
			{"control and base offset 1", control(rebased(noKey))},
			{"no key and count 9", counted(noKey)},
			{"no key and two batches", append(bytes.Clone(noKey), noKey...)},
			{"two batches, damaged", append(damaged(noKey), noKey...)},
			{"two batches, large", append(bytes.Clone(large), noKey...)},
			{"no sequence and damaged", damaged(idempotent)},
			{"no sequence and control", control(idempotent)},
			{"sequence 0", gap(10, 0)},
			{"gap and large", gap(400, 7)},
			{"gap and damaged", damaged(gap(10, 7))},
			{"duplicate and large", gap(400, 0)},
			{"duplicate and damaged", damaged(gap(10, 0))},
			{"gap and base offset 1", rebased(gap(10, 7))},
		})
	}
}
