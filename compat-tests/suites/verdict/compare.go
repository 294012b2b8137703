package verdict

import (
	"cmp"
	"fmt"
	"slices"
)

// Deviation is a test that came out otherwise than its list says.
type Deviation struct {
	Test Test
	Text string
}

func (d Deviation) String() string { return fmt.Sprintf("%s: %s", d.Test, d.Text) }

// Compare holds the verdicts of a run on a broker against the list, in the order of names.
func (l List) Compare(on Broker, got map[Test]Verdict) []Deviation {
	var all []Deviation
	deviates := func(t Test, format string, args ...any) {
		all = append(all, Deviation{t, fmt.Sprintf(format, args...)})
	}
	listed := map[Test]bool{}
	apart := l.Apart(on)
	for _, line := range l {
		listed[line.Test] = true
		v, ran := got[line.Test]
		switch {
		case !ran:
			deviates(line.Test, "did not run, want %s", line.On[on])
		case line.On[on] == Chance && v != Skip:
		case v != line.On[on]:
			deviates(line.Test, "%s, want %s", v, line.On[on])
		}
	}
	for t, v := range got {
		if listed[t] || within(t, apart) {
			continue
		}
		if _, isSub := t.Parent(); !isSub {
			deviates(t, "%s, and is not in the list", v)
		} else if v != Pass {
			deviates(t, "%s, and is not in the list, want pass", v)
		}
	}
	slices.SortFunc(all, func(a, b Deviation) int {
		return cmp.Or(cmp.Compare(a.Test.Package, b.Test.Package), cmp.Compare(a.Test.Name, b.Test.Name))
	})
	return all
}

// within tells whether t is a subtest of one of the tests.
func within(t Test, tests []Test) bool {
	for parent, ok := t.Parent(); ok; parent, ok = parent.Parent() {
		if slices.Contains(tests, parent) {
			return true
		}
	}
	return false
}

// Merge adds the verdicts of another process of the same run: a test whose subtests ran in
// several failed if it failed in one, and was skipped only if it was in all.
func Merge(into, more map[Test]Verdict) {
	for t, v := range more {
		have, ok := into[t]
		if !ok || v == Fail || have == Skip {
			into[t] = v
		}
	}
}
