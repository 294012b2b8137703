package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// maxTopics bounds the topics alive at one time.
const maxTopics = 30

// topicLog is what was answered about topics. A request whose answer never came leaves
// its topic unknown: it may exist or not.
type topicLog struct {
	exists  map[string]kadm.TopicID
	written map[string]bool // one record was acknowledged
	unknown map[string]bool
	gone    map[string]bool
}

// changeTopics creates and deletes topics until ctx ends.
func changeTopics(ctx context.Context, addr string, rng *rand.Rand, log *topicLog) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.AlwaysRetryEOF(),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for i := 0; ctx.Err() == nil; i++ {
		if err := log.change(context.WithoutCancel(ctx), client, admin, rng, i); err != nil {
			return err
		}
	}
	return nil
}

func (l *topicLog) change(ctx context.Context, client *kgo.Client, admin *kadm.Client, rng *rand.Rand, i int) error {
	if len(l.exists) > 0 && (len(l.exists) == maxTopics || rng.IntN(2) == 0) {
		return l.remove(ctx, admin, l.any())
	}
	topic := fmt.Sprintf("changing-%d", i)
	if err := l.create(ctx, admin, topic, 1+rng.Int32N(4)); err != nil || l.unknown[topic] || rng.IntN(4) > 0 {
		return err
	}
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); err != nil {
		return fmt.Errorf("write to %s: %w", topic, err)
	}
	l.written[topic] = true
	return nil
}

func (l *topicLog) any() string {
	for topic := range l.exists {
		return topic
	}
	return ""
}

func (l *topicLog) create(ctx context.Context, admin *kadm.Client, topic string, partitions int32) error {
	made, err := admin.CreateTopic(ctx, partitions, 1, nil, topic)
	switch {
	case err == nil:
		l.exists[topic] = made.ID
	case errors.Is(err, kerr.TopicAlreadyExists), retriable(err):
		// A repeated request meets the topic that the first one made.
		l.unknown[topic] = true
	default:
		return fmt.Errorf("create %s: %w", topic, err)
	}
	return nil
}

func (l *topicLog) remove(ctx context.Context, admin *kadm.Client, topic string) error {
	_, err := admin.DeleteTopic(ctx, topic)
	switch {
	case err == nil:
		l.gone[topic] = true
	case errors.Is(err, kerr.UnknownTopicOrPartition), retriable(err):
		l.unknown[topic] = true
	default:
		return fmt.Errorf("delete %s: %w", topic, err)
	}
	delete(l.exists, topic)
	return nil
}

// retriable reports an answer that never came, or that asks to try again.
func retriable(err error) bool {
	var kafka *kerr.Error
	return !errors.As(err, &kafka) || kafka.Retriable
}

func (l *topicLog) check(ctx context.Context, addr string) (faults []string, err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListEndOffsets(ctx)
	if err != nil {
		return nil, err
	}
	for topic, id := range l.exists {
		if got := topics[topic]; got.ID != id {
			faults = append(faults, fmt.Sprintf("topic %s was created as %s and is %s", topic, id, got.ID))
		}
		records := int64(0)
		for _, end := range ends[topic] {
			records += end.Offset
		}
		if l.written[topic] && records != 1 || !l.written[topic] && records != 0 {
			faults = append(faults, fmt.Sprintf("topic %s holds %d records, acknowledged: %t", topic, records, l.written[topic]))
		}
	}
	for topic := range l.gone {
		if topics.Has(topic) {
			faults = append(faults, fmt.Sprintf("topic %s was deleted and is there", topic))
		}
	}
	return faults, nil
}
