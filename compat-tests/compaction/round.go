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

// Note notes what is there, and what is found by time.
func (w *Writer) Note() {
	w.t.Helper()
	stored, err := Stored(w.dir, w.topic, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	bases, err := bases(w.dir, w.topic, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	start := w.lookup(w.topic, 0, earliest).Offset
	stored = slices.DeleteFunc(stored, func(b Batch) bool { return b.Last < start })
	w.readsAll(stored)
	w.beginsWhereAsked(stored, start)
	var r round
	for _, b := range stored {
		r = append(r, piece{b.lines(w.clock), b.NumRecords == 0 && slices.Contains(bases, b.Last+1)})
	}
	for _, at := range w.times() {
		r = append(r, piece{text: w.found(at)})
	}
	w.rounds = append(w.rounds, r)
}

// readsAll expects a consumer to get the records that are stored.
func (w *Writer) readsAll(stored []Batch) {
	w.t.Helper()
	text := func(all []Batch) string {
		var out strings.Builder
		for _, b := range all {
			if b.NumRecords > 0 {
				out.WriteString(b.lines(w.clock))
			}
		}
		return out.String()
	}
	if want, got := text(stored), text(w.Read(w.topic, 0)); got != want {
		w.t.Errorf("%s: a consumer does not get what is stored: %s", w.topic, FirstDifference(want, got))
	}
}

// beginsWhereAsked expects a fetch from any offset to begin with the batch that has it, or
// else with the next one. One without records may be left out.
func (w *Writer) beginsWhereAsked(all []Batch, start int64) {
	w.t.Helper()
	const asked = 200
	for at := start; at < w.end; at += max(1, (w.end-start)/asked) {
		i := slices.IndexFunc(all, func(b Batch) bool { return b.Last >= at })
		j := max(i, slices.IndexFunc(all, func(b Batch) bool { return b.Last >= at && b.NumRecords > 0 }))
		got, err := decode(w.fetch(w.topic, 0, at, 1))
		if err != nil || len(got) == 0 || got[0].FirstOffset != all[i].FirstOffset && got[0].FirstOffset != all[j].FirstOffset {
			w.t.Errorf("%s: a fetch at %d begins with %v (%v), want %d or %d", w.topic, at, got, err, all[i].FirstOffset, all[j].FirstOffset)
		}
	}
}

// times are those that are looked up: some hundred, and those with a name.
func (w *Writer) times() (all []int64) {
	all = []int64{earliest, latest, maxTime}
	if w.untimed {
		return all
	}
	for at := int64(0); at <= w.at; at += max(1, w.at/100) {
		all = append(all, w.clock.begin+at)
	}
	return all
}

func (w *Writer) found(at int64) string {
	w.t.Helper()
	f := w.lookup(w.topic, 0, at)
	return fmt.Sprintf("time %s: offset %d, %s, epoch %s, code %d\n", w.clock.text(at), f.Offset, w.clock.text(f.Timestamp), w.clock.epoch(f.LeaderEpoch), f.ErrorCode)
}

// separator begins each round in a text.
const separator = "-- round\n"

// Text is what was found, without what may be there all the same and is not in the
// reference.
func (w *Writer) Text(reference string) string {
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

// All is what was found, as it is.
func (w *Writer) All() string {
	var out strings.Builder
	for _, r := range w.rounds {
		out.WriteString(separator)
		out.WriteString(r.text())
	}
	return out.String()
}

// Last is what was found last.
func (w *Writer) Last() string { return w.rounds[len(w.rounds)-1].text() }

func (r round) text() string {
	var out strings.Builder
	for _, p := range r {
		out.WriteString(p.text)
	}
	return out.String()
}

// FirstDifference are the lines where two texts part.
func FirstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d:\nwant %s\ngot  %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(b), len(a))
}
