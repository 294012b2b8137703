package broker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/broker/brokertest"
)

// A broker that is told of one controller, and not of the active one, finds that: it
// registers or, with the disk of another cluster, hears at once why it may not.
func TestBrokerIsToldOfAnInactiveController(t *testing.T) {
	roles := []string{"controller", "controller", "controller", "broker", "broker"}
	for _, key := range []string{"controller.quorum.bootstrap.servers", "controller.quorum.voters"} {
		t.Run(key, func(t *testing.T) {
			clusterTest(t, roles, func(c *nodes) {
				m := c.all[4]
				c.begunAlone(m)
				foreign := m.Disk
				m.replaceDisk()
				own := m.Disk
				c.start(1, 2, 3, 5)
				c.only(m, key, c.leader(5)%3+1)
				m.Disk = foreign
				c.refusedAtOnce(m) // by its own log it is the controller
				if err := foreign.Process().RemoveAll("/data/klamm-metadata"); err != nil {
					c.t.Fatal(err)
				}
				c.refusedAtOnce(m)
				m.Disk = own
				c.start(4)
				c.createTopic(4, "t", 1)
			})
		})
	}
}

// begunAlone has a machine's disk begun as a cluster of its own.
func (c *nodes) begunAlone(m *machineNode) {
	c.t.Helper()
	settings := m.Machine.Settings
	m.Machine.Settings = []string{"node.id=" + fmt.Sprint(m.id), "listeners=PLAINTEXT://" + m.Machine.Name + ":9092", "log.dirs=/data", "admin.listener="}
	b, err := c.tryStart(m)
	if err != nil {
		c.t.Fatal(err)
	}
	brokertest.Stop(c.t, b)
	m.Machine.Settings = settings
}

// only lets a node know of one controller.
func (c *nodes) only(m *machineNode, key string, controller int32) {
	m.Machine.Settings = slices.DeleteFunc(m.Machine.Settings, func(s string) bool {
		return strings.HasPrefix(s, "controller.quorum.voters=")
	})
	address := fmt.Sprintf("broker-%d:9093", controller)
	if key == "controller.quorum.voters" {
		address = fmt.Sprintf("%d@%s", controller, address)
	}
	m.Machine.Settings = append(m.Machine.Settings, key+"="+address)
}

// refusedAtOnce wants the node to be told that its disk is another cluster's.
func (c *nodes) refusedAtOnce(m *machineNode) {
	c.t.Helper()
	begin := time.Now()
	c.refuse(m, "register broker 4", "this is cluster "+c.all[1].B.Image().ClusterID(), "broker 4 belongs to cluster")
	if took := time.Since(begin); took > 500*time.Millisecond {
		c.t.Errorf("after %v", took)
	}
}
