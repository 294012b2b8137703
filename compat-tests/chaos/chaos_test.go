package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/compat-tests/groups"
	"github.com/klamm-mq/klamm/compat-tests/harness"
)

// TestOneBrokerUnderSIGKILL runs for MINUTES (3) with a kill each EVERY (60) seconds.
func TestOneBrokerUnderSIGKILL(t *testing.T) {
	minutes, every := number(t, "MINUTES", 3), number(t, "EVERY", 60)
	broker := groups.StartCluster(t)
	l := startLoad(t, loadOptions{bootstrap: broker.Address(), kinds: chosen(t), replication: 1})
	begin, kills := time.Now(), 0
	for end := begin.Add(time.Duration(minutes) * time.Minute); time.Now().Before(end); {
		l.wait(time.Duration(every/2)*time.Second + rand.N(time.Duration(every)*time.Second))
		broker.Kill()
		broker.Start()
		kills++
		since := time.Now()
		l.wait(settle)
		l.goOn(fmt.Sprintf("going on after kill %d", kills), since, bound)
	}
	l.stopProducers()
	l.awaitReaders()
	_, faults := l.judge()
	l.report(faults)
	for _, m := range l.members {
		m.end(syscall.SIGTERM)
	}
	harness.Evidence(t, "commit=%s broker=%s kills=%d %s duration=%s result=%s",
		harness.Commit(), brokerName(), kills, l.counts(), time.Since(begin).Round(time.Second), result(t))
}

func result(t testing.TB) string {
	if t.Failed() {
		return "FAIL"
	}
	return "pass"
}

func brokerName() string {
	if name := os.Getenv("BROKER"); name != "" {
		return name
	}
	return "klamm"
}

func number(t testing.TB, name string, ifUnset int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return ifUnset
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s is not a positive number", name, text)
	}
	return n
}
