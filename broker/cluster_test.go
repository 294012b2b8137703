package broker_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

// nodes are several in one bubble, each on a machine of its own; node i is broker-i.
type nodes struct {
	t   *testing.T
	net *memnet.Network
	all map[int32]*machineNode
}

// machineNode is a node with the process that lives, if one does.
type machineNode struct {
	brokertest.Process
	id int32
}

// newNodes makes machines with the roles of each node, in the order of the ids.
func newNodes(t *testing.T, roles ...string) *nodes {
	c := &nodes{t: t, net: memnet.New(), all: map[int32]*machineNode{}}
	var voters []string
	for i, role := range roles {
		if strings.Contains(role, "controller") {
			voters = append(voters, fmt.Sprintf("%d@broker-%d:9093", i+1, i+1))
		}
	}
	for i, role := range roles {
		id := int32(i + 1)
		name := fmt.Sprintf("broker-%d", id)
		var listeners []string
		if strings.Contains(role, "broker") {
			listeners = append(listeners, "PLAINTEXT://"+name+":9092")
		}
		if strings.Contains(role, "controller") {
			listeners = append(listeners, "CONTROLLER://"+name+":9093")
		}
		m := &machineNode{id: id}
		m.Machine = brokertest.NewMachineOn(t, c.net, name, uint64(id))
		m.Machine.Logger = brokertest.Logger(t, slog.LevelInfo).With("node", id)
		m.replaceDisk()
		m.Machine.Settings = []string{
			"process.roles=" + role, "node.id=" + fmt.Sprint(id), "listeners=" + strings.Join(listeners, ","),
			"controller.listener.names=CONTROLLER", "controller.quorum.voters=" + strings.Join(voters, ","),
			"log.dirs=/data", "admin.listener=",
		}
		c.all[id] = m
	}
	return c
}

func (m *machineNode) replaceDisk() { m.Disk = vfs.NewCrash(rand.NewPCG(7, uint64(m.id))) }

// tryStart starts a node that may refuse.
func (c *nodes) tryStart(m *machineNode) (*broker.Broker, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	env := m.Machine.Env()
	env.FS = m.Disk.Process()
	return broker.Start(ctx, brokertest.Config(c.t, m.Machine.Settings...), env)
}

// refuse wants a node not to start, and to say why.
func (c *nodes) refuse(m *machineNode, texts ...string) {
	c.t.Helper()
	b, err := c.tryStart(m)
	if err == nil {
		brokertest.Stop(c.t, b)
		c.t.Error("the node has started")
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			c.t.Errorf("%q is not in: %v", text, err)
		}
	}
}

// start starts some nodes at the same time, and returns when they are ready.
func (c *nodes) start(ids ...int32) {
	c.t.Helper()
	var wg sync.WaitGroup
	for _, id := range ids {
		m := c.all[id]
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := m.Launch(ctx, c.t); err != nil {
				c.t.Errorf("node %d: %v", id, err)
			}
		})
	}
	wg.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
}

// kill ends a node as SIGKILL does.
func (c *nodes) kill(id int32) {
	c.all[id].Kill()
}

func (c *nodes) stopAll() {
	var wg sync.WaitGroup
	for _, m := range c.all {
		if m.B == nil {
			m.AwaitEnd()
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			if err := m.B.Stop(ctx); err != nil {
				c.t.Errorf("node %d: %v", m.id, err)
			}
		})
	}
	wg.Wait()
}

// client talks to one node first.
func (c *nodes) client(id int32, opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.all[id].Machine.Addr()), kgo.Dialer(c.all[id].Machine.Dial), kgo.MetadataMinAge(10 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// admin does something with one node, which must be there.
func (c *nodes) admin(id int32, do func(ctx context.Context, adm *kadm.Client)) {
	c.t.Helper()
	client := c.client(id)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	do(ctx, kadm.NewClient(client))
}

// createTopic asks one node for a topic, which then knows it.
func (c *nodes) createTopic(through int32, name string, replicas int16) {
	c.t.Helper()
	client := c.client(through)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 3, replicas
	req.Topics = append(req.Topics, topic)
	reply, err := client.Broker(int(through)).Request(ctx, req)
	if err != nil {
		c.t.Errorf("create %s through %d: %v", name, through, err)
		return
	}
	if answer := reply.(*kmsg.CreateTopicsResponse).Topics[0]; answer.ErrorCode != 0 {
		c.t.Errorf("create %s through %d: %v", name, through, kerr.ErrorForCode(answer.ErrorCode))
	}
	if c.all[through].B.Image().Topic(name) == nil {
		c.t.Errorf("node %d does not know %s although it answered", through, name)
	}
}

// inService are the brokers that a node says are in service.
func (c *nodes) inService(at int32) []int32 {
	var ids []int32
	for r := range c.all[at].B.Image().Brokers() {
		if !r.Fenced {
			ids = append(ids, r.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func (c *nodes) eventually(what string, within time.Duration, cond func() bool) time.Duration {
	c.t.Helper()
	begin := time.Now()
	for !cond() {
		if time.Since(begin) > within {
			c.t.Fatalf("not within %v: %s", within, what)
		}
		<-time.After(5 * time.Millisecond)
	}
	return time.Since(begin)
}

// leader is the active controller as DescribeQuorum through a node says, -1 if it does not
// know.
func (c *nodes) leader(through int32) (leader int32) {
	client := c.client(through)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic, topic.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{{}}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, client)
	if err != nil || len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		return -1
	}
	return resp.Topics[0].Partitions[0].LeaderID
}

func clusterTest(t *testing.T, roles []string, test func(c *nodes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newNodes(t, roles...)
		defer c.stopAll()
		test(c)
	})
}

var threeCombined = []string{"broker,controller", "broker,controller", "broker,controller"}

// Three nodes with empty disks become one cluster: topics are made through any of them, and
// each tells of all.
func TestThreeNodesAreOneCluster(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.start(1, 2, 3)
		ids := map[string]bool{}
		for id, m := range c.all {
			ids[m.B.Image().ClusterID()] = true
			c.createTopic(id, fmt.Sprintf("through-%d", id), 1)
		}
		if len(ids) != 1 {
			c.t.Errorf("cluster ids %v", ids)
		}
		for id := range c.all {
			c.admin(id, func(ctx context.Context, adm *kadm.Client) {
				meta, err := adm.BrokerMetadata(ctx)
				if err != nil {
					c.t.Fatal(err)
				}
				var got []string
				for _, b := range meta.Brokers {
					got = append(got, fmt.Sprintf("%d@%s:%d", b.NodeID, b.Host, b.Port))
				}
				slices.Sort(got)
				if want := "[1@broker-1:9092 2@broker-2:9092 3@broker-3:9092]"; fmt.Sprint(got) != want {
					c.t.Errorf("node %d: %v", id, got)
				}
			})
			if leader := c.leader(id); c.all[leader] == nil {
				c.t.Errorf("leader %d, asked through %d", leader, id)
			}
		}
	})
}

// The node that leads the metadata log dies with everything on it: another leads in less
// than a second, the dead broker is out of service soon after, and is back when it has
// started again.
func TestActiveControllerDies(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.start(1, 2, 3)
		c.createTopic(1, "before", 1)
		dead := c.leader(1)
		others := slices.DeleteFunc([]int32{1, 2, 3}, func(id int32) bool { return id == dead })
		c.kill(dead)
		took := c.eventually("another controller", 5*time.Second, func() bool {
			leader := c.leader(others[0])
			return leader > 0 && leader != dead
		})
		if took > time.Second {
			c.t.Errorf("another controller after %v", took)
		}
		took = c.eventually("the dead broker is fenced", 5*time.Second, func() bool {
			return slices.Equal(c.inService(others[0]), others) && slices.Equal(c.inService(others[1]), others)
		})
		c.t.Logf("fenced %v after another controller was there", took)
		for _, id := range others {
			c.createTopic(id, fmt.Sprintf("without-%d-through-%d", dead, id), 1)
		}
		c.start(dead)
		c.eventually("it is in service", 5*time.Second, func() bool {
			return len(c.inService(1)) == 3 && len(c.inService(2)) == 3 && len(c.inService(3)) == 3
		})
		c.createTopic(dead, "after", 1)
	})
}

// Any node may die, and its disk may be lost with it: it comes back as a member with an
// empty disk, the smallest voter too.
func TestWipedNodeComesBack(t *testing.T) {
	for wiped := int32(1); wiped <= 3; wiped++ {
		t.Run(fmt.Sprint(wiped), func(t *testing.T) {
			clusterTest(t, threeCombined, func(c *nodes) {
				c.start(1, 2, 3)
				c.createTopic(1, "before", 1)
				c.createTopic(1, "everywhere", 3)
				id := c.all[wiped].B.Image().ClusterID()
				c.kill(wiped)
				c.all[wiped].replaceDisk()
				c.start(wiped)
				c.inSync(wiped%3+1, "everywhere") // what was on the disk is fetched again
				if got := c.all[wiped].B.Image().ClusterID(); got != id {
					c.t.Errorf("cluster %s has become %s", id, got)
				}
				c.createTopic(wiped, "after", 1)
				if c.all[wiped].B.Image().Topic("before") == nil {
					c.t.Error("it does not know the topic")
				}
				// And now one of the others can be missed.
				other := wiped%3 + 1
				c.kill(other)
				c.eventually("a controller", 5*time.Second, func() bool { return c.leader(wiped) > 0 })
				c.createTopic(wiped, "later", 1)
				c.start(other)
			})
		})
	}
}

// Controllers and brokers may be different processes.
func TestRolesApart(t *testing.T) {
	roles := []string{"controller", "controller", "controller", "broker", "broker"}
	clusterTest(t, roles, func(c *nodes) {
		c.start(1, 2, 3, 4, 5)
		c.createTopic(4, "through-4", 2)
		c.createTopic(5, "through-5", 2)
		dead := c.leader(4)
		if dead > 3 {
			c.t.Errorf("broker %d leads the metadata log", dead)
		}
		c.kill(dead)
		c.eventually("another controller", time.Second, func() bool {
			leader := c.leader(5)
			return leader > 0 && leader != dead
		})
		c.createTopic(5, "without-it", 2)
		c.kill(4)
		c.eventually("the dead broker is fenced", 10*time.Second, func() bool { return slices.Equal(c.inService(5), []int32{5}) })
		c.start(dead, 4)
		c.eventually("everybody is back", 5*time.Second, func() bool { return len(c.inService(4)) == 2 })
		c.createTopic(4, "after", 2)
	})
}

// A single controller with brokers beside it is a cluster, too.
func TestOneControllerAndABroker(t *testing.T) {
	clusterTest(t, []string{"broker,controller", "broker"}, func(c *nodes) {
		c.start(1, 2)
		c.createTopic(1, "through-1", 2)
		c.createTopic(2, "through-2", 2)
		c.kill(2)
		c.start(2)
		c.createTopic(2, "after", 2)
		if ids := c.inService(1); len(ids) != 2 {
			c.t.Errorf("in service: %v", ids)
		}
	})
}

// An orderly stop of the active controller leaves the cluster without one for a moment only.
func TestActiveControllerStops(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.start(1, 2, 3)
		c.createTopic(1, "before", 1)
		stopped := c.leader(1)
		other := stopped%3 + 1
		m := c.all[stopped]
		brokertest.Stop(c.t, m.B)
		m.B = nil
		took := c.eventually("another controller", time.Second, func() bool {
			leader := c.leader(other)
			return leader > 0 && leader != stopped
		})
		if took > 50*time.Millisecond {
			c.t.Errorf("another controller after %v", took)
		}
		c.eventually("it is out of service", 100*time.Millisecond, func() bool { return len(c.inService(other)) == 2 })
		c.start(stopped)
		c.createTopic(stopped, "after", 1)
	})
}

// A second process with the id of a broker that lives is refused, and told which one that is.
func TestSecondNodeWithTheSameID(t *testing.T) {
	clusterTest(t, append(threeCombined, "broker"), func(c *nodes) {
		c.start(1, 2, 3, 4)
		twin := newNodes(c.t, append(threeCombined, "broker")...).all[4]
		twin.Machine.Seed(99)
		twin.Machine.Net, twin.Machine.Name = c.net, "broker-9"
		twin.Machine.Settings[2] = "listeners=PLAINTEXT://broker-9:9092"
		c.refuse(twin, "register broker 4", "another process is registered as broker 4 at broker-4:9092")
		if ids := c.inService(1); len(ids) != 4 {
			c.t.Errorf("in service: %v", ids)
		}
		c.createTopic(4, "after", 1)
	})
}

// A disk that belongs to another cluster is refused, be it a broker's or a voter's.
func TestForeignDisk(t *testing.T) {
	clusterTest(t, append(threeCombined, "broker"), func(c *nodes) {
		for _, id := range []int32{3, 4} { // begun as clusters of their own
			c.begunAlone(c.all[id])
		}
		c.refuse(c.all[3], "the log is that of the voters [3]", "controller.quorum.voters names [1 2 3]")
		own := c.all[3].Disk
		c.all[3].replaceDisk()
		c.start(1, 2, 3)
		c.refuse(c.all[4], "the log is that of the voters [4]")
		if err := c.all[4].Disk.Process().RemoveAll("/data/klamm-metadata"); err != nil {
			c.t.Fatal(err)
		}
		c.refuse(c.all[4], "register broker 4", "this is cluster "+c.all[1].B.Image().ClusterID(), "broker 4 belongs to cluster")
		if ids := c.inService(1); len(ids) != 3 {
			c.t.Errorf("in service: %v", ids)
		}
		c.kill(3)
		c.all[3].Disk = own
		c.refuse(c.all[3], "the log is that of the voters [3]")
		c.createTopic(1, "after", 1)
	})
}

// A broker that dies while the controller lives is out of service at once: the connection
// of its heartbeats is gone, and its address refuses others.
func TestBrokerDies(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.start(1, 2, 3)
		dead := c.leader(1)%3 + 1
		<-time.After(time.Second)
		c.kill(dead)
		other := dead%3 + 1
		took := c.eventually("it is out of service", 5*time.Second, func() bool { return len(c.inService(other)) == 2 })
		if took > 200*time.Millisecond {
			c.t.Errorf("after %v", took)
		}
		<-time.After(20 * time.Second)
		begin := time.Now()
		c.start(dead)
		if took := time.Since(begin); took > 500*time.Millisecond {
			c.t.Errorf("its next start took %v", took)
		}
	})
}

// What a configuration must say about a cluster before anything is opened.
func TestCheckOfClusters(t *testing.T) {
	for _, c := range []struct {
		want     string // in the refusal; "": there is none
		settings []string
	}{
		{"", []string{
			"process.roles=broker,controller", "node.id=1", "listeners=A://a:1,C://a:2", "controller.listener.names=C",
			"listener.security.protocol.map=A:PLAINTEXT,C:PLAINTEXT", "inter.broker.listener.name=A", "controller.quorum.voters=1@a:2,2@b:2,3@c:2",
		}},
		{"", []string{"process.roles=broker", "node.id=4", "listeners=PLAINTEXT://d:1", "controller.quorum.bootstrap.servers=a:2,b:2,c:2", "controller.listener.names=CONTROLLER"}},
		{"", []string{
			"node.id=1", "listeners=PLAINTEXT://a:1,CONTROLLER://a:2", "controller.listener.names=CONTROLLER",
			"controller.quorum.bootstrap.servers=a:2,b:2,c:2",
		}},
		{"controller.listener.names", []string{"node.id=1", "listeners=PLAINTEXT://a:1", "controller.quorum.bootstrap.servers=a:2,b:2,c:2"}},
		{"controller.listener.names", []string{"node.id=1", "listeners=PLAINTEXT://a:1", "controller.quorum.voters=1@a:1,2@b:1,3@c:1"}},
		{"must name the controllers", []string{"process.roles=controller", "node.id=1", "listeners=CONTROLLER://a:2", "controller.listener.names=CONTROLLER"}},
	} {
		err := broker.Check(brokertest.Config(t, c.settings...))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.settings, err, c.want)
		}
	}
}
