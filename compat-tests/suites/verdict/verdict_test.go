package verdict

import (
	"slices"
	"strings"
	"testing"
)

const text = `
# a suite
package ./kgo
pass pass TestPing
skip pass TestShare # share groups
fail pass TestETL # transactions
fail pass TestETL/transactional # transactions
fail pass TestTxn # transactions
pass fail TestOld/form#01 # Kafka has given it up
pass chance TestRace # a race

package .
pass pass TestPing
`

func parse(t *testing.T) List {
	t.Helper()
	list, err := Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func kgo(name string) Test { return Test{"./kgo", name} }

// expected is a run on Klamm that is as the list says.
func expected() map[Test]Verdict {
	return map[Test]Verdict{
		kgo("TestPing"): Pass, kgo("TestShare"): Skip, kgo("TestETL"): Fail, kgo("TestETL/transactional"): Fail,
		kgo("TestRace"): Pass, kgo("TestTxn"): Fail, kgo("TestTxn/a"): Skip, kgo("TestTxn/a/b"): Fail, kgo("TestETL/plain"): Pass, kgo("TestOld/form#01"): Pass, {".", "TestPing"}: Pass,
	}
}

func TestMistakesInAList(t *testing.T) {
	for line, want := range map[string]string{
		"pass TestA":           "not two verdicts and a name",
		"pass maybe TestA":     "no verdict: maybe",
		"chance pass TestA":    "chance on Klamm alone",
		"skip pass TestA":      "a reason is what an exception has",
		"pass pass TestA # so": "a reason is what an exception has",
		"pass pass TestPing":   "second line of this test",
	} {
		_, err := Parse(strings.NewReader("package .\npass pass TestPing\n" + line))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line 3") {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	if _, err := Parse(strings.NewReader("pass pass TestPing")); err == nil {
		t.Error("a test without a package is accepted")
	}
}

func TestApart(t *testing.T) {
	if got, want := parse(t).Apart(Klamm), []Test{kgo("TestETL/transactional"), kgo("TestTxn")}; !slices.Equal(got, want) {
		t.Errorf("on Klamm %v, want %v", got, want)
	}
	if got, want := parse(t).Apart(Kafka), []Test{kgo("TestOld/form#01"), kgo("TestRace")}; !slices.Equal(got, want) {
		t.Errorf("on Kafka %v, want %v", got, want)
	}
}

func TestEveryDeviationIsSeen(t *testing.T) {
	if d := parse(t).Compare(Klamm, expected()); d != nil {
		t.Fatalf("a run as the list says deviates: %v", d)
	}
	for name, c := range map[string]struct {
		change func(map[Test]Verdict)
		want   string
	}{
		"a test fails":               {func(m map[Test]Verdict) { m[kgo("TestPing")] = Fail }, "./kgo TestPing: fail, want pass"},
		"a test is skipped":          {func(m map[Test]Verdict) { m[kgo("TestPing")] = Skip }, "./kgo TestPing: skip, want pass"},
		"a test is gone":             {func(m map[Test]Verdict) { delete(m, kgo("TestPing")) }, "./kgo TestPing: did not run, want pass"},
		"an exception passes":        {func(m map[Test]Verdict) { m[kgo("TestShare")] = Pass }, "./kgo TestShare: pass, want skip"},
		"a test is new":              {func(m map[Test]Verdict) { m[kgo("TestNew")] = Pass }, "./kgo TestNew: pass, and is not in the list"},
		"a subtest fails":            {func(m map[Test]Verdict) { m[kgo("TestETL/plain")] = Fail }, "./kgo TestETL/plain: fail, and is not in the list, want pass"},
		"a subtest is skipped":       {func(m map[Test]Verdict) { m[kgo("TestETL/plain")] = Skip }, "./kgo TestETL/plain: skip, and is not in the list, want pass"},
		"the namesake fails":         {func(m map[Test]Verdict) { m[Test{".", "TestPing"}] = Fail }, ". TestPing: fail, want pass"},
		"an exception subtest is ok": {func(m map[Test]Verdict) { m[kgo("TestETL/transactional")] = Pass }, "./kgo TestETL/transactional: pass, want fail"},
	} {
		got := expected()
		c.change(got)
		if d := parse(t).Compare(Klamm, got); len(d) != 1 || d[0].String() != c.want {
			t.Errorf("%s: %v, want %s", name, d, c.want)
		}
	}
}

// What passes by chance on Kafka deviates only if it does not run, or is skipped.
func TestChance(t *testing.T) {
	list, err := Parse(strings.NewReader("package .\npass chance TestRace # a race"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []Verdict{Pass, Fail} {
		if d := list.Compare(Kafka, map[Test]Verdict{{".", "TestRace"}: v}); d != nil {
			t.Errorf("%s: %v", v, d)
		}
	}
	if d := list.Compare(Kafka, map[Test]Verdict{{".", "TestRace"}: Skip}); len(d) != 1 {
		t.Errorf("skipped: %v, want a deviation", d)
	}
}

// A test some of whose subtests ran in a process of their own.
func TestMerge(t *testing.T) {
	for _, c := range []struct{ a, b, want Verdict }{
		{Pass, Fail, Fail}, {Fail, Pass, Fail}, {Skip, Pass, Pass}, {Pass, Skip, Pass}, {Skip, Skip, Skip},
	} {
		got := map[Test]Verdict{kgo("TestETL"): c.a}
		Merge(got, map[Test]Verdict{kgo("TestETL"): c.b, kgo("TestETL/x"): c.b})
		if got[kgo("TestETL")] != c.want || got[kgo("TestETL/x")] != c.b {
			t.Errorf("%s and %s: %v, want %s", c.a, c.b, got, c.want)
		}
	}
}
