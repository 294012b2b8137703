package java

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Cluster is Kafka processes that are one cluster, each of them controller and broker.
type Cluster struct {
	Nodes []*Broker // node ids 1, 2, …
}

// NewCluster formats the directories of a cluster with one node for every two of the ports:
// that of clients, and that of controllers. Further settings are lines key=value for all.
func NewCluster(t testing.TB, ports []int, settings ...string) *Cluster {
	t.Helper()
	voters := make([]string, len(ports)/2)
	for i := range voters {
		voters[i] = fmt.Sprintf("%d@127.0.0.1:%d", i+1, ports[2*i+1])
	}
	c := &Cluster{}
	for i := range voters {
		id := fmt.Sprintf("node.id=%d", i+1)
		c.Nodes = append(c.Nodes, newBroker(t, ports[2*i], ports[2*i+1], nil, append([]string{
			id, "controller.quorum.voters=" + strings.Join(voters, ","),
		}, settings...)))
	}
	return c
}

// NewChanging is NewCluster with voters that can be changed (KIP-853): the first node is the
// only one until others are added. Own are the settings of node i, from 0.
func NewChanging(t testing.TB, ports []int, own func(i int) []string) *Cluster {
	t.Helper()
	c := &Cluster{}
	for i := range len(ports) / 2 {
		form := "--no-initial-controllers"
		if i == 0 {
			form = "--standalone"
		}
		c.Nodes = append(c.Nodes, newBroker(t, ports[2*i], ports[2*i+1], []string{form}, append([]string{
			fmt.Sprintf("node.id=%d", i+1), fmt.Sprintf("controller.quorum.bootstrap.servers=127.0.0.1:%d", ports[1]),
		}, own(i)...)))
	}
	return c
}

// Start starts all nodes, and waits until every one has opened its port.
func (c *Cluster) Start() {
	var started sync.WaitGroup
	for _, b := range c.Nodes {
		b.launch()
		started.Go(b.await)
	}
	started.Wait()
	for _, b := range c.Nodes {
		if b.failed != nil {
			b.t.Fatal(b.failed)
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
