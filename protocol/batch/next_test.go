package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

func TestNextCutsBatchesOffInOrder(t *testing.T) {
	a := New(BuilderOptions{BaseOffset: 1}, plainRecords(3, 2)...)
	b := New(BuilderOptions{BaseOffset: 4}, plainRecords(1, 2)...)
	v, rest, err := Next(slices.Concat(a, b))
	if err != nil || !bytes.Equal(v, a) || !bytes.Equal(rest, b) || cap(v) != len(a) {
		t.Fatalf("first: %d bytes (cap %d), %d left, %v", len(v), cap(v), len(rest), err)
	}
	v, rest, err = Next(rest)
	if err != nil || !bytes.Equal(v, b) || len(rest) != 0 {
		t.Fatalf("second: %d bytes, %d left, %v", len(v), len(rest), err)
	}
	if _, _, err = Next(rest); !errors.Is(err, io.EOF) {
		t.Fatalf("at the end: %v", err)
	}
}

func TestNextOfACutBatch(t *testing.T) {
	whole := New(BuilderOptions{}, plainRecords(2, 30)...)
	for n := 1; n < len(whole); n++ {
		v, rest, err := Next(whole[:n])
		if !errors.Is(err, io.ErrUnexpectedEOF) || v != nil || len(rest) != n {
			t.Fatalf("%d of %d bytes: view of %d, %d left, %v", n, len(whole), len(v), len(rest), err)
		}
	}
}

func TestNextOfAnImpossibleHeader(t *testing.T) {
	length := func(n int32) func(View) {
		return func(v View) { binary.BigEndian.PutUint32(v[posLength:], uint32(n)) }
	}
	magic := func(m int8) func(View) { return func(v View) { v[posMagic] = byte(m) } }
	tests := map[string]struct {
		change func(View)
		size   int // given to Next, 0 = all
		want   error
	}{
		"length 0":                 {change: length(0), want: kafkaerr.CorruptMessage},
		"length -1":                {change: length(-1), want: kafkaerr.CorruptMessage},
		"length below a header":    {change: length(HeaderSize - PrefixSize - 1), want: kafkaerr.CorruptMessage},
		"length seen in a prefix":  {change: length(3), size: PrefixSize, want: kafkaerr.CorruptMessage},
		"length unseen":            {change: length(3), size: PrefixSize - 1, want: io.ErrUnexpectedEOF},
		"length beyond the buffer": {change: length(1 << 20), want: io.ErrUnexpectedEOF},
		"greatest length":          {change: length(1<<31 - 1), want: io.ErrUnexpectedEOF},
		"magic 0":                  {change: magic(0), want: kafkaerr.CorruptMessage},
		"magic 1":                  {change: magic(1), want: kafkaerr.CorruptMessage},
		"magic 3":                  {change: magic(3), want: kafkaerr.CorruptMessage},
		"magic -1 in a short one":  {change: magic(-1), size: posMagic + 1, want: kafkaerr.CorruptMessage},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := New(BuilderOptions{}, plainRecords(2, 30)...)
			tt.change(v)
			if tt.size == 0 {
				tt.size = len(v)
			}
			got, rest, err := Next(v[:tt.size])
			if !errors.Is(err, tt.want) || got != nil || len(rest) != tt.size {
				t.Errorf("view of %d, %d left, %v; want %v", len(got), len(rest), err, tt.want)
			}
		})
	}
}

func TestCheckFindsEveryFlippedBit(t *testing.T) {
	good := New(BuilderOptions{BaseOffset: 3, LeaderEpoch: 4}, plainRecords(2, 10)...)
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		for bit := range 8 {
			v := slices.Clone(good)
			v[i] ^= 1 << bit
			outside := i < posLength || i >= posLeaderEpoch && i < posMagic
			if err := v.Check(); outside != (err == nil) || !outside && !errors.Is(err, kafkaerr.CorruptMessage) {
				t.Fatalf("byte %d bit %d: %v", i, bit, err)
			}
		}
	}
}

func TestCheckOfAViewOfAnotherSize(t *testing.T) {
	v := New(BuilderOptions{}, plainRecords(2, 10)...)
	for _, bad := range []View{nil, v[:HeaderSize-1], v[:len(v)-1], append(slices.Clone(v), 0)} {
		if err := bad.Check(); !errors.Is(err, kafkaerr.CorruptMessage) {
			t.Errorf("%d of %d bytes: %v", len(bad), len(v), err)
		}
	}
}

func TestOffsetAndEpochMayBePatchedWithoutCRC(t *testing.T) {
	v := New(BuilderOptions{}, plainRecords(3, 10)...)
	v.SetBaseOffset(1 << 40)
	v.SetLeaderEpoch(77)
	if err := v.Check(); err != nil || v.BaseOffset() != 1<<40 || v.LeaderEpoch() != 77 ||
		v.LastOffset() != 1<<40+2 || v.NextOffset() != 1<<40+3 {
		t.Errorf("%v: offsets %d to %d, epoch %d", err, v.BaseOffset(), v.LastOffset(), v.LeaderEpoch())
	}
}

func TestSequencesWrap(t *testing.T) {
	for _, tt := range []struct{ seq, n, want int32 }{{0, 5, 5}, {1<<31 - 1, 1, 0}, {1<<31 - 2, 4, 2}} {
		if got := IncrementSequence(tt.seq, tt.n); got != tt.want {
			t.Errorf("%d + %d = %d, want %d", tt.seq, tt.n, got, tt.want)
		}
	}
}

// TestReadingDoesNotAllocate is the budget of the walk that validation, recovery and
// followers make over every batch.
func TestReadingDoesNotAllocate(t *testing.T) {
	buf := []byte(New(BuilderOptions{}, plainRecords(50, 40)...))
	sum := 0
	got := testing.AllocsPerRun(100, func() {
		v, _, err := Next(buf)
		if err != nil || v.Check() != nil {
			t.Fatal("bad batch")
		}
		it := NewIterator(v, nil)
		for it.Next() {
			sum += len(it.Record.Value)
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		it.Close()
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestValidatingInPlaceDoesNotAllocate(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	v := New(BuilderOptions{}, plainRecords(50, 40)...)
	o := permissive()
	if got := testing.AllocsPerRun(100, func() { _, _ = Validate(c, v, o) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestVarintLengths(t *testing.T) {
	for _, n := range []int64{0, -1, 1, 63, 64, -64, -65, 8191, 8192, 1<<31 - 1, -1 << 31, 1<<63 - 1, -1 << 63} {
		b := appendVarint(nil, n)
		if got, used := varlong(b); got != n || used != len(b) || varintLen(n) != len(b) {
			t.Errorf("%d: varlong %d of %d bytes, varintLen %d", n, got, used, varintLen(n))
		}
		if int64(int32(n)) != n {
			continue
		}
		if got, used := varint(b); got != int32(n) || used != len(b) {
			t.Errorf("%d: varint %d of %d bytes", n, got, used)
		}
	}
}

func TestVarintsCutShortOrTooLong(t *testing.T) {
	long := bytes.Repeat([]byte{0x80}, 20)
	for n := range 20 {
		if _, used := varint(long[:n]); n < maxVarintLen && used != 0 || n >= maxVarintLen && used >= 0 {
			t.Errorf("varint of %d continued bytes: %d", n, used)
		}
		if _, used := varlong(long[:n]); n < maxVarlongLen && used != 0 || n >= maxVarlongLen && used >= 0 {
			t.Errorf("varlong of %d continued bytes: %d", n, used)
		}
	}
	if v, used := varint([]byte{0x82, 0x80, 0x80, 0x80, 0x70}); v != 1 || used != 5 {
		t.Errorf("surplus bits of the fifth byte: %d of %d", v, used)
	}
}
