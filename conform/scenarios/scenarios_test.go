package scenarios

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/klamm-mq/klamm/conform"
	"github.com/klamm-mq/klamm/conform/transcripts"
)

// Every scenario has a name of its own, "group/what", and is about an API of Kafka's.
func TestScenariosAreNamed(t *testing.T) {
	form := regexp.MustCompile(`^[a-z_-]+/[A-Za-z0-9._ -]+$`)
	seen := map[string]bool{}
	for _, s := range slices.Concat(All(), Cluster()) {
		if seen[s.Name] {
			t.Errorf("two scenarios are called %s", s.Name)
		}
		seen[s.Name] = true
		if !form.MatchString(s.Name) {
			t.Errorf("%s: not the form of a name", s.Name)
		}
		for _, key := range append(s.Needs, s.Key) {
			if _, ok := conform.Lookup(key); !ok {
				t.Errorf("%s: no client may use key %d", s.Name, key)
			}
		}
		if s.Run == nil {
			t.Errorf("%s does nothing", s.Name)
		}
	}
}

// Each API has a scenario of its own, beside those that all have; telemetry is tried with
// the resources that subscribe to it, since Kafka does not advertise it without a plugin.
func TestEveryAPIHasAScenario(t *testing.T) {
	have := map[int16]int{}
	for _, s := range All() {
		have[s.Key]++
	}
	for _, api := range conform.APIs() {
		if have[api.Key] < 3 && api.Key != 71 && api.Key != 72 {
			t.Errorf("%s has %d scenarios", api.Name, have[api.Key])
		}
	}
}

// A step's label is what tells it from the others of its scenario.
func TestLabelsAreUnique(t *testing.T) {
	recorded, err := transcripts.Load()
	if err != nil {
		t.Fatal(err)
	}
	ofClusters, err := transcripts.LoadCluster()
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(recorded, ofClusters)
	for name, transcript := range recorded {
		seen := map[string]bool{}
		for _, step := range transcript.Steps {
			if seen[step.Label] {
				t.Errorf("%s: two steps are called %s", name, step.Label)
			}
			seen[step.Label] = true
		}
	}
}
