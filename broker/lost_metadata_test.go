package broker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// forgetMetadata deletes the metadata log of a node that is down, and nothing else.
func (m *machineNode) forgetMetadata(t *testing.T) {
	t.Helper()
	m.AwaitEnd()
	disk := m.Disk.Process()
	if err := disk.RemoveAll("/data/klamm-metadata"); err != nil {
		t.Fatal(err)
	}
	if err := disk.SyncDir("/data"); err != nil {
		t.Fatal(err)
	}
}

// A voter whose metadata log was deleted by hand has forgotten how it voted, and comes back as
// another member of the quorum. Its partitions are what they were: nothing is fetched again,
// and its replicas stay in the directory that metadata knows.
func TestVoterWithoutItsMetadata(t *testing.T) {
	for lost := int32(1); lost <= 3; lost++ {
		clusterTest(t, threeCombined, func(c *nodes) {
			c.start(1, 2, 3)
			c.createTopic(1, "t", 3)
			other := lost%3 + 1
			c.inSync(other, "t")
			_, before := c.quorumOf(other)
			directories := c.directories(other, "t", lost)
			c.kill(lost)
			c.all[lost].forgetMetadata(t)
			c.createTopic(other, "meanwhile", 3)
			c.start(lost)
			c.eventually("it is a voter under another id", 10*time.Second, func() bool {
				text, now := c.quorumOf(other)
				return text == "1 2 3" && now[lost] != before[lost]
			})
			c.inSync(other, "t")
			if now := c.directories(other, "t", lost); !slices.Equal(now, directories) {
				c.t.Errorf("its replicas were in %v, and are in %v", directories, now)
			}
			c.createTopic(lost, "after", 3)
			_, renamed := c.quorumOf(other)
			c.kill(lost)
			c.kill(other)
			c.start(lost, other)
			if text, now := c.quorumOf(lost); text != "1 2 3" || now[lost] != renamed[lost] {
				c.t.Errorf("it is somebody else again: %s, %v, was %v", text, now, renamed)
			}
		})
	}
}

// directories are those of a node's replicas of a topic.
func (c *nodes) directories(at int32, topic string, node int32) (dirs []uuid.UUID) {
	for _, p := range c.partitions(at, topic) {
		dirs = append(dirs, directoryOf(p, node))
	}
	return dirs
}

func directoryOf(p *metadata.Partition, node int32) uuid.UUID {
	return p.Directories[slices.Index(p.Replicas, node)]
}
