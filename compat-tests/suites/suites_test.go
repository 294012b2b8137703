package suites

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/suites/verdict"
)

func TestKgo(t *testing.T) { runs(t, kgo(number(t, "NODES"), number(t, "RF"), "kgo")) }

// Every connection dies after a second, half a second more or less.
func TestKgoChaos(t *testing.T) {
	runs(t, kgo(number(t, "NODES"), number(t, "RF"), "kgo-chaos", "KGO_TEST_CHAOS=1"))
}

func TestKafkaGo(t *testing.T) { runs(t, kafkaGo()) }

func TestConfluent(t *testing.T) { runs(t, confluent()) }

func TestSarama(t *testing.T) { runs(t, sarama()) }

// number is a variable of the environment, or 1.
func number(t *testing.T, name string) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// runs runs a suite RUNS times (1), each time on a new broker.
func runs(t *testing.T, s Suite) {
	n := number(t, "RUNS")
	list, err := s.Expected()
	if err != nil {
		t.Fatal(err)
	}
	programs, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	commit := harness.Commit()
	begin, asListed, last, alone := time.Now(), 0, newResult(), newResult()
	for i := range n {
		if t.Run(fmt.Sprintf("run%d", i+1), func(t *testing.T) { last = run(t, s, list, programs, alone) }) {
			asListed++
		}
	}
	counts := map[verdict.Verdict]int{}
	for test, v := range last.Verdicts {
		if _, sub := test.Parent(); !sub {
			counts[v]++
		}
	}
	harness.Evidence(t, "%s suite-%s: %s %s on %s%s, RUNS=%d: %d as listed in a row of %d; the last one: %d tests pass, %d skipped, %d fail; %v",
		commit, s.Name, s.Module, s.Version, brokerName(), s.shape(), n, asListed, n,
		counts[verdict.Pass], counts[verdict.Skip], counts[verdict.Fail], time.Since(begin).Round(time.Second))
}

// run compares one run with the list. What is expected to fail, or leaves it to chance, is
// tried in the first run only, and remembered in alone.
func run(t *testing.T, s Suite, list verdict.List, programs Programs, alone Result) Result {
	env := s.start(t)
	apart := list.Apart(on())
	result, err := s.Together(t.Context(), programs, env, apart)
	if err != nil {
		t.Fatal(err)
	}
	if len(alone.Verdicts) == 0 {
		first, err := s.Alone(t.Context(), programs, env, apart)
		if err != nil {
			t.Fatal(err)
		}
		alone.add(first)
	}
	result.add(alone)
	for _, d := range list.Compare(on(), result.Verdicts) {
		t.Errorf("%s\n%s", d, result.Output(d.Test))
	}
	return result
}
