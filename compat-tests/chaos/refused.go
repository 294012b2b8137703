package chaos

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	largestBatch = 100_000 // max.message.bytes of topics that get records that are refused
	refusedEach  = 250 * time.Millisecond
)

// writeWhatIsRefused sends records to a topic that it does not take, since they are too
// large. None of them may be acknowledged or ever be read, whatever happens to its leader
// meanwhile; a reader would not know its value.
func (l *load) writeWhatIsRefused(topic string) {
	l.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(l.bootstrap, ",")...), kgo.DisableIdempotentWrite(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		l.t.Fatal(err)
	}
	value := []byte("refused" + strings.Repeat("-", largestBatch))
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(refusedEach)
		defer tick.Stop()
		for p := int32(0); ctx.Err() == nil; p = (p + 1) % partitions {
			err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: p, Value: value}).FirstErr()
			switch {
			case err == nil:
				l.t.Errorf("%s-%d took a record that is larger than max.message.bytes", topic, p)
			case errors.Is(err, kerr.MessageTooLarge):
				l.refused.Add(1)
			}
			<-tick.C
		}
	}()
	l.t.Cleanup(func() {
		stop()
		<-over
		client.Close()
	})
}
