package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// The expectations here are the answers of a running Kafka 4.4 to the same bytes.

// nowMs is the wall clock of these tests.
const nowMs int64 = 1_800_000_000_000

// topicDefaults are the options of a topic without overrides.
func topicDefaults() ValidateOptions {
	return ValidateOptions{
		NowMs: nowMs, BeforeMaxMs: math.MaxInt64, AfterMaxMs: 3_600_000,
		MaxMessageBytes: 1_048_588, SegmentBytes: 1 << 30, RequestVersion: 9,
	}
}

func with(change func(o *ValidateOptions)) ValidateOptions {
	o := topicDefaults()
	change(&o)
	return o
}

func recodeTo(codec Codec) ValidateOptions {
	return with(func(o *ValidateOptions) { o.Compression = Compression{Recode: true, Codec: codec} })
}

// three are three good records.
func three() []NewRecord {
	return []NewRecord{
		{TimestampMs: nowMs, Key: []byte("k"), Value: []byte("0")},
		{TimestampMs: nowMs + 2, Key: []byte("k"), Value: []byte("1")},
		{TimestampMs: nowMs + 1, Key: []byte("k"), Value: []byte("2")},
	}
}

func set16(pos int, n uint16) func(View) {
	return func(v View) { binary.BigEndian.PutUint16(v[pos:], n) }
}

func set32(pos int, n int32) func(View) {
	return func(v View) { binary.BigEndian.PutUint32(v[pos:], uint32(n)) }
}

func set64(pos int, n int64) func(View) {
	return func(v View) { binary.BigEndian.PutUint64(v[pos:], uint64(n)) }
}

func setBits(bits uint16) func(View) {
	return func(v View) { binary.BigEndian.PutUint16(v[posAttributes:], uint16(v.Attributes())|bits) }
}

func producer(id int64, epoch int16, sequence int32) func(View) {
	return func(v View) {
		set64(posProducerID, id)(v)
		set16(posProducerEpoch, uint16(epoch))(v)
		set32(posBaseSequence, sequence)(v)
	}
}

func both(f, g func(View)) func(View) {
	return func(v View) {
		f(v)
		g(v)
	}
}

// TestHeaders: every rule about a batch's header, the batch being uncompressed and
// compressed.
func TestHeaders(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	tests := []struct {
		name   string
		change func(View)
		want   error
	}{
		{"good", func(View) {}, nil},
		{"with producer", producer(5, 0, 0), nil},
		{"base offset 1", set64(posBaseOffset, 1), kafkaerr.InvalidRecord},
		{"base offset -1", set64(posBaseOffset, -1), kafkaerr.InvalidRecord},
		{"count 2 of 3", set32(posRecordCount, 2), kafkaerr.InvalidRecord},
		{"count and delta of 2", both(set32(posRecordCount, 2), set32(posLastOffsetDelta, 1)), kafkaerr.InvalidRecord},
		{"count and delta of 4", both(set32(posRecordCount, 4), set32(posLastOffsetDelta, 3)), kafkaerr.InvalidRecord},
		{"count 0", set32(posRecordCount, 0), kafkaerr.InvalidRecord},
		{"count 0 and delta -1", both(set32(posRecordCount, 0), set32(posLastOffsetDelta, -1)), kafkaerr.InvalidRecord},
		{"count -1", set32(posRecordCount, -1), kafkaerr.InvalidRecord},
		{"delta 0", set32(posLastOffsetDelta, 0), kafkaerr.InvalidRecord},
		{"greatest delta", set32(posLastOffsetDelta, math.MaxInt32), kafkaerr.InvalidRecord},
		{"control records", setBits(controlBit), kafkaerr.InvalidRecord},
		{"producer without sequence", producer(5, 0, -1), kafkaerr.InvalidRecord},
		{"producer -2", producer(-2, -1, -1), nil},
		{"producer without epoch", producer(5, -1, 0), nil},
		{"transaction without producer", setBits(transactionalBit), nil},
		{"magic 0", func(v View) { v[posMagic] = 0 }, kafkaerr.InvalidRecord},
		{"magic 1", func(v View) { v[posMagic] = 1 }, kafkaerr.InvalidRecord},
		{"magic 3", func(v View) { v[posMagic] = 3 }, kafkaerr.CorruptMessage},
		{"magic -1", func(v View) { v[posMagic] = 0xff }, kafkaerr.CorruptMessage},
		{"codec 5", set16(posAttributes, 5), kafkaerr.UnknownServerError},
		{"codec 7", set16(posAttributes, 7), kafkaerr.UnknownServerError},
		{"delete horizon", setBits(deleteHorizonBit), nil},
		{"attributes without meaning", setBits(0x5580), nil},
	}
	for _, codec := range []Codec{None, Zstd} {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%v/%s", codec, tt.name), func(t *testing.T) {
				v := build(t, c, BuilderOptions{Codec: codec}, three()...)
				tt.change(v)
				_, err := Validate(c, resealed(v), topicDefaults())
				if !errors.Is(err, tt.want) {
					t.Error(err)
				}
			})
		}
	}
}

// TestRequestBytes: what the records field may hold besides one batch.
func TestRequestBytes(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	good := New(BuilderOptions{}, three()...)
	old := slices.Clone(good)
	old[posMagic] = 1
	wholeOf := func(n int) []byte {
		b := slices.Clone(good[:n])
		binary.BigEndian.PutUint32(b[posLength:], uint32(n-PrefixSize))
		return b
	}
	tests := []struct {
		name    string
		records []byte
		want    error
	}{
		{"nothing", nil, kafkaerr.InvalidRecord},
		{"one byte", good[:1], kafkaerr.InvalidRecord},
		{"a prefix", good[:PrefixSize], kafkaerr.InvalidRecord},
		{"up to the magic", good[:posMagic+1], kafkaerr.InvalidRecord},
		{"one byte less", cutBy(good, 1), kafkaerr.InvalidRecord},
		{"stray byte", append(slices.Clone(good), 1), nil},
		{"11 zeros behind", append(slices.Clone(good), make([]byte, 11)...), nil},
		{"12 zeros behind", append(slices.Clone(good), make([]byte, 12)...), kafkaerr.CorruptMessage},
		{"70 zeros behind", append(slices.Clone(good), make([]byte, 70)...), kafkaerr.CorruptMessage},
		{"half a batch behind", append(slices.Clone(good), cutBy(good, 1)...), nil},
		{"bad magic behind", append(slices.Clone(good), append(slices.Clone(good[:posMagic]), 5)...), kafkaerr.CorruptMessage},
		{"two batches", append(slices.Clone(good), good...), kafkaerr.InvalidRecord},
		{"two batches, one old", append(slices.Clone(good), old...), kafkaerr.InvalidRecord},
		{"length -1", func() []byte { b := slices.Clone(good); set32(posLength, -1)(b); return b }(), kafkaerr.CorruptMessage},
		{"length 13", wholeOf(25), kafkaerr.CorruptMessage},
		{"a batch of 60 bytes", wholeOf(60), kafkaerr.CorruptMessage},
		{"a batch of 26 bytes", wholeOf(26), kafkaerr.CorruptMessage},
		{"wrong CRC", func() []byte { b := slices.Clone(good); b[posCRC]++; return b }(), kafkaerr.CorruptMessage},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Validate(c, tt.records, topicDefaults())
			if !errors.Is(err, tt.want) {
				t.Fatal(err)
			}
			if err == nil && !bytes.Equal(got.Batch, good) {
				t.Errorf("got %d bytes, the batch has %d", len(got.Batch), len(good))
			}
		})
	}
}

func TestZstdNeedsProduceV7(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	for _, codec := range allCodecs {
		v := build(t, c, BuilderOptions{Codec: codec}, three()...)
		for version := int16(3); version <= 13; version++ {
			var want error
			if codec == Zstd && version < 7 {
				want = kafkaerr.UnsupportedCompressionType
			}
			if err := ValidateRequest(version, v); !errors.Is(err, want) {
				t.Errorf("%v in v%d: %v", codec, version, err)
			}
			_, err := Validate(c, slices.Clone(v), with(func(o *ValidateOptions) { o.RequestVersion = version }))
			if !errors.Is(err, want) {
				t.Errorf("validate %v in v%d: %v", codec, version, err)
			}
		}
	}
}

func TestUnassignedCodecFailsTheRequestBeforeProduceV7(t *testing.T) {
	for _, codec := range []int16{5, 6, 7} {
		v := batchOf(Codec(codec), 1, nil)
		for version := int16(3); version <= 13; version++ {
			var want error
			if version < 7 {
				want = kafkaerr.UnknownServerError
			}
			if err := ValidateRequest(version, v); !errors.Is(err, want) {
				t.Errorf("codec %d in v%d: %v", codec, version, err)
			}
		}
	}
}

func TestFirstIsTransactional(t *testing.T) {
	plain := New(BuilderOptions{}, three()...)
	txn := New(BuilderOptions{Transactional: true, Producer: &Producer{ID: 1}}, three()...)
	magic := func(m byte) []byte {
		v := slices.Clone(txn)
		v[posMagic] = m
		return v
	}
	tests := []struct {
		name    string
		records []byte
		want    bool
		kind    error
	}{
		{"null", nil, false, nil},
		{"plain", plain, false, nil},
		{"transactional", txn, true, nil},
		{"the second batch does not count", append(slices.Clone(plain), txn...), false, nil},
		{"cut short", txn[:len(txn)-1], false, nil},
		{"magic 1 has no such flag", magic(1), false, nil},
		{"magic 3", magic(3), false, kafkaerr.CorruptMessage},
		{"magic -1", magic(255), false, kafkaerr.CorruptMessage},
		{"length 0", make([]byte, 70), false, kafkaerr.CorruptMessage},
	}
	for _, tt := range tests {
		if got, err := FirstIsTransactional(tt.records); got != tt.want || !errors.Is(err, tt.kind) {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
	}
}

// Whatever bit of a deflate stream is wrong: if that is damage to the compression, it is
// answered for, not a record that was spoiled before the decoder noticed.
func TestDamagedGzipIsNotARecordsFault(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	good := build(t, c, BuilderOptions{Codec: Gzip}, three()...)
	damaged := 0
	for bit := range 8 * len(good.Records()) {
		v := slices.Clone(good)
		v.Records()[bit/8] ^= 1 << (bit % 8)
		resealed(v)
		_, err := Validate(c, slices.Clone(v), topicDefaults())
		whole, readErr := gzip.NewReader(bytes.NewReader(v.Records()))
		if readErr == nil {
			whole.Multistream(false)
			_, readErr = io.Copy(io.Discard, whole)
		}
		var damage flate.CorruptInputError
		if !errors.As(readErr, &damage) {
			continue
		}
		if damaged++; !errors.Is(err, kafkaerr.UnknownServerError) {
			t.Errorf("bit %d: %v, but %v", bit, err, readErr)
		}
	}
	if damaged == 0 {
		t.Error("no bit damages the compression")
	}
}

// A wrong checksum behind the data is the answer where Kafka, which passes over the fields
// of a record without regard to its size, comes to the end of the stream; a field that no
// record can have is found before.
func TestWrongGzipChecksumAgainstWrongRecords(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	for name, tt := range map[string]struct {
		record   []byte
		checksum error // what a wrong checksum is answered with
		none     error // and what a right one
	}{
		"good":                   {rec(6, 0, 0, 0, 1, 1, 0), kafkaerr.UnknownServerError, nil},
		"size one short":         {rec(5, 0, 0, 0, 1, 1, 0), kafkaerr.UnknownServerError, kafkaerr.InvalidRecord},
		"size one long":          {rec(7, 0, 0, 0, 1, 1, 0, 0), kafkaerr.UnknownServerError, kafkaerr.InvalidRecord},
		"value beyond the end":   {rec(6, 0, 0, 0, 1, 40, 0), kafkaerr.UnknownServerError, kafkaerr.InvalidRecord},
		"headers beyond the end": {rec(6, 0, 0, 0, 1, 1, 10), kafkaerr.UnknownServerError, kafkaerr.InvalidRecord},
		"negative header count":  {rec(6, 0, 0, 0, 1, 1, 1), kafkaerr.InvalidRecord, kafkaerr.InvalidRecord},
		"negative size":          {rec(-5), kafkaerr.InvalidRecord, kafkaerr.InvalidRecord},
	} {
		payload := compressed(t, c, Gzip, tt.record)
		if _, err := Validate(c, batchOf(Gzip, 1, slices.Clone(payload)), topicDefaults()); !errors.Is(err, tt.none) {
			t.Errorf("%s: %v", name, err)
		}
		payload[len(payload)-6] ^= 1 // CRC-32 and length are the last eight bytes
		if _, err := Validate(c, batchOf(Gzip, 1, payload), topicDefaults()); !errors.Is(err, tt.checksum) {
			t.Errorf("%s, with a wrong checksum: %v", name, err)
		}
	}
}

// TestOrderOfChecks: of two faults the one that Kafka looks for first is answered.
func TestOrderOfChecks(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	small := with(func(o *ValidateOptions) { o.MaxMessageBytes = 100; o.Compacted = true })
	large := []NewRecord{{TimestampMs: nowMs, Value: make([]byte, 200)}}
	badCRC := func(v View) View { v[posCRC]++; return v }
	tests := []struct {
		name string
		v    View
		o    ValidateOptions
		want error
	}{
		{"base offset before size", New(BuilderOptions{BaseOffset: 1}, large...), small, kafkaerr.InvalidRecord},
		{"size before CRC", badCRC(New(BuilderOptions{}, large...)), small, kafkaerr.MessageTooLarge},
		{"CRC before codec", badCRC(batchOf(5, 1, nil)), topicDefaults(), kafkaerr.CorruptMessage},
		{"codec before header", batchOf(5, 0, nil), topicDefaults(), kafkaerr.UnknownServerError},
		{"header before records", batchOf(None, 0, []byte("none")), topicDefaults(), kafkaerr.InvalidRecord},
		{"damage before record errors", batchOf(None, 2, payloadOf(NewRecord{TimestampMs: nowMs})), with(func(o *ValidateOptions) { o.Compacted = true }), kafkaerr.InvalidRecord},
		{"record errors before segment size", New(BuilderOptions{}, large...), with(func(o *ValidateOptions) { o.Compacted = true; o.SegmentBytes = 100 }), kafkaerr.InvalidRecord},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Validate(c, tt.v, tt.o); !errors.Is(err, tt.want) {
				t.Error(err)
			}
		})
	}
}

func TestSizes(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	record := NewRecord{TimestampMs: nowMs, Key: []byte("k"), Value: bytes.Repeat([]byte("0123456789"), 200)}
	limit := func(messageBytes, segmentBytes int, to Compression) ValidateOptions {
		return with(func(o *ValidateOptions) {
			o.MaxMessageBytes, o.SegmentBytes, o.Compression = messageBytes, segmentBytes, to
		})
	}
	uncompressed := len(New(BuilderOptions{}, record))
	gzipped := len(build(t, c, BuilderOptions{Codec: Gzip}, record))
	toNone := Compression{Recode: true, Codec: None}
	toGzip := Compression{Recode: true, Codec: Gzip}
	tests := []struct {
		name  string
		codec Codec
		o     ValidateOptions
		want  error
	}{
		{"exactly max.message.bytes", None, limit(uncompressed, 0, Compression{}), nil},
		{"one more", None, limit(uncompressed-1, 0, Compression{}), kafkaerr.MessageTooLarge},
		{"compressed counts as compressed", Gzip, limit(gzipped, 0, Compression{}), nil},
		{"as received, though gzip would fit", None, limit(uncompressed-1, 0, toGzip), kafkaerr.MessageTooLarge},
		{"rebuilt exactly", Gzip, limit(uncompressed, 0, toNone), nil},
		{"rebuilt one more", Gzip, limit(uncompressed-1, 0, toNone), kafkaerr.MessageTooLarge},
		{"exactly segment.bytes", None, limit(0, uncompressed, Compression{}), nil},
		{"above segment.bytes", None, limit(0, uncompressed-1, Compression{}), kafkaerr.RecordListTooLarge},
		{"rebuilt above segment.bytes", Gzip, limit(0, uncompressed-1, toNone), kafkaerr.RecordListTooLarge},
		{"rebuilt below segment.bytes", None, limit(0, uncompressed-1, toGzip), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Validate(c, build(t, c, BuilderOptions{Codec: tt.codec}, record), tt.o)
			if !errors.Is(err, tt.want) {
				t.Error(err)
			}
		})
	}
}

// TestDecompressedRecordLimit: max.decompressed.message.bytes bounds the body of each
// record, and of compressed ones alone.
func TestDecompressedRecordLimit(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	small := NewRecord{TimestampMs: nowMs, Value: []byte("v")}
	large := NewRecord{TimestampMs: nowMs, Value: make([]byte, 100_000)} // more than a window
	it := NewIterator(New(BuilderOptions{}, large), c)
	it.Next()
	body := int(it.Record.Size) - 3 // without the size itself
	for codec := None; codec <= Zstd; codec++ {
		for _, tt := range []struct {
			limit int
			to    Compression
			want  error
		}{
			{body, Compression{}, nil},
			{body - 1, Compression{}, kafkaerr.InvalidRecord},
			{body - 1, Compression{Recode: true, Codec: None}, kafkaerr.InvalidRecord},
			{0, Compression{}, nil},
		} {
			o := with(func(o *ValidateOptions) { o.MaxRecordBytes, o.Compression = tt.limit, tt.to })
			want := tt.want
			if codec == None {
				want = nil
			}
			if _, err := Validate(c, build(t, c, BuilderOptions{Codec: codec}, small, large), o); !errors.Is(err, want) {
				t.Errorf("%v, body %d, limit %d, recode %v: %v, want %v", codec, body, tt.limit, tt.to.Recode, err, want)
			}
		}
	}
}

// refused are the indexes of a *RecordErrors, nil if err is something else.
func refused(err error) []int32 {
	var re *RecordErrors
	if !errors.As(err, &re) {
		return nil
	}
	var indexes []int32
	for _, r := range re.Records {
		indexes = append(indexes, r.Index)
	}
	return indexes
}

func TestRecordErrors(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	at := func(ts int64) NewRecord { return NewRecord{TimestampMs: ts, Key: []byte("k")} }
	keyless := NewRecord{TimestampMs: nowMs, Value: []byte("v")}
	hour := int64(3_600_000)
	compacted := with(func(o *ValidateOptions) { o.Compacted = true })
	before := with(func(o *ValidateOptions) { o.BeforeMaxMs = hour })
	strict := with(func(o *ValidateOptions) { o.BeforeMaxMs, o.Compacted = hour, true })
	appendTime := with(func(o *ValidateOptions) { o.LogAppendTime = true })
	tests := []struct {
		name    string
		o       ValidateOptions
		bits    uint16
		records []NewRecord
		kind    error
		indexes []int32
	}{
		{"keys", compacted, 0, []NewRecord{at(nowMs)}, nil, nil},
		{"an empty key is a key", compacted, 0, []NewRecord{{TimestampMs: nowMs, Key: []byte{}}}, nil, nil},
		{"null keys", compacted, 0, []NewRecord{keyless, at(nowMs), keyless}, kafkaerr.InvalidRecord, []int32{0, 2}},
		{"null key, not compacted", topicDefaults(), 0, []NewRecord{keyless}, nil, nil},
		{"as late as allowed", topicDefaults(), 0, []NewRecord{at(nowMs + hour)}, nil, nil},
		{"later", topicDefaults(), 0, []NewRecord{at(nowMs), at(nowMs + hour + 1)}, kafkaerr.InvalidTimestamp, []int32{1}},
		{"as early as allowed", before, 0, []NewRecord{at(nowMs - hour)}, nil, nil},
		{"earlier", before, 0, []NewRecord{at(nowMs - hour - 1), at(nowMs), at(0)}, kafkaerr.InvalidTimestamp, []int32{0, 2}},
		{"none is always in range", before, 0, []NewRecord{at(-1)}, nil, nil},
		{"-5 by default", topicDefaults(), 0, []NewRecord{at(-5)}, nil, nil},
		{"least timestamp", topicDefaults(), 0, []NewRecord{at(math.MinInt64)}, kafkaerr.InvalidTimestamp, []int32{0}},
		{"timestamp outweighs key", strict, 0, []NewRecord{keyless, at(0)}, kafkaerr.InvalidTimestamp, []int32{0, 1}},
		{"timestamp outweighs a later key", strict, 0, []NewRecord{at(0), keyless}, kafkaerr.InvalidTimestamp, []int32{0, 1}},
		{"a keyless record's timestamp is not looked at", strict, 0, []NewRecord{{TimestampMs: 0}}, kafkaerr.InvalidRecord, []int32{0}},
		{"the topic stamps, no range", appendTime, 0, []NewRecord{at(nowMs + 2*hour), at(0)}, nil, nil},
		{"both stamp", appendTime, logAppendTimeBit, []NewRecord{at(nowMs), at(nowMs)}, kafkaerr.InvalidTimestamp, []int32{0, 1}},
		{"the producer stamps", topicDefaults(), logAppendTimeBit, []NewRecord{at(nowMs)}, nil, nil},
		{"the producer stamps with none", topicDefaults(), logAppendTimeBit, []NewRecord{at(-1)}, kafkaerr.InvalidTimestamp, []int32{0}},
	}
	for _, tt := range tests {
		for _, codec := range []Codec{None, LZ4} {
			t.Run(fmt.Sprintf("%s/%v", tt.name, codec), func(t *testing.T) {
				v := build(t, c, BuilderOptions{Codec: codec}, tt.records...)
				setBits(tt.bits)(v)
				_, err := Validate(c, resealed(v), tt.o)
				if !errors.Is(err, tt.kind) || !slices.Equal(refused(err), tt.indexes) {
					t.Errorf("%v, records %v; want %v, %v", err, refused(err), tt.kind, tt.indexes)
				}
			})
		}
	}
}

func TestRecordErrorsAreBoundedButCounted(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	v := build(t, c, BuilderOptions{Codec: Zstd}, make([]NewRecord, MaxRecordErrors+5)...)
	_, err := Validate(c, v, with(func(o *ValidateOptions) { o.Compacted = true }))
	var re *RecordErrors
	if !errors.As(err, &re) || len(re.Records) != MaxRecordErrors || re.Total != MaxRecordErrors+5 ||
		re.Kind != kafkaerr.InvalidRecord || re.Message == "" || re.Records[0].Message == "" || kafkaerr.Code(err) != 87 {
		t.Errorf("%v", err)
	}
}

func TestMaxTimestampIsCorrected(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	plain, stamped := topicDefaults(), with(func(o *ValidateOptions) { o.LogAppendTime = true })
	tests := []struct {
		name    string
		o       ValidateOptions
		change  func(View)
		max     int64
		offset  int64
		changed bool
	}{
		{"right", plain, func(View) {}, nowMs + 2, 1, false},
		{"too small", plain, set64(posMaxTimestamp, 9), nowMs + 2, 1, true},
		{"too large", plain, set64(posMaxTimestamp, nowMs*2), nowMs + 2, 1, true},
		{"-1", plain, set64(posMaxTimestamp, -1), nowMs + 2, 1, true},
		{"the topic stamps", stamped, func(View) {}, nowMs, 0, true},
		{"the producer stamped", plain, both(setBits(logAppendTimeBit), set64(posMaxTimestamp, nowMs-7)), nowMs - 7, 0, true},
	}
	for _, codec := range allCodecs {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%v/%s", codec, tt.name), func(t *testing.T) {
				v := build(t, c, BuilderOptions{Codec: codec, Transactional: true, Producer: &Producer{ID: 1}}, three()...)
				tt.change(v)
				resealed(v)
				sent := slices.Clone(v)
				got, err := Validate(c, v, tt.o)
				if err != nil {
					t.Fatal(err)
				}
				if got.Rebuilt || &got.Batch[0] != &v[0] || bytes.Equal(got.Batch, sent) == tt.changed {
					t.Errorf("rebuilt %t, changed %t", got.Rebuilt, !bytes.Equal(got.Batch, sent))
				}
				if got.MaxTimestampMs != tt.max || got.Batch.MaxTimestamp() != tt.max || got.OffsetOfMaxTimestamp != tt.offset {
					t.Errorf("max timestamp %d (header %d) at %d", got.MaxTimestampMs, got.Batch.MaxTimestamp(), got.OffsetOfMaxTimestamp)
				}
				if got.Batch.IsLogAppendTime() != tt.o.LogAppendTime || !got.Batch.IsTransactional() || got.Batch.Codec() != codec {
					t.Errorf("attributes %#x", got.Batch.Attributes())
				}
				if err := got.Batch.Check(); err != nil || got.RecordCount != 3 {
					t.Errorf("%v, %d records", err, got.RecordCount)
				}
			})
		}
	}
}

func TestTimestampsBelowNoneLeaveNoMaximum(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	for _, ts := range []int64{-1, -5} {
		got, err := Validate(c, New(BuilderOptions{}, NewRecord{TimestampMs: ts}), topicDefaults())
		if err != nil || got.MaxTimestampMs != -1 || got.OffsetOfMaxTimestamp != -1 {
			t.Errorf("%d: %d at %d, %v", ts, got.MaxTimestampMs, got.OffsetOfMaxTimestamp, err)
		}
	}
}

func TestUnusedAttributesGoOnlyWhenTheHeaderIsPatched(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	v := New(BuilderOptions{}, three()...)
	setBits(0x5580)(v)
	got, err := Validate(c, resealed(v), topicDefaults())
	if err != nil || got.Batch.Attributes() != 0x5580 {
		t.Errorf("untouched: %#x, %v", got.Batch.Attributes(), err)
	}
	setBits(deleteHorizonBit)(v)
	set64(posMaxTimestamp, 0)(v)
	got, err = Validate(c, resealed(v), topicDefaults())
	if err != nil || got.Batch.Attributes() != deleteHorizonBit {
		t.Errorf("patched: %#x, %v", got.Batch.Attributes(), err)
	}
}

// jumbled has offset deltas 5 and 9.
func jumbled(t *testing.T, c *Codecs, codec Codec) View {
	b := NewBuilder(BuilderOptions{Codec: codec})
	b.AppendAt(5, NewRecord{TimestampMs: nowMs})
	b.AppendAt(9, NewRecord{TimestampMs: nowMs + 1})
	v, err := b.Build(c)
	if err != nil {
		t.Fatal(err)
	}
	set32(posLastOffsetDelta, 1)(v)
	return resealed(v)
}

func TestOffsetsThatAreNotConsecutive(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	tests := []struct {
		name   string
		codec  Codec
		o      ValidateOptions
		want   error
		deltas []int32
		ofMax  int64
	}{
		{"uncompressed stays", None, topicDefaults(), nil, []int32{5, 9}, 9},
		{"uncompressed to uncompressed stays", None, recodeTo(None), nil, []int32{5, 9}, 9},
		{"compressed is refused", Gzip, topicDefaults(), kafkaerr.UnknownServerError, nil, 0},
		{"compressed to the same is refused", Gzip, recodeTo(Gzip), kafkaerr.UnknownServerError, nil, 0},
		{"to another codec is rebuilt", Gzip, recodeTo(LZ4), nil, []int32{0, 1}, 1},
		{"to compressed is rebuilt", None, recodeTo(Zstd), nil, []int32{0, 1}, 1},
		{"to uncompressed is rebuilt", Snappy, recodeTo(None), nil, []int32{0, 1}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Validate(c, jumbled(t, c, tt.codec), tt.o)
			if !errors.Is(err, tt.want) {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			var deltas []int32
			err = Iterate(got.Batch, c, func(r Record) error {
				deltas = append(deltas, r.OffsetDelta)
				return nil
			})
			if err != nil || !slices.Equal(deltas, tt.deltas) || got.OffsetOfMaxTimestamp != tt.ofMax {
				t.Errorf("deltas %v, largest timestamp at %d, %v", deltas, got.OffsetOfMaxTimestamp, err)
			}
		})
	}
}

// TestRebuiltHeaders: what a rebuilt batch keeps and what it loses.
func TestRebuiltHeaders(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	v := build(t, c, BuilderOptions{Transactional: true, Producer: &Producer{ID: 8, Epoch: 2, BaseSequence: 40}, LeaderEpoch: 3}, three()...)
	setBits(deleteHorizonBit | 0x5500)(v)
	set64(posMaxTimestamp, 1)(v)
	for _, stamped := range []bool{false, true} {
		o := recodeTo(Zstd)
		o.LogAppendTime = stamped
		got, err := Validate(c, resealed(slices.Clone(v)), o)
		if err != nil {
			t.Fatal(err)
		}
		b, maxTimestamp, attributes := got.Batch, nowMs+2, int16(transactionalBit)|int16(Zstd)
		if stamped {
			maxTimestamp, attributes = nowMs, attributes|logAppendTimeBit
		}
		if b.Check() != nil || !got.Rebuilt || b.Attributes() != attributes || b.ProducerID() != 8 || b.ProducerEpoch() != 2 ||
			b.BaseSequence() != 40 || b.LeaderEpoch() != 3 || b.BaseOffset() != 0 || b.LastOffsetDelta() != 2 ||
			b.RecordCount() != 3 || b.BaseTimestamp() != nowMs || b.MaxTimestamp() != maxTimestamp {
			t.Errorf("stamped %t: %x", stamped, b[:HeaderSize])
		}
	}
}

// TestWhatCannotBeRebuilt: batches that may stay in place but not be recoded.
func TestWhatCannotBeRebuilt(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	tests := map[string]struct {
		records []NewRecord
		change  func(View)
	}{
		"timestamp below none":         {[]NewRecord{{TimestampMs: nowMs}, {TimestampMs: -5}}, func(View) {}},
		"transaction without producer": {three(), setBits(transactionalBit)},
		"producer without epoch":       {three(), producer(5, -1, 0)},
		"producer -2":                  {three(), producer(-2, 0, -1)},
	}
	for name, tt := range tests {
		v := New(BuilderOptions{}, tt.records...)
		tt.change(v)
		resealed(v)
		if _, err := Validate(c, slices.Clone(v), topicDefaults()); err != nil {
			t.Errorf("%s: in place: %v", name, err)
		}
		if _, err := Validate(c, v, recodeTo(Gzip)); !errors.Is(err, kafkaerr.UnknownServerError) {
			t.Errorf("%s: recoded: %v", name, err)
		}
	}
}

// TestRebuildWritesHeadersAnew: a null with another negative length becomes -1, and a
// record's unused attributes become 0.
func TestRebuildWritesHeadersAnew(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	payload := rec(9, 0x7f, 0, 0, 3, 5, 2, 2, 'h', 9) // key -2, value -3, header value -5
	got, err := Validate(c, batchOf(None, 1, payload), func() ValidateOptions {
		o := recodeTo(None)
		o.Compression.Codec = Gzip
		return o
	}())
	if err != nil {
		t.Fatal(err)
	}
	back, err := Validate(c, got.Batch, recodeTo(None))
	if want := rec(9, 0, 0, 0, 1, 1, 2, 2, 'h', 1); err != nil || !bytes.Equal(back.Batch.Records(), want) {
		t.Errorf("%x, want %x, %v", back.Batch.Records(), want, err)
	}
}

// TestRebuildingABombStopsAtTheLimit: no more is written than max.message.bytes.
func TestRebuildingABombStopsAtTheLimit(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	records := make([]NewRecord, 4000)
	for i := range records {
		records[i] = NewRecord{TimestampMs: nowMs, Value: make([]byte, 10_000)}
	}
	v := build(t, c, BuilderOptions{Codec: Zstd}, records...)
	if _, err := Validate(c, v, recodeTo(None)); !errors.Is(err, kafkaerr.MessageTooLarge) {
		t.Error(err)
	}
}

func TestCoordinatorsMayWriteControlRecords(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	o := topicDefaults()
	o.Coordinator, o.RequestVersion = true, 0
	o.Compression = Compression{Recode: true, Codec: Gzip} // control records stay uncompressed
	v := NewEndTxnMarker(nowMs, 7, 1, EndTxnMarker{Type: ControlCommit, CoordinatorEpoch: 12})
	v.SetBaseOffset(55)
	got, err := Validate(c, v, o)
	if err != nil || got.Rebuilt || got.Batch.Codec() != None || !got.Batch.IsControl() {
		t.Fatalf("%+v, %v", got, err)
	}
	o.Coordinator = false
	if _, err := Validate(c, v, o); !errors.Is(err, kafkaerr.InvalidRecord) {
		t.Errorf("from a client: %v", err)
	}
}

func TestCoordinatorsBatchesAreStillChecked(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	o := topicDefaults()
	o.Coordinator = true
	good := New(BuilderOptions{}, three()...)
	for name, tt := range map[string]struct {
		records []byte
		want    error
	}{
		"nothing":   {nil, kafkaerr.InvalidRecord},
		"two":       {append(slices.Clone(good), good...), kafkaerr.InvalidRecord},
		"wrong CRC": {func() []byte { b := slices.Clone(good); b[posCRC]++; return b }(), kafkaerr.CorruptMessage},
		"zeros":     {append(slices.Clone(good), make([]byte, 20)...), kafkaerr.CorruptMessage},
	} {
		if _, err := Validate(c, tt.records, o); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
