package broker_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/configs"
)

// inRacks puts node i into racks[i-1], and lets consumers read in theirs.
func (c *nodes) inRacks(racks ...string) {
	for i, rack := range racks {
		m := c.all[int32(i+1)].Machine
		m.Settings = append(m.Settings, "broker.rack="+rack, "replica.selector.class="+configs.RackAwareSelector)
	}
}

// TestTopicsAreSpreadOverRacks, when they are made and when they grow.
func TestTopicsAreSpreadOverRacks(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.inRacks("a", "a", "b")
		c.start(1, 2, 3)
		c.createTopic(1, "t", 2)
		c.admin(1, func(ctx context.Context, adm *kadm.Client) {
			if answers, err := adm.CreatePartitions(ctx, 5, "t"); err != nil || answers.Error() != nil {
				t.Error(err, answers.Error())
			}
		})
		synctest.Wait() // another broker may have answered, when its own image had them
		partitions := c.all[1].B.Image().Topic("t").Partitions
		if len(partitions) != 8 {
			t.Fatalf("%d partitions", len(partitions))
		}
		for _, p := range partitions {
			if (p.Replicas[0] == 3) == (p.Replicas[1] == 3) {
				t.Errorf("partition %d is on %v: one of two racks", p.Index, p.Replicas)
			}
		}
	})
}

// fetchCounter counts a client's fetches by broker.
type fetchCounter struct {
	mu sync.Mutex
	by map[int32]int
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (f *fetchCounter) OnBrokerE2E(meta kgo.BrokerMetadata, key int16, _ kgo.BrokerE2E) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if key == 1 {
		f.by[meta.NodeID]++
	}
}

func (f *fetchCounter) take() map[int32]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.by
	f.by = map[int32]int{}
	return was
}

// TestConsumersReadInTheirRack, from a follower, and from the leader when that is gone.
func TestConsumersReadInTheirRack(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.inRacks("a", "b", "c")
		c.start(1, 2, 3)
		c.place("t", 1, 2, 3)
		r := &reader{c: c, topic: "t"}
		for name, test := range map[string]struct {
			rack  string
			reads int32
		}{
			"a follower's": {"b", 2}, "the leader's": {"a", 1}, "nobody's": {"x", 1}, "no": {"", 1},
		} {
			fetches := &fetchCounter{by: map[int32]int{}}
			r.open(kgo.Rack(test.rack), kgo.WithHooks(fetches))
			r.want(10)
			<-time.After(time.Second)
			fetches.take()
			r.want(100)
			if by := fetches.take(); len(by) != 1 || by[test.reads] == 0 {
				t.Errorf("%s rack: fetches by broker %v, want all from %d", name, by, test.reads)
			}
			if test.rack == "b" {
				c.kill(2)
				r.want(100)
				if by := fetches.take(); by[1] == 0 || by[3] > 0 {
					t.Errorf("without the follower: fetches by broker %v", by)
				}
				c.start(2)
				c.inSync(1, "t")
			}
			r.client.Close()
		}
	})
}

// reader reads what is written while it is there.
type reader struct {
	c       *nodes
	topic   string
	client  *kgo.Client
	written int64
}

// open begins to read at the end.
func (r *reader) open(opts ...kgo.Opt) {
	r.client = r.c.client(1, append(opts, kgo.FetchMaxWait(time.Second), kgo.RecheckPreferredReplicaInterval(10*time.Second), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		r.topic: {0: kgo.NewOffset().At(r.written)},
	}))...)
}

// want writes n records one by one, and waits for each.
func (r *reader) want(n int) {
	r.c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	producer := r.c.client(1, kgo.DefaultProduceTopic(r.topic))
	defer producer.Close()
	for i := range n {
		sent := kgo.StringRecord(time.Now().String())
		if err := producer.ProduceSync(ctx, sent).FirstErr(); err != nil {
			r.c.t.Fatalf("produce: %v", err)
		}
		r.written++
		for got := false; !got; {
			fetches := r.client.PollFetches(ctx)
			if ctx.Err() != nil {
				r.c.t.Fatalf("record %d has not come", i)
			}
			fetches.EachRecord(func(record *kgo.Record) {
				if record.Offset != sent.Offset || string(record.Value) != string(sent.Value) {
					r.c.t.Errorf("read %q at %d, want %q at %d", record.Value, record.Offset, sent.Value, sent.Offset)
				}
				got = true
			})
		}
	}
}
