package evidence

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestLines(t *testing.T) {
	begin := time.Date(2026, 11, 29, 21, 0, 0, 0, time.UTC)
	line := Line{Begin: begin, Tier: "exact", Test: "TestSeeds", First: 7, Seeds: 3, Faults: 4, Acked: 5}
	name := filepath.Join(t.TempDir(), "sim.txt")
	for _, step := range []struct {
		file, commit string
		passed       bool
	}{{"", "c", true}, {name, "0123456789ab", true}, {name, "", false}} {
		t.Setenv(fileVar, step.file)
		t.Setenv(commitVar, step.commit)
		line.Passed = step.passed
		if err := line.Write(begin.Add(91 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	const want = `2026-11-29 commit=0123456789ab tier=exact test=TestSeeds seeds=7-9 faults=4 acked=5 duration=1m31s result=pass
2026-11-29 commit=unknown tier=exact test=TestSeeds seeds=7-9 faults=4 acked=5 duration=1m31s result=FAIL
`
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestSeedsOfTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		first, seeds string
		wantFirst    uint64
		wantSeeds    int
	}{{"", "", 1, 10}, {"5000000000", "20", 5_000_000_000, 20}, {"x", "0", 1, 10}} {
		t.Setenv(firstVar, c.first)
		t.Setenv(seedsVar, c.seeds)
		if First() != c.wantFirst || Seeds(10) != c.wantSeeds {
			t.Errorf("%q, %q: %d from %d on", c.first, c.seeds, Seeds(10), First())
		}
	}
}
