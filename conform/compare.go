package conform

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Difference is one field, or one whole step, in which two transcripts of a scenario
// differ.
type Difference struct {
	Scenario string `json:"scenario"`
	Step     int    `json:"step"` // its number, from 0
	Label    string `json:"label"`
	Key      int16  `json:"key"` // of the step's request, -1 for raw bytes
	Version  int16  `json:"version"`
	// Field is where: "Topics.Partitions.ErrorCode", without indices; "outcome" if one
	// side answered and the other did not; "missing" or "extra" for a step or a struct
	// that only one side has.
	Field string `json:"field"`
	// Item names the configuration key or feature that the field belongs to, if any.
	Item string `json:"item,omitempty"`
	At   string `json:"at"` // the field's path with indices
	Want string `json:"want"`
	Got  string `json:"got"`
}

func (d Difference) String() string {
	api, _ := Lookup(d.Key)
	return fmt.Sprintf("%s: %s: %s v%d: %s: want %s, got %s", d.Scenario, d.Label, api.Name, d.Version, d.At, d.Want, d.Got)
}

var indices = regexp.MustCompile(`\[\d+\]`)

func withoutIndices(path string) string { return indices.ReplaceAllString(path, "") }

// Compare returns in what got differs from want. Steps belong together by their place;
// where their labels part, the scenario did not do the same, and the comparison ends.
func Compare(want, got Transcript) (diffs []Difference) {
	for i := range max(len(want.Steps), len(got.Steps)) {
		at := position{want.Scenario, i}
		switch {
		case i >= len(got.Steps):
			diffs = append(diffs, at.difference(want.Steps[i], "missing", "a step", "none"))
		case i >= len(want.Steps):
			diffs = append(diffs, at.difference(got.Steps[i], "extra", "none", "a step"))
		case want.Steps[i].Label != got.Steps[i].Label:
			return append(diffs, at.difference(want.Steps[i], "missing", want.Steps[i].Label, got.Steps[i].Label))
		default:
			diffs = append(diffs, at.compare(want.Steps[i], got.Steps[i])...)
		}
	}
	return diffs
}

// position is a step of a scenario.
type position struct {
	scenario string
	step     int
}

func (p position) difference(s Step, field, want, got string) Difference {
	return Difference{
		Scenario: p.scenario, Step: p.step, Label: s.Label, Key: s.Key, Version: s.Version,
		Field: field, At: field, Want: want, Got: got,
	}
}

func (p position) compare(want, got Step) (diffs []Difference) {
	if want.Outcome != got.Outcome {
		return []Difference{p.difference(want, "outcome", want.Outcome, got.Outcome)}
	}
	w, g := keyed(want.Lines), keyed(got.Lines)
	inWant, inGot := indexOf(w), indexOf(g)
	for _, l := range w {
		if at, ok := inGot[l.id]; ok {
			diffs = append(diffs, p.compareLines(want, l, g[at])...)
		} else if !l.advertised {
			diffs = append(diffs, p.lineDifference(want, l, "missing", l.line.String(), "nothing"))
		}
	}
	for _, l := range g {
		if _, ok := inWant[l.id]; !ok {
			diffs = append(diffs, p.lineDifference(want, l, "extra", "nothing", l.line.String()))
		}
	}
	return diffs
}

// identified is a line and what identifies it among the lines of its step: its path, in
// which the index of a configuration key is replaced by its name, and that of an API by
// its key. A key more or less then does not make all that follow differ.
type identified struct {
	id, item string
	// advertised lines say what the broker can do. One that cannot is not wrong; the
	// report lists what it does not advertise.
	advertised bool
	line       Line
}

// named are the arrays whose structs have a name of their own, and the field that holds
// it. Their length is not compared: each that is missing or extra is a difference.
var named = map[string]string{
	"Configs": "Name", "ApiKeys": "ApiKey", "SupportedFeatures": "Name", "FinalizedFeatures": "Name",
}

var (
	configPath = regexp.MustCompile(`(.*\bConfigs)\[\d+\]`)
	namedPath  = regexp.MustCompile(`(.*\b(Configs|ApiKeys|SupportedFeatures|FinalizedFeatures))\[\d+\]`)
)

func keyed(lines []Line) []identified {
	out := make([]identified, len(lines))
	item := ""
	for i, l := range lines {
		out[i] = identified{id: l.Path, line: l}
		m := namedPath.FindStringSubmatch(l.Path)
		if m == nil {
			continue
		}
		if m[0] == l.Path {
			item = fieldOf(l, named[m[2]])
		}
		out[i].id = m[1] + "[" + item + "]" + l.Path[len(m[0]):]
		out[i].item = item
		out[i].advertised = m[2] != "Configs"
	}
	return out
}

// indexOf finds lines by their ids. A second line of the same id gets one of its own,
// within lines as well.
func indexOf(lines []identified) map[string]int {
	index := make(map[string]int, len(lines))
	for i := range lines {
		id := lines[i].id
		for n := 2; ; n++ {
			if _, taken := index[lines[i].id]; !taken {
				break
			}
			lines[i].id = id + "#" + strconv.Itoa(n)
		}
		index[lines[i].id] = i
	}
	return index
}

func fieldOf(l Line, name string) string {
	for _, f := range l.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

func (p position) lineDifference(s Step, l identified, field, want, got string) Difference {
	d := p.difference(s, strings.TrimPrefix(withoutIndices(l.line.Path)+"."+field, "."), want, got)
	d.Item, d.At = l.item, strings.TrimPrefix(l.id+"."+field, ".")
	return d
}

// compareLines compares the fields of two structs, by place: a field that only one side
// has means that the lines are of different versions, or hold different tags.
func (p position) compareLines(s Step, want, got identified) (diffs []Difference) {
	for i := range max(len(want.line.Fields), len(got.line.Fields)) {
		w, g := fieldAt(want.line, i), fieldAt(got.line, i)
		switch {
		case w == g || isNamedLength(w) && isNamedLength(g):
		case w.Name != g.Name && w.Name != "":
			return append(diffs, p.lineDifference(s, want, w.Name, want.line.String(), got.line.String()))
		default:
			diffs = append(diffs, p.lineDifference(s, want, cmp.Or(w.Name, g.Name), w.Value, g.Value))
		}
	}
	return diffs
}

func isNamedLength(f Field) bool { return named[f.Name] != "" && strings.HasPrefix(f.Value, "#") }

func fieldAt(l Line, i int) Field {
	if i < len(l.Fields) {
		return l.Fields[i]
	}
	return Field{}
}
