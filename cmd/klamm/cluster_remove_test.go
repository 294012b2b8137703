package main

import (
	"strings"
	"testing"
)

// During an election nobody tells who votes. A dead voter is not taken for a mere broker then:
// it would be forgotten as a broker, and stay a voter.
func TestNothingIsRemovedOrAddedDuringAnElection(t *testing.T) {
	view := &clusterView{leader: -1, nodes: []clusterNode{{id: 1, broker: true}, {id: 3, broker: true, fenced: true}}}
	for what, err := range map[string]error{"remove": mayRemove(view, 3), "add": mayAdd(view, 3)} {
		if err == nil || !strings.Contains(err.Error(), "no leader") {
			t.Errorf("%s: %v", what, err)
		}
	}
	view.leader, view.nodes[1].observer = 1, true
	for what, err := range map[string]error{"remove": mayRemove(view, 3), "add": mayAdd(view, 3)} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
