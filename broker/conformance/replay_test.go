package conformance

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/conform"
	"github.com/klamm-mq/klamm/conform/scenarios"
	"github.com/klamm-mq/klamm/conform/transcripts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parallel scenarios wait more than they work: for topics, timeouts, and silence.
const parallel = 16

// printed differences; all are counted.
const printed = 40

// Every answer is the recorded one, but for what docs/divergence.md explains.
func TestReplay(t *testing.T) {
	b := brokertest.Start(t, scenarios.Settings()...)
	target, err := conform.Connect(t.Context(), b.Addr("PLAINTEXT").String())
	if err != nil {
		t.Fatal(err)
	}
	reference, err := transcripts.Load()
	if err != nil {
		t.Fatal(err)
	}
	why, err := transcripts.Explanations()
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := conform.Run(t.Context(), target, scenarios.All(), conform.Options{Parallel: parallel, Invasive: true})
	if err != nil {
		t.Error(err)
	}
	report := conform.Judge(target, outcomes, reference, why)
	var text strings.Builder
	if err := report.WriteText(&text, printed); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text.String())
	if !report.Passed {
		t.Fail()
	}
}

// A recording is of a scenario that exists, under its API, and every scenario has one.
func TestRecordingsAreOfScenarios(t *testing.T) {
	single, err := transcripts.Load()
	if err != nil {
		t.Fatal(err)
	}
	clusters, err := transcripts.LoadCluster()
	if err != nil {
		t.Fatal(err)
	}
	checkRecordings(t, single, scenarios.All())
	checkRecordings(t, clusters, scenarios.Cluster())
}

func checkRecordings(t *testing.T, recorded map[string]conform.Transcript, list []conform.Scenario) {
	t.Helper()
	has := map[int16]bool{}
	for _, transcript := range recorded {
		has[transcript.Key] = true
	}
	for _, s := range list {
		transcript, ok := recorded[s.Name]
		switch {
		case !ok && !has[s.Key]: // an API that Kafka advertises only with some plugin
		case !ok:
			t.Errorf("%s is not recorded", s.Name)
		case transcript.Key != s.Key:
			t.Errorf("%s is about API %d, and recorded as of %d", s.Name, s.Key, transcript.Key)
		}
		delete(recorded, s.Name)
	}
	for name := range recorded {
		t.Errorf("the recording of %s is of no scenario", name)
	}
}

// What is explained is written down for users, too.
func TestExplanationsAreRowsOfTheDivergencePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/divergence.md")
	if err != nil {
		t.Fatal(err)
	}
	why, err := transcripts.Explanations()
	if err != nil {
		t.Fatal(err)
	}
	ofClusters, err := transcripts.ClusterExplanations()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range slices.Concat(why.Rows(), ofClusters.Rows()) {
		if !strings.Contains(string(page), "\n| "+row+" |") {
			t.Errorf("docs/divergence.md has no row %s", row)
		}
	}
}
