package chaos

import (
	"strings"
	"testing"
	"time"
)

// TestUnsafeSettingsUnderCuts shows that the judge finds losses: for MINUTES (1) leaders are
// cut off from the other nodes, and not from a producer to whom acks=1 is enough.
func TestUnsafeSettingsUnderCuts(t *testing.T) {
	t.Setenv("FAULTS", "cut")
	t.Setenv("CLIENTS", "franz")
	settings := map[string]string{"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
	r := startCluster(t, chosenFaults(t), seed(t), settings, []string{"--acks=1"}, chosen(t))
	for end := time.Now().Add(time.Duration(number(t, "MINUTES", 1)) * time.Minute); time.Now().Before(end); {
		r.strike(r.schedule.next())
	}
	r.load.stopProducers()
	r.awaitWhole()
	_, faults := r.load.judge()
	lost := 0
	for _, fault := range faults {
		if strings.Contains(fault, ": lost: ") {
			lost++
		}
	}
	t.Logf("%s: after %d cuts the judge finds that %d records are lost", r.load.counts(), len(r.costs), lost)
	if lost == 0 {
		t.Error("the judge has found no loss, where there must be some")
	}
}
