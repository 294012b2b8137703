package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// batchOf makes a batch of count records out of any payload.
func batchOf(codec Codec, count int32, payload []byte) View {
	v := slices.Concat(New(BuilderOptions{}, NewRecord{TimestampMs: 1000})[:HeaderSize], payload)
	v[posAttributes+1] = byte(codec)
	binary.BigEndian.PutUint32(v[posRecordCount:], uint32(count))
	binary.BigEndian.PutUint32(v[posLastOffsetDelta:], uint32(count-1))
	return resized(v)
}

// resized makes length and CRC right.
func resized(v View) View {
	binary.BigEndian.PutUint32(v[posLength:], uint32(len(v)-PrefixSize))
	return resealed(v)
}

// resealed makes the CRC right.
func resealed(v View) View {
	binary.BigEndian.PutUint32(v[posCRC:], v.ComputeCRC())
	return v
}

// payloadOf is the encoded records, not compressed.
func payloadOf(records ...NewRecord) []byte { return New(BuilderOptions{}, records...).Records() }

func compressed(t testing.TB, c *Codecs, codec Codec, payload []byte) []byte {
	t.Helper()
	if codec == None {
		return payload
	}
	b, err := c.Compress(nil, codec, 0, payload)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// walkAll reads every record in both ways, which must agree on the error's kind.
func walkAll(t testing.TB, c *Codecs, v View) error {
	t.Helper()
	drain := func(it Iterator) (int, error) {
		defer it.Close()
		n := 0
		for it.Next() {
			n++
		}
		return n, it.Err()
	}
	// Skimming first: reading whole leaves a larger window behind in the pool.
	m, skimErr := drain(NewSkimmer(v, c))
	n, err := drain(NewIterator(v, c))
	if n != m || kafkaerr.Code(err) != kafkaerr.Code(skimErr) {
		t.Errorf("%d records, %v; skimming gives %d, %v", n, err, m, skimErr)
	}
	return err
}

// rec is a record with the given length field and body.
func rec(size int64, body ...byte) []byte { return append(binary.AppendVarint(nil, size), body...) }

func TestRecordsThatAreNone(t *testing.T) {
	tests := map[string][]byte{
		"no bytes":               {},
		"length negative":        rec(-5),
		"length zero":            rec(0),
		"length cut":             {0x80},
		"length beyond":          rec(50, 0, 0, 0),
		"length huge":            rec(1<<31-1, 0, 0, 0),
		"length one short":       rec(5, 0, 0, 0, 1, 1, 0),
		"length one long":        rec(7, 0, 0, 0, 1, 1, 0, 0),
		"no header count":        rec(5, 0, 0, 0, 1, 1),
		"negative header count":  rec(6, 0, 0, 0, 1, 1, 1),
		"header count too large": rec(6, 0, 0, 0, 1, 1, 10),
		"header with null key":   rec(8, 0, 0, 0, 1, 1, 2, 1, 1),
		"header cut":             rec(8, 0, 0, 0, 1, 1, 2, 0, 8),
		"key beyond":             rec(6, 0, 0, 0, 20, 1, 0),
		"value beyond":           rec(6, 0, 0, 0, 1, 20, 0),
		"timestamp too long":     rec(16, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0, 1, 1, 0),
		"offset too long":        rec(11, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1, 1, 0),
		"two for one":            slices.Concat(rec(6, 0, 0, 0, 1, 1, 0), rec(6, 0, 0, 2, 1, 1, 0)),
		"one byte more":          slices.Concat(rec(6, 0, 0, 0, 1, 1, 0), []byte{0}),
	}
	c := NewCodecs(CodecsOptions{})
	for name, payload := range tests {
		for _, codec := range allCodecs {
			v := batchOf(codec, 1, compressed(t, c, codec, payload))
			if err := walkAll(t, c, v); !errors.Is(err, kafkaerr.InvalidRecord) {
				t.Errorf("%s, %v: %v", name, codec, err)
			}
		}
	}
}

// TestLargeRecordsThatAreNone puts a value above the window in front, so that skimming
// passes over the record piece by piece.
func TestLargeRecordsThatAreNone(t *testing.T) {
	value := bytes.Repeat([]byte{7}, 5*streamWindow)
	body := func(tail ...byte) []byte {
		b := binary.AppendVarint([]byte{0, 0, 0, 1}, int64(len(value)))
		return slices.Concat(b, value, tail)
	}
	sized := func(b []byte, more int64) []byte { return rec(int64(len(b))+more, b...) }
	tests := map[string]struct {
		payload []byte
		want    error
	}{
		"good":                  {sized(body(0), 0), nil},
		"good with a header":    {sized(body(2, 2, 'a', 1), 0), nil},
		"length one short":      {sized(body(0), -1), kafkaerr.InvalidRecord},
		"length one long":       {append(sized(body(0), 1), 0), kafkaerr.InvalidRecord},
		"length beyond":         {sized(body(0), 1000), kafkaerr.InvalidRecord},
		"ends within":           {sized(body(), -5000)[:4*streamWindow], kafkaerr.InvalidRecord},
		"cut":                   {sized(body(0), 0)[:4*streamWindow], kafkaerr.InvalidRecord},
		"value beyond":          {rec(6*streamWindow, append([]byte{0, 0, 0, 1, 0xfe, 0xff, 0x7f}, value...)...), kafkaerr.InvalidRecord},
		"header with null key":  {sized(body(2, 1, 1), 0), kafkaerr.InvalidRecord},
		"negative header count": {sized(body(1), 0), kafkaerr.InvalidRecord},
		"too many headers":      {sized(body(100), 0), kafkaerr.InvalidRecord},
		"offset too long":       {sized(append([]byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, value...), 0), kafkaerr.InvalidRecord},
		"timestamp too long":    {sized(append([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, value...), 0), kafkaerr.InvalidRecord},
		"only a length":         {rec(5 * streamWindow), kafkaerr.InvalidRecord},
		"only attributes":       {rec(5*streamWindow, 0), kafkaerr.InvalidRecord},
		"ends in a number":      {rec(5*streamWindow, 0, 0x80), kafkaerr.InvalidRecord},
		"header value beyond":   {sized(body(2, 2, 'a', 100), 0), kafkaerr.InvalidRecord},
	}
	for name, tt := range tests {
		for _, codec := range allCodecs {
			c := NewCodecs(CodecsOptions{})
			v := batchOf(codec, 1, compressed(t, c, codec, tt.payload))
			if err := walkAll(t, c, v); !errors.Is(err, tt.want) {
				t.Errorf("%s, %v: %v", name, codec, err)
			}
		}
	}
}

func TestSkimmerKnowsWhatItLeavesOut(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	big := bytes.Repeat([]byte("v"), 3*streamWindow)
	records := []NewRecord{
		{TimestampMs: 10, Key: big, Headers: []Header{{Key: "h", Value: big}}},
		{TimestampMs: 30, Value: big},
		{TimestampMs: 20, Key: []byte("k"), Value: []byte("v")},
	}
	for _, codec := range allCodecs {
		v := build(t, c, BuilderOptions{BaseOffset: 5, Codec: codec}, records...)
		it := NewSkimmer(v, c)
		for it.Next() {
			r, want := &it.Record, records[it.Index()]
			if r.Offset != 5+int64(it.Index()) || r.Timestamp != want.TimestampMs || r.OffsetDelta != it.Index() ||
				r.HasKey != (want.Key != nil) || r.HasValue != (want.Value != nil) {
				t.Errorf("%v: record %d is %+v", codec, it.Index(), r)
			}
		}
		if it.Err() != nil || it.Index() != 2 {
			t.Errorf("%v: stopped at %d: %v", codec, it.Index(), it.Err())
		}
		it.Close()
		it.Close()
	}
}

func TestRecordCountsThatLie(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	for _, codec := range allCodecs {
		payload := compressed(t, c, codec, payloadOf(plainRecords(3, 4)...))
		for count, want := range map[int32]error{
			3: nil, 2: kafkaerr.InvalidRecord, 4: kafkaerr.InvalidRecord, -1: kafkaerr.InvalidRecord,
			1<<31 - 1: kafkaerr.InvalidRecord, 0: nil, // no records, nobody looks at the payload
		} {
			if err := walkAll(t, c, batchOf(codec, count, payload)); !errors.Is(err, want) {
				t.Errorf("%v, 3 records, count %d: %v", codec, count, err)
			}
		}
	}
}

func TestIterateStopsWithTheCallersError(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	stop := errors.New("enough")
	for _, codec := range allCodecs {
		n := 0
		err := Iterate(build(t, c, BuilderOptions{Codec: codec}, plainRecords(5, 4)...), c, func(Record) error {
			n++
			if n == 2 {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) || n != 2 {
			t.Errorf("%v: %v after %d", codec, err, n)
		}
	}
}

func TestLogAppendTimeStandsForEveryRecord(t *testing.T) {
	v := New(BuilderOptions{LogAppendTime: true, AppendTimeMs: 777}, plainRecords(3, 4)...)
	err := Iterate(v, nil, func(r Record) error {
		if r.Timestamp != 777 {
			t.Errorf("record at %d has timestamp %d", r.Offset, r.Timestamp)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestWhatMayFollowOrPrecedeCompressedData holds each decoder to Kafka 4.4's answers.
func TestWhatMayFollowOrPrecedeCompressedData(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	record := payloadOf(NewRecord{TimestampMs: 1000, Key: []byte("kk"), Value: []byte("vv")})
	z := func(codec Codec) []byte { return compressed(t, c, codec, record) }
	empty := func(codec Codec) []byte { return compressed(t, c, codec, nil) }
	garbage := bytes.Repeat([]byte{9}, 100)
	unknown, invalid := error(kafkaerr.UnknownServerError), error(kafkaerr.InvalidRecord)
	tests := []struct {
		name    string
		codec   Codec
		payload []byte
		want    error
	}{
		{"garbage behind", Gzip, append(z(Gzip), garbage...), nil},
		{"garbage behind", Snappy, append(z(Snappy), garbage...), unknown},
		{"garbage behind", LZ4, append(z(LZ4), garbage...), nil},
		{"garbage behind", Zstd, append(z(Zstd), garbage...), unknown},
		{"three bytes behind", Gzip, append(z(Gzip), 9, 9, 9), nil},
		{"three bytes behind", Snappy, append(z(Snappy), 9, 9, 9), nil},
		{"three bytes behind", LZ4, append(z(LZ4), 9, 9, 9), nil},
		{"twice", Gzip, append(z(Gzip), z(Gzip)...), invalid},
		{"twice", Snappy, append(z(Snappy), z(Snappy)...), invalid},
		{"twice", LZ4, append(z(LZ4), z(LZ4)...), nil},
		{"twice", Zstd, append(z(Zstd), z(Zstd)...), invalid},
		{"empty first", Gzip, append(empty(Gzip), z(Gzip)...), nil},
		{"empty first", Snappy, append(empty(Snappy), z(Snappy)...), nil},
		{"empty first", LZ4, append(empty(LZ4), z(LZ4)...), invalid},
		{"empty behind", Gzip, append(z(Gzip), empty(Gzip)...), nil},
		{"empty behind", Snappy, append(z(Snappy), empty(Snappy)...), nil},
		{"empty behind", Zstd, append(z(Zstd), empty(Zstd)...), nil},
		{"nothing", Gzip, nil, unknown},
		{"nothing", Snappy, nil, unknown},
		{"nothing", LZ4, nil, unknown},
		{"nothing", Zstd, nil, invalid},
		{"plain bytes", Gzip, record, unknown},
		{"plain bytes", Snappy, record, unknown},
		{"plain bytes", LZ4, record, unknown},
		{"plain bytes", Zstd, record, unknown},
		{"one byte cut", Gzip, cutBy(z(Gzip), 1), unknown},
		{"one byte cut", Snappy, cutBy(z(Snappy), 1), unknown},
		{"one byte cut", LZ4, cutBy(z(LZ4), 1), unknown},
		{"one byte cut", Zstd, cutBy(z(Zstd), 1), unknown},
		{"codec 5", 5, record, unknown},
		{"codec 7", 7, record, unknown},
		{"bare block", Snappy, s2.EncodeSnappy(nil, record), nil},
		{"bare block and more", Snappy, append(s2.EncodeSnappy(nil, record), 1, 2, 3), unknown},
		{"lying length", Snappy, []byte{0xff, 0xff, 0xff, 0xff, 0x07, 0}, unknown},
		{"version 0", Snappy, func() []byte { b := z(Snappy); b[11] = 0; return b }(), nil},
		{"block length cut", Snappy, append(z(Snappy), 0, 0), nil},
		{"block of nothing", Snappy, append(z(Snappy), 0, 0, 0, 0), unknown},
		{"block beyond", Snappy, append(z(Snappy), 0, 0, 0, 5, 1), unknown},
		{"block length negative", Snappy, append(z(Snappy), 0xff, 0, 0, 5, 1), unknown},
		{"second header cut", Snappy, append(z(Snappy), xerialMagic...), unknown},
		{"skippable frame first", Zstd, append([]byte{0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 7}, z(Zstd)...), nil},
	}
	for _, tt := range tests {
		t.Run(tt.codec.String()+"/"+tt.name, func(t *testing.T) {
			if err := walkAll(t, c, batchOf(tt.codec, 1, tt.payload)); !errors.Is(err, tt.want) {
				t.Error(err)
			}
		})
	}
}

func cutBy(b []byte, n int) []byte { return b[:len(b)-n] }

func TestLZ4FrameOptions(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	record := payloadOf(NewRecord{Value: bytes.Repeat([]byte("value "), 50_000)})
	frame := func(opts ...lz4.Option) []byte {
		var b bytes.Buffer
		w := lz4.NewWriter(&b)
		if err := errors.Join(w.Apply(opts...), write(w, record)); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	changed := func(b []byte, at int, f func(byte) byte) []byte {
		if at < 0 {
			at += len(b)
		}
		b[at] = f(b[at])
		return b
	}
	inc := func(b byte) byte { return b + 1 }
	unknown := error(kafkaerr.UnknownServerError)
	plain := func() []byte { return frame(lz4.ChecksumOption(false)) }
	tests := map[string]struct {
		payload []byte
		want    error
	}{
		"content checksum":              {frame(lz4.ChecksumOption(true)), nil},
		"content checksum, wrong":       {changed(frame(lz4.ChecksumOption(true)), -1, inc), nil},
		"content checksum, cut":         {cutBy(frame(lz4.ChecksumOption(true)), 2), unknown},
		"block checksum":                {frame(lz4.BlockChecksumOption(true)), nil},
		"block checksum, wrong":         {changed(frame(lz4.BlockChecksumOption(true), lz4.ChecksumOption(false)), -5, inc), unknown},
		"content size":                  {frame(lz4.SizeOption(uint64(len(record)))), nil},
		"4 MiB blocks":                  {frame(lz4.BlockSizeOption(lz4.Block4Mb)), nil},
		"256 KiB blocks, deep":          {frame(lz4.BlockSizeOption(lz4.Block256Kb), lz4.CompressionLevelOption(lz4.Level9)), nil},
		"descriptor checksum, wrong":    {changed(plain(), 6, inc), unknown},
		"dependent blocks":              {changed(plain(), 4, func(b byte) byte { return b &^ lz4Independent }), unknown},
		"version 2":                     {changed(plain(), 4, func(b byte) byte { return b&^lz4VersionMask | 2<<6 }), unknown},
		"reserved flag":                 {changed(plain(), 4, func(b byte) byte { return b | 1 }), unknown},
		"block size 3":                  {changed(plain(), 5, func(byte) byte { return 3 << 4 }), unknown},
		"reserved bit of block size":    {changed(plain(), 5, inc), unknown},
		"header cut":                    {plain()[:5], unknown},
		"descriptor cut":                {plain()[:6], unknown},
		"block larger than the frame's": {append([]byte(lz4FrameHeader), 1, 0, 1, 0), unknown},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if err := walkAll(t, c, batchOf(LZ4, 1, tt.payload)); !errors.Is(err, tt.want) {
				t.Error(err)
			}
		})
	}
}

func write(w io.WriteCloser, b []byte) error {
	_, err := w.Write(b)
	return errors.Join(err, w.Close())
}

func TestXXH32(t *testing.T) {
	for in, want := range map[string]uint32{
		"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff,
		"Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := xxh32([]byte(in)); got != want {
			t.Errorf("%q: %08x, want %08x", in, got, want)
		}
	}
}

// TestZstdWindows: what needs a large window is decoded, one at a time; what libzstd
// refuses is refused.
func TestZstdWindows(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	record := payloadOf(NewRecord{Key: []byte("k"), Value: []byte("value")})
	for window, want := range map[int]error{8 << 20: nil, 16 << 20: nil, 128 << 20: nil, 256 << 20: kafkaerr.UnknownServerError} {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithWindowSize(window), zstd.WithSingleSegment(false), zstd.WithLowerEncoderMem(true))
		if err != nil {
			t.Fatal(err)
		}
		// Without a flush in between the encoder knows the size and shrinks the window.
		_, err = w.Write(record[:3])
		if err := errors.Join(err, w.Flush(), write(w, record[3:])); err != nil {
			t.Fatal(err)
		}
		if err := walkAll(t, c, batchOf(Zstd, 1, b.Bytes())); !errors.Is(err, want) {
			t.Errorf("window of %d MiB: %v", window>>20, err)
		}
	}
}

func TestLargeZstdWindowsAreDecodedByOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCodecs(CodecsOptions{})
		v := batchOf(Zstd, 1, wideZstd(t))
		first := NewIterator(v, c)
		first.Next()
		var second error
		finished := false
		go func() {
			second = walkAll(t, c, v)
			finished = true
		}()
		synctest.Wait()
		if finished {
			t.Fatal("two large decoders at once")
		}
		first.Close()
		synctest.Wait()
		if !finished || second != nil || len(c.bigWindow) != 0 {
			t.Errorf("finished %t, %v, %d tokens out", finished, second, len(c.bigWindow))
		}
	})
}

func wideZstd(t *testing.T) []byte {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(16<<20), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	record := payloadOf(NewRecord{Key: []byte("k"), Value: []byte("value")})
	_, err = w.Write(record[:3])
	if err := errors.Join(err, w.Flush(), write(w, record[3:])); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// bomb is a few KiB that decode to one record of size bytes.
func bomb(t testing.TB, c *Codecs, codec Codec, size int) View {
	return build(t, c, BuilderOptions{Codec: codec}, NewRecord{Value: make([]byte, size)})
}

func TestBombs(t *testing.T) {
	plenty := NewCodecs(CodecsOptions{})
	const size = 4 << 20
	for _, codec := range allCodecs[1:] {
		v := bomb(t, plenty, codec, size)
		for name, tt := range map[string]struct {
			o          CodecsOptions
			skim, read error
		}{
			"within the limits":      {CodecsOptions{}, nil, nil},
			"above the batch limit":  {CodecsOptions{MaxBatchBytes: size}, kafkaerr.MessageTooLarge, kafkaerr.MessageTooLarge},
			"above the record limit": {CodecsOptions{MaxRecordBytes: size}, nil, kafkaerr.MessageTooLarge},
		} {
			t.Run(fmt.Sprintf("%v/%s", codec, name), func(t *testing.T) {
				c := NewCodecs(tt.o)
				for what, want := range map[string]error{"skim": tt.skim, "read": tt.read} {
					it := newIterator(v, c, what == "read")
					for it.Next() {
					}
					it.Close()
					if !errors.Is(it.Err(), want) {
						t.Errorf("%s: %v", what, it.Err())
					}
				}
			})
		}
	}
}

// TestSkimmingABombTakesLittleMemory counts every byte allocated on the way.
func TestSkimmingABombTakesLittleMemory(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	for _, codec := range allCodecs[1:] {
		v := bomb(t, c, codec, 32<<20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		it := NewSkimmer(v, c)
		for it.Next() {
		}
		it.Close()
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; it.Err() != nil || used > 12<<20 {
			t.Errorf("%v: %d KiB for 32 MiB, %v", codec, used>>10, it.Err())
		}
	}
}

// TestALyingRecordLengthTakesLittleMemory: a window grows with what has come, not with
// what is promised.
func TestALyingRecordLengthTakesLittleMemory(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	v := batchOf(Gzip, 1, compressed(t, c, Gzip, rec(60<<20, make([]byte, 2*streamWindow)...)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := Iterate(v, c, func(Record) error { return nil })
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, kafkaerr.InvalidRecord) || used > 1<<20 {
		t.Errorf("%d KiB, %v", used>>10, err)
	}
}

// TestCodecsAreShared: many goroutines, one set of pools.
func TestCodecsAreShared(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	records := plainRecords(20, 300)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			o := permissive()
			o.Compression = Compression{Recode: true, Codec: allCodecs[i%5]}
			got, err := Validate(c, New(BuilderOptions{}, records...), o)
			if err != nil {
				t.Error(err)
				return
			}
			if err := walkAll(t, c, got.Batch); err != nil || got.RecordCount != 20 {
				t.Errorf("%d records, %v", got.RecordCount, err)
			}
		})
	}
	wg.Wait()
}

func TestCompressedBatchWithoutCodecsIsAnError(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	for _, codec := range allCodecs[1:] {
		v := build(t, c, BuilderOptions{Codec: codec}, plainRecords(2, 4)...)
		if err := walkAll(t, nil, v); !errors.Is(err, kafkaerr.UnknownServerError) {
			t.Errorf("%v: %v", codec, err)
		}
	}
}
