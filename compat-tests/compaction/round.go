package compaction

import (
	"fmt"
	"slices"
	"strings"
)

// round is what was found at one time: pieces of text, one for each batch.
type round []piece

type piece struct {
	text string
	// extra says that it is a batch without records at the end of a segment: where Kafka
	// has none, it may be there all the same.
	extra bool
}

// note reads the partition and notes what is there, and what is found by time.
func (w *Writer) note() {
	w.t.Helper()
	all := w.Read(w.topic, 0)
	w.beginsWhereAsked(all)
	bases := w.bases()
	var r round
	for _, b := range all {
		r = append(r, piece{b.lines(w.clock), b.NumRecords == 0 && slices.Contains(bases, b.Last+1)})
	}
	for _, at := range w.times() {
		r = append(r, piece{text: w.found(at)})
	}
	w.rounds = append(w.rounds, r)
}

// beginsWhereAsked expects a fetch from any offset to begin with the batch that has it, or
// else with the next one.
func (w *Writer) beginsWhereAsked(all []Batch) {
	w.t.Helper()
	const asked = 200
	start := w.lookup(w.topic, 0, earliest).Offset
	for at := start; at < w.end; at += max(1, (w.end-start)/asked) {
		i := slices.IndexFunc(all, func(b Batch) bool { return b.Last >= at })
		got, err := decode(w.fetch(w.topic, 0, at, 1))
		if err != nil || len(got) == 0 || got[0].FirstOffset != all[i].FirstOffset {
			w.t.Errorf("%s: a fetch at %d begins with %v (%v), want %d", w.topic, at, got, err, all[i].FirstOffset)
		}
	}
}

// times are those that are looked up: some hundred, and those with a name.
func (w *Writer) times() (all []int64) {
	all = []int64{earliest, latest, maxTime}
	for at := int64(0); at <= w.at; at += max(1, w.at/100) {
		all = append(all, w.clock.begin+at)
	}
	return all
}

func (w *Writer) found(at int64) string {
	w.t.Helper()
	f := w.lookup(w.topic, 0, at)
	return fmt.Sprintf("time %s: offset %d, %s, epoch %d, code %d\n", w.clock.text(at), f.Offset, w.clock.text(f.Timestamp), f.LeaderEpoch, f.ErrorCode)
}

// separator begins each round in a text.
const separator = "-- round\n"

// text is all rounds, without what may be there all the same and is not in the reference.
func (w *Writer) text(reference string) string {
	theirs := strings.Split(reference, separator)
	var out strings.Builder
	for i, r := range w.rounds {
		out.WriteString(separator)
		for _, p := range r {
			if p.extra && (i+1 >= len(theirs) || !strings.Contains(theirs[i+1], p.text)) {
				continue
			}
			out.WriteString(p.text)
		}
	}
	return out.String()
}

// all is all rounds as they are.
func (w *Writer) all() string {
	var out strings.Builder
	for _, r := range w.rounds {
		out.WriteString(separator)
		for _, p := range r {
			out.WriteString(p.text)
		}
	}
	return out.String()
}

// firstDifference are the lines where two texts part.
func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d:\nwant %s\ngot  %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(b), len(a))
}
