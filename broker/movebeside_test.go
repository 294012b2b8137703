package broker_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// busyDisk takes its time for what has been written since the last sync of a file.
type busyDisk struct {
	perSync     time.Duration
	bytesPerSec float64

	mu    sync.Mutex
	dirty map[string]int
}

func (d *busyDisk) wrap(fs vfs.FS) vfs.FS {
	d.dirty = map[string]int{}
	return hookfs.Wrap(fs, true, func(c *hookfs.Call) error {
		switch c.Op {
		case hookfs.Write:
			d.mu.Lock()
			d.dirty[c.Name] += c.Bytes
			d.mu.Unlock()
		case hookfs.Sync:
			d.mu.Lock()
			bytes := d.dirty[c.Name]
			delete(d.dirty, c.Name)
			d.mu.Unlock()
			time.Sleep(d.perSync + time.Duration(float64(bytes)/d.bytesPerSec*float64(time.Second)))
		default: // takes no time
		}
		return nil
	})
}

// TestProducersDoNotWaitForAMove: what a throttled replica has fetched is flushed beside the group
// commits, so that producers whose records are flushed on the same disk do not wait for it.
func TestProducersDoNotWaitForAMove(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		for _, m := range c.all {
			disk := &busyDisk{perSync: 200 * time.Microsecond, bytesPerSec: 100 << 20}
			m.Wrap = disk.wrap
		}
		c.start(1, 2, 3)
		c.place("moved", 1)
		c.fill("moved", 20<<20)
		c.place("beside", 1, 2, 3)
		c.throttle(10<<20, map[string]string{"moved": "*"})
		quiet := c.slowest("beside", func() bool { return false })
		c.move(map[string][]int32{"moved": {3}})
		busy := c.slowest("beside", func() bool { return slices.Equal(c.all[1].B.Image().Topic("moved").Partitions[0].Replicas, []int32{3}) })
		c.moved("moved", 3)
		t.Logf("of 100 acknowledgements the last took %v before the move, %v meanwhile", quiet, busy)
		if busy > quiet*12/10 {
			t.Errorf("producers wait for the move")
		}
	})
}

// slowest is the 99th percentile of how long acknowledgements of all replicas take, of a record
// every three milliseconds for at most two seconds.
func (c *nodes) slowest(topic string, done func() bool) time.Duration {
	c.t.Helper()
	client := c.client(1, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	defer client.Close()
	var mu sync.Mutex
	var took []time.Duration
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && !done(); time.Sleep(3 * time.Millisecond) {
		begin := time.Now()
		client.Produce(context.Background(), kgo.StringRecord("r"), func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if took = append(took, time.Since(begin)); err != nil {
				c.t.Error(err)
			}
		})
	}
	if err := client.Flush(context.Background()); err != nil || len(took) < 100 {
		c.t.Fatalf("%d records, %v", len(took), err)
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}
