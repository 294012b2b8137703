package replica

import (
	"context"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/countfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// quiet is a harness in real time on a bare file system, or behind wrap, on which nothing
// runs by the clock.
func quiet(t testing.TB, wrap func(vfs.FS) vfs.FS) *harness {
	h := newHarness(t, withFS(wrap))
	h.gate = nil
	h.options.Keeper.FlushedInterval = time.Hour
	h.options.Keeper.SpaceInterval = time.Hour
	h.options.Keeper.HighWatermarkInterval = time.Hour
	h.start()
	t.Cleanup(h.stop)
	return h
}

func bare(fs vfs.FS) vfs.FS { return fs }

// counting gives a wrapper that counts, and its counts.
func counting() (func(vfs.FS) vfs.FS, func() *countfs.FS) {
	var count *countfs.FS
	return func(fs vfs.FS) vfs.FS {
		count = countfs.Wrap(fs)
		return count
	}, func() *countfs.FS { return count }
}

// steady is a producer that sends one batch after the other and reuses its request.
func (h *harness) steady(id TopicIDPartition) (produce func()) {
	batch := h.records(nil, "value")
	records := make([]byte, len(batch))
	done := make(chan struct{}, 1)
	req := &AppendRequest{
		Acks: AcksAll, Timeout: time.Minute, RequestVersion: 12,
		Partitions: []AppendPartition{{TopicIDPartition: id}},
		Done:       func(*AppendRequest) { done <- struct{}{} },
	}
	return func() {
		copy(records, batch)
		req.Partitions[0].Records = records
		if !h.m.Append(req) {
			<-done
		}
		if err := req.Partitions[0].Result.Err; err != nil {
			h.t.Error(err)
		}
	}
}

// maxProduceAllocs is of a produce with its flush, both of them logstore's and of the
// round: request decoding and answer come on top, and a round is shared by all who wait.
const maxProduceAllocs = 2

func TestProduceAllocations(t *testing.T) {
	h := quiet(t, bare)
	produce := h.steady(h.topic("t", 1, alone))
	produce()
	if allocs := testing.AllocsPerRun(200, produce); allocs > maxProduceAllocs {
		t.Errorf("%v allocations, budget %d", allocs, maxProduceAllocs)
	}
}

// TestProduceCalls: a steady produce is one write and its share of a sync.
func TestProduceCalls(t *testing.T) {
	wrap, count := counting()
	h := quiet(t, wrap)
	produce := h.steady(h.topic("t", 1, alone))
	produce()
	count().Reset()
	const runs = 100
	for range runs {
		produce()
	}
	writes, syncs, reads := count().Of(hookfs.Write).Calls, count().Of(hookfs.SyncAll).Calls, count().Of(hookfs.Read).Calls
	if writes != runs || syncs > runs || reads != 0 {
		t.Errorf("%d produces: %d writes, %d syncs, %d reads", runs, writes, syncs, reads)
	}
}

// maxFetchAllocs is of a fetch of one partition that finds records, without request
// decoding and answer: the reader and the region.
const maxFetchAllocs = 2

// TestFetchHit: a fetch that finds records reads no byte of them.
func TestFetchHit(t *testing.T) {
	wrap, count := counting()
	h := quiet(t, wrap)
	id := h.topic("t", 1, alone)
	for range 100 {
		h.must(id, "value")
	}
	req := fetchOf(id, 50)
	count().Reset()
	allocs := testing.AllocsPerRun(100, func() {
		h.m.Fetch(context.Background(), req)
		if req.Partitions[0].Result.Records == nil {
			t.Fatal("nothing found")
		}
		req.Partitions[0].Result.release()
	})
	if s := count().String(); s != "" {
		t.Errorf("a fetch hit calls the file system: %s", s)
	}
	if allocs > maxFetchAllocs {
		t.Errorf("%v allocations, budget %d", allocs, maxFetchAllocs)
	}
}

// BenchmarkProduce is producers in parallel on one partition, with their group commits,
// on a file system in memory.
func BenchmarkProduce(b *testing.B) {
	h := quiet(b, bare)
	id := h.topic("t", 1, alone)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		produce := h.steady(id)
		for pb.Next() {
			produce()
		}
	})
}
