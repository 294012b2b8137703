package batch

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

func TestBuilderFillsTheHeader(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	tests := []struct {
		name       string
		o          BuilderOptions
		attributes int16
		baseTS     int64
		maxTS      int64
		lastDelta  int32
		producer   Producer
	}{
		{"plain", BuilderOptions{}, 0, nowMs, nowMs + 2, 2, noProducer},
		{"compressed", BuilderOptions{Codec: Snappy}, 2, nowMs, nowMs + 2, 2, noProducer},
		{"transactional", BuilderOptions{Transactional: true, Producer: &Producer{ID: 0, Epoch: 0, BaseSequence: 0}}, 0x10, nowMs, nowMs + 2, 2, Producer{}},
		{"control", BuilderOptions{Control: true, Producer: &Producer{ID: 4, Epoch: 5, BaseSequence: -1}}, 0x20, nowMs, nowMs + 2, 2, Producer{4, 5, -1}},
		{"append time", BuilderOptions{LogAppendTime: true, AppendTimeMs: 42}, 0x08, nowMs, 42, 2, noProducer},
		{"delete horizon", BuilderOptions{DeleteHorizonMs: 99}, 0x40, 99, nowMs + 2, 2, noProducer},
		{"compacted range", BuilderOptions{LastOffsetDelta: 9}, 0, nowMs, nowMs + 2, 9, noProducer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.BaseOffset, tt.o.LeaderEpoch = 1000, 6
			v := build(t, c, tt.o, three()...)
			if err := v.Check(); err != nil {
				t.Fatal(err)
			}
			if v.Attributes() != tt.attributes || v.BaseTimestamp() != tt.baseTS || v.MaxTimestamp() != tt.maxTS ||
				v.LastOffsetDelta() != tt.lastDelta || v.RecordCount() != 3 || v.BaseOffset() != 1000 || v.LeaderEpoch() != 6 ||
				(Producer{v.ProducerID(), v.ProducerEpoch(), v.BaseSequence()}) != tt.producer {
				t.Errorf("%x", v[:HeaderSize])
			}
			if tt.o.LogAppendTime {
				return // every record has that time
			}
			checkSame(t, c, v, three())
		})
	}
}

func TestBuilderKeepsGapsAndIsReused(t *testing.T) {
	b := NewBuilder(BuilderOptions{BaseOffset: 10})
	b.AppendAt(2, NewRecord{TimestampMs: 5, Value: []byte("two")})
	b.AppendAt(7, NewRecord{TimestampMs: 3})
	if b.Len() != 2 {
		t.Errorf("%d records", b.Len())
	}
	v, err := b.Build(nil)
	if err != nil || v.LastOffsetDelta() != 7 || v.RecordCount() != 2 || v.MaxTimestamp() != 5 || len(v) != b.Size() {
		t.Fatalf("%x, %v", v[:HeaderSize], err)
	}
	var offsets []int64
	_ = Iterate(v, nil, func(r Record) error {
		offsets = append(offsets, r.Offset)
		return nil
	})
	if !slices.Equal(offsets, []int64{12, 17}) {
		t.Errorf("offsets %v", offsets)
	}
	b.Reset(BuilderOptions{})
	b.Append(NewRecord{TimestampMs: 1})
	if v, err = b.Build(nil); err != nil || !bytes.Equal(v, New(BuilderOptions{}, NewRecord{TimestampMs: 1})) {
		t.Errorf("after Reset: %x, %v", v, err)
	}
}

// TestCopyMovesRecordsBetweenBatches is what compaction does.
func TestCopyMovesRecordsBetweenBatches(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	records := plainRecords(9, 20)
	from := build(t, c, BuilderOptions{Codec: Gzip}, records...)
	b := NewBuilder(BuilderOptions{Codec: Zstd})
	it := NewIterator(from, c)
	for it.Next() {
		b.Copy(it.Record.OffsetDelta, &it.Record)
	}
	it.Close()
	v, err := b.Build(c)
	if err != nil || it.Err() != nil {
		t.Fatal(err, it.Err())
	}
	checkSame(t, c, v, records)
}

func TestBuilderRefusesFallingOffsets(t *testing.T) {
	b := NewBuilder(BuilderOptions{})
	b.AppendAt(3, NewRecord{})
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	b.AppendAt(3, NewRecord{})
}

func TestBuildWithACodecThatIsNone(t *testing.T) {
	b := NewBuilder(BuilderOptions{Codec: 6})
	b.Append(NewRecord{})
	if _, err := b.Build(NewCodecs(CodecsOptions{})); !errors.Is(err, kafkaerr.UnsupportedCompressionType) {
		t.Error(err)
	}
}

func TestEveryLevelCompresses(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	r := rand.New(rand.NewPCG(1, 2))
	src := make([]byte, 140_000)
	for i := range src {
		src[i] = "abcdefgh"[r.IntN(8)]
		if i > 70_000 {
			src[i] = byte(r.Uint32()) // blocks that do not shrink
		}
	}
	levels := map[Codec][]int{
		Gzip: {-1, 0, 1, 6, 9}, Snappy: {0}, LZ4: {0, 1, 2, 8, 9, 10, 17}, Zstd: {-131072, -1, 0, 1, 3, 6, 9, 10, 22},
	}
	for codec, some := range levels {
		for _, level := range some {
			b, err := c.Compress([]byte("before"), codec, level, src)
			if err != nil || !bytes.HasPrefix(b, []byte("before")) || len(b) > len(src)+1000 {
				t.Fatalf("%v level %d: %d bytes, %v", codec, level, len(b), err)
			}
			s := c.open(codec, b[len("before"):])
			if got := s.peek(len(src) + 1); !bytes.Equal(got, src) {
				t.Errorf("%v level %d: %d bytes come back, %v", codec, level, len(got), s.err)
			}
			s.close()
		}
	}
}

// TestHigherLevelsOfPooledEncoders: an encoder taken from the pool works at the level
// asked for now.
func TestHigherLevelsOfPooledEncoders(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	words := bytes.Fields([]byte("the quick brown fox jumps over a lazy dog while seven wizards quietly pack my liquor jugs"))
	var src []byte
	for r := rand.New(rand.NewPCG(3, 4)); len(src) < 70_000; {
		src = append(append(src, words[r.IntN(len(words))]...), ' ')
	}
	for _, codec := range []Codec{Gzip, LZ4, Zstd} {
		size := func(level int) int {
			b, err := c.Compress(nil, codec, level, src)
			if err != nil {
				t.Fatal(err)
			}
			return len(b)
		}
		for range 2 {
			if low, high := size(1), size(map[Codec]int{Gzip: 9, LZ4: 17, Zstd: 19}[codec]); high >= low {
				t.Errorf("%v: level 1 gives %d bytes, the highest %d", codec, low, high)
			}
		}
	}
}

func TestLimitsAreCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := NewCodecs(CodecsOptions{MaxBatchBytes: 1000, Registerer: reg})
	v := bomb(t, c, Gzip, 5000)
	for range 3 {
		if err := Iterate(v, c, func(Record) error { return nil }); !errors.Is(err, kafkaerr.MessageTooLarge) {
			t.Fatal(err)
		}
	}
	families, err := reg.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "klamm_batch_decode_limit_total" ||
		families[0].GetMetric()[0].GetCounter().GetValue() != 3 {
		t.Errorf("%v, %v", families, err)
	}
}

func TestEndTxnMarkers(t *testing.T) {
	for _, want := range []EndTxnMarker{{ControlAbort, 0}, {ControlCommit, 9}, {ControlCommit, -1}} {
		v := NewEndTxnMarker(nowMs, 5, 2, want)
		got, ok, err := EndTxnMarkerOf(v, nil)
		if err != nil || !ok || got != want {
			t.Errorf("%+v came back as %+v, %t, %v", want, got, ok, err)
		}
		if v.Check() != nil || !v.IsControl() || !v.IsTransactional() || v.ProducerID() != 5 || v.ProducerEpoch() != 2 || v.MaxTimestamp() != nowMs {
			t.Errorf("%x", v)
		}
	}
}

func TestEndTxnMarkerBytes(t *testing.T) {
	v := NewEndTxnMarker(0, 5, 2, EndTxnMarker{ControlCommit, 9})
	if want := rec(16, 0, 0, 0, 8, 0, 0, 0, 1, 12, 0, 0, 0, 0, 0, 9, 0); !bytes.Equal(v.Records(), want) {
		t.Errorf("%x, want %x", v.Records(), want)
	}
}

func TestControlRecordsThatAreNoMarkers(t *testing.T) {
	control := func(key, value []byte) View {
		return New(BuilderOptions{Control: true}, NewRecord{Key: key, Value: value})
	}
	tests := map[string]struct {
		v    View
		ok   bool
		fine bool
	}{
		"leader change":       {control([]byte{0, 0, 0, 2}, nil), false, true},
		"newer versions":      {control([]byte{0, 3, 0, 1}, []byte{0, 3, 0, 0, 0, 1, 9}), true, true},
		"null key":            {control(nil, nil), false, false},
		"short key":           {control([]byte{0, 0, 0}, nil), false, false},
		"negative version":    {control([]byte{0x80, 0, 0, 1}, nil), false, false},
		"short value":         {control([]byte{0, 0, 0, 1}, []byte{0, 0, 0}), false, false},
		"negative in value":   {control([]byte{0, 0, 0, 1}, []byte{0x80, 0, 0, 0, 0, 1}), false, false},
		"not a record at all": {batchOf(None, 1, []byte{1}), false, false},
	}
	for name, tt := range tests {
		_, ok, err := EndTxnMarkerOf(tt.v, nil)
		if ok != tt.ok || (err == nil) != tt.fine || err != nil && !errors.Is(err, kafkaerr.InvalidRecord) {
			t.Errorf("%s: %t, %v", name, ok, err)
		}
	}
}

func TestCodecNames(t *testing.T) {
	if got := fmt.Sprint(None, Gzip, Snappy, LZ4, Zstd, Codec(6)); got != "none gzip snappy lz4 zstd codec(6)" {
		t.Error(got)
	}
}

// TestFranzGoReadsWhatWeBuild: an independent decoder sees the same records, for every
// codec, built and rebuilt.
func TestFranzGoReadsWhatWeBuild(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	records := plainRecords(70, 900)
	for _, codec := range allCodecs {
		rebuilt, err := Validate(c, New(BuilderOptions{}, records...), func() ValidateOptions {
			o := permissive()
			o.Compression = Compression{Recode: true, Codec: codec}
			return o
		}())
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range map[string]View{
			"built":   build(t, c, BuilderOptions{Codec: codec}, records...),
			"rebuilt": rebuilt.Batch,
		} {
			checkFranz(t, fmt.Sprintf("%v, %s", codec, name), v, records)
		}
	}
}

func checkFranz(t *testing.T, name string, v View, want []NewRecord) {
	t.Helper()
	rp := &kmsg.FetchResponseTopicPartition{HighWatermark: 1 << 40, RecordBatches: v}
	fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: "t"}, rp, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil || len(fp.Records) != len(want) {
		t.Fatalf("%s: %d of %d records, %v", name, len(fp.Records), len(want), fp.Err)
	}
	for i, r := range fp.Records {
		w := want[i]
		if r.Offset != int64(i) || r.Timestamp.UnixMilli() != w.TimestampMs || !bytes.Equal(r.Key, w.Key) || !bytes.Equal(r.Value, w.Value) ||
			len(r.Headers) != len(w.Headers) {
			t.Fatalf("%s: record %d is %+v, want %+v", name, i, r, w)
		}
		for j, h := range r.Headers {
			if h.Key != w.Headers[j].Key || !bytes.Equal(h.Value, w.Headers[j].Value) {
				t.Fatalf("%s: record %d header %d is %+v, want %+v", name, i, j, h, w.Headers[j])
			}
		}
	}
}

// TestWeReadWhatFranzGoCompresses covers another client's encoders: its lz4 and snappy
// are framed differently from Java's.
func TestWeReadWhatFranzGoCompresses(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	records := plainRecords(70, 900)
	payload := payloadOf(records...)
	for codec, kc := range map[Codec]kgo.CompressionCodec{
		Gzip: kgo.GzipCompression(), Snappy: kgo.SnappyCompression(), LZ4: kgo.Lz4Compression(), Zstd: kgo.ZstdCompression(),
	} {
		comp, err := kgo.DefaultCompressor(kc)
		if err != nil {
			t.Fatal(err)
		}
		b, kind := comp.Compress(new(bytes.Buffer), payload)
		if Codec(kind) != codec {
			t.Fatalf("%v: compressed with %v", codec, kind)
		}
		checkSame(t, c, batchOf(codec, 70, slices.Clone(b)).withBaseTimestamp(records[0].TimestampMs), records)
	}
}

func (v View) withBaseTimestamp(ts int64) View {
	set64(posBaseTimestamp, ts)(v)
	return resealed(v)
}
