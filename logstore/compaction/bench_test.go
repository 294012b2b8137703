package compaction

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/klamm-mq/klamm/protocol/batch"
)

// benchRecords are as a busy producer sends them: 100 bytes each, with keys of their own.
func benchRecords(n int) []batch.NewRecord {
	records := make([]batch.NewRecord, n)
	for i := range records {
		records[i] = batch.NewRecord{
			TimestampMs: 1_700_000_000_000 + int64(i), Key: fmt.Appendf(nil, "key-%05d", i), Value: bytes.Repeat([]byte("0123456789"), 9),
		}
	}
	return records
}

const benchCount = 1000

// benchBatch is a batch at offset benchCount, so that older and newer records of its keys
// can be put into a map.
func benchBatch(tb testing.TB, codecs *batch.Codecs, codec batch.Codec) batch.View {
	b := batch.NewBuilder(batch.BuilderOptions{Codec: codec, BaseOffset: benchCount})
	for _, r := range benchRecords(benchCount) {
		b.Append(r)
	}
	v, err := b.Build(codecs)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

var benchCodecs = []batch.Codec{batch.None, batch.LZ4, batch.Zstd}

func BenchmarkIndexer(b *testing.B) {
	codecs := batch.NewCodecs(batch.CodecsOptions{})
	for _, codec := range benchCodecs {
		b.Run(codec.String(), func(b *testing.B) {
			v := benchBatch(b, codecs, codec)
			x := NewIndexer(NewOffsetMap(1<<20, 0.9), 0, codecs, nil)
			b.ReportAllocs()
			for b.Loop() {
				if full, err := x.Batch(v); full || err != nil {
					b.Fatal(full, err)
				}
			}
			perRecord(b)
		})
	}
}

func BenchmarkFilter(b *testing.B) {
	codecs := batch.NewCodecs(batch.CodecsOptions{})
	for _, codec := range benchCodecs {
		for _, kept := range []int{benchCount, benchCount / 2, 0} {
			b.Run(fmt.Sprintf("%v/%d", codec, kept), func(b *testing.B) {
				v := benchBatch(b, codecs, codec)
				f := benchFilter(codecs, kept)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := f.Batch(v, false); err != nil {
						b.Fatal(err)
					}
				}
				perRecord(b)
			})
		}
	}
}

// benchFilter keeps so many records of a benchBatch.
func benchFilter(codecs *batch.Codecs, kept int) *Filter {
	m := NewOffsetMap(1<<20, 0.9)
	for i, r := range benchRecords(benchCount) {
		if i < kept {
			m.Put(r.Key, benchCount+int64(i))
		} else {
			m.Put(r.Key, 3*benchCount)
		}
	}
	m.Reach(3 * benchCount)
	return NewFilter(FilterOptions{Map: m, Codecs: codecs})
}

func perRecord(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchCount, "ns/record")
}

// TestAllocationBudget: neither the index nor the filter allocates for a record, nor, but for
// what codecs want, for a batch.
func TestAllocationBudget(t *testing.T) {
	const budget = 8 // for a batch of 1,000 records
	codecs := batch.NewCodecs(batch.CodecsOptions{})
	for _, codec := range benchCodecs {
		v := benchBatch(t, codecs, codec)
		x := NewIndexer(NewOffsetMap(1<<20, 0.9), 0, codecs, nil)
		checkAllocs(t, fmt.Sprintf("index %v", codec), budget, func() error {
			_, err := x.Batch(v)
			return err
		})
		for _, kept := range []int{benchCount, benchCount / 2, 0} {
			f := benchFilter(codecs, kept)
			checkAllocs(t, fmt.Sprintf("keep %d of %v", kept, codec), budget, func() error {
				_, err := f.Batch(v, false)
				return err
			})
		}
	}
}

func checkAllocs(t *testing.T, what string, budget float64, f func() error) {
	t.Helper()
	got := testing.AllocsPerRun(20, func() {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	})
	if got > budget && !raceEnabled {
		t.Errorf("%s: %v allocations, budget %v", what, got, budget)
	}
}
