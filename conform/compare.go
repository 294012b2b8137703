package conform

import (
	"fmt"
	"regexp"
	"strings"
)

// Difference is one field, or one whole step, in which two transcripts of a scenario
// differ.
type Difference struct {
	Scenario string
	Label    string // of the step
	Key      int16  // of the step's request, -1 for raw bytes
	Version  int16
	// Field is where: "Topics.Partitions.ErrorCode", without indices; "outcome" if one
	// side answered and the other did not; "missing" or "extra" for a step or a struct
	// that only one side has.
	Field string
	// Item names the configuration key that the field belongs to, if any.
	Item      string
	At        string // the field's path with indices
	Want, Got string
}

func (d Difference) String() string {
	api, _ := Lookup(d.Key)
	return fmt.Sprintf("%s: %s: %s v%d: %s: want %s, got %s", d.Scenario, d.Label, api.Name, d.Version, d.At, d.Want, d.Got)
}

var indices = regexp.MustCompile(`\[\d+\]`)

func withoutIndices(path string) string { return indices.ReplaceAllString(path, "") }

// Compare returns in what got differs from want.
func Compare(want, got Transcript) (diffs []Difference) {
	for i := range max(len(want.Steps), len(got.Steps)) {
		switch {
		case i >= len(got.Steps):
			diffs = append(diffs, stepDifference(want, want.Steps[i], "missing", "a step", "none"))
		case i >= len(want.Steps):
			diffs = append(diffs, stepDifference(want, got.Steps[i], "extra", "none", "a step"))
		case want.Steps[i].Label != got.Steps[i].Label:
			return append(diffs, stepDifference(want, want.Steps[i], "missing", want.Steps[i].Label, got.Steps[i].Label))
		default:
			diffs = append(diffs, compareSteps(want, want.Steps[i], got.Steps[i])...)
		}
	}
	return diffs
}

func stepDifference(t Transcript, s Step, field, want, got string) Difference {
	return Difference{Scenario: t.Scenario, Label: s.Label, Key: s.Key, Version: s.Version, Field: field, At: field, Want: want, Got: got}
}

func compareSteps(t Transcript, want, got Step) (diffs []Difference) {
	if want.Outcome != got.Outcome {
		return []Difference{stepDifference(t, want, "outcome", want.Outcome, got.Outcome)}
	}
	w, g := keyed(want.Lines), keyed(got.Lines)
	for _, l := range w {
		other, ok := find(g, l.id)
		if !ok {
			diffs = append(diffs, lineDifference(t, want, l, "missing", l.line.String(), "nothing"))
			continue
		}
		diffs = append(diffs, compareLines(t, want, l, other)...)
	}
	for _, l := range g {
		if _, ok := find(w, l.id); !ok {
			diffs = append(diffs, lineDifference(t, want, l, "extra", "nothing", l.line.String()))
		}
	}
	return diffs
}

// identified is a line and what identifies it among the lines of its step: its path, in
// which the index of a configuration key is replaced by its name. A key more or less
// then does not make all that follow differ.
type identified struct {
	id, item string
	line     Line
}

var configPath = regexp.MustCompile(`(.*\bConfigs)\[\d+\]`)

func keyed(lines []Line) []identified {
	out := make([]identified, len(lines))
	item := ""
	for i, l := range lines {
		id := l.Path
		if m := configPath.FindStringSubmatch(l.Path); m != nil {
			if m[0] == l.Path {
				item = fieldOf(l, "Name")
			}
			id = m[1] + "[" + item + "]" + l.Path[len(m[0]):]
			out[i].item = item
		}
		out[i].id, out[i].line = id, l
	}
	return out
}

func fieldOf(l Line, name string) string {
	for _, f := range l.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

func find(lines []identified, id string) (identified, bool) {
	for _, l := range lines {
		if l.id == id {
			return l, true
		}
	}
	return identified{}, false
}

func lineDifference(t Transcript, s Step, l identified, field, want, got string) Difference {
	d := stepDifference(t, s, strings.TrimPrefix(withoutIndices(l.line.Path)+"."+field, "."), want, got)
	d.Item, d.At = l.item, strings.TrimPrefix(l.id+"."+field, ".")
	return d
}

// compareLines compares the fields of two structs. The number of configuration keys is
// not compared: each key that is missing or extra is a difference of its own.
func compareLines(t Transcript, s Step, want, got identified) (diffs []Difference) {
	for i := range max(len(want.line.Fields), len(got.line.Fields)) {
		w, g := fieldAt(want.line, i), fieldAt(got.line, i)
		if w == g || w.Name == "Configs" && g.Name == w.Name && strings.HasPrefix(w.Value, "#") && strings.HasPrefix(g.Value, "#") {
			continue
		}
		name := w.Name
		if name == "" {
			name = g.Name
		}
		if w.Name != g.Name && w.Name != "" {
			return append(diffs, lineDifference(t, s, want, name, want.line.String(), got.line.String()))
		}
		diffs = append(diffs, lineDifference(t, s, want, name, w.Value, g.Value))
	}
	return diffs
}

func fieldAt(l Line, i int) Field {
	if i < len(l.Fields) {
		return l.Fields[i]
	}
	return Field{}
}
