package cleaner

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/protocol/batch"
)

// compare reports what differs, of a few cases.
func compare(t *testing.T, codecs *batch.Codecs, ours, kafkas []outcome) {
	differ, rewritten := 0, 0
	for i, our := range ours {
		theirs := kafkas[i]
		diff, again := our.differs(t, codecs, theirs)
		rewritten += again
		if diff == "" {
			continue
		}
		if differ++; differ <= 5 {
			t.Errorf("%s: %s", our.name, diff)
		}
	}
	t.Logf("%d cleanings, %d differ; %d batches were written anew with a codec", len(ours), differ, rewritten)
	if differ > 0 {
		t.Errorf("%d of %d cleanings differ", differ, len(ours))
	}
}

// differs says what is not the same, and how many batches could only be compared by records.
func (o outcome) differs(t *testing.T, codecs *batch.Codecs, theirs outcome) (diff string, byRecords int) {
	var out strings.Builder
	if o.Latest != theirs.Latest {
		fmt.Fprintf(&out, "\nlatest %d, Kafka's %d", o.Latest, theirs.Latest)
	}
	if !slices.Equal(o.Aborted, theirs.Aborted) {
		fmt.Fprintf(&out, "\nindex %v, Kafka's %v", o.Aborted, theirs.Aborted)
	}
	var a, b []batch.View
	each(t, o.Log, func(v batch.View) bool { a = append(a, v); return true })
	each(t, theirs.Log, func(v batch.View) bool { b = append(b, v); return true })
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			fmt.Fprintf(&out, "\nKafka has also %x", b[i])
		case i >= len(b):
			fmt.Fprintf(&out, "\nKafka has not %x", a[i])
		case bytes.Equal(a[i], b[i]):
		case a[i].Codec() != batch.None && sameFields(a[i], b[i]) && records(t, codecs, a[i]) == records(t, codecs, b[i]):
			byRecords++
			// Compressed sizes differ.
			theirs.Counts.BytesKept += int64(len(a[i]) - len(b[i]))
		default:
			fmt.Fprintf(&out, "\nbatch  %x\nKafka's %x", a[i], b[i])
		}
	}
	if o.Counts != theirs.Counts {
		fmt.Fprintf(&out, "\ncounts %+v, Kafka's %+v", o.Counts, theirs.Counts)
	}
	return out.String(), byRecords
}

// sameFields: the headers are the same but for length and checksum.
func sameFields(a, b batch.View) bool {
	a, b = slices.Clone(a[:batch.HeaderSize]), slices.Clone(b[:batch.HeaderSize])
	for _, v := range []batch.View{a, b} {
		clear(v[8:12])
		clear(v[17:21])
	}
	return bytes.Equal(a, b)
}

func records(t *testing.T, codecs *batch.Codecs, v batch.View) string {
	var out strings.Builder
	if err := v.Check(); err != nil {
		t.Fatal(err)
	}
	err := batch.Iterate(v, codecs, func(r batch.Record) error {
		fmt.Fprintf(&out, "%d %d %x/%v %x/%v", r.Offset, r.Timestamp, r.Key, r.HasKey, r.Value, r.HasValue)
		for k, v := range r.Headers.All() {
			fmt.Fprintf(&out, " %x=%x/%v", k, v, v == nil)
		}
		out.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
