package broker_test

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// twoDisks gives a node two log directories, of which the second fails while broken is set.
func (m *machineNode) twoDisks(broken *atomic.Bool) {
	for i, setting := range m.Machine.Settings {
		if strings.HasPrefix(setting, "log.dirs=") {
			m.Machine.Settings[i] = "log.dirs=/d1,/d2"
		}
	}
	m.Wrap = func(fs vfs.FS) vfs.FS {
		return hookfs.Wrap(fs, true, func(c *hookfs.Call) error {
			if broken.Load() && strings.HasPrefix(c.Name, "/d2") {
				return syscall.EIO
			}
			return nil
		})
	}
}

// byDirectory sorts the partitions of topics by where a node has them.
func (c *nodes) byDirectory(at, node int32, topics ...string) map[uuid.UUID][]*metadata.Partition {
	c.t.Helper()
	sorted := map[uuid.UUID][]*metadata.Partition{}
	for _, topic := range topics {
		for _, p := range c.partitions(at, topic) {
			dir := p.Directories[slices.Index(p.Replicas, node)]
			sorted[dir] = append(sorted[dir], p)
		}
	}
	return sorted
}

// TestOneOfTwoDisksFails on each of three brokers in turn (KIP-858): others lead what was on it,
// and are in sync without it; what is on the other disk stays where it is and goes on. When the
// disk is back, so is the broker.
func TestOneOfTwoDisksFails(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		broken := map[int32]*atomic.Bool{}
		for id, m := range c.all {
			broken[id] = &atomic.Bool{}
			m.twoDisks(broken[id])
		}
		c.start(1, 2, 3)
		c.createTopic(1, "t", 3)
		c.createTopic(1, "u", 3)
		s, quiet := c.produce("t"), c.produce("u")
		for _, victim := range []int32{2, 3, 1} {
			<-time.After(time.Second)
			other := victim%3 + 1
			before := c.byDirectory(other, victim, "t", "u")
			if len(before) != 2 {
				c.t.Fatalf("replicas of node %d are in %d directories", victim, len(before))
			}
			broken[victim].Store(true)
			c.eventually("others lead what was on the disk", 5*time.Second, func() bool { return c.lost(other, victim) })
			<-time.After(2 * time.Second)
			if !c.lost(other, victim) {
				c.t.Errorf("node %d is back without its disk", victim)
			}
			for dir, partitions := range c.byDirectory(other, victim, "t", "u") {
				for i, p := range partitions {
					if was := before[dir][i]; slices.Contains(p.ISR, victim) && (p.Leader != was.Leader || p.LeaderEpoch != was.LeaderEpoch) {
						c.t.Errorf("on the other disk: leader %d in epoch %d, was %d in %d", p.Leader, p.LeaderEpoch, was.Leader, was.LeaderEpoch)
					}
				}
			}
			broken[victim].Store(false)
			c.kill(victim)
			c.start(victim)
			for _, topic := range []string{"t", "u"} {
				c.inSync(victim, topic)
			}
		}
		s.end()
		quiet.end()
		for _, s := range []*stream{s, quiet} {
			if s.gap > 1500*time.Millisecond { // that of the brokers that are killed is included
				t.Errorf("%s: nothing was acknowledged for %v", s.topic, s.gap)
			}
		}
	})
}

// lost tells whether one directory of a node is out of service, and no other one.
func (c *nodes) lost(at, node int32) bool {
	c.t.Helper()
	var out, in int
	for _, partitions := range c.byDirectory(at, node, "t", "u") {
		without := 0
		for _, p := range partitions {
			if !slices.Contains(p.ISR, node) && p.Leader != node && len(p.ISR) == 2 {
				without++
			}
		}
		switch without {
		case len(partitions):
			out++
		case 0:
			in++
		}
	}
	return out == 1 && in == 1
}

// TestFailedDirectoryAlarmsOnce: of a disk that fails under everything that may use it, an operator
// reads one line, which says what to do; and one when the broker is started again without it, and
// how many replicas that are.
func TestFailedDirectoryAlarmsOnce(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		const victim = 2
		var broken atomic.Bool
		var said saidLines
		m := c.all[victim]
		m.twoDisks(&broken)
		m.Machine.Logger = slog.New(slog.NewTextHandler(&said, nil))
		c.start(1, 2, 3)
		c.createTopic(1, "t", 3)
		c.createTopic(1, "alone", 1)
		s := c.produce("t")
		c.writeAll("alone")
		c.commitAll("t", 20)
		said.alarms()

		broken.Store(true)
		c.commitAll("t", 20)
		c.writeAll("alone")
		<-time.After(2 * time.Second)
		s.end()
		<-time.After(20 * time.Second)
		want := regexp.MustCompile(`^level=ERROR msg="log directory is offline: .*restart this broker" replicas=[1-9][0-9]* dir=/d2 err="[^"]*input/output error"$`)
		if alarms := said.alarms(); len(alarms) != 1 || !want.MatchString(alarms[0]) {
			t.Errorf("the failure of a directory is told so:\n%s", strings.Join(alarms, "\n"))
		}

		c.kill(victim)
		var again saidLines
		m.Machine.Logger = slog.New(slog.NewTextHandler(&again, nil)) // the dead one goes on logging
		c.start(victim)
		<-time.After(5 * time.Second)
		want = regexp.MustCompile(`(?s)^level=ERROR msg="log directory is offline: .*" dir=/d2 err=".*".level=WARN msg="replicas are out of service: .*" count=[1-9][0-9]* first=\S+-\d+$`)
		if alarms := strings.Join(again.alarms(), "\n"); !want.MatchString(alarms) {
			t.Errorf("a start without a directory tells it so:\n%s", alarms)
		}
	})
}

// commitAll commits for so many groups, on most partitions of their topic.
func (c *nodes) commitAll(topic string, groups int) {
	c.t.Helper()
	c.admin(1, func(ctx context.Context, adm *kadm.Client) {
		for i := range groups {
			offsets := kadm.Offsets{}
			offsets.AddOffset(topic, 0, int64(i), -1)
			if err := adm.CommitAllOffsets(ctx, fmt.Sprintf("g%d", i), offsets); err != nil {
				c.t.Error(err)
			}
		}
	})
}

// writeAll produces a record to each partition, if it can.
func (c *nodes) writeAll(topic string) {
	c.t.Helper()
	client := c.client(1, kgo.SeedBrokers(c.addresses()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordDeliveryTimeout(time.Second))
	defer client.Close()
	for i := range c.partitions(1, topic) {
		_ = client.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Partition: int32(i), Value: []byte("v")}) // it may be offline
	}
}

// saidLines is what a node has logged.
type saidLines struct {
	mu    sync.Mutex
	lines []string
}

func (s *saidLines) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, after, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ") // the time
	s.lines = append(s.lines, after)
	return len(line), nil
}

// alarms takes the errors and warnings since the last time, without those of Raft, which has
// connections that end.
func (s *saidLines) alarms() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.lines
	s.lines = nil
	return slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "level=INFO") || strings.Contains(line, "msg=raft") || strings.Contains(line, "new topics will have one replica")
	})
}
