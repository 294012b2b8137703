package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// drainCase is a cluster in short: nodes as id, id@rack, or id! for one that is fenced;
// partitions of topic t as their replicas, with ! for one without a leader, and how they are
// being moved.
type drainCase struct {
	name   string
	nodes  string
	parts  []string
	moving map[int]reassignment
	fewer  bool
	want   string // moves, leaving, stuck
	err    string
}

func (c drainCase) view(t *testing.T) *clusterView {
	t.Helper()
	v := &clusterView{topics: kadm.TopicDetails{}, moving: map[topicPartition]reassignment{}}
	for name := range strings.FieldsSeq(c.nodes) {
		n := clusterNode{broker: true}
		name, n.fenced = strings.CutSuffix(name, "!")
		id, rack, _ := strings.Cut(name, "@")
		var err error
		if n.id, err = parseNode(id); err != nil {
			t.Fatal(err)
		}
		n.rack = rack
		v.nodes = append(v.nodes, n)
	}
	parts := kadm.PartitionDetails{}
	for i, list := range c.parts {
		list, offline := strings.CutSuffix(list, "!")
		p := kadm.PartitionDetail{Topic: "t", Partition: int32(i)}
		for id := range strings.SplitSeq(list, ",") {
			n, err := parseNode(id)
			if err != nil {
				t.Fatal(err)
			}
			p.Replicas = append(p.Replicas, n)
		}
		p.Leader = p.Replicas[0]
		if offline {
			p.Leader = -1
		}
		parts[int32(i)] = p
		if m, ok := c.moving[i]; ok {
			v.moving[topicPartition{"t", int32(i)}] = m
		}
	}
	v.topics["t"] = kadm.TopicDetail{Topic: "t", Partitions: parts}
	return v
}

func (c drainCase) render(plan drainPlan) string {
	var lines []string
	for _, m := range plan.moves {
		lines = append(lines, fmt.Sprintf("%d: %s", m.partition, nodes(m.to)))
	}
	for _, p := range sortedPartitions(plan.leaving) {
		lines = append(lines, fmt.Sprintf("%d leaves", p.partition))
	}
	for _, err := range plan.stuck {
		lines = append(lines, err.Error())
	}
	return strings.Join(lines, "; ")
}

// Node 3 is drained.
func TestPlanDrain(t *testing.T) {
	for _, c := range []drainCase{
		{name: "nothing there", nodes: "1 2 3", parts: []string{"1,2"}, want: ""},
		{name: "the other broker", nodes: "1 2 3", parts: []string{"1,3", "2,3"}, want: "0: 1,2; 1: 2,1"},
		{name: "the emptiest", nodes: "1 2 3 4", parts: []string{"1,2", "1,3", "3,1"}, want: "1: 1,4; 2: 2,1"},
		{name: "what was planned counts", nodes: "1 2 3 4", parts: []string{"3", "3", "3", "3"}, want: "0: 1; 1: 2; 2: 4; 3: 1"},
		{name: "another rack first", nodes: "1@a 2@a 3@b 4@b", parts: []string{"4", "4", "1,3"}, want: "2: 1,4"},
		{name: "the same rack at last", nodes: "1@a 2@a 3@b", parts: []string{"1,3"}, want: "0: 1,2"},
		{name: "leaders spread", nodes: "1 2 3 4", parts: []string{"1,2", "2,4", "3,1", "3,4"}, want: "2: 1,2; 3: 4,1"},
		{name: "a follower's place stays", nodes: "1 2 3 4", parts: []string{"1,3,2"}, want: "0: 1,2,4"},
		{name: "nobody who is down", nodes: "1 2! 3 4", parts: []string{"1,3"}, want: "0: 1,4"},
		{name: "nobody who is down is preferred", nodes: "1! 3 4", parts: []string{"3,1"}, want: "0: 4,1"},
		{name: "too few", nodes: "1 2 3", parts: []string{"1,2,3"}, err: "t-0 needs 3 brokers, and without node 3 there are 2"},
		{name: "too few as long as one is down", nodes: "1 2 3 4!", parts: []string{"1,2,3"}, err: "t-0 needs 3 brokers, and without node 3 there are 2; out of service: 4"},
		{name: "too few, and fewer will do", nodes: "1 2 3", parts: []string{"3,2,1"}, fewer: true, want: "0: 2,1"},
		{name: "the last replica is not dropped", nodes: "3", parts: []string{"3"}, fewer: true, err: "t-0 needs 1 brokers, and without node 3 there are 0"},
		{name: "no leader", nodes: "1 3!", parts: []string{"3!", "1,3"}, fewer: true, want: "1: 1; t-0 has no leader to copy from; its replicas are on 3"},
		{
			name: "on its way", nodes: "1 2 3", parts: []string{"1,2,3"},
			moving: map[int]reassignment{0: {replicas: []int32{1, 2, 3}, adding: []int32{2}, removing: []int32{3}}},
			want:   "0 leaves",
		},
		{
			name: "on its way here", nodes: "1 2 3 4", parts: []string{"3,1,2"},
			moving: map[int]reassignment{0: {replicas: []int32{3, 1, 2}, adding: []int32{3}, removing: []int32{2}}},
			want:   "0: 1,2",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := planDrain(c.view(t), 3, c.fewer)
			if got := fmt.Sprint(err); c.err != "" && got != c.err || c.err == "" && err != nil {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if got := c.render(plan); err == nil && got != c.want {
				t.Errorf("plan %q, want %q", got, c.want)
			}
		})
	}
}

// Whatever the cluster: after a plan nobody has two replicas of a partition, the drained
// node none, and brokers that begin equal end equal.
func TestPlanDrainSpreads(t *testing.T) {
	c := drainCase{nodes: "1 2 3 4 5"}
	for i := range 60 {
		first := i % 5
		var list []string
		for j := range 3 {
			list = append(list, fmt.Sprint((first+j)%5+1))
		}
		c.parts = append(c.parts, strings.Join(list, ","))
	}
	plan, err := planDrain(c.view(t), 3, false)
	if err != nil || len(plan.moves) != 36 {
		t.Fatalf("%d moves, error %v", len(plan.moves), err)
	}
	got := map[int32]int{}
	for _, m := range plan.moves {
		if slices.Contains(m.to, 3) || len(slices.Compact(slices.Sorted(slices.Values(m.to)))) != 3 {
			t.Errorf("%s", m)
		}
		for _, id := range without(m.to, m.from...) {
			got[id]++
		}
	}
	for id, n := range got {
		if n < 8 || n > 10 {
			t.Errorf("node %d gets %d of 36 replicas", id, n)
		}
	}
}
