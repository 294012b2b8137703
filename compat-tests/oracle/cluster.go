package oracle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
	"github.com/klamm-mq/klamm/conform"
	"github.com/klamm-mq/klamm/conform/scenarios"
)

const clusterSize = 3

// klammNodes are the processes of a Klamm.
type klammNodes struct{ *harness.Cluster }

func (c klammNodes) node(id int32) *harness.Broker { return c.Nodes[id-1] }

func (c klammNodes) Kill(id int32) error { c.node(id).Kill(); return nil }

func (c klammNodes) Stop(id int32) error {
	if code := c.node(id).Stop(); code != 0 {
		return fmt.Errorf("exit code %d\n%s", code, c.node(id).Stderr())
	}
	return nil
}

func (c klammNodes) Start(id int32) error { return c.node(id).TryStart() }

func (c klammNodes) Pause(id int32) error  { return pause(c.node(id).Pid()) }
func (c klammNodes) Resume(id int32) error { return syscall.Kill(c.node(id).Pid(), syscall.SIGCONT) }

func (c klammNodes) Controller(id int32) string { return c.Controllers[id-1] }

// kafkaNodes are the processes of a Kafka.
type kafkaNodes struct {
	*java.Cluster
	controllers []string
}

func (c kafkaNodes) node(id int32) *java.Broker { return c.Nodes[id-1] }

func (c kafkaNodes) Kill(id int32) error { c.node(id).Kill(); return nil }
func (c kafkaNodes) Stop(id int32) error { c.node(id).Stop(); return nil }

func (c kafkaNodes) Start(id int32) error { return c.node(id).TryStart() }

func (c kafkaNodes) Pause(id int32) error  { return pause(c.node(id).Pid()) }
func (c kafkaNodes) Resume(id int32) error { return syscall.Kill(c.node(id).Pid(), syscall.SIGCONT) }

func (c kafkaNodes) Controller(id int32) string { return c.controllers[id-1] }

// pause sends SIGSTOP, and returns when every thread has stopped: until the one that takes
// the signal has its turn, the others go on.
func pause(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			return fmt.Errorf("no threads of %d: %w", pid, err)
		}
		if !slices.ContainsFunc(threads, running) {
			return nil
		}
		<-time.After(time.Millisecond)
	}
}

// running reports whether a thread does not stand still.
func running(stat string) bool {
	text, err := os.ReadFile(stat)
	_, state, ok := strings.Cut(string(text), ") ")
	return err == nil && ok && !strings.HasPrefix(state, "T")
}

// startKlammCluster starts three nodes, in racks if they shall be.
func startKlammCluster(t *testing.T, inRacks bool) *conform.Target {
	t.Helper()
	if !inRacks {
		c := harness.StartCluster(t, clusterSize, scenarios.ClusterSettings()...)
		return whole(t, c.Nodes[0].Addr, klammNodes{c})
	}
	c := harness.NewChanging(t, clusterSize, rackSettings(t))
	c.Start()
	return withVoters(t, whole(t, c.Nodes[0].Addr, klammNodes{c}))
}

// withVoters makes all nodes keep the metadata log.
func withVoters(t *testing.T, target *conform.Target) *conform.Target {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), warmWait)
	defer cancel()
	if err := target.AddVoters(ctx); err != nil {
		t.Fatal(err)
	}
	return target
}

// rackSettings are those of nodes in racks, with directories of the test's own.
func rackSettings(t *testing.T) func(i int) []string {
	return func(i int) []string {
		return slices.Concat(scenarios.ClusterSettings(), scenarios.RackSettings(i), []string{"log.dirs=" + t.TempDir() + "," + t.TempDir()})
	}
}

// kafkaPatience are the settings of Kafka that only make a busy machine harmless.
var kafkaPatience = []string{"broker.session.timeout.ms=15000", "broker.heartbeat.interval.ms=500", "controller.quorum.fetch.timeout.ms=10000", "controller.quorum.election.timeout.ms=5000"}

func startKafkaCluster(t *testing.T, inRacks bool) (target *conform.Target, stop func()) {
	t.Helper()
	var ports []int
	var controllers []string
	for range clusterSize {
		ports = append(ports, harness.FreePort(t), harness.FreePort(t))
		controllers = append(controllers, fmt.Sprintf("127.0.0.1:%d", ports[len(ports)-1]))
	}
	var c *java.Cluster
	if inRacks {
		own := rackSettings(t)
		c = java.NewChanging(t, ports, func(i int) []string { return append(own(i), kafkaPatience...) })
	} else {
		c = java.NewCluster(t, ports, append(scenarios.ClusterSettings(), kafkaPatience...)...)
	}
	for _, b := range c.Nodes {
		b.JVM = append([]string{"-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}, strings.Fields(os.Getenv("JVM"))...)
	}
	c.Start()
	stop = func() {
		for _, b := range c.Nodes {
			b.Kill()
		}
	}
	target = whole(t, c.Nodes[0].Addr, kafkaNodes{c, controllers})
	if inRacks {
		target = withVoters(t, target)
	}
	return target, stop
}

// whole waits until all nodes are in service, and their coordinators have loaded.
func whole(t *testing.T, addr string, nodes conform.Nodes) *conform.Target {
	t.Helper()
	limit := time.NewTimer(warmWait)
	defer limit.Stop()
	for {
		target, err := conform.Connect(t.Context(), addr)
		if err == nil && target.Size() == clusterSize {
			target.Control(nodes)
			return target
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-limit.C:
			t.Fatalf("%s is no cluster of %d after %v: %v", addr, clusterSize, warmWait, err)
		}
	}
}
