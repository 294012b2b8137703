package batch

import (
	"bytes"
	"testing"
)

// benchRecords is a batch as a busy producer sends it: 1,000 records of 100 bytes.
func benchRecords() []NewRecord {
	records := make([]NewRecord, 1000)
	for i := range records {
		records[i] = NewRecord{TimestampMs: 1_700_000_000_000 + int64(i), Key: []byte("key-0123"), Value: bytes.Repeat([]byte("0123456789"), 9)}
	}
	return records
}

func perRecord(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
}

func BenchmarkIterator(b *testing.B) {
	c := NewCodecs(CodecsOptions{})
	for _, codec := range allCodecs {
		b.Run(codec.String(), func(b *testing.B) {
			v := build(b, c, BuilderOptions{Codec: codec}, benchRecords()...)
			b.ReportAllocs()
			for b.Loop() {
				it := NewIterator(v, c)
				for it.Next() {
				}
				it.Close()
			}
			perRecord(b)
		})
	}
}

func BenchmarkIterate(b *testing.B) {
	v := New(BuilderOptions{}, benchRecords()...)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		_ = Iterate(v, nil, func(r Record) error {
			n += len(r.Value)
			return nil
		})
	}
	perRecord(b)
}

func BenchmarkValidate(b *testing.B) {
	c := NewCodecs(CodecsOptions{})
	for _, codec := range allCodecs {
		b.Run(codec.String(), func(b *testing.B) {
			v := build(b, c, BuilderOptions{Codec: codec}, benchRecords()...)
			o := permissive()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Validate(c, v, o); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b)
		})
	}
}

func BenchmarkRecode(b *testing.B) {
	c := NewCodecs(CodecsOptions{})
	v := New(BuilderOptions{}, benchRecords()...)
	for _, codec := range allCodecs[1:] {
		b.Run(codec.String(), func(b *testing.B) {
			o := permissive()
			o.Compression = Compression{Recode: true, Codec: codec}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Validate(c, v, o); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b)
		})
	}
}

func BenchmarkBuilder(b *testing.B) {
	records := benchRecords()
	bl := NewBuilder(BuilderOptions{})
	b.ReportAllocs()
	for b.Loop() {
		bl.Reset(BuilderOptions{})
		for i := range records {
			bl.Append(records[i])
		}
		if _, err := bl.Build(nil); err != nil {
			b.Fatal(err)
		}
	}
	perRecord(b)
}
