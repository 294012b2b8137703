package chaos

import (
	"fmt"
	"slices"
	"time"
)

// restart is SIGTERM and a start at once, of one node after the other. With a binary the
// nodes go on as that one.
func restart(name, binary string) *faultKind {
	return &faultKind{name: name, begin: stopNode, end: func(c *cluster, s strike) {
		if binary != "" {
			c.node(s.node).Use(binary)
		}
		startNode(c, s)
	}}
}

// roll restarts every node as an operator does: the next one when all replicas are in sync
// again, the active controller last.
func (r *clusterRun) roll(kind *faultKind, ids ...int) {
	r.t.Helper()
	if len(ids) == 0 {
		for _, n := range r.nodes {
			ids = append(ids, n.id)
		}
	}
	for len(ids) > 0 {
		last := r.watcher.controller()
		next := slices.IndexFunc(ids, func(id int) bool { return id != last })
		next = max(next, 0)
		id := ids[next]
		ids = slices.Delete(slices.Clone(ids), next, next+1)
		r.strike(strike{number: len(r.costs) + 1, kind: kind, node: id, other: r.others(id)[0].id})
	}
}

// longest is the largest of the gaps that restarts have cost, and whose it was.
func (r *clusterRun) longest() string {
	most, whose := time.Duration(0), ""
	for _, c := range r.costs {
		for i, gap := range c.gaps {
			if gap > most {
				most, whose = gap, r.load.kinds[i].name
			}
		}
	}
	return fmt.Sprintf("%s/%s", most.Round(10*time.Millisecond), whose)
}
