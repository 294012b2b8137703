package franz

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

func client(t testing.TB, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func deadline(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// readAll reads a topic from its start until n records have come.
func readAll(t testing.TB, addr, topic string, n int) []*kgo.Record {
	t.Helper()
	c := client(t, addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx := deadline(t, time.Minute)
	var got []*kgo.Record
	for len(got) < n {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(got), n, err)
		}
		got = append(got, fetches.Records()...)
	}
	return got
}

// A topic that Metadata shows with a leader accepts writes: Kafka 4.4 may answer
// NOT_LEADER_OR_FOLLOWER to a first batch, after which an idempotent producer can hang.
func TestTopicAcceptsWritesAsSoonAsMetadataShowsIt(t *testing.T) {
	broker := harness.Start(t)
	ctx := deadline(t, 2*time.Minute)
	admin := kadm.NewClient(client(t, broker.Addr))
	for i := range 100 {
		topic := fmt.Sprintf("fresh-%d", i)
		if _, err := admin.CreateTopic(ctx, 1, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
		p := client(t, broker.Addr, kgo.RecordRetries(0))
		if err := p.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatalf("%s: %v", topic, err)
		}
		p.Close()
	}
}

func TestErrorsReachTheClient(t *testing.T) {
	broker := harness.Start(t)
	ctx := deadline(t, time.Minute)
	admin := kadm.NewClient(client(t, broker.Addr))
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, "there"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, "there"); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("create twice: %v", err)
	}
	if _, err := admin.CreateTopic(ctx, 1, 3, nil, "many"); !errors.Is(err, kerr.InvalidReplicationFactor) {
		t.Errorf("three replicas on one broker: %v", err)
	}
	if _, err := admin.DeleteTopic(ctx, "absent"); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("delete an absent topic: %v", err)
	}
	big := client(t, broker.Addr, kgo.ProducerBatchMaxBytes(4<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err := big.ProduceSync(ctx, &kgo.Record{Topic: "there", Value: make([]byte, 2<<20)}).FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("2 MiB record: %v", err)
	}
}

func TestRecordsSurviveStopAndKill(t *testing.T) {
	broker := harness.Start(t)
	ctx := deadline(t, 2*time.Minute)
	write := func(from, to int) {
		p := client(t, broker.Addr, kgo.AllowAutoTopicCreation())
		for i := from; i < to; i++ {
			if err := p.ProduceSync(ctx, &kgo.Record{Topic: "kept", Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
		}
		p.Close()
	}
	write(0, 50)
	broker.Kill()
	broker.Start()
	write(50, 100)
	if code := broker.Stop(); code != 0 {
		t.Fatalf("exit code %d after SIGTERM:\n%s", code, broker.Stderr())
	}
	broker.Start()
	write(100, 150)
	for i, r := range readAll(t, broker.Addr, "kept", 150) {
		if r.Offset != int64(i) || string(r.Value) != fmt.Sprint(i) {
			t.Fatalf("offset %d holds %q, want %d", r.Offset, r.Value, i)
		}
	}
}
