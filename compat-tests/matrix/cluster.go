package matrix

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
	"github.com/klamm-mq/klamm/compat-tests/tap"
)

// kafka tells whether Apache Kafka is asked for.
func kafka() bool { return os.Getenv("BROKER") == "kafka" }

// cluster is klamm, or Apache Kafka if BROKER=kafka asks for it, behind a tap.
type cluster struct {
	tap         *tap.Tap
	addr        string // of the broker, which is past the tap
	logs        string // its log directory
	start, stop func()
}

// startCluster starts it. Settings are the defaults, but that a group does not wait for
// its second member, and the cleaner not long.
func startCluster(t testing.TB) cluster {
	t.Helper()
	p := tap.Start(t, fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t)))
	settings := []string{"advertised.listeners=PLAINTEXT://" + p.Addr, "group.initial.rebalance.delay.ms=0", "log.cleaner.backoff.ms=200"}
	c := cluster{tap: p}
	if kafka() {
		b := java.StartBroker(t, harness.FreePort(t), harness.FreePort(t), settings...)
		c.addr, c.logs, c.start, c.stop = b.Addr, b.Dir(), b.Start, b.Stop
	} else {
		b := harness.Start(t, settings...)
		c.addr, c.logs, c.start = b.Addr, filepath.Join(b.Dir, "data"), b.Start
		c.stop = func() {
			if code := b.Stop(); code != 0 {
				t.Fatalf("klamm ends with %d:\n%s", code, b.Stderr())
			}
		}
	}
	p.Forward(c.addr)
	return c
}
