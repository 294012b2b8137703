package broker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// roomy is a disk with room; its reserve is 1 GiB.
const roomy = 1 << 40

// fill leaves a node room for metadata, and for nothing else.
func (m *machineNode) fill(t *testing.T) {
	t.Helper()
	is, err := m.Disk.Space("/")
	if err != nil {
		t.Fatal(err)
	}
	m.Disk.SetCapacity(int64(is.TotalBytes-is.AvailBytes) + 200<<20)
}

func (m *machineNode) makeRoom() { m.Disk.SetCapacity(roomy) }

// partitions are those of a topic as a node knows them.
func (c *nodes) partitions(at int32, topic string) []*metadata.Partition {
	c.t.Helper()
	t := c.all[at].B.Image().Topic(topic)
	if t == nil {
		c.t.Fatalf("node %d does not know %s", at, topic)
	}
	return t.Partitions
}

// A node whose disk is full leads nothing any more and is waited for by nobody, while the
// others go on; when it has room it is back by itself.
func TestOneFullDiskOfThree(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		for _, m := range c.all {
			m.makeRoom()
		}
		c.start(1, 2, 3)
		c.createTopic(1, "t", 3)
		s := c.produce("t")
		for _, full := range []int32{1, 2} {
			<-time.After(time.Second)
			other := full%3 + 1
			c.all[full].fill(c.t)
			c.eventually("the full node is out of the way", 5*time.Second, func() bool {
				return !slices.ContainsFunc(c.partitions(other, "t"), func(p *metadata.Partition) bool {
					return p.Leader == full || slices.Contains(p.ISR, full)
				})
			})
			<-time.After(2 * time.Second) // nobody takes it back as long as that is so
			for _, p := range c.partitions(other, "t") {
				if slices.Contains(p.ISR, full) || len(p.ISR) != 2 {
					c.t.Errorf("node %d is full, the ISR is %v", full, p.ISR)
				}
			}
			c.all[full].makeRoom()
			c.inSync(other, "t")
		}
		s.end()
		if s.gap > 3*time.Second {
			c.t.Errorf("nothing was acknowledged for %v", s.gap)
		}
	})
}

// Where all disks are full nothing changes hands; the first that has room leads.
func TestAllDisksFull(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		for _, m := range c.all {
			m.makeRoom()
		}
		c.start(1, 2, 3)
		c.createTopic(1, "t", 3)
		s := c.produce("t")
		<-time.After(time.Second)
		for _, m := range c.all {
			m.fill(c.t)
		}
		<-time.After(10 * time.Second)
		for _, p := range c.partitions(1, "t") {
			if len(p.ISR) == 0 || p.Leader < 0 {
				c.t.Errorf("partition %d: leader %d, ISR %v", p.Index, p.Leader, p.ISR)
			}
		}
		c.all[2].makeRoom()
		c.eventually("the one with room leads what it has", 10*time.Second, func() bool {
			for _, p := range c.partitions(1, "t") {
				if slices.Contains(p.ISR, 2) && p.Leader != 2 {
					return false
				}
			}
			return true
		})
		c.all[1].makeRoom()
		c.all[3].makeRoom()
		c.inSync(1, "t")
		s.end()
	})
}
