package crash

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

// number is an environment variable that holds one.
func number(t *testing.T, name string, ifUnset uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return ifUnset
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, text, err)
	}
	return n
}

func TestAcknowledgedRecordsSurviveSIGKILL(t *testing.T) {
	for _, durability := range []string{"fsync", "replicated"} {
		t.Run(durability, func(t *testing.T) {
			r := &run{
				durability: durability,
				kills:      int(number(t, "KILLS", 20)),
				seed:       number(t, "SEED", rand.Uint64()),
				begin:      time.Now(),
				histories:  map[string]*history{},
			}
			t.Logf("SEED=%d", r.seed)
			r.broker = harness.New(t, "durability="+durability)
			r.broker.OnLine = r.noise.line
			r.broker.Start()
			r.test(t)
			if err := r.writeEvidence(os.Getenv("EVIDENCE"), !t.Failed()); err != nil {
				t.Error(err)
			}
			t.Log(r.evidence(!t.Failed()))
		})
	}
}

// run is one broker, its clients and its kills.
type run struct {
	durability string
	kills      int
	seed       uint64
	begin      time.Time
	broker     *harness.Broker

	histories map[string]*history // by topic
	topics    topicLog
	starts    []time.Duration // from exec to the ready line
	noise     noise
}

// partitions of each topic that is written to.
const partitions = 3

func (r *run) test(t *testing.T) {
	rng := rand.New(rand.NewPCG(r.seed, 0))
	writing, stopWriting := context.WithCancel(t.Context())
	reading, stopReading := context.WithCancel(t.Context())
	defer stopReading()
	defer stopWriting()
	r.createTopics(t, "franz", "kcat", "klamm")
	writers, readers := r.startClients(t, writing, reading)
	r.kill(t, rng)
	stopWriting()
	writers.Wait()
	r.broker.Kill()
	r.start(t)
	r.judge(t, func() {
		stopReading()
		readers.Wait()
	})
	if code := r.broker.Stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
	for _, line := range r.noise.unexpected() {
		t.Errorf("the broker said: %s", line)
	}
}

func (r *run) createTopics(t *testing.T, names ...string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	small := "1048576" // the smallest segment that Kafka allows: many rolls
	for _, name := range names {
		if _, err := kadm.NewClient(client).CreateTopic(t.Context(), partitions, 1, map[string]*string{"segment.bytes": &small}, name); err != nil {
			t.Fatal(err)
		}
		r.histories[name] = newHistory()
	}
	r.topics = topicLog{exists: map[string]kadm.TopicID{}, written: map[string]bool{}, unknown: map[string]bool{}, gone: map[string]bool{}}
}

func (r *run) startClients(t *testing.T, writing, reading context.Context) (writers, readers *sync.WaitGroup) {
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	writers, readers = &sync.WaitGroup{}, &sync.WaitGroup{}
	clients := uint64(0)
	start := func(group *sync.WaitGroup, work func(rng *rand.Rand) error) {
		clients++
		rng := rand.New(rand.NewPCG(r.seed, clients))
		group.Go(func() {
			if err := work(rng); err != nil {
				t.Error(err)
			}
		})
	}
	addr := r.broker.Addr
	start(writers, func(*rand.Rand) error { return franz(writing, addr, "franz", r.histories["franz"]) })
	start(writers, func(rng *rand.Rand) error {
		return program(writing, "kcat", rng, r.histories["kcat"],
			"kcat", "-E", "-b", addr, "-P", "-t", "kcat", "-X", "enable.idempotence=true")
	})
	start(writers, func(rng *rand.Rand) error {
		return program(writing, "klamm", rng, r.histories["klamm"],
			bin, "produce", "klamm", "--bootstrap", addr, "--timeout", "5m")
	})
	start(writers, func(rng *rand.Rand) error { return changeTopics(writing, addr, rng, &r.topics) })
	for topic, h := range r.histories {
		start(readers, func(*rand.Rand) error { return watch(reading, addr, topic, h) })
	}
	return writers, readers
}

// kill kills and starts the broker, every sixth time or so before it is ready.
func (r *run) kill(t *testing.T, rng *rand.Rand) {
	t.Helper()
	for i := range r.kills {
		if rng.IntN(6) != 0 {
			r.waitForProgress(t, rng)
		} else {
			pause(upTo(rng, 200*time.Millisecond))
		}
		r.broker.Kill()
		if i < r.kills-1 && rng.IntN(6) == 0 {
			if err := r.broker.Launch(); err != nil {
				t.Fatal(err)
			}
			pause(upTo(rng, 100*time.Millisecond))
			r.broker.Kill()
		}
		r.start(t)
	}
}

func (r *run) start(t *testing.T) {
	t.Helper()
	begin := time.Now()
	if err := r.broker.TryStart(); err != nil {
		t.Fatalf("start %d: %v", len(r.starts)+1, err)
	}
	took := time.Since(begin)
	r.starts = append(r.starts, took)
	if took > slowStart {
		t.Logf("start %d took %s:\n%s", len(r.starts), took, r.broker.Stderr())
	}
}

// slowStart is a start whose story a log of the test tells.
const slowStart = time.Second

// waitForProgress waits for acknowledgements and a little longer, so that the kill comes
// at any point of a client's conversation.
func (r *run) waitForProgress(t *testing.T, rng *rand.Rand) {
	t.Helper()
	want := r.acks() + 100 + rng.Int64N(5000)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for r.acks() < want {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("no progress for a minute: %d acknowledgements, waiting for %d\n%s", r.acks(), want, r.broker.Stderr())
		}
	}
	pause(upTo(rng, 50*time.Millisecond))
}

func pause(d time.Duration) { <-time.After(d) }

func (r *run) acks() (n int64) {
	for _, h := range r.histories {
		n += h.acks.Load()
	}
	return n
}

// maxFaults bounds what a failure prints: the first ones tell the story.
const maxFaults = 10

// judge reads everything, lets the readers along the way come as far, and compares.
func (r *run) judge(t *testing.T, stopReaders func()) {
	t.Helper()
	faults, err := r.topics.check(t.Context(), r.broker.Addr)
	if err != nil {
		t.Error(err)
	}
	all := map[string]served{}
	for topic, h := range r.histories {
		if all[topic], err = readAll(t.Context(), r.broker.Addr, topic); err != nil {
			t.Errorf("%s: %v", topic, err)
			continue
		}
		if !h.waitSeen(all[topic].records()) {
			t.Errorf("%s: the reader along the way saw %d records of %d and no more", topic, len(h.seen), all[topic].records())
		}
	}
	stopReaders()
	for topic, h := range r.histories {
		found := check(h, all[topic])
		t.Logf("%s: %d acknowledged, %d served, %d faults", topic, h.acks.Load(), all[topic].records(), len(found))
		for _, fault := range found[:min(len(found), maxFaults)] {
			faults = append(faults, topic+": "+fault)
		}
	}
	for _, fault := range faults {
		t.Error(fault)
	}
	t.Logf("topics: %d created and kept, %d deleted, %d unknown", len(r.topics.exists), len(r.topics.gone), len(r.topics.unknown))
}
