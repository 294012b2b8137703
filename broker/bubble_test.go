package broker_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/broker/brokertest"
)

// newClient is a franz-go client of a machine's broker. It is closed at the end.
func newClient(t *testing.T, m *brokertest.Machine, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(m.Addr()), kgo.Dialer(m.Dial), kgo.AllowAutoTopicCreation(),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// produce sends values and returns once all are acknowledged.
func produce(t *testing.T, client *kgo.Client, topic string, values ...string) {
	t.Helper()
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Value: []byte(v)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
}

// consume reads a topic from its start until it has so many values.
func consume(t *testing.T, m *brokertest.Machine, topic string, count int) (values []string) {
	t.Helper()
	client := newClient(t, m, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(values) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("consume %s after %d of %d: %v", topic, len(values), count, err)
		}
		fetches.EachError(func(_ string, p int32, err error) { t.Errorf("consume partition %d of %s: %v", p, topic, err) })
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

func numbered(from, to int) (values []string) {
	for i := from; i < to; i++ {
		values = append(values, fmt.Sprintf("value %d", i))
	}
	return values
}

// A complete broker on a disk and a network in memory, with a real client, in virtual
// time: produce, fetch, stop, start, fetch what was produced before. The second round
// shows that nothing is left of the first bubble that would break another.
func TestBrokerInABubble(t *testing.T) {
	for round := range 2 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := brokertest.NewMachine(t)
				b := m.Start(t)
				produce(t, newClient(t, m), "events", numbered(0, 100)...)
				expect(t, "values", consume(t, m, "events", 100), numbered(0, 100))

				brokertest.Stop(t, b)
				m.Start(t)
				produce(t, newClient(t, m), "events", numbered(100, 150)...)
				expect(t, "values after a restart", consume(t, m, "events", 150), numbered(0, 150))
			})
		})
	}
}
