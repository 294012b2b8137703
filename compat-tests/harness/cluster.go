package harness

import (
	"fmt"
	"strings"
	"testing"
)

// Cluster is klamm processes that are one cluster, each of them a broker and a voter.
type Cluster struct {
	Nodes []*Broker // node ids 1, 2, …
	// Controllers are the addresses of their listeners for each other.
	Controllers []string
}

// NewCluster prepares a cluster of n nodes in directories of the test's own. Settings are
// key=value pairs for all of them.
func NewCluster(t testing.TB, n int, settings ...string) *Cluster {
	t.Helper()
	return newCluster(t, n, func(_ int, controllers []string) []string {
		voters := make([]string, n)
		for i, address := range controllers {
			voters[i] = fmt.Sprintf("%d@%s", i+1, address)
		}
		return append([]string{"controller.quorum.voters=" + strings.Join(voters, ",")}, settings...)
	})
}

// NewChanging is NewCluster with voters that can be changed (KIP-853): the first node is the
// only one until others are added. Own are the settings of node i, from 0.
func NewChanging(t testing.TB, n int, own func(i int) []string) *Cluster {
	t.Helper()
	return newCluster(t, n, func(i int, controllers []string) []string {
		return append([]string{"controller.quorum.bootstrap.servers=" + controllers[0]}, own(i)...)
	})
}

func newCluster(t testing.TB, n int, own func(i int, controllers []string) []string) *Cluster {
	t.Helper()
	c := &Cluster{}
	for range n {
		c.Controllers = append(c.Controllers, fmt.Sprintf("127.0.0.1:%d", FreePort(t)))
	}
	for i := range n {
		b := New(t, append([]string{
			"process.roles=broker,controller", fmt.Sprintf("node.id=%d", i+1), "controller.listener.names=CONTROLLER",
		}, own(i, c.Controllers)...)...)
		b.args = append(b.args, "--set", fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://%s", b.Addr, c.Controllers[i]))
		c.Nodes = append(c.Nodes, b)
	}
	return c
}

// StartCluster prepares a cluster and waits until every node is ready.
func StartCluster(t testing.TB, n int, settings ...string) *Cluster {
	t.Helper()
	c := NewCluster(t, n, settings...)
	c.Start()
	return c
}

// Start starts all nodes, which found the cluster together if they are new, and waits until
// every one is ready.
func (c *Cluster) Start() {
	for _, b := range c.Nodes {
		b.t.Helper()
		if err := b.Launch(); err != nil {
			b.t.Fatal(err)
		}
	}
	for _, b := range c.Nodes {
		if err := b.WaitReady(); err != nil {
			b.t.Fatal(err)
		}
	}
}

// Addr is the client listeners of all nodes, as bootstrap servers.
func (c *Cluster) Addr() string {
	addrs := make([]string, len(c.Nodes))
	for i, b := range c.Nodes {
		addrs[i] = b.Addr
	}
	return strings.Join(addrs, ",")
}
