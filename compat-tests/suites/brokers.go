package suites

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
	"github.com/klamm-mq/klamm/compat-tests/suites/verdict"
)

func onKafka() bool { return os.Getenv("BROKER") == "kafka" }

// on is the broker that BROKER asks for, Klamm without it.
func on() verdict.Broker {
	if onKafka() {
		return verdict.Kafka
	}
	return verdict.Klamm
}

func brokerName() string {
	if onKafka() {
		return "Apache Kafka 4.4.0"
	}
	return "Klamm"
}

// start starts what the suite is run against, and returns the environment of its tests.
func (s Suite) start(t *testing.T) []string {
	t.Helper()
	switch {
	case s.Compose:
		return s.startCompose(t)
	case s.Nodes > 1:
		return s.Env(s.startCluster(t))
	}
	return s.Env(s.startBroker(t))
}

func (s Suite) startBroker(t *testing.T) (addr string) {
	t.Helper()
	port := harness.FreePort(t)
	if s.Addr != "" {
		_, text, _ := strings.Cut(s.Addr, ":")
		var err error
		if port, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	if onKafka() {
		return java.StartBroker(t, port, harness.FreePort(t), s.Settings...).Addr
	}
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	harness.Start(t, append([]string{"listeners=PLAINTEXT://" + addr}, s.Settings...)...)
	return addr
}

// startCluster starts a cluster, and returns the addresses of all nodes.
func (s Suite) startCluster(t *testing.T) (addrs string) {
	t.Helper()
	if !onKafka() {
		return harness.StartCluster(t, s.Nodes, s.Settings...).Addr()
	}
	c := java.NewCluster(t, ports(t, 2*s.Nodes), s.Settings...)
	c.Start()
	return c.Addr()
}

func ports(t *testing.T, n int) []int {
	t.Helper()
	all := make([]int, n)
	for i := range all {
		all[i] = harness.FreePort(t)
	}
	return all
}

// startCompose starts a cluster whose nodes have a rack each, a listener for each other
// and one behind a proxy.
func (s Suite) startCompose(t *testing.T) []string {
	t.Helper()
	inner, outer := ports(t, s.Nodes), ports(t, s.Nodes)
	targets := make([]string, s.Nodes)
	for i, port := range outer {
		targets[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	c := newCompose(t, targets)
	if err := c.programs(); err != nil {
		t.Fatal(err)
	}
	own := func(i int, controller string) []string {
		return []string{
			fmt.Sprintf("broker.rack=%d", i+1),
			"listener.security.protocol.map=LISTENER_INTERNAL:PLAINTEXT,LISTENER_LOCAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
			"inter.broker.listener.name=LISTENER_INTERNAL",
			fmt.Sprintf("listeners=LISTENER_INTERNAL://127.0.0.1:%d,LISTENER_LOCAL://%s,CONTROLLER://%s", inner[i], targets[i], controller),
			fmt.Sprintf("advertised.listeners=LISTENER_INTERNAL://127.0.0.1:%d,LISTENER_LOCAL://%s", inner[i], proxied(i+1)),
		}
	}
	if onKafka() {
		c.kafka(inner, own, s.Settings)
	} else {
		c.klamm(s.Nodes, own, s.Settings)
	}
	return append(s.Env(""), c.env(fmt.Sprintf("127.0.0.1:%d", inner[0]))...)
}

func (c *compose) klamm(n int, own func(i int, controller string) []string, settings []string) {
	c.t.Helper()
	cluster := harness.NewCluster(c.t, n, settings...)
	for i, b := range cluster.Nodes {
		b.Set(own(i, cluster.Controllers[i])...)
		c.services[fmt.Sprintf("kafka-%d", i+1)] = klammService{b}
	}
	cluster.Start()
}

func (c *compose) kafka(inner []int, own func(i int, controller string) []string, settings []string) {
	c.t.Helper()
	var pairs []int
	for _, port := range inner {
		pairs = append(pairs, port, harness.FreePort(c.t))
	}
	cluster := java.NewCluster(c.t, pairs, settings...)
	for i, b := range cluster.Nodes {
		b.JVM = []string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}
		b.Set(own(i, fmt.Sprintf("127.0.0.1:%d", pairs[2*i+1]))...)
		c.services[fmt.Sprintf("kafka-%d", i+1)] = kafkaService{b}
	}
	cluster.Start()
}

type klammService struct{ *harness.Broker }

func (s klammService) Start() error { return s.TryStart() }

func (s klammService) Stop() error {
	if code := s.Broker.Stop(); code != 0 {
		return fmt.Errorf("exit code %d:\n%s", code, s.Stderr())
	}
	return nil
}

// Log has no exceptions, which are what one test looks for in that of Kafka.
func (s klammService) Log() string { return s.Stderr() }

type kafkaService struct{ *java.Broker }

func (s kafkaService) Start() error { return s.TryStart() }

func (s kafkaService) Stop() error {
	s.Broker.Stop()
	return nil
}
