package javaclient

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/groups"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

func source(name string) string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), name)
}

// What applications rely on beside what package matrix asks for, see Habits.java.
func TestHabits(t *testing.T) {
	cmd, err := java.Quick(source("Habits.java"), groups.StartCluster(t, "group.initial.rebalance.delay.ms=0").Address())
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	verdicts := 0
	for line := range strings.Lines(string(out)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word != "ok" && word != "failed" {
			continue
		}
		verdicts++
		name, why, _ := strings.Cut(rest, ":")
		t.Run(name, func(t *testing.T) {
			if word == "failed" {
				t.Error(why)
			}
		})
	}
	const all = 12
	if err != nil || verdicts != all {
		t.Errorf("%d verdicts of %d, %v:\n%s", verdicts, all, err, out)
	}
}
