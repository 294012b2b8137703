package matrix

import (
	"fmt"
	"os"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
	"github.com/klamm-mq/klamm/compat-tests/tap"
)

// kafka tells whether Apache Kafka is asked for.
func kafka() bool { return os.Getenv("BROKER") == "kafka" }

// startCluster starts klamm, or Apache Kafka if BROKER=kafka asks for it, behind a tap.
// Settings are the defaults, but that a group does not wait for its second member.
func startCluster(t testing.TB) *tap.Tap {
	t.Helper()
	p := tap.Start(t, fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t)))
	settings := []string{"advertised.listeners=PLAINTEXT://" + p.Addr, "group.initial.rebalance.delay.ms=0"}
	if kafka() {
		p.Forward(java.StartBroker(t, harness.FreePort(t), harness.FreePort(t), settings...).Addr)
	} else {
		p.Forward(harness.Start(t, settings...).Addr)
	}
	return p
}
