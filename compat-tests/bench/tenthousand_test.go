package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

// crowdTopics of crowdEach partitions with three replicas are the 10,000 of a crowd.
const (
	crowdTopics   = 100
	crowdEach     = 100
	crowdPatience = 5 * time.Minute
	crowdPoll     = 50 * time.Millisecond // an answer with all of them is work, too
)

// clusterTenThousand measures what 10,000 partitions with three replicas cost three nodes of
// Klamm: memory, CPU when nobody uses them, and how long it takes when the active
// controller is killed, and when a node is started again. What an answer of Metadata with
// all of them costs is measured of one node, of Klamm and of Kafka, with one replica each:
// three of Kafka take a quarter of an hour to create the partitions on two cores.
//
// FAILURES is the rounds of kills and stops (3), WINDOW the seconds of idleness that are
// measured (30).
func clusterTenThousand(b *testing.B, t *table) {
	c := &crowd{cluster: startKlamm(b, "klamm-fsync"), b: b}
	c.measure()
	klamm, kafka := lonelyKlamm(b), lonelyKafka(b)
	none := spread{}
	for _, row := range []struct {
		target
		klamm, kafka spread
	}{
		{target{"× 3: created, 100 topics of 100, until all replicas are in sync, s", 0, told}, c.created, none},
		{target{"× 3, idle: MiB resident, largest broker", 400, atMost}, c.memory, none},
		{target{"× 3, idle: % of a core, busiest broker", 0, told}, c.idle, none},
		{target{"× 3: active controller killed, until CreateTopics succeeds, s", 1, atMost}, c.failover, none},
		{target{"× 3: a broker that was killed, from its start until it is in all ISRs, s", 3, atMost}, c.revived, none},
		{target{"× 3: a broker is stopped and started, until it is in all ISRs, s", 3, atMost}, c.restarted, none},
		{target{"× 3: of that, the stop, s", 0, told}, c.stopped, none},
		{target{"× 3, after all of it: peak MiB resident, largest broker", 0, told}, c.peak, none},
		{target{"one node: an answer of Metadata with all of them, CPU ms", 1. / 3, ofKafka}, klamm, kafka},
	} {
		row.what = "10,000 partitions " + row.what
		t.add(row.target, []subject{c.subject, {name: "kafka"}}, []spread{row.klamm, row.kafka})
	}
	fmt.Fprintln(os.Stderr, t) // of a log ten lines are shown
}

// lonelyKlamm is what an answer of Metadata costs one node; so is lonelyKafka.
func lonelyKlamm(b *testing.B) spread {
	n := harness.Start(b)
	defer n.Kill()
	c := &crowd{cluster: newCluster("klamm-fsync, one node", n.Addr, []node{n}), b: b}
	return c.answers()
}

func lonelyKafka(b *testing.B) spread {
	n := java.NewBroker(b, harness.FreePort(b), harness.FreePort(b))
	n.JVM = java.ScriptJVM()
	n.Start()
	defer n.Kill()
	c := &crowd{cluster: newCluster("kafka, one node", n.Addr, []node{n}), b: b}
	return c.answers()
}

// crowd is a cluster with 10,000 partitions, and what was found about it.
type crowd struct {
	cluster
	b *testing.B

	created, memory, idle, failover, revived, restarted, stopped, peak spread
}

func (c *crowd) measure() {
	c.create()
	pause(warmUp)
	c.rest()
	for range number(c.b, "FAILURES", 3) {
		c.killController()
		c.restartOther()
	}
	var most float64
	for _, pid := range c.pids {
		most = max(most, float64(peakResident(c.b, pid))/(1<<20))
	}
	c.peak = spread{most}
	for _, n := range c.nodes {
		n.Kill()
	}
}

func (c *crowd) create() {
	admin := kadm.NewClient(dial(c.b, c.addr))
	defer admin.Close()
	begin := time.Now()
	for i := range crowdTopics {
		if _, err := admin.CreateTopic(c.b.Context(), crowdEach, c.replicas(), nil, fmt.Sprintf("crowd-%02d", i)); err != nil {
			c.b.Fatal(err)
		}
	}
	c.await(1, "has all replicas in sync", inSync)
	c.created = spread{time.Since(begin).Seconds()}
	c.tell("created in %.1f s", c.created[0])
}

// rest measures the brokers while nobody uses them.
func (c *crowd) rest() {
	window := time.Duration(number(c.b, "WINDOW", 30)) * time.Second
	var before []time.Duration
	for _, pid := range c.pids {
		before = append(before, cpu(c.b, pid))
	}
	begin := time.Now()
	pause(window)
	var busiest, largest float64
	for i, pid := range c.pids {
		busiest = max(busiest, 100*(cpu(c.b, pid)-before[i]).Seconds()/time.Since(begin).Seconds())
		largest = max(largest, float64(resident(c.b, pid))/(1<<20))
	}
	c.idle, c.memory = spread{busiest}, spread{largest}
	c.tell("%.1f %% of a core, %.0f MiB", busiest, largest)
}

const (
	answersCount  = 300
	answersRounds = 3
)

// answers measures what a broker uses, beyond what it uses anyway, for a Metadata that asks
// for all topics.
func (c *crowd) answers() (found spread) {
	c.create()
	pause(warmUp)
	c.rest()
	w := c.witness(1)
	defer w.Close()
	ask := func() {
		for range answersCount {
			if _, err := w.metadata(); err != nil {
				c.b.Fatal(err)
			}
		}
	}
	ask() // for a virtual machine's compiler
	for range answersRounds {
		begin, before := time.Now(), cpu(c.b, c.pids...)
		ask()
		used := (cpu(c.b, c.pids...) - before).Seconds() - c.idle.median()/100*time.Since(begin).Seconds()
		found = append(found, 1000*used/answersCount)
	}
	c.tell("%s ms for an answer of Metadata", found)
	return found
}

// killController kills the active controller, asks another node for a new topic until there
// is one, and starts the broker again when it leads no partition any more.
func (c *crowd) killController() {
	id, _ := quorum(c.b, c.addr)
	other := int(id)%clusterNodes + 1
	w := c.witness(other)
	defer w.Close()
	killed := time.Now()
	c.node(id).Kill()
	name := fmt.Sprintf("failover-%d", len(c.failover))
	for err := w.create(name); err != nil; err = w.create(name) {
		if time.Since(killed) > crowdPatience {
			c.b.Fatalf("no topic is created: %v", err)
		}
		pause(10 * time.Millisecond)
	}
	c.failover = append(c.failover, time.Since(killed).Seconds())
	c.await(other, "has other leaders", func(p kmsg.MetadataResponseTopicPartition) bool { return p.Leader >= 0 && p.Leader != id })
	pause(downFor)
	begin := time.Now()
	c.startNode(id)
	c.await(other, "has all replicas in sync", inSync)
	c.revived = append(c.revived, time.Since(begin).Seconds())
	c.tell("controller %d killed: CreateTopics after %.2f s, its broker in sync %.2f s after its start", id, c.failover[len(c.failover)-1], c.revived[len(c.revived)-1])
	c.giveBack(w)
}

// restartOther stops a broker that is not the active controller, and starts it again.
func (c *crowd) restartOther() {
	controller, _ := quorum(c.b, c.addr)
	id := controller%clusterNodes + 1
	w := c.witness(int(controller))
	defer w.Close()
	begin := time.Now()
	stop(c.node(id))
	stopped := time.Since(begin).Seconds()
	c.startNode(id)
	c.await(int(controller), "has all replicas in sync", inSync)
	c.stopped, c.restarted = append(c.stopped, stopped), append(c.restarted, time.Since(begin).Seconds())
	c.tell("broker %d stopped in %.2f s, in sync %.2f s after the signal", id, stopped, c.restarted[len(c.restarted)-1])
	c.giveBack(w)
}

// tell says at once what was found: it is long until the table comes.
func (c *crowd) tell(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", c.name, fmt.Sprintf(format, args...))
}

func (c *crowd) node(id int32) node { return c.nodes[id-1] }

func (c *crowd) startNode(id int32) {
	c.node(id).Start()
	c.pids[id-1] = c.node(id).Pid()
}

// stop ends a process with SIGTERM.
func stop(n node) {
	switch n := n.(type) {
	case interface{ Stop() int }:
		n.Stop()
	case interface{ Stop() }:
		n.Stop()
	}
}

// giveBack makes the first replicas leaders.
func (c *crowd) giveBack(w *witness) {
	req := kmsg.NewPtrElectLeadersRequest() // of no topics: of all
	req.TimeoutMillis = int32(crowdPatience.Milliseconds())
	if _, err := w.node.Request(c.b.Context(), req); err != nil {
		c.b.Fatal(err)
	}
	c.await(w.id, "is led by first replicas", func(p kmsg.MetadataResponseTopicPartition) bool { return p.Leader == p.Replicas[0] })
	pause(downFor)
}

func inSync(p kmsg.MetadataResponseTopicPartition) bool {
	return p.Leader >= 0 && len(p.ISR) == len(p.Replicas)
}

// await asks one node for all partitions until they are there, each as wanted.
func (c *crowd) await(id int, want string, is func(kmsg.MetadataResponseTopicPartition) bool) {
	c.b.Helper()
	w := c.witness(id)
	defer w.Close()
	begin := time.Now()
	for {
		resp, err := w.metadata()
		if err == nil && isCrowd(resp, is) {
			return
		}
		if time.Since(begin) > crowdPatience {
			c.b.Fatalf("after %s no metadata in which each partition %s; last error: %v", crowdPatience, want, err)
		}
		pause(crowdPoll)
	}
}

func isCrowd(resp *kmsg.MetadataResponse, is func(kmsg.MetadataResponseTopicPartition) bool) bool {
	count := 0
	for _, t := range resp.Topics {
		if !all(t.Partitions, is) {
			return false
		}
		count += len(t.Partitions)
	}
	return count >= crowdTopics*crowdEach
}

// witness is a client of one node, which does not ask again by itself.
type witness struct {
	*kgo.Client
	b    *testing.B
	node *kgo.Broker
	id   int
}

func (c *crowd) witness(id int) *witness {
	c.b.Helper()
	client := dial(c.b, strings.Split(c.addr, ",")[id-1])
	return &witness{client, c.b, client.SeedBrokers()[0], id}
}

func (w *witness) metadata() (*kmsg.MetadataResponse, error) {
	ctx, cancel := context.WithTimeout(w.b.Context(), time.Minute)
	defer cancel()
	resp, err := w.node.Request(ctx, kmsg.NewPtrMetadataRequest())
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.MetadataResponse), nil
}

// create makes a topic with two replicas, as the node sees it.
func (w *witness) create(name string) error {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, clusterNodes-1
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.TimeoutMillis = append(req.Topics, t), 1000
	ctx, cancel := context.WithTimeout(w.b.Context(), time.Minute)
	defer cancel()
	resp, err := w.node.Request(ctx, req)
	if err != nil {
		return err
	}
	made := resp.(*kmsg.CreateTopicsResponse).Topics
	if len(made) != 1 {
		return fmt.Errorf("%d topics are answered", len(made))
	}
	if err := kerr.ErrorForCode(made[0].ErrorCode); !errors.Is(err, kerr.TopicAlreadyExists) { // by an attempt before
		return err
	}
	return nil
}
