package simtest

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/broker/simtest/check"
)

// Compacted topics: their producers give each record a key of their own, and now and then send
// a tombstone. What the judge demands of them stands in package check.

// idHeader is where a tombstone, which has no value, bears what a value would say.
const idHeader = "id"

// CreateCompacted creates a topic with cleanup.policy=compact that is cleaned soon and often.
// Only idempotent producers may write to it.
func (c *Cluster) CreateCompacted(name string, partitions int32, settings ...string) {
	c.history.Compacted(name, partitions)
	c.mu.Lock()
	c.topics[name] = topic{compacted: true, deleted: true} // until it is there
	c.mu.Unlock()
	c.CreateTopic(name, partitions, append([]string{
		"cleanup.policy=compact", "internal.segment.bytes=65536", "min.cleanable.dirty.ratio=0.01",
		fmt.Sprintf("delete.retention.ms=%d", c.draw(20_000)), fmt.Sprintf("min.compaction.lag.ms=%d", c.draw(2)*500),
	}, settings...)...)
}

func (c *Cluster) isCompacted(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.topics[name].compacted
}

// giveKey makes record n of a partition one of a key of its producer.
func (p *Producer) giveKey(r *kgo.Record, n int, at check.Partition) {
	drawn := p.c.draw(p.keys * 6)
	key, tombstone := fmt.Sprintf("%s key %d", p.name, drawn/6), drawn%6 == 0
	if p.c.history.Sent(p.name, n, at, key, tombstone); tombstone {
		r.Headers, r.Value = []kgo.RecordHeader{{Key: idHeader, Value: r.Value}}, nil
	}
	r.Key = []byte(key)
}

// valueOf is what the value of a record says, or would say.
func valueOf(r *kgo.Record) string {
	if r.Value == nil && len(r.Headers) == 1 {
		return string(r.Headers[0].Value)
	}
	return string(r.Value)
}

// TurnCleaner changes how the cleaners of all brokers work, again and again until the channels are
// closed.
func (c *Cluster) TurnCleaner(until ...<-chan struct{}) {
	c.Go(func() {
		admin := kadm.NewClient(c.client())
		for _, ch := range until {
			for c.sleep(c.pause(5 * time.Second)) {
				select {
				case <-ch:
				default:
					c.turnCleaner(admin)
					continue
				}
				break
			}
		}
	})
}

func (c *Cluster) turnCleaner(admin *kadm.Client) {
	set := func(key string, value int) kadm.AlterConfig {
		text := fmt.Sprint(value)
		return kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &text}
	}
	changes := []kadm.AlterConfig{
		set("log.cleaner.backoff.ms", 50+c.draw(1000)),
		set("log.cleaner.threads", 1+c.draw(2)),
		set("log.cleaner.io.max.bytes.per.second", 20_000+c.draw(2_000_000)),
		set("log.cleaner.io.buffer.size", 1000+c.draw(500_000)),
		set("log.cleaner.dedupe.buffer.size", 8<<20+c.draw(8<<20)),
	}
	change := changes[c.draw(len(changes))]
	ctx, cancel := context.WithTimeout(c.over, 10*time.Second)
	defer cancel()
	answers, err := admin.AlterBrokerConfigs(ctx, []kadm.AlterConfig{change})
	for _, a := range answers {
		if err == nil {
			err = a.Err
		}
	}
	c.tracef("%s is to be %s: %v", change.Name, *change.Value, err)
}

// RequireCleaned makes it a violation if nothing was cleaned: such a run proves nothing.
func (c *Cluster) RequireCleaned() {
	n := c.history.Replaced()
	c.tracef("%d acknowledged records were replaced", n)
	if n == 0 {
		c.violated("Coverage", "nothing was cleaned")
	}
}
