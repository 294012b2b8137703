package conform

import "fmt"

// Scenario is a short program of requests.
type Scenario struct {
	// Name is unique, "produce/acks": a group and what is tried.
	Name string
	// Key is the API that the scenario is about: differences are counted there, and its
	// transcript is in that API's file.
	Key int16
	// Needs are further APIs without which the scenario cannot run. Produce, Fetch,
	// ListOffsets, Metadata, ApiVersions, CreateTopics and DeleteTopics are taken for
	// granted.
	Needs []int16
	// Invasive scenarios change more than topics, groups and ids of their own: cluster
	// configuration, quotas, credentials. They run only when asked for.
	Invasive bool
	// Alone scenarios run while no other does.
	Alone bool
	// Nodes is how many nodes the cluster must have, 0 for any.
	Nodes int
	// Faults scenarios make nodes fail. Each has the cluster for itself, as Alone ones have,
	// and gives it back whole.
	Faults bool
	// Racks scenarios run on a cluster whose nodes have a rack and two log directories each,
	// and whose voters can be changed; the others on one without.
	Racks bool
	// Run sends the requests. It must do the same for every broker, whatever the answers:
	// what depends on an answer belongs in a variable, not in a branch.
	Run func(r *R)
}

// missing is why the scenario cannot run against t, "" if it can.
func (s *Scenario) missing(t *Target) string {
	for _, key := range append([]int16{s.Key}, s.Needs...) {
		if !t.Advertises(key) {
			return NotAdvertised
		}
	}
	switch {
	case s.Nodes > len(t.nodes):
		return fmt.Sprintf("needs %d nodes", s.Nodes)
	case s.Faults && t.processes == nil:
		return "nobody can make the nodes fail"
	}
	return ""
}

// Step is what came of one step of a scenario.
type Step struct {
	Label   string // "v3 unknown topic"
	Key     int16  // -1 for raw bytes
	Version int16
	// Outcome is "answer", "closed", "silent", "sent" or "note".
	Outcome string
	Lines   []Line
}

// Transcript is what a scenario saw.
type Transcript struct {
	Scenario string
	Key      int16
	Steps    []Step
}
