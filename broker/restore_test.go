package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/logstore"
)

// backup asks a node for its metadata, on its admin listener.
func (c *nodes) backup(id int32) metadata.Backup {
	c.t.Helper()
	status, body := c.askBackup(id, "")
	if status != http.StatusOK {
		c.t.Fatalf("backup: %d: %s", status, body)
	}
	b, err := metadata.ReadBackup(bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

func (c *nodes) askBackup(id int32, query string) (status int, body []byte) {
	c.t.Helper()
	transport := &http.Transport{DialContext: c.all[id].Machine.Dial, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	url := fmt.Sprintf("http://broker-%d:9644/metadata/backup%s", id, query)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, body
}

// backedUpTest makes three nodes with admin listeners.
func backedUpTest(t *testing.T, test func(c *nodes)) {
	clusterTest(t, threeCombined, func(c *nodes) {
		for id, m := range c.all {
			m.Machine.Settings = append(m.Machine.Settings, "min.insync.replicas=2", "default.replication.factor=3",
				fmt.Sprintf("admin.listener=broker-%d:9644", id))
		}
		c.start(1, 2, 3)
		test(c)
	})
}

// restore begins anew on a node that is down and has no metadata.
func (c *nodes) restore(id int32, b metadata.Backup) error {
	m := c.all[id]
	m.AwaitEnd()
	env := m.Machine.Env()
	env.FS = m.Disk.Process()
	return broker.RestoreMetadata(context.Background(), brokertest.Config(c.t, m.Machine.Settings...), env, b)
}

// send produces records, of which each is acknowledged by a majority.
func (c *nodes) send(through int32, topic string, from, to int) {
	c.t.Helper()
	client := c.client(through, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i := from; i < to; i++ {
		r := &kgo.Record{Topic: topic, Partition: int32(i % 3), Value: []byte(fmt.Sprint(i))}
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			c.t.Fatalf("record %d: %v", i, err)
		}
	}
}

// wantRecords reads a topic from its start, and wants the numbers below n, each once.
func (c *nodes) wantRecords(through int32, topic string, n int) {
	c.t.Helper()
	client := c.client(through, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	seen := map[string]int{}
	for count := 0; count < n; {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			c.t.Fatalf("%d of %d records of %s, then %v", count, n, topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			count++
			seen[string(r.Value)]++
		})
	}
	for i := range n {
		if seen[fmt.Sprint(i)] != 1 {
			c.t.Errorf("record %d of %s is there %d times", i, topic, seen[fmt.Sprint(i)])
		}
	}
}

// Everything that was acknowledged is there after a restore from a backup that is older than
// what happened to leaders and in-sync replicas since. In the backup each replica is in sync;
// one of them lacks half of the records, and is the one that the backup is restored on, and
// that starts first.
func TestRestoredClusterHasItsRecords(t *testing.T) {
	for _, lagging := range []int32{1, 2, 3} {
		full := []int32{lagging%3 + 1, (lagging+1)%3 + 1}
		backedUpTest(t, func(c *nodes) {
			c.createTopic(1, "t", 3)
			c.send(1, "t", 0, 30)
			c.commit(1, 7)
			c.inSync(1, "t")
			b := c.backup(2)
			c.kill(lagging)
			c.send(full[0], "t", 30, 60)
			c.createTopic(full[0], "later", 3)
			c.send(full[1], "later", 0, 9)
			c.commit(full[0], 8)
			for _, id := range full {
				c.kill(id)
			}
			for _, m := range c.all {
				m.forgetMetadata(t)
			}
			if err := c.restore(lagging, b); err != nil {
				c.t.Fatal(err)
			}
			c.start(lagging)
			<-time.After(20 * time.Second)
			if !c.ledBy(lagging, "t", metadata.NoLeader) {
				c.t.Error("one of three leads, of which two had each record that was acknowledged")
			}
			c.start(full[1])
			c.eventually("the one that has everything leads", 5*time.Second, func() bool { return c.ledBy(lagging, "t", full[1]) })
			c.start(full[0])
			c.wantQuorum(full[0], "1 2 3")
			c.inSync(full[0], "t")
			c.wantRecords(lagging, "t", 60)
			if offset := c.committed(full[0]); offset != 8 {
				c.t.Errorf("the group is at %d", offset)
			}
			for _, id := range full {
				c.wantStrays(id, "later-")
			}
			c.createTopic(full[1], "later", 3)
			c.send(lagging, "later", 0, 6)
			c.wantRecords(full[0], "later", 6)
			for i, id := range []int32{1, 2, 3} {
				c.kill(id)
				c.send(id%3+1, "t", 60+10*i, 70+10*i)
				c.start(id)
				c.inSync(id, "t")
			}
			c.wantRecords(full[0], "t", 90)
		})
	}
}

// ledBy tells whether a node leads every partition of a topic.
func (c *nodes) ledBy(at int32, topic string, leader int32) bool {
	return !slices.ContainsFunc(c.partitions(at, topic), func(p *metadata.Partition) bool { return p.Leader != leader })
}

// wantStrays wants the logs of a topic to be set aside.
func (c *nodes) wantStrays(id int32, prefix string) {
	c.t.Helper()
	entries, err := c.all[id].Disk.Process().ReadDir("/data")
	if err != nil {
		c.t.Fatal(err)
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), "-stray")
	}) {
		c.t.Errorf("node %d has set nothing aside: %v", id, entries)
	}
}

// commit has the group g come to an offset of t-0, committed tells where it is.
func (c *nodes) commit(through int32, at int64) {
	c.t.Helper()
	c.admin(through, func(ctx context.Context, adm *kadm.Client) {
		offsets := kadm.Offsets{}
		offsets.AddOffset("t", 0, at, -1)
		if err := adm.CommitAllOffsets(ctx, "g", offsets); err != nil {
			c.t.Fatal(err)
		}
	})
}

func (c *nodes) committed(through int32) (at int64) {
	c.t.Helper()
	c.admin(through, func(ctx context.Context, adm *kadm.Client) {
		offsets, err := adm.FetchOffsets(ctx, "g")
		if err != nil {
			c.t.Fatal(err)
		}
		o, _ := offsets.Lookup("t", 0)
		at = o.At
	})
	return at
}

// Brokers that are no controllers have only to be started again: one that was not stopped ends
// by itself, before it acts on metadata that does not know its topics.
func TestRestoreEndsBrokers(t *testing.T) {
	roles := []string{"controller", "controller", "controller", "broker", "broker"}
	clusterTest(t, roles, func(c *nodes) {
		c.all[1].Machine.Settings = append(c.all[1].Machine.Settings, "admin.listener=broker-1:9644")
		c.start(1, 2, 3, 4, 5)
		c.createTopic(4, "t", 2)
		c.send(4, "t", 0, 30)
		b := c.backup(1)
		c.createTopic(4, "later", 2)
		c.send(5, "later", 0, 9)
		c.send(5, "t", 30, 60)
		for _, id := range []int32{1, 2, 3} {
			c.kill(id)
			c.all[id].forgetMetadata(t)
		}
		if err := c.restore(2, b); err != nil {
			c.t.Fatal(err)
		}
		c.start(1, 2, 3)
		for _, id := range []int32{4, 5} {
			select {
			case <-c.all[id].B.Failed():
				if err := c.all[id].B.Err(); !strings.Contains(err.Error(), "restored from a backup") {
					c.t.Errorf("node %d ends with %v", id, err)
				}
			case <-time.After(time.Minute):
				c.t.Fatalf("node %d goes on", id)
			}
			c.kill(id)
		}
		c.start(4, 5)
		c.inSync(4, "t")
		c.wantRecords(5, "t", 60)
		for _, id := range []int32{4, 5} {
			c.wantStrays(id, "later-")
		}
	})
}

// Without the others somebody has to decide that their records are given up.
func TestRestoredWithoutTheOthers(t *testing.T) {
	backedUpTest(t, func(c *nodes) {
		c.createTopic(1, "t", 3)
		c.send(1, "t", 0, 30)
		b := c.backup(3)
		c.kill(1)
		c.send(2, "t", 30, 60)
		for _, id := range []int32{2, 3} {
			c.kill(id)
		}
		c.all[1].forgetMetadata(t)
		if err := c.restore(1, b); err != nil {
			c.t.Fatal(err)
		}
		c.start(1)
		c.admin(1, func(ctx context.Context, adm *kadm.Client) {
			results, err := adm.ElectLeaders(ctx, kadm.ElectLiveReplica, nil)
			if err != nil {
				c.t.Fatal(err)
			}
			for _, partitions := range results {
				for _, r := range partitions {
					if r.Err != nil {
						c.t.Errorf("%s-%d: %v", r.Topic, r.Partition, r.Err)
					}
				}
			}
		})
		if !c.ledBy(1, "t", 1) {
			c.t.Error("it does not lead")
		}
		c.admin(1, func(ctx context.Context, adm *kadm.Client) { // and that one copy is enough
			one := "1"
			if _, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "min.insync.replicas", Value: &one}}, "t"); err != nil {
				c.t.Fatal(err)
			}
		})
		c.wantRecords(1, "t", 30)
	})
}

// A backup is confirmed to be the newest, unless it is asked for without.
func TestBackupNeedsTheController(t *testing.T) {
	backedUpTest(t, func(c *nodes) {
		for id := range c.all {
			c.createTopic(id%3+1, fmt.Sprintf("t%d", id), 3)
			if b := c.backup(id); b.Image.Topic(fmt.Sprintf("t%d", id)) == nil || b.NodeID != id || b.Image.ClusterID() != c.all[id].B.Image().ClusterID() {
				c.t.Errorf("node %d saves %d topics", id, b.Image.NumTopics())
			}
		}
		c.kill(1)
		c.kill(2)
		if status, body := c.askBackup(3, ""); status != http.StatusServiceUnavailable || !strings.Contains(string(body), "no active controller confirms") {
			c.t.Errorf("%d: %s", status, body)
		}
		status, body := c.askBackup(3, "?unconfirmed")
		if b, err := metadata.ReadBackup(bytes.NewReader(body)); status != http.StatusOK || err != nil || b.Image.NumTopics() != 3 {
			c.t.Errorf("%d, %v", status, err)
		}
	})
}

// A restore that would make two clusters of one, or take a disk for another one, is refused.
func TestRestoreIsRefused(t *testing.T) {
	backedUpTest(t, func(c *nodes) {
		c.createTopic(1, "t", 3)
		b := c.backup(1)
		c.kill(1)
		var lives *broker.VoterLivesError
		if err := c.restore(1, b); !errors.As(err, &lives) || lives.NodeID == 1 {
			c.t.Errorf("while others live: %v", err)
		}
		c.kill(2)
		c.kill(3)
		var full *metalog.NotEmptyError
		if err := c.restore(1, b); !errors.As(err, &full) {
			c.t.Errorf("on top of a log: %v", err)
		}
		c.all[1].forgetMetadata(t)
		other, err := metadata.ReadBackup(bytes.NewReader(c.otherCluster()))
		if err != nil {
			c.t.Fatal(err)
		}
		var foreign *logstore.ForeignDirError
		if err := c.restore(1, other); !errors.As(err, &foreign) || foreign.Key != "cluster.id" {
			c.t.Errorf("the backup of another cluster: %v", err)
		}
		if err := c.restore(1, b); err != nil {
			c.t.Error(err)
		}
		c.start(1) // the others have not lost theirs: they are left alone, and it leads itself
		c.wantQuorum(1, "1")
	})
}

// otherCluster is a backup of another one.
func (c *nodes) otherCluster() []byte {
	c.t.Helper()
	d := metadata.NewDelta(nil)
	err := d.Replay(metadata.BootstrapRecord{
		ClusterID: "another", Durability: metadata.DurabilityFsync,
		Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: metadata.MaxMetadataLevel}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	var out bytes.Buffer
	if err := metadata.WriteBackup(&out, metadata.Backup{Image: d.Image(metadata.Position{Index: 5, Term: 2})}); err != nil {
		c.t.Fatal(err)
	}
	return out.Bytes()
}
