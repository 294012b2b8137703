package batchtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/protocol/batch"
)

// row makes batches, one after the other from offset 0: "a=1 b=1|a=2|b=-".
func row(text string, o batch.BuilderOptions) (batches []batch.View) {
	for _, part := range strings.Split(text, "|") {
		b := batch.NewBuilder(o)
		for _, field := range strings.Fields(part) {
			key, value, _ := strings.Cut(field, "=")
			r := batch.NewRecord{Key: []byte(key), Value: []byte(value)}
			if value == "-" {
				r.Value = nil
			}
			b.Append(r)
		}
		v, err := b.Build(codecs)
		if err != nil {
			panic(err)
		}
		o.BaseOffset = v.NextOffset()
		batches = append(batches, append(batch.View{}, v...))
	}
	return batches
}

var codecs = batch.NewCodecs(batch.CodecsOptions{})

// show is the reverse: each batch with its range, each record with its offset.
func show(batches []batch.View) string {
	var parts []string
	for _, v := range batches {
		text := fmt.Sprintf("%d..%d", v.BaseOffset(), v.LastOffset())
		each(v, codecs, func(r *batch.Record) {
			value := string(r.Value)
			if !r.HasValue {
				value = "-"
			}
			text += fmt.Sprintf(" %d:%s=%s", r.Offset, r.Key, value)
		})
		parts = append(parts, text)
	}
	return strings.Join(parts, "|")
}

func TestClean(t *testing.T) {
	const log = "a=1 b=1|a=2|c=1|a=- d=1|d=2"
	all := func(batch.View) bool { return true }
	for _, c := range []struct {
		name string
		p    CleanParams
		want string
	}{
		{"nothing", CleanParams{}, "0..1 0:a=1 1:b=1|2..2 2:a=2|3..3 3:c=1|4..5 4:a=- 5:d=1|6..6 6:d=2"},
		{"a part", CleanParams{UpTo: 6}, "0..1 1:b=1|3..3 3:c=1|4..5 4:a=- 5:d=1|6..6 6:d=2"},
		{"with tombstones", CleanParams{UpTo: 7, TombstonesUpTo: 7}, "0..1 1:b=1|3..3 3:c=1|6..6 6:d=2"},
		{"within a batch", CleanParams{UpTo: 5}, "0..1 1:b=1|2..2 2:a=2|3..3 3:c=1|4..5 4:a=- 5:d=1|6..6 6:d=2"},
		{"with empty batches", CleanParams{UpTo: 7, TombstonesUpTo: 7, KeepEmpty: all}, "0..1 1:b=1|2..2|3..3 3:c=1|4..5|6..6 6:d=2"},
	} {
		for _, codec := range []batch.Codec{batch.None, batch.Zstd} {
			c.p.Codecs = codecs
			producer := batch.Producer{ID: 7, Epoch: 1, BaseSequence: 3}
			left := Clean(row(log, batch.BuilderOptions{Codec: codec, LeaderEpoch: 9, Producer: &producer}), c.p)
			if got := show(left); got != c.want {
				t.Errorf("%s, %v: %s, want %s", c.name, codec, got, c.want)
			}
			for _, v := range left {
				if err := v.Check(); err != nil || v.LeaderEpoch() != 9 || v.ProducerID() != 7 || v.BaseSequence() != 3 {
					t.Errorf("%s, %v: batch at %d of epoch %d, producer %d: %v", c.name, codec, v.BaseOffset(), v.LeaderEpoch(), v.ProducerID(), err)
				}
			}
		}
	}
}
