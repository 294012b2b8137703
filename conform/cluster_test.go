package conform

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// listed are nodes that only have addresses, and do as they are told.
type listed struct{ done []string }

func (n *listed) note(what string, id int32) error {
	n.done = append(n.done, fmt.Sprint(what, id))
	return nil
}
func (n *listed) Kill(id int32) error        { return n.note("kill", id) }
func (n *listed) Stop(id int32) error        { return n.note("stop", id) }
func (n *listed) Start(id int32) error       { return n.note("start", id) }
func (n *listed) Pause(id int32) error       { return n.note("pause", id) }
func (n *listed) Resume(id int32) error      { return n.note("resume", id) }
func (n *listed) Controller(id int32) string { return fmt.Sprintf("host:%d", 9190+id) }

func threeNodes(t *testing.T) (*R, *listed) {
	nodes := &listed{}
	target := &Target{addr: "host:9091", nodes: []int32{1, 2, 3}, listeners: map[int32]string{1: "host:9091", 2: "host:9092", 3: "host:9093"}, processes: nodes}
	return newRun(t.Context(), &Scenario{Name: "cluster/test"}, target, "p-"), nodes
}

// A connection leads to the node that its name says, or to one that is up.
func TestConnectionsLeadToNodes(t *testing.T) {
	r, nodes := threeNodes(t)
	want := func(conn, addr string) {
		t.Helper()
		if got := r.address(conn); got != addr {
			t.Errorf("%s leads to %s, not %s", conn, got, addr)
		}
	}
	want("main", "host:9091")
	want(At(1, "main"), "host:9092")
	want(AtController(2, "main"), "host:9193")
	r.Kill(0)
	r.Pause(1)
	want("main", "host:9093")
	if up := r.Up(); !slices.Equal(up, []int{2}) {
		t.Errorf("up are %v", up)
	}
	r.Launch(0)
	r.Launch(1)
	r.Stop(2)
	want("main", "host:9091")
	if got := []string{"kill1", "pause2", "start1", "resume2", "stop3"}; !slices.Equal(nodes.done, got) {
		t.Errorf("done was %v", nodes.done)
	}
	if got := r.t.Steps[0].Lines[0].String(); got != "is=node:1" {
		t.Errorf("the step says %s", got)
	}
}

// Nodes can be numbered from any of them on, in requests and in transcripts.
func TestNodesAreNumberedFromAny(t *testing.T) {
	r, _ := threeNodes(t)
	r.NumberFrom(1)
	if ids := r.Nodes(0, 1, 2); !slices.Equal(ids, []int32{2, 3, 1}) {
		t.Errorf("nodes %v", ids)
	}
	if got := r.address(At(0, "main")); got != "host:9092" {
		t.Errorf("the first is at %s", got)
	}
	resp := kmsg.NewPtrMetadataResponse()
	resp.ControllerID = 3
	for _, id := range []int32{1, 2} {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = id, "elsewhere", 9090+id
		resp.Brokers = append(resp.Brokers, b)
	}
	lines := linesText(r.symbols.render(resp))
	for _, part := range []string{"ControllerID=some-node", "NodeID=node:1", "port-of-node:1", "NodeID=node:3", "port-of-node:3"} {
		if !strings.Contains(lines, part) {
			t.Errorf("%s is not in\n%s", part, lines)
		}
	}
}

// A scenario of three nodes is not run on one, nor one with faults where nobody can make any.
func TestClusterScenariosNeedACluster(t *testing.T) {
	one := &Target{nodes: []int32{1}, advertised: map[int16][2]int16{3: {0, 13}}}
	s := &Scenario{Name: "cluster/test", Key: 3, Nodes: 3}
	if s.missing(one) == "" {
		t.Error("it would run on one node")
	}
	three := &Target{nodes: []int32{1, 2, 3}, advertised: one.advertised}
	if why := s.missing(three); why != "" {
		t.Error(why)
	}
	s.Faults = true
	if s.missing(three) == "" {
		t.Error("it would run without faults")
	}
}
