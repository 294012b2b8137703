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

// kills is how often the broker is killed: KILLS, 20 if unset.
func kills(t *testing.T) int {
	text := os.Getenv("KILLS")
	if text == "" {
		return 20
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("KILLS=%s: %v", text, err)
	}
	return n
}

const topics = 3

func createTopics(t *testing.T, addr string, names ...string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, name := range names {
		if _, err := kadm.NewClient(client).CreateTopic(t.Context(), topics, 1, nil, name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAcknowledgedRecordsSurviveSIGKILL(t *testing.T) {
	broker := harness.Start(t)
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	createTopics(t, broker.Addr, "franz", "kcat", "klamm")
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	histories := map[string]*history{}
	start := func(topic string, write func(h *history) error) {
		h := newHistory()
		histories[topic] = h
		writers.Go(func() {
			if err := write(h); err != nil {
				t.Error(err)
			}
		})
	}
	start("franz", func(h *history) error { return franz(ctx, broker.Addr, "franz", h) })
	start("kcat", func(h *history) error {
		return program(ctx, "kcat", h, "kcat", "-b", broker.Addr, "-P", "-t", "kcat", "-X", "enable.idempotence=true")
	})
	start("klamm", func(h *history) error {
		return program(ctx, "klamm", h, bin, "produce", "klamm", "--bootstrap", broker.Addr, "--timeout", "5m")
	})
	total := func() (n int64) {
		for _, h := range histories {
			n += h.acks.Load()
		}
		return n
	}
	n := kills(t)
	for i := range n {
		waitForProgress(t, total)
		broker.Kill()
		if err := broker.TryStart(); err != nil {
			t.Fatalf("start after kill %d: %v", i+1, err)
		}
	}
	stop()
	writers.Wait()
	broker.Kill()
	broker.Start()
	for topic, h := range histories {
		s, err := read(t.Context(), broker.Addr, topic)
		if err != nil {
			t.Fatalf("%s: %v", topic, err)
		}
		for _, fault := range check(h, s) {
			t.Errorf("%s: %s", topic, fault)
		}
		t.Logf("%s: %d records acknowledged, %d kills", topic, h.acks.Load(), n)
	}
}

// waitForProgress waits for some acknowledgements and a little longer, so that the kill
// comes at any point of a client's conversation.
func waitForProgress(t *testing.T, total func() int64) {
	t.Helper()
	want := total() + 100 + rand.Int64N(1000)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for total() < want {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("no progress for a minute: %d acknowledgements, waiting for %d", total(), want)
		}
	}
	jitter := time.NewTimer(rand.N(50 * time.Millisecond))
	<-jitter.C
}
