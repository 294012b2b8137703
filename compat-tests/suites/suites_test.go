package suites

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
	"github.com/klamm-mq/klamm/compat-tests/suites/verdict"
)

func TestKgo(t *testing.T) { runs(t, kgo("kgo")) }

// Every connection dies after a second, half a second more or less.
func TestKgoChaos(t *testing.T) { runs(t, kgo("kgo-chaos", "KGO_TEST_CHAOS=1")) }

func TestKafkaGo(t *testing.T) { runs(t, kafkaGo()) }

func TestConfluent(t *testing.T) { runs(t, confluent()) }

// runs runs a suite RUNS times (1), each time on a new broker.
func runs(t *testing.T, s Suite) {
	n := 1
	if text := os.Getenv("RUNS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("RUNS: %v", err)
		}
	}
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
	harness.Evidence(t, "%s suite-%s: %s %s on %s, RUNS=%d: %d as listed in a row of %d; the last one: %d tests pass, %d skipped, %d fail; %v",
		commit, s.Name, s.Module, s.Version, brokerName(), n, asListed, n,
		counts[verdict.Pass], counts[verdict.Skip], counts[verdict.Fail], time.Since(begin).Round(time.Second))
}

// run compares one run with the list. What is expected to fail, or leaves it to chance, is
// tried in the first run only, and remembered in alone.
func run(t *testing.T, s Suite, list verdict.List, programs Programs, alone Result) Result {
	on, addr := startBroker(t, s)
	apart := list.Apart(on)
	result, err := s.Together(t.Context(), programs, addr, apart)
	if err != nil {
		t.Fatal(err)
	}
	if len(alone.Verdicts) == 0 {
		first, err := s.Alone(t.Context(), programs, addr, apart)
		if err != nil {
			t.Fatal(err)
		}
		alone.add(first)
	}
	result.add(alone)
	for _, d := range list.Compare(on, result.Verdicts) {
		t.Errorf("%s\n%s", d, result.Output(d.Test))
	}
	return result
}

func brokerName() string {
	if os.Getenv("BROKER") == "kafka" {
		return "Apache Kafka 4.4.0"
	}
	return "Klamm"
}

// startBroker starts the broker that BROKER asks for, klamm without it.
func startBroker(t *testing.T, s Suite) (on verdict.Broker, addr string) {
	t.Helper()
	port := harness.FreePort(t)
	if s.Addr != "" {
		_, text, _ := strings.Cut(s.Addr, ":")
		var err error
		if port, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getenv("BROKER") == "kafka" {
		b := java.StartBroker(t, port, harness.FreePort(t), s.Settings...)
		return verdict.Kafka, b.Addr
	}
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	harness.Start(t, append([]string{"listeners=PLAINTEXT://" + addr}, s.Settings...)...)
	return verdict.Klamm, addr
}
