package replica

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
)

// deletion is a DeleteRecords of one partition on a goroutine of its own.
type deletion struct {
	*DeleteRecordsRequest
	done chan time.Duration
}

func (h *harness) deleteUpTo(ctx context.Context, id TopicIDPartition, offset int64) *deletion {
	d := &deletion{
		DeleteRecordsRequest: &DeleteRecordsRequest{Timeout: time.Minute, Partitions: []DeleteRecordsPartition{{TopicIDPartition: id, Offset: offset}}},
		done:                 make(chan time.Duration, 1),
	}
	go func() {
		begin := time.Now()
		h.m.DeleteRecords(ctx, d.DeleteRecordsRequest)
		d.done <- time.Since(begin)
	}()
	synctest.Wait()
	return d
}

func (d *deletion) answered() bool {
	synctest.Wait()
	return len(d.done) > 0
}

func (d *deletion) result() DeleteRecordsResult {
	<-d.done
	return d.Partitions[0].Result
}

// mustDelete is a deletion that succeeds.
func (h *harness) mustDelete(t *testing.T, id TopicIDPartition, offset, low int64) {
	t.Helper()
	expect(t, "deleted", h.deleteUpTo(context.Background(), id, offset).result(), DeleteRecordsResult{LowWatermark: low})
}

func TestDeleteRecords(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		h.must(id, "a", "b", "c")
		for _, c := range []struct {
			offset, low int64
			err         string
		}{
			{offset: 0, low: 0},
			{offset: 2, low: 2},
			{offset: 1, low: 2},
			{offset: 4, low: -1, err: "OFFSET_OUT_OF_RANGE"},
			{offset: -2, low: -1, err: "OFFSET_OUT_OF_RANGE"},
			{offset: DeleteToHighWatermark, low: 3},
		} {
			r := h.deleteUpTo(context.Background(), id, c.offset).result()
			expect(t, "low watermark", r.LowWatermark, c.low)
			if c.err == "" {
				expect(t, "error", r.Err, error(nil))
			} else {
				expectError(t, "refused", r.Err, c.err)
			}
		}
		expect(t, "earliest", h.list(id, EarliestTimestamp).Offset, int64(3))
	})
}

// What is not acknowledged cannot be deleted: "all" is up to the high watermark.
func TestDeleteRecordsUpToTheHighWatermarkOnly(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		h.must(id, "a")
		h.gate.close()
		h.produce(id, AcksAll, "b")
		expectError(t, "beyond", h.deleteUpTo(context.Background(), id, 2).result().Err, "OFFSET_OUT_OF_RANGE")
		h.gate.release()
	})
}

// What was deleted and acknowledged stays deleted, whenever the power fails.
func TestDeletedRecordsDoNotComeBack(t *testing.T) {
	for _, durability := range []string{"fsync", "replicated"} {
		synctest.Test(t, func(t *testing.T) {
			disk := vfs.NewCrash(rand.NewPCG(1, 2))
			h := newHarness(t, func(h *harness) { h.wrap = func(vfs.FS) vfs.FS { return disk.Process() } })
			h.ignoreClose = true
			h.start()
			id := h.topic("t", 1, alone, "durability="+durability)
			h.must(id, "a", "b")
			h.must(id, "c")
			time.Sleep(2 * time.Second) // flushed offsets are persisted
			h.mustDelete(t, id, 2, 2)
			disk.PowerCutLosingAll()
			h.crash()
			synctest.Wait() // those who hear of the lost disk
			h.start()
			if durability == "fsync" {
				expect(t, "begins", h.list(id, EarliestTimestamp).Offset, int64(2))
				expect(t, "left", h.read(id, 2), []string{"c"})
			}
			h.stop()
		})
	}
}

// A log start that could not be written is no answer, and a second try makes up for it.
func TestDeleteRecordsWithoutRoom(t *testing.T) {
	var faults *errfs.FS
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		h.must(id, "a", "b")
		faults.Add("write log-start-offset-checkpoint* err=ENOSPC")
		expectError(t, "no room", h.deleteUpTo(context.Background(), id, 1).result().Err, "KAFKA_STORAGE_ERROR")
		faults.Clear()
		h.mustDelete(t, id, 1, 1)
	}, withFS(func(fs vfs.FS) vfs.FS { faults = errfs.Wrap(fs); return faults }))
}

// Followers are waited for, as long as they are alive.
func TestDeleteRecordsWaitsForFollowers(t *testing.T) {
	bubble(t, func(h *harness) {
		h.registerBrokers(1, 2)
		id := h.topic("t", 1, pair)
		fetch := func(offset, logStart int64) {
			f := fetchOf(id, offset)
			f.ReplicaID, f.ReplicaEpoch, f.Partitions[0].LogStartOffset = 2, 102, logStart
			h.m.Fetch(context.Background(), f)
			releaseAll(f)
		}
		p := h.produce(id, AcksAll, "a", "b")
		fetch(2, 0)
		expect(t, "produced", p.result().Err, error(nil))

		d := h.deleteUpTo(context.Background(), id, 1)
		expect(t, "before the follower", d.answered(), false)
		fetch(2, 1)
		expect(t, "answered", d.answered(), true)
		expect(t, "result", d.result(), DeleteRecordsResult{LowWatermark: 1})

		d = h.deleteUpTo(context.Background(), id, 2)
		expect(t, "takes its timeout", <-d.done, time.Minute)
		expectError(t, "timed out", d.Partitions[0].Result.Err, "REQUEST_TIMED_OUT")
		expect(t, "low watermark", d.Partitions[0].Result.LowWatermark, int64(1))

		ctx, cancel := context.WithCancel(context.Background())
		d = h.deleteUpTo(ctx, id, 2)
		cancel()
		expect(t, "its connection has ended", d.answered(), true)

		d = h.deleteUpTo(context.Background(), id, 2)
		h.apply(metadata.BrokerChangeRecord{ID: 2, Epoch: 102, Fenced: metadata.Ptr(true)},
			metadata.PartitionChangeRecord{TopicID: id.TopicID, ISR: []int32{1}})
		expect(t, "the follower is gone", d.answered(), true)
		expect(t, "result", d.result(), DeleteRecordsResult{LowWatermark: 2})

		h.mustDelete(t, id, 2, 2)
	})
}

// Who waits is told when the replica is lost.
func TestDeleteRecordsOfALostReplica(t *testing.T) {
	bubble(t, func(h *harness) {
		h.registerBrokers(1, 2)
		id := h.topic("t", 1, assignment{replicas: []int32{1, 2}, isr: []int32{1}, dir: pair.dir})
		h.must(id, "a")
		d := h.deleteUpTo(context.Background(), id, 1)
		expect(t, "waits", d.answered(), false)
		h.apply(metadata.RemoveTopicRecord{ID: id.TopicID})
		expectError(t, "deleted", d.result().Err, "UNKNOWN_TOPIC_OR_PARTITION")
	})
}
