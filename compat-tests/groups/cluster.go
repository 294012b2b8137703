package groups

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

// Cluster is a broker that can be killed and started again.
type Cluster interface {
	Address() string
	Kill()
	Start()
	LogDir() string
}

type klamm struct{ *harness.Broker }

func (k klamm) Address() string { return k.Addr }
func (k klamm) LogDir() string  { return filepath.Join(k.Dir, "data") }

type kafka struct{ *java.Broker }

func (k kafka) Address() string { return k.Addr }
func (k kafka) LogDir() string  { return k.Dir() }

// StartCluster starts klamm, or Apache Kafka if BROKER=kafka asks for it, with the
// defaults of either but for settings, lines key=value.
func StartCluster(t testing.TB, settings ...string) Cluster {
	t.Helper()
	if os.Getenv("BROKER") == "kafka" {
		return kafka{java.StartBroker(t, harness.FreePort(t), harness.FreePort(t), settings...)}
	}
	return klamm{harness.Start(t, settings...)}
}
