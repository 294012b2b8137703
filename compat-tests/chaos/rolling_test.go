package chaos

import (
	"testing"
	"time"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

// TestRollingRestarts restarts three brokers one after the other for MINUTES (2) under load. No
// record may be given up by a producer.
func TestRollingRestarts(t *testing.T) {
	r := startCluster(t, nil, 0, map[string]string{"min.insync.replicas": "2"}, nil, chosen(t))
	r.rolling(func(int) { r.roll(restart("restart", "")) })
}

// TestRollingMembers restarts four brokers for MINUTES (2) under load while members come and go:
// each in turn is drained, loses its vote, is removed, and comes back with an empty disk as a
// voter.
func TestRollingMembers(t *testing.T) {
	r := &clusterRun{schedule: newSchedule(0, nil), cluster: newNodes(t, nodes+1)}
	newGrowing(r.cluster)
	r.grow()
	r.loadUp(t, map[string]string{"min.insync.replicas": "2"}, nil, chosen(t))
	r.rolling(func(round int) { r.exchange(1 + round%len(r.nodes)) })
}

// rolling repeats a round, and judges.
func (r *clusterRun) rolling(round func(number int)) {
	r.t.Helper()
	t, begin, rounds := r.load.t, time.Now(), 0
	for end := begin.Add(time.Duration(number(t, "MINUTES", 2)) * time.Minute); time.Now().Before(end); rounds++ {
		round(rounds)
	}
	compared := r.finish()
	r.wantNothingGivenUp()
	harness.Evidence(t, "commit=%s %s rounds=%d restarts=%d longest=%s replicas=%d %s duration=%s result=%s", harness.Commit(), t.Name(),
		rounds, len(r.costs), r.longest(), compared, r.load.counts(), time.Since(begin).Round(time.Second), result(t))
}

// wantNothingGivenUp is for what an operator does on purpose: it may cost clients a retry.
func (r *clusterRun) wantNothingGivenUp() {
	r.t.Helper()
	if n := r.load.total(func(h *history) int { return h.failed }); n > 0 {
		r.t.Errorf("producers have given up %d records", n)
	}
}
