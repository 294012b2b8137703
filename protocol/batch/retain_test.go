package batch

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

func keepOnly(indexes ...int32) func(int32) bool {
	return func(i int32) bool { return slices.Contains(indexes, i) }
}

// sparse is a batch at offset 100 whose records are at deltas 0, 3 and 6 of 0 to 9.
func sparse(t testing.TB, c *Codecs, o BuilderOptions) View {
	t.Helper()
	o.BaseOffset, o.LastOffsetDelta, o.LeaderEpoch = 100, 9, 6
	b := NewBuilder(o)
	for i, r := range three() {
		r.Headers = []Header{{Key: "h", Value: []byte{byte(i)}}, {Key: "null"}}
		b.AppendAt(int32(3*i), r)
	}
	v, err := b.Build(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestRetainKeepsWhatABatchIs: whatever of it goes, a batch keeps its place, its range, its
// producer, its codec and its kind of timestamps; its records keep all they have.
func TestRetainKeepsWhatABatchIs(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	kinds := []struct {
		name string
		o    BuilderOptions
	}{
		{"plain", BuilderOptions{}},
		{"append time", BuilderOptions{LogAppendTime: true, AppendTimeMs: nowMs + 77}},
		{"idempotent", BuilderOptions{Producer: &Producer{ID: 4, Epoch: 5, BaseSequence: 1<<31 - 2}}},
		{"transactional", BuilderOptions{Producer: &Producer{ID: 4, Epoch: 5, BaseSequence: 6}, Transactional: true}},
		{"control", BuilderOptions{Producer: &Producer{ID: 4, Epoch: 5, BaseSequence: -1}, Transactional: true, Control: true}},
		{"horizon", BuilderOptions{DeleteHorizonMs: nowMs + 1000}},
	}
	var w Retainer
	for _, kind := range kinds {
		for _, codec := range allCodecs {
			for _, keep := range [][]int32{{0, 1, 2}, {0}, {1}, {2}, {0, 2}} {
				t.Run(fmt.Sprint(kind.name, codec, keep), func(t *testing.T) {
					kind.o.Codec = codec
					v := sparse(t, c, kind.o)
					horizon, ok := v.DeleteHorizonMs()
					if !ok {
						horizon = NoDeleteHorizon
					}
					got, err := w.Retain(c, v, keepOnly(keep...), horizon)
					if err != nil {
						t.Fatal(err)
					}
					checkRetained(t, c, v, got, keep)
				})
			}
		}
	}
}

func checkRetained(t *testing.T, c *Codecs, v, got View, keep []int32) {
	t.Helper()
	if err := got.Check(); err != nil {
		t.Fatal(err)
	}
	if got.RecordCount() != int32(len(keep)) || got.Attributes() != v.Attributes() || !sameRange(v, got) {
		t.Errorf("%x of %x", got[:HeaderSize], v[:HeaderSize])
	}
	var want, have []string
	_ = Iterate(v, c, func(r Record) error {
		if slices.Contains(keep, r.OffsetDelta/3) {
			want = append(want, show(r))
		}
		return nil
	})
	if err := Iterate(got, c, func(r Record) error { have = append(have, show(r)); return nil }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(want, have) {
		t.Errorf("records %q, want %q", have, want)
	}
	if len(keep) == 3 && v.Codec() == None && !v.IsLogAppendTime() && !bytes.Equal(v, got) {
		t.Errorf("%x\n became\n%x", v, got)
	}
}

func sameRange(v, w View) bool {
	return v.BaseOffset() == w.BaseOffset() && v.LastOffset() == w.LastOffset() && v.LeaderEpoch() == w.LeaderEpoch() &&
		v.ProducerID() == w.ProducerID() && v.ProducerEpoch() == w.ProducerEpoch() && v.BaseSequence() == w.BaseSequence()
}

func show(r Record) string {
	s := fmt.Sprintf("%d %d %q=%q", r.Offset, r.Timestamp, r.Key, r.Value)
	for k, v := range r.Headers.All() {
		s += fmt.Sprintf(" %q:%q/%v", k, v, v == nil)
	}
	return s
}

// TestRetainTimes: the header's times are those of what is left, or the horizon, or of the
// append.
func TestRetainTimes(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	tests := []struct {
		name                string
		o                   BuilderOptions
		keep                []int32
		horizonMs           int64
		wantBase, wantMax   int64
		wantHorizon, wantOK bool
	}{
		{"all", BuilderOptions{}, []int32{0, 1, 2}, NoDeleteHorizon, nowMs, nowMs + 2, false, true},
		{"without the largest", BuilderOptions{}, []int32{0, 2}, NoDeleteHorizon, nowMs, nowMs + 1, false, true},
		{"without the first", BuilderOptions{}, []int32{1, 2}, NoDeleteHorizon, nowMs + 2, nowMs + 2, false, true},
		{"horizon", BuilderOptions{}, []int32{1}, nowMs + 50, nowMs + 50, nowMs + 2, true, true},
		{"horizon 0", BuilderOptions{}, []int32{1}, 0, 0, nowMs + 2, true, true},
		{"horizon again", BuilderOptions{DeleteHorizonMs: nowMs - 9}, []int32{2}, nowMs - 9, nowMs - 9, nowMs + 1, true, true},
		{"append time", BuilderOptions{LogAppendTime: true, AppendTimeMs: nowMs + 7}, []int32{2}, NoDeleteHorizon, nowMs + 7, nowMs + 7, false, true},
		{"append time, horizon", BuilderOptions{LogAppendTime: true, AppendTimeMs: nowMs + 7}, []int32{2}, 5, 5, nowMs + 7, true, true},
	}
	var w Retainer
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := w.Retain(c, sparse(t, c, tt.o), keepOnly(tt.keep...), tt.horizonMs)
			if err != nil || got.BaseTimestamp() != tt.wantBase || got.MaxTimestamp() != tt.wantMax || got.HasDeleteHorizon() != tt.wantHorizon {
				t.Errorf("%x, %v", got[:HeaderSize], err)
			}
		})
	}
}

// TestEmptyIsAHeader: of a batch without records stays what tells of its range and its
// producer, and nothing changes when that is emptied again.
func TestEmptyIsAHeader(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	v := sparse(t, c, BuilderOptions{
		Codec: Zstd, Transactional: true, Control: true, LogAppendTime: true, AppendTimeMs: 42, DeleteHorizonMs: 99,
		Producer: &Producer{ID: 4, Epoch: 5, BaseSequence: 6},
	})
	var w Retainer
	got := slices.Clone(w.Empty(v, v.MaxTimestamp()))
	if err := got.Check(); err != nil {
		t.Fatal(err)
	}
	if len(got) != HeaderSize || got.RecordCount() != 0 || !sameRange(v, got) || got.BaseTimestamp() != -1 || got.MaxTimestamp() != 42 ||
		got.Attributes() != logAppendTimeBit|transactionalBit|controlBit {
		t.Errorf("%x", got)
	}
	if again := w.Empty(got, 42); !bytes.Equal(again, got) {
		t.Errorf("%x, then %x", got, again)
	}
	if got := w.Empty(v, NoTimestamp); got.MaxTimestamp() != -1 || got.Check() != nil {
		t.Errorf("%x", got)
	}
}

func TestRetainReportsDamage(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	var w Retainer
	v := sparse(t, c, BuilderOptions{})
	set32(posRecordCount, 4)(v)
	if _, err := w.Retain(c, v, keepOnly(0), NoDeleteHorizon); !errors.Is(err, kafkaerr.InvalidRecord) {
		t.Error(err)
	}
	v = sparse(t, c, BuilderOptions{Codec: Gzip})
	v[HeaderSize] ^= 0xff
	if _, err := w.Retain(c, v, keepOnly(0), NoDeleteHorizon); !errors.Is(err, kafkaerr.UnknownServerError) {
		t.Error(err)
	}
	v = sparse(t, c, BuilderOptions{Codec: Zstd})
	if got, err := w.Retain(c, v, keepOnly(0), NoDeleteHorizon); err != nil || got.Check() != nil {
		t.Error("after damage:", err)
	}
}

// TestRetainDoesNotAllocate: cleaning a log takes a batch after the other through one
// Retainer.
func TestRetainDoesNotAllocate(t *testing.T) {
	c := NewCodecs(CodecsOptions{})
	var w Retainer
	even := func(i int32) bool { return i%2 == 0 }
	for _, codec := range []Codec{None, LZ4, Zstd, Snappy} {
		v := build(t, c, BuilderOptions{Codec: codec}, plainRecords(1000, 30)...)
		allocs := testing.AllocsPerRun(20, func() {
			if _, err := w.Retain(c, v, even, NoDeleteHorizon); err != nil {
				t.Fatal(err)
			}
		})
		if allocs > 8 && !raceEnabled { // for a batch of 1,000 records
			t.Errorf("%v: %v allocations", codec, allocs)
		}
		t.Logf("%v: %v allocations", codec, allocs)
	}
}
