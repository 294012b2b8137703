package javatools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

// One JVM runs all tools; each verdict has a broker of its own.
func TestTools(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v in testdata, %v", files, err)
	}
	shell := startShell(t)
	for name, run := range map[string]func(*session){
		"group with a member": (*session).groupWithAMember,
		"API versions":        (*session).apiVersions,
		"descriptions":        (*session).descriptions,
		"verifiable clients":  (*session).verifiableClients,
		"log directories":     (*session).directories,
	} {
		t.Run(name, func(t *testing.T) { run(startBroker(t, shell)) })
	}
	clusters, err := filepath.Glob("testdata/nodes/*.txt")
	if err != nil || len(clusters) == 0 {
		t.Fatalf("%v in testdata/nodes, %v", clusters, err)
	}
	for _, file := range clusters {
		name := filepath.Base(file)
		t.Run("nodes "+strings.TrimSuffix(name, ".txt"), func(t *testing.T) {
			startNodes(t, shell).play(filepath.Join("nodes", name))
		})
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			startBroker(t, shell).play(filepath.Base(file))
		})
	}
}

// startBroker starts klamm, or Kafka if BROKER=kafka asks for it.
func startBroker(t *testing.T, shell *shell) *session {
	t.Helper()
	s := &session{t: t, shell: shell, tmp: t.TempDir(), dir: t.TempDir(), more: t.TempDir(), rewrite: os.Getenv("REWRITE") != ""}
	settings := []string{"group.initial.rebalance.delay.ms=0", "log.dirs=" + s.dir}
	if strings.HasSuffix(t.Name(), "directories") {
		settings[1] += "," + s.more
	}
	switch {
	case os.Getenv("BROKER") == "kafka":
		s.addr = java.StartBroker(t, harness.FreePort(t), harness.FreePort(t), settings...).Addr
	case s.rewrite:
		t.Fatal("what Kafka says is written down with BROKER=kafka")
	default:
		s.addr = harness.Start(t, settings...).Addr
	}
	return s
}
