package check

import (
	"slices"
	"testing"
)

// TestNewestOfEachKey: key k has had records 0, 1 and 2 and the tombstone 3, of which 0 and 1
// are acknowledged; key l record 4, acknowledged.
func TestNewestOfEachKey(t *testing.T) {
	a := func(n int) string { return Value("a", n, 10) }
	for name, test := range map[string]struct {
		served []Record
		want   []string
	}{
		"everything":                      {[]Record{{0, a(0)}, {1, a(1)}, {2, a(2)}, {3, a(3)}, {4, a(4)}}, nil},
		"the newest":                      {[]Record{{1, a(1)}, {4, a(4)}}, nil},
		"a newer one":                     {[]Record{{2, a(2)}, {4, a(4)}}, nil},
		"the tombstone":                   {[]Record{{3, a(3)}, {4, a(4)}}, nil},
		"none, for the tombstone":         {[]Record{{4, a(4)}}, nil},
		"an older one":                    {[]Record{{0, a(0)}, {4, a(4)}}, []string{"NewestOfEachKey"}},
		"none of a key that was not dead": {[]Record{{3, a(3)}}, []string{"NewestOfEachKey", "AckedRecordsReadable"}},
		"an older one behind":             {[]Record{{2, a(2)}, {3, a(1)}, {4, a(4)}}, []string{"NewestOfEachKey", "SequencesContiguous"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHistory()
			h.AddProducer("a", true)
			h.Compacted("t", 1)
			for n := range 4 {
				h.Sent("a", n, at, "k", n == 3)
			}
			h.Sent("a", 4, at, "l", false)
			h.Acked("a", 0, at, 0, a(0))
			h.Acked("a", 1, at, 1, a(1))
			h.Acked("a", 4, at, 4, a(4))
			h.Saw("c", at, Record{0, a(0)})
			h.Saw("c", at, Record{2, a(2)})
			h.Served(at, 0, 5, 5, test.served)
			var got []string
			for _, v := range h.Violations() {
				got = append(got, v.Invariant)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%v, want %v", h.Violations(), test.want)
			}
		})
	}
}
