package check

import (
	"fmt"
	"slices"
	"testing"
)

// at is a partition for all cases.
var at = Partition{"t", 0}

func records(values ...string) (list []Record) {
	for i, v := range values {
		list = append(list, Record{int64(i), v})
	}
	return list
}

// history is one in which an idempotent producer "a" and another one "b" have had
// records 0 of each acknowledged at 0 and 1, and a consumer has read the first.
func history() *History {
	h := NewHistory()
	h.AddProducer("a", true)
	h.AddProducer("b", false)
	h.Acked("a", 0, at, 0, Value("a", 0, 0))
	h.Acked("b", 0, at, 1, Value("b", 0, 0))
	h.Saw("c", at, Record{0, Value("a", 0, 0)})
	return h
}

// Each case goes on from history and breaks one promise, or none.
func TestViolations(t *testing.T) {
	a := func(n int) string { return Value("a", n, 10) }
	a0, b0 := Value("a", 0, 0), Value("b", 0, 0)
	tests := map[string]struct {
		play func(h *History)
		want []string
	}{
		"all is well":   {func(h *History) { h.Served(at, 0, 2, 2, records(a0, b0)) }, nil},
		"more is there": {func(h *History) { h.Served(at, 0, 4, 4, records(a0, b0, a(1), a(2))) }, nil},
		"a duplicate of a producer that may": {
			func(h *History) { h.Served(at, 0, 3, 3, records(a0, b0, b0)) }, nil,
		},
		"a record is gone": {
			func(h *History) { h.Served(at, 0, 1, 1, records(a0)) }, []string{"AckedRecordsReadable"},
		},
		"all are gone": {
			func(h *History) { h.Served(at, 0, 0, 0, nil) }, []string{"AckedRecordsReadable"},
		},
		"another one stands there": {
			func(h *History) { h.Served(at, 0, 2, 2, records(a0, Value("b", 1, 0))) }, []string{"AckedRecordsReadable"},
		},
		"bytes that nobody sent": {
			func(h *History) { h.Served(at, 0, 3, 3, records(a0, b0, "noise")) }, []string{"AckedRecordsReadable"},
		},
		"a producer that nobody knows": {
			func(h *History) { h.Served(at, 0, 3, 3, records(a0, b0, Value("x", 0, 0))) }, []string{"AckedRecordsReadable"},
		},
		"retention took the front": {
			func(h *History) { h.Served(at, 2, 3, 3, []Record{{2, a(5)}}) }, nil,
		},
		"what was served once is promised": {
			func(h *History) {
				h.Served(at, 0, 3, 3, records(a0, b0, a(1)))
				h.Served(at, 0, 3, 3, records(a0, b0, b0))
			},
			[]string{"AckedRecordsReadable"},
		},
		"the end is not reached": {
			func(h *History) { h.Served(at, 0, 3, 3, records(a0, b0)) }, []string{"AckedRecordsReadable"},
		},
		"a hole": {
			func(h *History) { h.Served(at, 0, 4, 4, []Record{{0, a0}, {1, b0}, {3, a(1)}}) }, []string{"PollsContiguous"},
		},
		"twice in the log": {
			func(h *History) { h.Served(at, 0, 3, 3, records(a0, b0, a0)) }, []string{"SequencesContiguous"},
		},
		"a gap in the sequence": {
			func(h *History) { h.Served(at, 0, 3, 3, records(a0, b0, a(2))) }, []string{"SequencesContiguous"},
		},
		"a refused record is not missed": {
			func(h *History) {
				h.Refused("a", 1, at)
				h.Served(at, 0, 3, 3, records(a0, b0, a(2)))
			},
			nil,
		},
		"a refused record may be there": {
			func(h *History) {
				h.Refused("a", 1, at)
				h.Served(at, 0, 4, 4, records(a0, b0, a(1), a(2)))
			},
			nil,
		},
		"two values at an offset": {
			func(h *History) { h.Saw("d", at, Record{1, a(1)}) }, []string{"AckedRecordsReadable"},
		},
		"a poll skips":     {func(h *History) { h.Saw("c", at, Record{2, a(1)}) }, []string{"PollsContiguous"}},
		"a poll goes back": {func(h *History) { h.Saw("c", at, Record{0, a0}) }, []string{"PollsContiguous"}},
		"an offset falls": {
			func(h *History) { h.Acked("b", 1, at, 1, b0) }, []string{"SendsMonotonic"},
		},
		"the end falls": {
			func(h *History) {
				h.Offsets(at, 0, 5, 5)
				h.Offsets(at, 0, 4, 4)
			},
			[]string{"HighWatermarkMonotonic"},
		},
		"offsets out of order": {
			func(h *History) {
				h.Offsets(at, 3, 2, 4)
				h.Offsets(at, 0, 5, 4)
			},
			[]string{"OffsetOrder", "OffsetOrder"},
		},
		"a deleted topic is forgotten": {
			func(h *History) {
				h.Deleted("t")
				h.Offsets(at, 0, 0, 0)
				h.Saw("c", at, Record{0, a(1)})
			},
			nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := history()
			test.play(h)
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

func TestValue(t *testing.T) {
	for _, size := range []int{0, 100} {
		value := Value("p-1", 17, size)
		if name, n, ok := parseValue(value); !ok || name != "p-1" || n != 17 || size > 0 && len(value) != size {
			t.Errorf("%q: %s %d %v", value, name, n, ok)
		}
	}
	if got := fmt.Sprint(short(Value("p", 1, 50))); got != `"p 1 "` {
		t.Error(got)
	}
}

func TestCounts(t *testing.T) {
	h := history()
	if h.NumAcked() != 2 || !slices.Equal(h.Promised(), []Partition{at}) {
		t.Errorf("%d acknowledged in %v", h.NumAcked(), h.Promised())
	}
}
