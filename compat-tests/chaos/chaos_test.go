package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/groups"
	"github.com/klamm-mq/klamm/compat-tests/harness"
)

const (
	partitions = 6
	members    = 2                     // of each group
	pace       = 10 * time.Millisecond // between two records of a producer
	session    = 10 * time.Second      // timeout of members: a busy machine holds up heartbeats
	settle     = 3 * time.Second       // until all that a client had before a kill is printed
	bound      = time.Minute           // until every client goes on after a start
	startBound = 3 * time.Minute       // until every client has begun: some are compiled first
	drain      = 2 * time.Minute       // until the groups have read everything
	maxFaults  = 10                    // that a failure prints of a topic
)

// TestMixedLoadSurvivesSIGKILL runs for MINUTES (3) with a kill each EVERY (60) seconds.
func TestMixedLoadSurvivesSIGKILL(t *testing.T) {
	minutes, every := number(t, "MINUTES", 3), number(t, "EVERY", 60)
	r := newRun(t)
	begin := time.Now()
	for end := begin.Add(time.Duration(minutes) * time.Minute); time.Now().Before(end); {
		r.wait(time.Duration(every/2)*time.Second + rand.N(time.Duration(every)*time.Second))
		r.killAndGoOn()
	}
	r.stopProducers()
	r.awaitReaders()
	faults := r.judge()
	for _, m := range r.members {
		m.end(syscall.SIGTERM)
	}
	result := "pass"
	if t.Failed() || faults > 0 {
		result = "FAIL"
	}
	harness.Evidence(t, "commit=%s broker=%s kills=%d acked=%d given-up=%d read-again=%d slowest=%s duration=%s result=%s",
		harness.Commit(), brokerName(), r.kills, r.total(func(h *history) int { return len(h.acked) }),
		r.total(func(h *history) int { return h.failed }), r.total(func(h *history) int { return h.again }),
		r.slowest, time.Since(begin).Round(time.Second), result)
}

func brokerName() string {
	if name := os.Getenv("BROKER"); name != "" {
		return name
	}
	return "klamm"
}

func number(t *testing.T, name string, ifUnset int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return ifUnset
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s is not a positive number", name, text)
	}
	return n
}

// run is a broker, its clients and its kills.
type run struct {
	t         *testing.T
	cluster   groups.Cluster
	kinds     []kind
	admin     *kadm.Client
	client    *kgo.Client
	topics    []string
	histories []*history // of each topic
	producers []*process
	members   []*process
	kills     int
	slowest   slowest
}

// slowest is the client that took longest to go on after a start.
type slowest struct {
	name string
	took time.Duration
}

func (s slowest) String() string {
	return fmt.Sprintf("%s/%s", s.took.Round(10*time.Millisecond), s.name)
}

func newRun(t *testing.T) *run {
	r := &run{t: t, cluster: groups.StartCluster(t), kinds: kinds()}
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Address()), kgo.AlwaysRetryEOF(), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r.client, r.admin = client, kadm.NewClient(client)
	t.Cleanup(r.tell)
	small := "1048576" // many rolls
	for i, k := range r.kinds {
		topic := "from-" + k.name
		if _, err := r.admin.CreateTopic(t.Context(), partitions, 1, map[string]*string{"segment.bytes": &small}, topic); err != nil {
			t.Fatal(err)
		}
		h := newHistory(k.name, k.idempotent)
		r.topics, r.histories = append(r.topics, topic), append(r.histories, h)
		r.producers = append(r.producers, start(t, k.name+"-producer", k.producer(t, producerArgs(r.cluster.Address(), topic, k.name)), h.told))
		reader := r.readerOf(i)
		for m := range members {
			r.startMember(reader, topic, fmt.Sprintf("%s-member-%d", reader.name, m), h)
		}
	}
	r.goOn("first acknowledgements and records", startBound)
	return r
}

// readerOf is the library whose group reads a topic.
func (r *run) readerOf(topic int) kind { return r.kinds[(topic+1)%len(r.kinds)] }

// startMember adds a member to the group that has the reader's name.
func (r *run) startMember(reader kind, topic, name string, h *history) {
	m := groups.Member{
		Bootstrap: r.cluster.Address(), Topic: topic, Group: reader.name, Name: name,
		SessionTimeoutMs: int(session.Milliseconds()),
	}
	r.members = append(r.members, start(r.t, name, reader.member.Command(r.t, m), func(line string) (known, progress bool) {
		e, ok := reader.member.Read(line)
		if !ok || e.Assigned {
			return false, false
		}
		h.saw(place{e.Partition[0], e.Offset}, e.Value)
		return true, true
	}))
}

// tell prints, after a failure, what the clients have said last.
func (r *run) tell() {
	if !r.t.Failed() {
		return
	}
	for _, p := range slices.Concat(r.producers, r.members) {
		r.t.Logf("%d events, %s", p.events.Load(), p.story())
	}
}

// wait lets time pass, in which no client may end.
func (r *run) wait(d time.Duration) {
	r.t.Helper()
	over := time.NewTimer(d)
	defer over.Stop()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-over.C:
			return
		case <-look.C:
			r.allLive()
		}
	}
}

func (r *run) allLive() {
	r.t.Helper()
	for _, p := range slices.Concat(r.producers, r.members) {
		if p.gone() {
			r.t.Fatalf("%s has ended by itself: %s", p.name, p.cmd.ProcessState)
		}
	}
}

func (r *run) killAndGoOn() {
	r.t.Helper()
	r.cluster.Kill()
	r.cluster.Start()
	r.kills++
	r.wait(settle)
	r.goOn(fmt.Sprintf("going on after kill %d", r.kills), bound)
}

// goOn waits until each client has made progress from now on.
func (r *run) goOn(what string, within time.Duration) {
	r.t.Helper()
	begin := time.Now()
	all := slices.Concat(r.producers, r.members)
	before := make([]int64, len(all))
	for i, p := range all {
		before[i] = p.events.Load()
	}
	waiting := make([]bool, len(all))
	for i := range waiting {
		waiting[i] = true
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for slices.Contains(waiting, true) {
		<-look.C
		r.allLive()
		took := time.Since(begin)
		for i, p := range all {
			if !waiting[i] {
				continue
			}
			if p.events.Load() > before[i] {
				waiting[i] = false
				if r.kills > 0 && took+settle > r.slowest.took {
					r.slowest = slowest{p.name, took + settle}
				}
			} else if took > within {
				r.t.Fatalf("%s: %s is stuck for %s", what, p.name, within)
			}
		}
	}
	r.t.Logf("%s: %s", what, time.Since(begin).Round(time.Millisecond))
}

// stopProducers has them wait for what is under way.
func (r *run) stopProducers() {
	r.t.Helper()
	for _, p := range r.producers {
		p.end(syscall.SIGTERM)
	}
}

// awaitReaders waits until each group has read what was acknowledged, and has committed
// the end of each partition.
func (r *run) awaitReaders() {
	r.t.Helper()
	deadline := time.Now().Add(drain)
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		late := r.late()
		if len(late) == 0 {
			return
		}
		if time.Now().After(deadline) {
			r.t.Errorf("%s after the last record: %s", drain, strings.Join(late, "; "))
			return
		}
		<-look.C
	}
}

// late says which group has not come to the end.
func (r *run) late() (late []string) {
	ends, err := r.admin.ListEndOffsets(r.t.Context(), r.topics...)
	if err != nil {
		return []string{err.Error()}
	}
	for i, topic := range r.topics {
		group := r.readerOf(i).name
		if n := r.histories[i].unread(); n > 0 {
			late = append(late, fmt.Sprintf("group %s has not read %d records", group, n))
			continue
		}
		committed, err := r.admin.FetchOffsets(r.t.Context(), group)
		if err != nil {
			return append(late, err.Error())
		}
		for p, end := range ends[topic] {
			if at, _ := committed.Lookup(topic, p); at.At != end.Offset {
				late = append(late, fmt.Sprintf("group %s has committed %d of %s-%d, which ends at %d", group, at.At, topic, p, end.Offset))
			}
		}
	}
	return late
}

// judge compares what is served with what everybody was told.
func (r *run) judge() (faults int) {
	r.t.Helper()
	ends, err := r.admin.ListEndOffsets(r.t.Context(), r.topics...)
	if err != nil {
		r.t.Fatal(err)
	}
	for i, topic := range r.topics {
		byPartition := map[int32]int64{}
		for p, end := range ends[topic] {
			byPartition[p] = end.Offset
		}
		h := r.histories[i]
		found := h.check(r.readAll(topic, byPartition), byPartition)
		r.t.Logf("%s: %d acknowledged, %d given up, %d read again, %d faults", topic, len(h.acked), h.failed, h.again, len(found))
		for _, fault := range found[:min(len(found), maxFaults)] {
			r.t.Errorf("%s: %s", topic, fault)
		}
		faults += len(found)
	}
	return faults
}

func (r *run) readAll(topic string, ends map[int32]int64) served {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Address()), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	var total int64
	for _, end := range ends {
		total += end
	}
	all := served{}
	for int64(len(all)) < total {
		fetches := client.PollFetches(r.t.Context())
		if err := fetches.Err(); err != nil {
			r.t.Fatal(err)
		}
		fetches.EachRecord(func(rec *kgo.Record) { all[place{rec.Partition, rec.Offset}] = string(rec.Value) })
	}
	return all
}

func (r *run) total(of func(h *history) int) (n int) {
	for _, h := range r.histories {
		h.mu.Lock()
		n += of(h)
		h.mu.Unlock()
	}
	return n
}
