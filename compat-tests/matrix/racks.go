package matrix

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
	"github.com/klamm-mq/klamm/compat-tests/matrix/programs"
)

const (
	racked    = "racked" // the topic: one partition on nodes 1, 2 and 3, which the first leads
	perRound  = 10       // records
	unlimited = 1 << 30  // records: who reads is stopped
)

// RunRacks has a client in the rack of node 2 read from that follower (KIP-392), and from the
// leader while the follower is gone, is empty, or is none any more. What each node has sent is
// counted by the node. Every record must come once and in its order.
func RunRacks(t *testing.T, start func(t testing.TB, bootstrap string) Session) {
	t.Helper()
	r := newRacks(t)
	session := start(t, r.nodes[0].addr)
	ctx, stop := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop()
	reading.Go(func() {
		err := session.Do(ctx, programs.Command{Do: "consume", Topic: racked, Partitions: 1, From: "start", Rack: "b", Count: unlimited}, r.line)
		switch {
		case ctx.Err() == nil:
			t.Errorf("the client has ended: %v", err)
		case t.Failed():
			t.Logf("the client: %v", err)
		}
		close(r.ended)
	})
	r.readsFrom("the follower in its rack", 2)
	r.stop(2)
	r.readsFrom("without that follower", 1)
	if err := os.RemoveAll(filepath.Join(r.nodes[1].logs, racked+"-0")); err != nil {
		t.Fatal(err)
	}
	r.start(2)
	r.readsFrom("when it is back, after it was empty", 2)
	r.assign(1, 3)
	r.readsFrom("when it is no replica any more", 1)
	r.assign(1, 2, 3)
	r.readsFrom("when it is one again", 2)
	r.awaitISR(1, 2, 3)
	r.stop(1)
	r.readsFrom("without the leader", 2)
}

// rackNode is a node of Klamm, or of Apache Kafka.
type rackNode struct {
	process interface {
		Kill()
		Start()
	}
	addr, metrics string // metrics: "" if it has none
	logs          string
	gone          bool
}

// racks is a cluster in racks, who writes there, and what has been read.
type racks struct {
	t       *testing.T
	nodes   []rackNode
	judge   *kgo.Client
	admin   *kadm.Client
	written int64
	ended   chan struct{} // closed when the client reads no more

	mu   sync.Mutex
	read int64
	news chan struct{} // closed when read has changed
}

func newRacks(t *testing.T) *racks {
	t.Helper()
	r := &racks{t: t, ended: make(chan struct{}), news: make(chan struct{})}
	r.startNodes("replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector")
	var seeds []string
	for _, node := range r.nodes {
		seeds = append(seeds, node.addr)
	}
	judge, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.DefaultProduceTopic(racked), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(judge.Close)
	r.judge, r.admin = judge, kadm.NewClient(judge)
	if _, err := r.admin.CreateTopic(r.context(), 1, 3, nil, racked); err != nil {
		t.Fatal(err)
	}
	// Wherever it was put, the first of these leads in the end.
	r.assign(1, 2, 3)
	if _, err := r.admin.ElectLeaders(r.context(), kadm.ElectPreferredReplica, kadm.TopicsSet{racked: {0: {}}}); err != nil {
		t.Fatal(err)
	}
	r.await("node 1 leads", func(p kadm.PartitionDetail) bool { return p.Leader == 1 })
	return r
}

// startNodes starts nodes 1, 2 and 3 in racks a, b and c.
func (r *racks) startNodes(settings ...string) {
	r.t.Helper()
	rack := func(i int) string { return "broker.rack=" + string(rune('a'+i)) }
	if kafka() {
		c := java.NewCluster(r.t, []int{harness.FreePort(r.t), harness.FreePort(r.t), harness.FreePort(r.t), harness.FreePort(r.t), harness.FreePort(r.t), harness.FreePort(r.t)}, settings...)
		for i, b := range c.Nodes {
			b.Set(rack(i))
			r.nodes = append(r.nodes, rackNode{process: b, addr: b.Addr, logs: b.Logs})
		}
		c.Start()
		return
	}
	c := harness.NewCluster(r.t, 3, settings...)
	for i, b := range c.Nodes {
		metrics := fmt.Sprintf("127.0.0.1:%d", harness.FreePort(r.t))
		b.Set(rack(i), "admin.listener="+metrics)
		r.nodes = append(r.nodes, rackNode{process: b, addr: b.Addr, logs: filepath.Join(b.Dir, "data"), metrics: metrics})
	}
	c.Start()
}

// stop kills a node.
func (r *racks) stop(id int) {
	r.nodes[id-1].process.Kill()
	r.nodes[id-1].gone = true
}

func (r *racks) start(id int) {
	r.nodes[id-1].process.Start()
	r.nodes[id-1].gone = false
}

func (r *racks) context() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

// line is one of the client's.
func (r *racks) line(l programs.Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.Record == nil {
		return
	}
	if want := numbered(r.read); l.Record.Offset != r.read || l.Record.Value == nil || *l.Record.Value != want {
		r.t.Errorf("read %s, expected %s at %d", line(*l.Record), want, r.read)
	}
	r.read = l.Record.Offset + 1
	close(r.news)
	r.news = make(chan struct{})
}

func numbered(offset int64) string { return fmt.Sprintf("record %d", offset) }

// readsFrom writes, and waits for what is written to be read, until a node alone has sent it.
func (r *racks) readsFrom(when string, id int) {
	r.t.Helper()
	begin, last := time.Now(), map[int]float64{}
	for rounds := 1; time.Since(begin) < patience; rounds++ {
		before := r.sent()
		r.round(when)
		last = r.sent()
		maps.DeleteFunc(last, func(node int, n float64) bool { return n == before[node] })
		if kafka() || len(last) == 1 && last[id] > 0 {
			r.t.Logf("%s: after %s and %d rounds", when, time.Since(begin).Round(time.Millisecond), rounds)
			return
		}
	}
	r.t.Fatalf("%s: not read from node %d alone: %v", when, id, last)
}

// round writes a few records and waits until they are read.
func (r *racks) round(when string) {
	r.t.Helper()
	var records []*kgo.Record
	for range perRound {
		records = append(records, kgo.StringRecord(numbered(r.written)))
		r.written++
	}
	if err := r.judge.ProduceSync(r.context(), records...).FirstErr(); err != nil {
		r.t.Fatalf("%s: produce: %v", when, err)
	}
	limit := time.NewTimer(patience) // the client itself may take half of it to start
	defer limit.Stop()
	for {
		r.mu.Lock()
		read, news := r.read, r.news
		r.mu.Unlock()
		if read >= r.written {
			return
		}
		select {
		case <-news:
		case <-r.ended:
			r.t.FailNow()
		case <-limit.C:
			r.t.Fatalf("%s: read up to %d, written up to %d", when, read, r.written)
		}
	}
}

// sent is how many bytes the nodes that run have sent to consumers.
func (r *racks) sent() map[int]float64 {
	r.t.Helper()
	all := map[int]float64{}
	for i, node := range r.nodes {
		if node.gone || node.metrics == "" {
			continue
		}
		resp, err := http.Get("http://" + node.metrics + "/metrics")
		if err != nil {
			r.t.Fatal(err)
		}
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			if value, found := strings.CutPrefix(in.Text(), "kafka_server_brokertopicmetrics_bytesout_total "); found {
				if all[i+1], err = strconv.ParseFloat(value, 64); err != nil {
					r.t.Fatal(err)
				}
			}
		}
		_ = resp.Body.Close() // it was only read from
	}
	return all
}

// assign moves the partition, and waits until these are its replicas.
func (r *racks) assign(replicas ...int32) {
	r.t.Helper()
	var req kadm.AlterPartitionAssignmentsReq
	req.Assign(racked, 0, replicas)
	answers, err := r.admin.AlterPartitionAssignments(r.context(), req)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.awaitISR(replicas...)
}

func (r *racks) awaitISR(replicas ...int32) {
	r.t.Helper()
	r.await(fmt.Sprintf("replicas %v are in sync", replicas), func(p kadm.PartitionDetail) bool {
		return len(p.ISR) == len(replicas) && fmt.Sprint(p.Replicas) == fmt.Sprint(replicas)
	})
}

func (r *racks) await(what string, done func(kadm.PartitionDetail) bool) {
	r.t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for begin := time.Now(); time.Since(begin) < patience/2; <-look.C {
		topics, err := r.admin.ListTopics(r.context(), racked)
		if err == nil && done(topics[racked].Partitions[0]) {
			return
		}
	}
	r.t.Fatalf("not within %s: %s", patience/2, what)
}
