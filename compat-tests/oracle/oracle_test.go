package oracle

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/conform"
	"github.com/klamm-mq/klamm/conform/scenarios"
	"github.com/klamm-mq/klamm/conform/transcripts"
)

// Scenarios that run at a time, against each broker.
const parallel = 8

// printed differences; all are counted.
const printed = 100

// TestOracle asks both brokers everything, RUNS times (1): nothing but what explained.txt
// explains may differ, and all that it explains must.
func TestOracle(t *testing.T) {
	runs := 1
	if text := os.Getenv("RUNS"); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil {
			t.Fatalf("RUNS: %v", err)
		}
	}
	klamm, kafka := connect(t, startKlamm(t).Addr), connect(t, startKafka(t).Addr)
	for i := range runs {
		begin := time.Now()
		report := compare(t, klamm, kafka)
		var text strings.Builder
		if err := report.WriteText(&text, printed); err != nil {
			t.Fatal(err)
		}
		t.Logf("run %d of %d, %v\n%s", i+1, runs, time.Since(begin).Round(time.Second), text.String())
		if !report.Passed {
			t.Fail()
		}
	}
}

func compare(t *testing.T, klamm, kafka *conform.Target) conform.Report {
	t.Helper()
	why, err := transcripts.Explanations()
	if err != nil {
		t.Fatal(err)
	}
	var ours, theirs []conform.Outcome
	var wg sync.WaitGroup
	wg.Go(func() { ours = ask(t, klamm, scenarios.All()) })
	wg.Go(func() { theirs = ask(t, kafka, scenarios.All()) })
	wg.Wait()
	report := conform.Judge(klamm, ours, byName(t, theirs), why)
	report.Reference = "Apache Kafka 4.4.0"
	return report
}

// byName are Kafka's transcripts by their scenarios' names.
func byName(t *testing.T, theirs []conform.Outcome) map[string]conform.Transcript {
	t.Helper()
	reference := map[string]conform.Transcript{}
	for _, o := range theirs {
		if o.Err != nil {
			t.Errorf("Kafka: %v", o.Err)
		}
		if o.Skipped == "" {
			reference[o.Scenario.Name] = o.Transcript
		}
	}
	return reference
}

func ask(t *testing.T, target *conform.Target, list []conform.Scenario) []conform.Outcome {
	outcomes, err := conform.Run(t.Context(), target, list, conform.Options{Parallel: parallel, Invasive: true})
	if err != nil {
		t.Error(err)
	}
	return outcomes
}
