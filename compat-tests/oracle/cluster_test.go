package oracle

import (
	"bytes"
	"cmp"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klamm-mq/klamm/conform"
	"github.com/klamm-mq/klamm/conform/scenarios"
	"github.com/klamm-mq/klamm/conform/transcripts"
)

// clusterScenarios are those whose names match SCENARIOS, or all.
func clusterScenarios(t *testing.T) (chosen []conform.Scenario) {
	t.Helper()
	pattern, err := regexp.Compile(os.Getenv("SCENARIOS"))
	if err != nil {
		t.Fatalf("SCENARIOS: %v", err)
	}
	for _, s := range scenarios.Cluster() {
		if pattern.MatchString(s.Name) {
			chosen = append(chosen, s)
		}
	}
	slices.SortStableFunc(chosen, func(a, b conform.Scenario) int { return cmp.Compare(faulty(a), faulty(b)) })
	return chosen
}

func faulty(s conform.Scenario) int {
	if s.Faults {
		return 1
	}
	return 0
}

// TestClusterOracle asks three nodes of both brokers the same, and makes the same ones
// fail: nothing but what is explained may differ.
func TestClusterOracle(t *testing.T) {
	why, err := transcripts.ClusterExplanations()
	if err != nil {
		t.Fatal(err)
	}
	of, chosen := commit(t), clusterScenarios(t)
	klamm, kafka := startKlammCluster(t), startKafkaCluster(t)
	var ours, theirs []conform.Outcome
	var wg sync.WaitGroup
	wg.Go(func() { ours = askCluster(t, "Klamm", klamm, chosen) })
	wg.Go(func() { theirs = askCluster(t, "Kafka", kafka, chosen) })
	wg.Wait()
	report := conform.Judge(klamm, ours, byName(t, theirs), why)
	report.Reference = "Apache Kafka 4.4.0"
	if os.Getenv("SCENARIOS") != "" {
		report.Forgive()
	}
	var text strings.Builder
	if err := report.WriteText(&text, printed); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text.String())
	if !report.Passed {
		t.Fail()
	}
	evidence(t, "%s cluster: %d steps on three nodes compared with Apache Kafka 4.4.0: %d the same, %d explained, %d different",
		of, report.Steps, report.Same, report.Explained, report.Different)
}

// fewer scenarios run at a time on three nodes: a busy machine would have them take each
// other for dead.
const fewer = 3

// askCluster runs scenarios, and says how far it is: the faults take their time.
func askCluster(t *testing.T, who string, target *conform.Target, list []conform.Scenario) []conform.Outcome {
	outcomes, err := conform.Run(t.Context(), target, list, conform.Options{
		Parallel: fewer,
		Progress: func(done, of int, s *conform.Scenario, err error) {
			t.Logf("%s: %d of %d: %s %v", who, done, of, s.Name, err)
		},
	})
	if err != nil {
		t.Error(err)
	}
	return outcomes
}

// TestClusterRecord has two fresh Kafkas of three nodes answer every scenario of clusters,
// and writes what both agree on into the directory RECORD, if that is set.
func TestClusterRecord(t *testing.T) {
	first := recordCluster(t)
	if os.Getenv("ONCE") != "" { // while a scenario is being written
		return
	}
	for name, text := range recordCluster(t) {
		if !bytes.Equal(first[name], text) {
			t.Errorf("%s is not the same when it is recorded again:\n%s", name, firstDifference(first[name], text))
		}
	}
}

// keepRecorded writes what there is into the directory RECORD, if that is set.
func keepRecorded(t *testing.T, outcomes []conform.Outcome) {
	t.Helper()
	for i, o := range outcomes {
		if o.Err != nil && o.Skipped == "" {
			t.Error(o.Err)
			outcomes[i].Skipped = "failed"
		}
	}
	if to := os.Getenv("RECORD"); to != "" {
		write(t, transcripts.WriteCluster, to, outcomes)
	}
}

func recordCluster(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	t.Run("kafka", func(t *testing.T) { // its processes end with it
		kafka, chosen := startKafkaCluster(t), clusterScenarios(t)
		faults := slices.IndexFunc(chosen, func(s conform.Scenario) bool { return s.Faults })
		if faults < 0 {
			faults = len(chosen)
		}
		outcomes := askCluster(t, "Kafka", kafka, chosen[:faults])
		for faults < len(chosen) { // each takes minutes, and is kept at once
			keepRecorded(t, outcomes)
			outcomes = append(outcomes, askCluster(t, "Kafka", kafka, chosen[faults:faults+1])...)
			faults++
		}
		keepRecorded(t, outcomes)
		dir := t.TempDir()
		write(t, transcripts.WriteCluster, dir, outcomes)
		files = read(t, dir)
	})
	if t.Failed() {
		t.FailNow()
	}
	return files
}
