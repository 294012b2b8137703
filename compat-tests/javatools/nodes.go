package javatools

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

// node is one of several brokers, each of them a controller, too. The first one keeps the
// metadata log alone until others are added.
type node struct {
	addr, controller string
	dir              string // of its logs
	process          process
}

// process is what a session does to a node.
type process interface {
	Kill()
	TryStart() error
}

// clusterSettings are those of the nodes of a cluster that is compared: nobody moves a
// leader unasked, and none is taken for dead that is only slow.
var clusterSettings = []string{
	"auto.leader.rebalance.enable=false", "broker.session.timeout.ms=6000", "broker.heartbeat.interval.ms=500",
	"group.initial.rebalance.delay.ms=0", "offsets.topic.replication.factor=3",
}

// startNodes starts three nodes of klamm, or of Kafka.
func startNodes(t *testing.T, shell *shell) *session {
	t.Helper()
	s := &session{t: t, shell: shell, tmp: t.TempDir(), rewrite: os.Getenv("REWRITE") != ""}
	const count = 3
	for range count {
		s.nodes = append(s.nodes, node{dir: t.TempDir()})
	}
	own := func(i int) []string { return append([]string{"log.dirs=" + s.nodes[i].dir}, clusterSettings...) }
	switch {
	case os.Getenv("BROKER") == "kafka":
		var ports []int
		for i := range count {
			ports = append(ports, harness.FreePort(t), harness.FreePort(t))
			s.nodes[i].controller = net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[2*i+1]))
		}
		c := java.NewChanging(t, ports, own)
		for i, b := range c.Nodes {
			b.JVM = []string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}
			s.nodes[i].addr, s.nodes[i].process = b.Addr, b
		}
		c.Start()
		s.addr = c.Addr()
	case s.rewrite:
		t.Fatal("what Kafka says is written down with BROKER=kafka")
	default:
		c := harness.NewChanging(t, count, own)
		for i, b := range c.Nodes {
			s.nodes[i].addr, s.nodes[i].controller, s.nodes[i].process = b.Addr, c.Controllers[i], b
		}
		c.Start()
		s.addr = c.Addr()
	}
	return s
}

// nodeOf is the node of that id.
func (s *session) nodeOf(id string) node {
	s.t.Helper()
	n, err := strconv.Atoi(id)
	if err != nil || n < 1 || n > len(s.nodes) {
		s.t.Fatalf("there is no node %s", id)
	}
	return s.nodes[n-1]
}

// names are what lines call the nodes' addresses, directories and their ids by, in turn.
func (s *session) names() (pairs []string) {
	for i, n := range s.nodes {
		pairs = append(pairs, fmt.Sprintf("BROKER%d", i+1), n.addr, fmt.Sprintf("CONTROLLER%d", i+1), n.controller, fmt.Sprintf("DIR%d", i+1), n.dir)
		if id := n.directoryID(); id != "" {
			pairs = append(pairs, fmt.Sprintf("ID%d", i+1), id)
		}
	}
	return pairs
}

// namesOfNodes are the names in place of what they stand for.
func (s *session) namesOfNodes() *strings.Replacer {
	pairs := s.names()
	for i := 0; i < len(pairs); i += 2 {
		pairs[i], pairs[i+1] = pairs[i+1], pairs[i]
	}
	return strings.NewReplacer(append(pairs, s.tmp, "TMP")...)
}

var directoryID = regexp.MustCompile(`(?m)^directory\.id=(\S+)$`)

// directoryID is the id of its log directory, which Kafka and klamm keep in the same file.
func (n node) directoryID() string {
	text, err := os.ReadFile(filepath.Join(n.dir, "meta.properties"))
	found := directoryID.FindSubmatch(text)
	if err != nil || found == nil {
		return ""
	}
	return strings.ReplaceAll(string(found[1]), `\`, "")
}
