package scenarios

import (
	"bytes"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// topicKind is a topic whose configuration makes the broker treat batches in its own way.
type topicKind struct {
	name    string
	configs []string
}

func topicKinds() []topicKind {
	return []topicKind{
		{"plain", nil},
		{"appendtime", []string{"message.timestamp.type", "LogAppendTime"}},
		{"compacted", []string{"cleanup.policy", "compact"}},
		{"to-gzip", []string{"compression.type", "gzip"}},
		{"to-none", []string{"compression.type", "uncompressed"}},
	}
}

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// produceBatches makes a scenario for each codec on a plain topic, and for some on the
// other kinds of topic.
func produceBatches() (all []conform.Scenario) {
	for _, kind := range topicKinds() {
		for codec, name := range codecNames {
			if kind.configs != nil && codec > 1 {
				continue
			}
			all = append(all, conform.Scenario{
				Name: "produce/batches-" + kind.name + "-" + name, Key: 0,
				Run: func(r *conform.R) { sendBatches(r, kind, kgo.CompressionCodecType(codec)) },
			})
		}
	}
	return append(all,
		conform.Scenario{Name: "produce/recode", Key: 0, Run: produceRecode},
		conform.Scenario{Name: "produce/lengths", Key: 0, Run: produceLengths},
		conform.Scenario{Name: "produce/lengths-that-no-client-sends", Key: 0, Run: produceOddLengths},
		conform.Scenario{Name: "produce/versions-of-codecs", Key: 0, Run: produceCodecVersions},
		conform.Scenario{Name: "produce/record-errors", Key: 0, Run: produceRecordErrors},
	)
}

// crafted is a batch with a name.
type crafted struct {
	name  string
	bytes []byte
}

func sendBatches(r *conform.R, kind topicKind, codec kgo.CompressionCodecType) {
	r.CreateTopic(kind.name, 1, kind.configs...)
	sendCrafted(r, 9, kind.name, goodBatches(r, codec), headerBatches(r, codec), timedBatches(r, codec), framedBatches(r, codec))
}

// sendCrafted sends batches to a topic and reads back what was stored of them.
func sendCrafted(r *conform.R, version int16, topic string, groups ...[]crafted) {
	for _, group := range groups {
		for _, c := range group {
			r.Send(label(version, "%s: %s", topic, c.name), produceOf(r, version, data{topic, 0, c.bytes}))
		}
	}
	r.Send(topic+": read back", fetchOf(r, 12, from{topic, 0, 0}))
	r.Send(topic+": end", listOf(r, 7, -1, place{topic, 0}))
}

// threeRecords are records with keys, values and headers.
func threeRecords(r *conform.R) []conform.Record {
	recs := r.Values("value 0", "value 1", "value 2")
	recs[1].Headers = []kmsg.Header{{Key: "a", Value: []byte("b")}, {Key: "null"}, {Key: "", Value: []byte{}}}
	return recs
}

// goodBatches are those that any broker takes, unless the topic asks for more.
func goodBatches(r *conform.R, codec kgo.CompressionCodecType) []crafted {
	of := func(name string, recs ...conform.Record) crafted {
		return crafted{name, conform.Batch{Records: recs, Codec: codec}.Bytes()}
	}
	key, value := []byte("k"), []byte("v")
	return []crafted{
		of("three records", threeRecords(r)...),
		of("null key", conform.Record{Time: r.T(0), Value: value}),
		of("null keys around one", conform.Record{Time: r.T(0), Value: value}, conform.Record{Time: r.T(1), Key: key}, conform.Record{Time: r.T(2)}),
		of("null value", conform.Record{Time: r.T(0), Key: key}),
		of("nothing in it", conform.Record{Time: r.T(0)}),
		of("empty key and value", conform.Record{Time: r.T(0), Key: []byte{}, Value: []byte{}}),
		of("long value", conform.Record{Time: r.T(0), Key: key, Value: bytes.Repeat([]byte("0123456789"), 2000)}),
	}
}

// headerBatches have something odd in a field of their header.
func headerBatches(r *conform.R, codec kgo.CompressionCodecType) []crafted {
	type header = *kmsg.RecordBatch
	edited := func(name string, edit func(b header)) crafted {
		return crafted{name, conform.Batch{Records: threeRecords(r), Codec: codec, Edit: edit}.Bytes()}
	}
	counts := func(name string, count, lastDelta int32) crafted {
		return edited(name, func(b header) { b.NumRecords, b.LastOffsetDelta = count, lastDelta })
	}
	producer := func(name string, id int64, epoch int16, sequence int32) crafted {
		return edited(name, func(b header) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = id, epoch, sequence })
	}
	attribute := func(name string, bit int16) crafted {
		return edited(name, func(b header) { b.Attributes |= bit })
	}
	return []crafted{
		attribute("LogAppendTime bit", 0x08), attribute("control bit", 0x20), attribute("delete horizon bit", 0x40),
		attribute("bit 7", 0x80), attribute("upper bits", 0x5500), attribute("sign bit", -0x8000),
		edited("base offset 1", func(b header) { b.FirstOffset = 1 }),
		edited("base offset -1", func(b header) { b.FirstOffset = -1 }),
		edited("leader epoch 7", func(b header) { b.PartitionLeaderEpoch = 7 }),
		edited("wrong max timestamp", func(b header) { b.MaxTimestamp = 9 }),
		edited("max timestamp -1", func(b header) { b.MaxTimestamp = -1 }),
		counts("count 2 of 3", 2, 2), counts("count 2, delta 1 of 3", 2, 1), counts("count 4, delta 3 of 3", 4, 3),
		counts("count 0", 0, 2), counts("count 0, delta -1", 0, -1), counts("count -1", -1, 2), counts("count -1, delta -2", -1, -2),
		counts("count max", 1<<31-1, 1<<31-2), counts("delta 0 of 3", 3, 0), counts("delta max", 3, 1<<31-1), counts("delta -1", 3, -1),
		producer("producer without sequence", 5, 0, -1), producer("producer -2", -2, -1, -1), producer("producer -2, epoch 0", -2, 0, -1),
		producer("epoch and sequence without producer", -1, 0, 0), producer("sequence without producer", -1, -1, 0),
		producer("producer without epoch", 77, -1, 0), producer("producer 0", 0, 0, 0), producer("sequence -5", 6, 0, -5),
		edited("magic 0", func(b header) { b.Magic = 0 }), edited("magic 1", func(b header) { b.Magic = 1 }),
		edited("magic 3", func(b header) { b.Magic = 3 }), edited("magic -1", func(b header) { b.Magic = -1 }),
	}
}

// timedBatches have odd timestamps. Those that are taken are near T(0), or small.
func timedBatches(r *conform.R, codec kgo.CompressionCodecType) []crafted {
	at := func(name string, times ...int64) crafted {
		recs := recordsAt(times...)
		for i := range recs {
			recs[i].Key = []byte("k")
		}
		return crafted{name, conform.Batch{Records: recs, Codec: codec}.Bytes()}
	}
	const hour = 3_600_000
	bit := conform.Batch{Records: recordsAt(-1), Codec: codec, Attributes: 0x08}
	bit.Records[0].Key = []byte("k")
	return []crafted{
		at("time -1", -1),
		{"time -1 and the LogAppendTime bit", bit.Bytes()},
		at("time -5", -5), at("time -5, then one", -5, 10),
		at("time 0", 0), at("time min", -1<<63), at("times that fall", r.T(9), r.T(5), r.T(1)), at("time -1 among others", 5, -1, 3),
		at("in the future", r.T(0), r.T(3*hour)), at("far in the future", 1<<62), at("two in the future", r.T(0), r.T(3*hour), r.T(4*hour)),
	}
}

// framedBatches are damaged, or have bytes around them.
func framedBatches(r *conform.R, codec kgo.CompressionCodecType) []crafted {
	good := conform.Batch{Records: threeRecords(r), Codec: codec}.Bytes()
	with := func(name string, behind ...byte) crafted {
		return crafted{name, append(good[:len(good):len(good)], behind...)}
	}
	damaged := bytes.Clone(good)
	damaged[17]++
	old := bytes.Clone(good)
	old[16] = 1
	return []crafted{
		{"wrong checksum", damaged},
		with("a byte behind", 1), with("11 zeros behind", make([]byte, 11)...), with("12 zeros behind", make([]byte, 12)...),
		with("70 zeros behind", make([]byte, 70)...), with("16 bytes of another", good[:16]...), with("most of another", good[:len(good)-1]...),
		with("17 bytes behind, magic 5", append(bytes.Clone(good[:16]), 5)...),
		with("two batches", good...), with("two batches, the second of magic 1", conform.Sum(old)...),
		{"cut at the end", good[:len(good)-1]},
		{"cut in the middle", good[:len(good)/2]},
		{"a byte more within", resized(append(bytes.Clone(good), 0))},
		{"100 bytes more within", resized(append(bytes.Clone(good), bytes.Repeat([]byte{7}, 100)...))},
		{"3 bytes less within", resized(bytes.Clone(good[:len(good)-3]))},
		{"no records within", resized(bytes.Clone(good[:headerSize]))},
	}
}

// produceRecode sends every codec to topics of every compression type.
func produceRecode(r *conform.R) {
	for _, to := range []string{"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"} {
		for _, times := range []string{"CreateTime", "LogAppendTime"} {
			topic := to + "-" + times
			r.CreateTopic(topic, 1, "compression.type", to, "message.timestamp.type", times)
			sequence := int32(0)
			var batches []crafted
			for codec, name := range codecNames {
				b := conform.Batch{Records: threeRecords(r), Codec: kgo.CompressionCodecType(codec)}
				batches = append(batches, crafted{name, b.Bytes()})
				b.Idempotent, b.ProducerID, b.ProducerEpoch, b.FirstSequence = true, 55, 3, sequence
				batches = append(batches, crafted{name + ", idempotent", b.Bytes()}, crafted{name + ", again", b.Bytes()})
				sequence += 3
			}
			sendCrafted(r, 12, topic, batches)
			r.Send(topic+": time of the second", listOf(r, 7, r.T(1), place{topic, 0}))
		}
	}
}

// produceLengths sends prefixes of a batch, and batches whose length field is wrong.
func produceLengths(r *conform.R) {
	r.CreateTopic("a", 1)
	good := conform.Batch{Records: threeRecords(r)}.Bytes()
	var batches []crafted
	for _, n := range []int{1, 8, 11, 12, 16, 17, 20, 21, 60, 61, 65} {
		batches = append(batches, crafted{fmt.Sprintf("first %d bytes", n), good[:n]})
	}
	for _, n := range []int{12, 13, 25, 51, 52, 56, 60} {
		batches = append(batches, crafted{fmt.Sprintf("%d bytes in all", n), withLength(good[:n], int32(n-12))})
	}
	for _, n := range []int32{-1 << 31, -13, -12, -1, 0, 1, 13, 14, 48, 49, int32(len(good)) - 13, int32(len(good)) - 11} {
		batches = append(batches, crafted{fmt.Sprintf("length %d", n), withLength(good, n)})
	}
	sendCrafted(r, 9, "a", batches)
}

// produceOddLengths sends lengths over which Kafka stumbles.
func produceOddLengths(r *conform.R) {
	r.CreateTopic("a", 1)
	good := conform.Batch{Records: threeRecords(r)}.Bytes()
	batches := []crafted{{"length max", withLength(good, 1<<31-1)}}
	for _, n := range []int{26, 27, 34, 42, 50} {
		batches = append(batches, crafted{fmt.Sprintf("%d bytes in all", n), withLength(good[:n], int32(n-12))})
	}
	sendCrafted(r, 9, "a", batches)
}

func withLength(batch []byte, n int32) []byte {
	b := bytes.Clone(batch)
	copy(b[8:], []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	return conform.Sum(b)
}

// produceCodecVersions sends each codec, and those that do not exist, in each version.
func produceCodecVersions(r *conform.R) {
	r.CreateTopic("a", 1)
	for _, v := range conform.Versions(0) {
		for codec, name := range codecNames {
			b := conform.Batch{Records: r.Values("x"), Codec: kgo.CompressionCodecType(codec)}.Bytes()
			r.Send(label(v, "%s", name), produceOf(r, v, data{"a", 0, b}))
		}
		for _, codec := range []int16{5, 6, 7} {
			b := conform.Batch{Records: r.Values("x"), Attributes: codec}.Bytes()
			r.Send(label(v, "codec %d", codec), produceOf(r, v, data{"a", 0, b}))
		}
	}
	r.Send("read back", fetchOf(r, 12, from{"a", 0, 0}))
}

// produceRecordErrors has faults in single records, of which answers of version 8 and
// later tell.
func produceRecordErrors(r *conform.R) {
	r.CreateTopic("c", 1, "cleanup.policy", "compact", "message.timestamp.before.max.ms", "7200000")
	const hour = 3_600_000
	rec := func(ms int64, key string) conform.Record {
		if key == "" {
			return conform.Record{Time: ms, Value: []byte("v")}
		}
		return conform.Record{Time: ms, Key: []byte(key), Value: []byte("v")}
	}
	var twelve []conform.Record
	for range 12 {
		twelve = append(twelve, rec(r.T(0), ""))
	}
	for _, v := range produceVersions() {
		for _, c := range []struct {
			name string
			recs []conform.Record
		}{
			{"good", []conform.Record{rec(r.T(0), "k"), rec(r.T(1), "k")}},
			{"one key missing", []conform.Record{rec(r.T(0), "k"), rec(r.T(1), "")}},
			{"all of twelve keys missing", twelve},
			{"too old", []conform.Record{rec(r.T(-2*hour), "k"), rec(r.T(1), "k")}},
			{"no key and too old", []conform.Record{rec(r.T(-2*hour), ""), rec(r.T(1), "k")}},
			{"no key, later too old", []conform.Record{rec(r.T(0), ""), rec(r.T(-2*hour), "k"), rec(r.T(1), "")}},
			{"too old, later no key", []conform.Record{rec(r.T(-2*hour), "k"), rec(r.T(0), "")}},
		} {
			for codec := range kgo.CompressionCodecType(2) {
				b := conform.Batch{Records: c.recs, Codec: codec}.Bytes()
				r.Send(label(v, "%s, %s", c.name, codecNames[codec]), produceOf(r, v, data{"c", 0, b}))
			}
		}
	}
	r.Send("end", listOf(r, 7, -1, place{"c", 0}))
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
