package node

import (
	"testing"

	"github.com/klamm-mq/klamm/cluster/controller"
)

// Replicas that stay failed, since they are the last copies, leave the others their turn.
func TestManyFailuresAreReportedInTurn(t *testing.T) {
	n := New(Options{Channel: &fakeController{}})
	defer n.Close()
	const all = 2*controller.MaxFailedReplicas + 1
	for i := range int32(all) {
		n.failed = append(n.failed, controller.FailedReplica{Partition: i})
	}
	reported := map[int32]bool{}
	for range 3 {
		_, failed := n.reports()
		if len(failed) != controller.MaxFailedReplicas {
			t.Fatalf("%d in one report", len(failed))
		}
		for _, f := range failed {
			reported[f.Partition] = true
		}
	}
	if len(reported) != all {
		t.Errorf("%d of %d were reported", len(reported), all)
	}
}
