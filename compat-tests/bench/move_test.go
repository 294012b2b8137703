package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	movedTopic      = "moved"
	movedPartitions = 8
	besideTopic     = "beside" // what the steady producer writes to
	besideCount     = 12
	movePatience    = 30 * time.Minute
	movePoll        = 100 * time.Millisecond
	filesGone       = 10 * time.Second // after file.delete.delay.ms of one
)

// clusterMove moves MB (2048) of records from broker to broker of three, with
// AlterPartitionReassignments and a throttle of RATE_MB (50) a second, as
// kafka-reassign-partitions sets it, in ROUNDS (3): to the next broker in each. It is held to
// the throttle, and to what a producer of 1,000 records a second waits for its
// acknowledgements (three replicas, acks=all) meanwhile and in the QUIET (30) seconds before.
//
// The disk needs room for what is moved twice. ONLY=klamm leaves Kafka out, ONLY=klamm-fsync one
// of the durabilities too. The records are in
// batches of BATCH_KB, of 32 as Kafka's producer makes them, about. Large ones are hard on Kafka:
// an answer ends with a part of one, which is sent again, and counts twice for the throttle.
func clusterMove(b *testing.B, t *table) {
	rate := float64(number(b, "RATE_MB", 50))
	var list []subject
	var speed, quiet, busy, ratio []spread
	for _, of := range []struct {
		name  string
		start func() cluster
	}{
		{"klamm-replicated", func() cluster { return startKlamm(b, "klamm-replicated", "durability=replicated") }},
		{"klamm-fsync", func() cluster { return startKlamm(b, "klamm-fsync") }},
		{"kafka", func() cluster { return startKafka(b) }},
	} {
		if only := os.Getenv("ONLY"); !strings.HasPrefix(of.name, only) {
			continue
		}
		m := &move{cluster: of.start(), b: b, rate: rate}
		m.measure()
		list, speed = append(list, m.subject), append(speed, m.speed)
		quiet, busy, ratio = append(quiet, m.quiet), append(busy, m.busy), append(ratio, m.ratio)
	}
	t.add(target{fmt.Sprintf("move at a throttle of %.0f MB/s: MB/s", rate), rate, near}, list, speed)
	t.add(target{"p99 of a steady producer before the move, ms", 0, told}, list, quiet)
	t.add(target{"the same during the move, ms", 0, told}, list, busy)
	t.add(target{"during divided by before", 1.2, atMost}, list, ratio)
	fmt.Fprintln(os.Stderr, t) // of a log ten lines are shown
}

// move is a cluster between whose brokers records move, and what was found in each round.
type move struct {
	cluster
	b     *testing.B
	admin *kadm.Client
	rate  float64 // MB a second

	speed, quiet, busy, ratio spread
}

func (m *move) measure() {
	m.admin = kadm.NewClient(dial(m.b, m.addr))
	defer m.admin.Close()
	bytes := number(m.b, "MB", 2048) * 1_000_000
	m.fill(bytes)
	minInSync := manyMinInSync
	if _, err := m.admin.CreateTopic(m.b.Context(), besideCount, clusterNodes, map[string]*string{"min.insync.replicas": &minInSync}, besideTopic); err != nil {
		m.b.Fatal(err)
	}
	p := startPaced(m.b, m.addr)
	defer p.stop()
	pause(warmUp)
	for round := range number(m.b, "ROUNDS", 3) {
		from, to := int32(round%clusterNodes+1), int32((round+1)%clusterNodes+1)
		begin := time.Now()
		pause(time.Duration(number(m.b, "QUIET", 30)) * time.Second)
		quiet := p.percentile(begin, 99)
		m.throttle(from, to)
		begin = time.Now()
		m.moveTo(to)
		m.note(float64(bytes)/1e6/time.Since(begin).Seconds(), quiet, p.percentile(begin, 99))
		pause(filesGone) // from where they were: a disk that is told of each block holds producers up
	}
	p.stop()
	deleteTopics(m.b, m.subject, movedTopic) // its directory goes with the benchmark only
	pause(filesGone)
	for _, n := range m.nodes {
		n.Kill()
	}
}

func (m *move) note(speed, quiet, busy float64) {
	m.speed, m.quiet, m.busy = append(m.speed, speed), append(m.quiet, quiet), append(m.busy, busy)
	m.ratio = append(m.ratio, busy/quiet)
	fmt.Fprintf(os.Stderr, "%s: moved at %.1f MB/s, p99 %.2f ms before and %.2f ms meanwhile\n", m.name, speed, quiet, busy)
}

// fill writes what will be moved; all of it is on the first broker.
func (m *move) fill(bytes int) {
	soon := "1000"
	if _, err := m.admin.CreateTopic(m.b.Context(), movedPartitions, 1, map[string]*string{"file.delete.delay.ms": &soon}, movedTopic); err != nil {
		m.b.Fatal(err)
	}
	m.moveTo(1)
	c := dial(m.b, m.addr, kgo.DefaultProduceTopic(movedTopic), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.ProducerBatchMaxBytes(int32(number(m.b, "BATCH_KB", 32)<<10)))
	defer c.Close()
	value := make([]byte, 10_000)
	for range bytes / len(value) {
		c.Produce(m.b.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				m.b.Error(err)
			}
		})
	}
	if err := c.Flush(m.b.Context()); err != nil {
		m.b.Fatal(err)
	}
}

// throttle names the replicas that leave and come, and sets the rate on all brokers.
func (m *move) throttle(from, to int32) {
	leaving, coming := make([]string, movedPartitions), make([]string, movedPartitions)
	for p := range movedPartitions {
		leaving[p], coming[p] = fmt.Sprintf("%d:%d", p, from), fmt.Sprintf("%d:%d", p, to)
	}
	altered, err := m.admin.AlterTopicConfigs(m.b.Context(), []kadm.AlterConfig{
		set("leader.replication.throttled.replicas", strings.Join(leaving, ",")),
		set("follower.replication.throttled.replicas", strings.Join(coming, ",")),
	}, movedTopic)
	m.check(altered, err)
	rate := strconv.FormatInt(int64(m.rate*1e6), 10)
	altered, err = m.admin.AlterBrokerConfigs(m.b.Context(), []kadm.AlterConfig{
		set("leader.replication.throttled.rate", rate), set("follower.replication.throttled.rate", rate),
	}, 1, 2, 3)
	m.check(altered, err)
}

func set(name, value string) kadm.AlterConfig {
	return kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value}
}

func (m *move) check(altered kadm.AlterConfigsResponses, err error) {
	m.b.Helper()
	if err != nil {
		m.b.Fatal(err)
	}
	for _, r := range altered {
		if r.Err != nil {
			m.b.Fatalf("%s: %v", r.Name, r.Err)
		}
	}
}

// moveTo has all partitions on one broker, and returns when it is so.
func (m *move) moveTo(broker int32) {
	m.b.Helper()
	var req kadm.AlterPartitionAssignmentsReq
	set := kadm.TopicsSet{}
	for p := range int32(movedPartitions) {
		req.Assign(movedTopic, p, []int32{broker})
		set.Add(movedTopic, p)
	}
	altered, err := m.admin.AlterPartitionAssignments(m.b.Context(), req)
	if err == nil {
		err = altered.Error()
	}
	if err != nil {
		m.b.Fatal(err)
	}
	for begin := time.Now(); time.Since(begin) < movePatience; pause(movePoll) {
		list, err := m.admin.ListPartitionReassignments(m.b.Context(), set)
		if err != nil {
			m.b.Fatal(err)
		}
		if len(list.Sorted()) == 0 {
			return
		}
	}
	m.b.Fatalf("the move to broker %d has not ended after %s", broker, movePatience)
}

// paced sends 1,000 records a second to partitions with three replicas, whether or not they
// are acknowledged in time, and notes how long each took.
type paced struct {
	mu   sync.Mutex
	took []sample
	stop func()
}

type sample struct {
	due  time.Time
	took time.Duration
}

func startPaced(b *testing.B, addr string) *paced {
	b.Helper()
	p := &paced{}
	c := dial(b, addr, kgo.DefaultProduceTopic(besideTopic), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.run(ctx, b, c)
	}()
	p.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		c.Close()
	})
	b.Cleanup(p.stop)
	return p
}

func (p *paced) run(ctx context.Context, b *testing.B, c *kgo.Client) {
	tick := time.NewTicker(time.Second / steadyRate)
	defer tick.Stop()
	begin := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		due := begin.Add(time.Duration(i) * time.Second / steadyRate)
		for time.Until(due) > 0 {
			<-tick.C
		}
		value := binary.BigEndian.AppendUint64(make([]byte, 0, recordSize), uint64(i))[:recordSize]
		c.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			took := time.Since(due)
			if err != nil && ctx.Err() == nil {
				b.Errorf("a record of the steady producer: %v", err)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.took = append(p.took, sample{due, took})
		})
	}
}

// percentile of the records that were due since then, in ms.
func (p *paced) percentile(since time.Time, percent int) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var took []time.Duration
	for _, s := range p.took {
		if !s.due.Before(since) {
			took = append(took, s.took)
		}
	}
	slices.Sort(took)
	return float64(took[len(took)*percent/100].Microseconds()) / 1000
}
