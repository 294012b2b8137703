package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// fuzzLimits are low, so that the fuzzer meets them.
func fuzzLimits() *Codecs {
	return NewCodecs(CodecsOptions{MaxBatchBytes: 4 << 20, MaxRecordBytes: 1 << 20})
}

// maxFuzzAlloc bounds what reading any input may allocate: a zstd decoder with the
// largest window that is accepted, the window of one record, and some change.
const maxFuzzAlloc = 200 << 20

// bounded fails the test if f allocates more than maxFuzzAlloc bytes.
func bounded(t *testing.T, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > maxFuzzAlloc {
		t.Errorf("%d MiB allocated", used>>20)
	}
}

func addSeeds(f *testing.F) {
	c := NewCodecs(CodecsOptions{})
	for _, codec := range allCodecs {
		f.Add([]byte(build(f, c, BuilderOptions{Codec: codec}, plainRecords(4, 30)...)), uint16(codec), true)
		f.Add([]byte(build(f, c, BuilderOptions{Codec: codec}, NewRecord{Value: make([]byte, 3*streamWindow)})), uint16(0x100), true)
		f.Add([]byte(batchOf(codec, 2, []byte{12, 0, 0, 0, 1, 1, 0})), uint16(0x1ff), false)
	}
	f.Add([]byte(NewEndTxnMarker(1, 2, 3, EndTxnMarker{})), uint16(0x200), true)
}

// repair makes length and CRC of the first batch right, so that the fuzzer gets past
// them.
func repair(data []byte) []byte {
	data = slices.Clone(data)
	if len(data) < HeaderSize {
		return data
	}
	data[posMagic] = magic2
	binary.BigEndian.PutUint32(data[posLength:], uint32(len(data)-PrefixSize))
	return resealed(data)
}

// FuzzNext: any bytes are cut into batches that can be looked at, or refused.
func FuzzNext(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte, _ uint16, _ bool) {
		for rest := data; ; {
			v, left, err := Next(rest)
			if err != nil {
				if !bytes.Equal(left, rest) {
					t.Fatal("bytes lost on an error")
				}
				return
			}
			if len(v) < HeaderSize || v.Size() != len(v) || len(v)+len(left) != len(rest) {
				t.Fatalf("view of %d bytes, size %d, %d of %d left", len(v), v.Size(), len(left), len(rest))
			}
			_ = v.Check()
			_, _, _ = v.LastOffset(), v.LastSequence(), v.Codec()
			rest = left
		}
	})
}

// FuzzIterate: any payload is walked to an end or an error of a known kind, in both
// ways alike, and what can be read can be written again.
func FuzzIterate(f *testing.F) {
	addSeeds(f)
	c := fuzzLimits()
	f.Fuzz(func(t *testing.T, data []byte, _ uint16, _ bool) {
		v, _, err := Next(repair(data))
		if err != nil {
			return
		}
		bounded(t, func() { fuzzWalk(t, c, v) })
	})
}

func fuzzWalk(t *testing.T, c *Codecs, v View) {
	var whole, skimmed []Record
	read := func(it Iterator, into *[]Record) error {
		defer it.Close()
		for it.Next() {
			r := it.Record
			r.Key, r.Value, r.Headers = nil, nil, Headers{}
			*into = append(*into, r)
			for range it.Record.Headers.All() {
			}
		}
		return it.Err()
	}
	err := read(NewIterator(v, c), &whole)
	skimErr := read(NewSkimmer(v, c), &skimmed)
	if errors.Is(err, kafkaerr.MessageTooLarge) {
		return // skimming may go further
	}
	// Of a compressed batch that is damaged, skimming may meet the end of the stream, as
	// Kafka's validator does, where reading meets the record that lies.
	alike := kafkaerr.Code(err) == kafkaerr.Code(skimErr) || err != nil && skimErr != nil && v.Codec() != None
	if !alike || len(whole) != len(skimmed) {
		t.Fatalf("%d records, %v; skimming %d, %v", len(whole), err, len(skimmed), skimErr)
	}
	for i := range whole {
		if a, b := whole[i], skimmed[i]; a.Offset != b.Offset || a.Timestamp != b.Timestamp || a.Size != b.Size ||
			a.HasKey != b.HasKey || a.HasValue != b.HasValue || a.Attributes != b.Attributes {
			t.Fatalf("record %d: %+v, skimming %+v", i, a, b)
		}
	}
	if code := kafkaerr.Code(err); code != 0 && code != -1 && code != kafkaerr.InvalidRecord.Code {
		t.Fatalf("unexpected kind: %v", err)
	}
}

// FuzzValidate: no panic, bounded memory; what is accepted is sound and is accepted
// again.
func FuzzValidate(f *testing.F) {
	addSeeds(f)
	c := fuzzLimits()
	f.Fuzz(func(t *testing.T, data []byte, flags uint16, fix bool) {
		if fix {
			data = repair(data)
		}
		o := topicDefaults()
		o.Compression = Compression{Recode: flags&0x100 != 0, Codec: Codec(flags & 7 % 5)}
		o.Coordinator = flags&0x200 != 0
		o.LogAppendTime = flags&0x400 != 0
		o.Compacted = flags&0x800 != 0
		bounded(t, func() {
			got, err := Validate(c, slices.Clone(data), o)
			if err != nil {
				checkRefusal(t, err)
				return
			}
			checkAccepted(t, c, got, o)
		})
	})
}

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	var re *RecordErrors
	if errors.As(err, &re) && (re.Total < 1 || len(re.Records) != min(re.Total, MaxRecordErrors)) {
		t.Fatalf("%d records of %d: %v", len(re.Records), re.Total, err)
	}
	known := []int16{-1, 2, 10, 18, 32, 76, 87}
	if code := kafkaerr.Code(err); !slices.Contains(known, code) {
		t.Fatalf("code %d: %v", code, err)
	}
}

func checkAccepted(t *testing.T, c *Codecs, got Validated, o ValidateOptions) {
	t.Helper()
	v := got.Batch
	if err := v.Check(); err != nil {
		t.Fatal(err)
	}
	if v.MaxTimestamp() != got.MaxTimestampMs || v.RecordCount() != got.RecordCount || v.IsLogAppendTime() != o.LogAppendTime {
		t.Fatalf("%+v", got)
	}
	if !o.Coordinator && v.Codec() != o.target(v) {
		t.Fatalf("codec %v, want %v", v.Codec(), o.target(v))
	}
	o.LogAppendTime = false // a stamped batch is not a producer's any more
	o.AfterMaxMs = 1 << 62
	again, err := Validate(c, slices.Clone(v), o)
	if err != nil || again.RecordCount != got.RecordCount {
		t.Fatalf("accepted once, then: %v", err)
	}
}

// FuzzDecoders: any bytes through each decoder end, and within the limits.
func FuzzDecoders(f *testing.F) {
	c := fuzzLimits()
	for _, codec := range allCodecs[1:] {
		f.Add(uint8(codec), compressed(f, c, codec, payloadOf(plainRecords(4, 30)...)))
		f.Add(uint8(codec), compressed(f, c, codec, make([]byte, 300_000)))
	}
	f.Fuzz(func(t *testing.T, codec uint8, payload []byte) {
		bounded(t, func() {
			s := c.open(Codec(codec%8), payload)
			defer s.close()
			for len(s.peek(1)) > 0 {
				s.advance(len(s.peek(1)))
			}
			if s.total > c.maxBatchBytes+streamWindow {
				t.Errorf("%d bytes decoded", s.total)
			}
		})
	})
}

// FuzzCompress: what is compressed comes back.
func FuzzCompress(f *testing.F) {
	c := fuzzLimits()
	f.Add(uint8(1), int8(3), []byte("some bytes, some bytes, some bytes"))
	f.Fuzz(func(t *testing.T, codec uint8, level int8, src []byte) {
		k := Codec(codec%4) + Gzip
		b, err := c.Compress(nil, k, int(level), src)
		if err != nil {
			t.Fatal(err)
		}
		s := c.open(k, b)
		defer s.close()
		if got := s.peek(len(src) + 1); !bytes.Equal(got, src) {
			t.Errorf("%v level %d: %x became %x", k, level, src, got)
		}
	})
}
