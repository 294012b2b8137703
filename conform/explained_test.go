package conform

import (
	"fmt"
	"strings"
	"testing"
)

func TestExplanations(t *testing.T) {
	all, err := ReadExplanations(strings.NewReader(`
# a comment
DescribeConfigs 1-4 Resources.Configs.extra durability topic-durability
Fetch           7   Topics.ErrorCode        -          some-row         fetch/zero
raw             0   outcome                 -          raw-row
`))
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		d    Difference
		want string
	}{
		{Difference{Key: 32, Version: 4, Field: "Resources.Configs.extra", Item: "durability"}, "topic-durability"},
		{Difference{Key: 32, Version: 5, Field: "Resources.Configs.extra", Item: "durability"}, ""},
		{Difference{Key: 32, Version: 4, Field: "Resources.Configs.extra", Item: "other"}, ""},
		{Difference{Key: 32, Version: 4, Field: "Resources.Configs.extra"}, ""},
		{Difference{Key: 32, Version: 4, Field: "Resources.Configs.extras", Item: "durability"}, ""},
		{Difference{Key: 1, Version: 7, Field: "Topics.ErrorCode", Scenario: "fetch/one"}, ""},
		{Difference{Key: -1, Field: "outcome"}, "raw-row"},
	}
	for _, c := range cases {
		got := ""
		if e := all.Explain(c.d); e != nil {
			got = e.Row
		}
		if got != c.want {
			t.Errorf("%+v is explained by %q, want %q", c.d, got, c.want)
		}
	}
	if unused := all.Unused(); len(unused) != 1 || !strings.Contains(unused[0], "some-row") {
		t.Errorf("unused lines %q", unused)
	}
	if all.Explain(Difference{Key: 1, Version: 7, Field: "Topics.ErrorCode", Scenario: "fetch/zero"}) == nil || len(all.Unused()) != 0 {
		t.Error("a line that names its scenario explains it")
	}
}

func TestBadExplanations(t *testing.T) {
	for name, text := range map[string]string{
		"an unknown API":     "Fetsh 0-4 a.b - row",
		"too few words":      "Fetch 0-4 a.b row",
		"too many words":     "Fetch 0-4 a.b - row scenario more",
		"versions in words":  "Fetch all a.b - row",
		"an open range":      "Fetch 4- a.b - row",
		"thirty-one of them": strings.Repeat("Fetch 4 a.b - row\n", maxExplained+1),
	} {
		if _, err := ReadExplanations(strings.NewReader(text)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
	if _, err := ReadExplanations(strings.NewReader(strings.Repeat("Fetch 4 a.b - row\n", maxExplained))); err != nil {
		t.Errorf("%d explanations: %v", maxExplained, err)
	}
}

// A line that explains nothing any more fails the run.
func TestUnusedExplanationFailsTheRun(t *testing.T) {
	f := newFake(t, nil)
	target, outcomes := run(t, f, metadataScenario())
	why, err := ReadExplanations(strings.NewReader("Fetch 4 a.b - row"))
	if err != nil {
		t.Fatal(err)
	}
	report := Judge(target, outcomes, transcriptsOf(outcomes), why)
	if report.Passed || report.Different != 0 || fmt.Sprint(report.Unused) != "[Fetch 4 a.b - row]" {
		t.Errorf("report %+v", report)
	}
}
