package batch

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

// permissive are options under which every well-formed batch is accepted.
func permissive() ValidateOptions {
	return ValidateOptions{NowMs: 1_000_000, BeforeMaxMs: 1 << 60, AfterMaxMs: 1 << 60, RequestVersion: 9}
}

// plainRecords are n records with keys, headers and values of growing size.
func plainRecords(n, step int) []NewRecord {
	records := make([]NewRecord, n)
	for i := range records {
		records[i] = NewRecord{
			TimestampMs: 1000 + int64(i),
			Key:         fmt.Appendf(nil, "key-%d", i),
			Value:       bytes.Repeat([]byte{byte(i), byte(i >> 1)}, i*step/2),
			Headers:     []Header{{Key: "h", Value: []byte{byte(i)}}, {Key: "null"}},
		}
	}
	return records
}

func build(t testing.TB, c *Codecs, o BuilderOptions, records ...NewRecord) View {
	t.Helper()
	b := NewBuilder(o)
	for _, r := range records {
		b.Append(r)
	}
	v, err := b.Build(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// checkSame fails unless v holds exactly the records.
func checkSame(t *testing.T, c *Codecs, v View, want []NewRecord) {
	t.Helper()
	if err := v.Check(); err != nil {
		t.Fatal(err)
	}
	i := 0
	err := Iterate(v, c, func(r Record) error {
		w := want[i]
		if r.OffsetDelta != int32(i) || r.Offset != v.BaseOffset()+int64(i) || r.Timestamp != w.TimestampMs ||
			!sameBytes(r.Key, w.Key) || !sameBytes(r.Value, w.Value) || r.HasKey != (w.Key != nil) || r.HasValue != (w.Value != nil) {
			t.Fatalf("record %d is %+v, want %+v", i, r, w)
		}
		j := 0
		for key, value := range r.Headers.All() {
			if string(key) != w.Headers[j].Key || !sameBytes(value, w.Headers[j].Value) {
				t.Fatalf("record %d header %d is %q=%q, want %+v", i, j, key, value, w.Headers[j])
			}
			j++
		}
		if j != len(w.Headers) || r.Headers.Len() != j {
			t.Fatalf("record %d has %d headers, want %d", i, j, len(w.Headers))
		}
		i++
		return nil
	})
	if err != nil || i != len(want) {
		t.Fatalf("%d of %d records, error %v", i, len(want), err)
	}
}

// sameBytes tells null from empty.
func sameBytes(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

var allCodecs = []Codec{None, Gzip, Snappy, LZ4, Zstd}

func TestBuildAndIterateEveryCodec(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	sets := map[string][]NewRecord{
		"small":       plainRecords(100, 10),
		"large":       plainRecords(40, 8_000),
		"one empty":   {{TimestampMs: 5, Key: []byte{}, Value: []byte{}}},
		"one null":    {{TimestampMs: -1}},
		"over window": {{Value: bytes.Repeat([]byte("0123456789"), 100_000)}, {Value: []byte("x")}},
	}
	for name, records := range sets {
		for _, codec := range allCodecs {
			t.Run(fmt.Sprintf("%s/%v", name, codec), func(t *testing.T) {
				v := build(t, c, BuilderOptions{BaseOffset: 7, Codec: codec}, records...)
				checkSame(t, c, v, records)
			})
		}
	}
}

func TestValidateRebuildsFromEveryCodecToEveryOther(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	records := plainRecords(60, 1_000)
	for _, from := range allCodecs {
		for _, to := range allCodecs {
			t.Run(fmt.Sprintf("%v to %v", from, to), func(t *testing.T) {
				v := build(t, c, BuilderOptions{Codec: from}, records...)
				o := permissive()
				o.Compression = Compression{Recode: true, Codec: to}
				got, err := Validate(c, slices.Clone(v), o)
				if err != nil {
					t.Fatal(err)
				}
				if got.Rebuilt != (from != to) || got.Batch.Codec() != to {
					t.Errorf("rebuilt %t with %v", got.Rebuilt, got.Batch.Codec())
				}
				if got.MaxTimestampMs != 1059 || got.OffsetOfMaxTimestamp != 59 || got.RecordCount != 60 {
					t.Errorf("got %d at %d of %d", got.MaxTimestampMs, got.OffsetOfMaxTimestamp, got.RecordCount)
				}
				checkSame(t, c, got.Batch, records)
			})
		}
	}
}
