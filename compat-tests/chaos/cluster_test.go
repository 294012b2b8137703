package chaos

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

// TestThreeBrokersUnderFaults runs for MINUTES (3) with the faults of a SEED.
func TestThreeBrokersUnderFaults(t *testing.T) {
	kinds, seed := chosenFaults(t), seed(t)
	topic := map[string]string{"min.insync.replicas": "2"}
	if newSchedule(seed, kinds).has("damage") {
		topic["segment.ms"] = "10000" // of a single segment there is little to damage
	}
	r := startCluster(t, kinds, seed, topic, nil, chosen(t))
	begin := time.Now()
	for end := begin.Add(time.Duration(number(t, "MINUTES", 3)) * time.Minute); time.Now().Before(end); {
		r.strike(r.schedule.next())
	}
	compared := r.finish()
	t.Logf("seed %d: %d replicas compared", seed, compared)
	harness.Evidence(t, "commit=%s seed=%d %sfaults=%d replicas=%d %s duration=%s result=%s", harness.Commit(), seed, r.schedule.only(), len(r.costs), compared,
		r.load.counts(), time.Since(begin).Round(time.Second), result(t))
}

// seed is SEED, or one that nobody has chosen.
func seed(t testing.TB) uint64 {
	t.Helper()
	chosen := rand.Uint64() >> 1
	if text := os.Getenv("SEED"); text != "" {
		var err error
		if chosen, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("SEED=%s is not a number", text)
		}
	}
	t.Logf("seed %d", chosen)
	return chosen
}
