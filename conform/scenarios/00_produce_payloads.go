package scenarios

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// producePayloads try what lies behind the header of a batch: the bytes of records, and
// the frames of codecs around them.
func producePayloads() (all []conform.Scenario) {
	for codec, name := range codecNames {
		all = append(all, conform.Scenario{
			Name: "produce/record-bytes-" + name, Key: 0,
			Run: func(r *conform.R) { produceRecordBytes(r, kgo.CompressionCodecType(codec)) },
		})
		if codec > 0 {
			all = append(all, conform.Scenario{
				Name: "produce/frames-" + name, Key: 0,
				Run: func(r *conform.R) { produceFrames(r, kgo.CompressionCodecType(codec)) },
			})
		}
	}
	return append(all, conform.Scenario{Name: "produce/sizes-of-compressed-records", Key: 0, Run: produceRecordSizes})
}

// oneRecord is a record without headers, "k" → "vv", as it stands in a batch.
func oneRecord() []byte { return []byte{18, 0, 0, 0, 2, 'k', 4, 'v', 'v', 0} }

// payload is a batch of count records that has these bytes behind its header.
func payload(r *conform.R, codec kgo.CompressionCodecType, count int32, raw []byte) []byte {
	return withPayload(conform.Batch{Records: r.Values("x"), Edit: func(b *kmsg.RecordBatch) {
		b.Attributes, b.NumRecords, b.LastOffsetDelta = int16(codec), count, count-1
	}}.Bytes(), raw)
}

func compressed(codec kgo.CompressionCodecType, raw []byte) []byte {
	if codec == 0 {
		return raw
	}
	of := map[kgo.CompressionCodecType]kgo.CompressionCodec{
		1: kgo.GzipCompression(), 2: kgo.SnappyCompression(), 3: kgo.Lz4Compression(), 4: kgo.ZstdCompression(),
	}
	c, err := kgo.DefaultCompressor(of[codec])
	if err != nil {
		panic(err)
	}
	out, _ := c.Compress(new(bytes.Buffer), raw)
	return bytes.Clone(out)
}

// sized is a record of these bytes behind a length field that may lie.
func sized(length int64, body ...byte) []byte {
	return append(binary.AppendVarint(nil, length), body...)
}

// brokenRecords are records whose fields contradict each other.
func brokenRecords() []crafted {
	surplus := append([]byte{18 | 0x80, 0x80, 0x80, 0x80, 0x70}, oneRecord()[1:]...)
	varlong := bytes.Repeat([]byte{0xff}, 10)
	return []crafted{
		{"good", oneRecord()},
		{"length of too many bytes", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
		{"length with surplus bits", surplus},
		{"length cut", []byte{0x80}},
		{"length negative", sized(-5)},
		{"length zero", sized(0)},
		{"length beyond the end", sized(50, 0, 0, 0)},
		{"length max", sized(1<<31-1, 0, 0, 0)},
		{"attributes set", sized(6, 0x7f, 0, 0, 1, 1, 0)},
		{"no number of headers", sized(5, 0, 0, 0, 1, 1)},
		{"number of headers -1", sized(6, 0, 0, 0, 1, 1, 1)},
		{"number of headers 5, none there", sized(6, 0, 0, 0, 1, 1, 10)},
		{"header without key", sized(8, 0, 0, 0, 1, 1, 2, 1, 1)},
		{"header cut", sized(8, 0, 0, 0, 1, 1, 2, 0, 8)},
		{"key beyond the end", sized(6, 0, 0, 0, 20, 1, 0)},
		{"key of length -2", sized(6, 0, 0, 0, 3, 1, 0)},
		{"value beyond the end", sized(6, 0, 0, 0, 1, 20, 0)},
		{"value of length -2", sized(6, 0, 0, 0, 1, 3, 0)},
		{"time of too many bytes", append(append(sized(18, 0), varlong...), 1, 0, 0, 1, 1, 0, 0)},
		{"time of 10 bytes", sized(15, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0, 1, 1, 0)},
		{"offset of too many bytes", sized(12, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1, 1, 0, 0)},
		{"offset 1", sized(6, 0, 0, 2, 1, 1, 0)},
		{"offset -1", sized(6, 0, 0, 1, 1, 1, 0)},
	}
}

// produceRecordBytes sends broken records, to topics that look into batches and others.
func produceRecordBytes(r *conform.R, codec kgo.CompressionCodecType) {
	for _, kind := range topicKinds() {
		if kind.name == "appendtime" {
			continue
		}
		r.CreateTopic(kind.name, 1, kind.configs...)
		var batches []crafted
		for _, c := range brokenRecords() {
			batches = append(batches, crafted{c.name, payload(r, codec, 1, compressed(codec, c.bytes))})
		}
		gaps := append(sized(8, 0, 0, 10, 2, 'k', 2, 'v', 0), sized(8, 0, 0, 18, 2, 'k', 2, 'v', 0)...)
		batches = append(batches, crafted{"two records at offsets 5 and 9", payload(r, codec, 2, compressed(codec, gaps))})
		sendCrafted(r, 9, kind.name, batches)
	}
}

// produceRecordSizes sends compressed records whose length field does not fit.
func produceRecordSizes(r *conform.R) {
	r.Ignore("Topics.Partitions.BaseOffset", "Topics.Partitions.LogStartOffset", "Topics.Partitions.ErrorMessage", "Topics.Partitions.ErrorRecords")
	short, long, longer := oneRecord(), oneRecord(), append(oneRecord(), 0)
	short[0] -= 2
	long[0] += 2
	longer[0] += 2
	for _, kind := range []topicKind{{"plain", nil}, {"to-none", []string{"compression.type", "uncompressed"}}} {
		r.CreateTopic(kind.name, 1, kind.configs...)
		for codec, name := range codecNames {
			for _, c := range []crafted{{"a byte short", short}, {"a byte long", long}, {"a byte long, and there is one", longer}} {
				b := payload(r, kgo.CompressionCodecType(codec), 1, compressed(kgo.CompressionCodecType(codec), c.bytes))
				r.Send(label(9, "%s: %s, %s", kind.name, c.name, name), produceOf(r, 9, data{kind.name, 0, b}))
			}
		}
	}
}

// produceFrames sends damaged and unusual frames of a codec.
func produceFrames(r *conform.R, codec kgo.CompressionCodecType) {
	special := map[kgo.CompressionCodecType]func() []crafted{1: gzipFrames, 2: snappyFrames, 3: lz4Frames, 4: zstdFrames}
	for _, kind := range []topicKind{{"plain", nil}, {"to-gzip", []string{"compression.type", "gzip"}}, {"to-none", []string{"compression.type", "uncompressed"}}} {
		r.CreateTopic(kind.name, 1, kind.configs...)
		var batches []crafted
		for _, c := range append(damagedFrames(codec), special[codec]()...) {
			count := int32(1)
			if c.name == "two frames of a record each" {
				count = 2
			}
			batches = append(batches, crafted{c.name, payload(r, codec, count, c.bytes)})
		}
		sendCrafted(r, 9, kind.name, batches)
	}
}

// damagedFrames are what can happen to the frame of any codec.
func damagedFrames(codec kgo.CompressionCodecType) []crafted {
	z := compressed(codec, oneRecord())
	second := oneRecord()
	second[3] = 2 // offset 1
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	return []crafted{
		{"good", z},
		{"plain bytes", oneRecord()},
		{"nothing", nil},
		{"cut by 1", z[:len(z)-1]},
		{"cut by 4", z[:len(z)-4]},
		{"cut by half", z[:len(z)/2]},
		{"100 odd bytes behind", join(z, bytes.Repeat([]byte{9}, 100))},
		{"3 odd bytes behind", join(z, []byte{9, 9, 9})},
		{"zeros behind", join(z, make([]byte, 30))},
		{"two frames of a record each", join(z, compressed(codec, second))},
		{"two frames for one record", join(z, z)},
		{"a record in two frames", join(compressed(codec, oneRecord()[:4]), compressed(codec, oneRecord()[4:]))},
		{"an empty frame before", join(compressed(codec, nil), z)},
		{"an empty frame behind", join(z, compressed(codec, nil))},
	}
}

// changed is b with n added to the byte at a position, from the end if negative.
func changed(b []byte, at int, n byte) []byte {
	b = bytes.Clone(b)
	if at < 0 {
		at += len(b)
	}
	b[at] += n
	return b
}

func gzipFrames() []crafted {
	var named bytes.Buffer
	w := gzip.NewWriter(&named)
	w.Name, w.Comment, w.Extra = "name", "comment", []byte("extra")
	_, _ = w.Write(oneRecord())
	_ = w.Close()
	z := compressed(1, oneRecord())
	return []crafted{
		{"name, comment and extra", named.Bytes()},
		{"first byte", changed(z, 0, 1)},
		{"method", changed(z, 2, 1)},
		{"checksum", changed(z, -8, 1)},
		{"size", changed(z, -1, 1)},
	}
}
