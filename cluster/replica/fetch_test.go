package replica

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// TestFetchWaits: an empty fetch is answered after MaxWait, not before and not later.
func TestFetchWaits(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		f := h.park(withWait(fetchOf(id, 0), 500*time.Millisecond))
		expect(t, "parked", f.answered(), false)
		expect(t, "after", <-f.done, 500*time.Millisecond)
		expect(t, "nothing", h.values(&f.Partitions[0].Result), []string(nil))
	})
}

// TestFetchWakes: with MinBytes 1, the flush that makes a record visible answers.
func TestFetchWakes(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		f := h.park(withWait(fetchOf(id, 0), time.Minute))
		h.gate.close()
		h.produce(id, AcksAll, "a")
		expect(t, "not before the flush", f.answered(), false)
		h.gate.release()
		expect(t, "answered", f.answered(), true)
		expect(t, "at once", <-f.done, time.Duration(0))
		expect(t, "values", h.values(&f.Partitions[0].Result), []string{"a"})
		expect(t, "high watermark", f.Partitions[0].Result.HighWatermark, int64(1))
	})
}

// TestFetchBeyondTheHighWatermarkWaits, like one at it (docs/divergence.md, beyond-hw).
func TestFetchBeyondTheHighWatermarkWaits(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		h.gate.close()
		h.produce(id, AcksAll, "a")
		h.produce(id, AcksAll, "b")
		f := h.park(withWait(fetchOf(id, 1), time.Minute))
		expect(t, "parked", f.answered(), false)
		h.gate.release()
		expect(t, "answered", f.answered(), true)
		expect(t, "values", h.values(&f.Partitions[0].Result), []string{"b"})
	})
}

// TestFetchWaitsForMinBytes over two partitions.
func TestFetchWaitsForMinBytes(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 2, alone)
		size := len(h.records(nil, "0123456789"))
		req := fetchOf(id, 0)
		req.Partitions = append(req.Partitions, fetchOf(id.partition(1), 0).Partitions...)
		req.MinBytes = 3 * size
		f := h.park(withWait(req, time.Minute))
		h.must(id, "0123456789")
		h.must(id.partition(1), "0123456789")
		expect(t, "two of three", f.answered(), false)
		h.must(id, "0123456789")
		expect(t, "three of three", f.answered(), true)
		expect(t, "first", len(h.values(&req.Partitions[0].Result)), 2)
		expect(t, "second", len(h.values(&req.Partitions[1].Result)), 1)
	})
}

// TestFetchOnOlderSegmentDoesNotWait: a reader that catches up is answered though the
// bytes of its own segment are fewer than MinBytes (case F).
func TestFetchOnOlderSegmentDoesNotWait(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone, "segment.bytes=100")
		h.must(id, strings.Repeat("x", 30))
		h.must(id, strings.Repeat("x", 30)) // in the next segment
		req := fetchOf(id, 0)
		req.MinBytes = 1 << 20
		f := h.park(withWait(req, time.Minute))
		expect(t, "answered", f.answered(), true)
		expect(t, "one batch", len(h.values(&req.Partitions[0].Result)), 1)
	})
}

// TestFetchLimits: KIP-74. The first batch comes whatever its size; after it, the limits
// of partition and answer hold, and partitions behind the limit carry offsets only.
func TestFetchLimits(t *testing.T) {
	bubble(t, func(h *harness) {
		const partitions = 100
		id := h.topic("t", partitions, alone)
		value := strings.Repeat("x", 1000)
		size := len(h.records(nil, value))
		req := &FetchRequest{ReplicaID: ConsumerReplicaID, MaxBytes: 10 * size, MinBytes: 1}
		for i := range partitions {
			h.must(id.partition(i), value)
			req.Partitions = append(req.Partitions, fetchOf(id.partition(i), 0).Partitions...)
		}
		req.Partitions[0].MaxBytes = 10
		h.m.Fetch(context.Background(), req)
		total := 0
		for i := range req.Partitions {
			r := &req.Partitions[i].Result
			total += len(h.values(r))
			expect(t, "high watermark", r.HighWatermark, int64(1))
		}
		expect(t, "batches", total, 10)
	})
}

func TestFetchNegativeMaxBytes(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		h.must(id, "a")
		req := fetchOf(id, 0)
		req.Partitions[0].MaxBytes = -1
		h.m.Fetch(context.Background(), req)
		if err := req.Partitions[0].Result.Err; !errors.Is(err, errNegativeMaxBytes) {
			t.Errorf("error %v, want %v", err, errNegativeMaxBytes)
		}
	})
}

// TestFetchErrorsAnswerAtOnce, together with what the other partitions have.
func TestFetchErrorsAnswerAtOnce(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		elsewhere := h.topic("elsewhere", 1, assignment{replicas: []int32{2}, isr: []int32{2}, dir: uuid.DirUnassigned})
		for _, c := range []struct {
			name string
			part FetchPartition
			err  string
		}{
			{"out of range", fetchOf(id, 5).Partitions[0], "OFFSET_OUT_OF_RANGE"},
			{"unknown partition", fetchOf(id.partition(7), 0).Partitions[0], "UNKNOWN_TOPIC_OR_PARTITION"},
			{"unknown topic", fetchOf(TopicIDPartition{TopicID: uuid.UUID{9}}, 0).Partitions[0], "UNKNOWN_TOPIC_OR_PARTITION"},
			{"not here", fetchOf(elsewhere, 0).Partitions[0], "NOT_LEADER_FOR_PARTITION"},
		} {
			req := withWait(fetchOf(id, 0), time.Minute)
			req.Partitions = append(req.Partitions, c.part)
			f := h.park(req)
			expect(t, c.name+" answered", f.answered(), true)
			expectError(t, c.name, req.Partitions[1].Result.Err, c.err)
			expect(t, c.name+" offsets", req.Partitions[1].Result.HighWatermark, int64(-1))
			expectError(t, c.name+", the other", req.Partitions[0].Result.Err, "NONE")
		}
	})
}

// TestParkedFetchLosesItsPartition: cases A to E of delayedFetch.
func TestParkedFetchLosesItsPartition(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(h *harness, id TopicIDPartition)
		err  string
	}{
		{"A leadership lost", func(h *harness, id TopicIDPartition) {
			h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Leader: metadata.Ptr(int32(2))})
		}, "NOT_LEADER_FOR_PARTITION"},
		{
			"B topic deleted", func(h *harness, id TopicIDPartition) { h.apply(metadata.RemoveTopicRecord{ID: id.TopicID}) },
			"UNKNOWN_TOPIC_OR_PARTITION",
		},
		{
			"C directory offline", func(h *harness, _ TopicIDPartition) { h.m.DirectoryFailed(h.dirs[0], errDisk) },
			"KAFKA_STORAGE_ERROR",
		},
		{"D epoch passed", func(h *harness, id TopicIDPartition) {
			h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Leader: metadata.Ptr(int32(1))})
		}, "FENCED_LEADER_EPOCH"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				id := h.topic("t", 1, pair)
				req := withWait(fetchOf(id, 0), time.Minute)
				if c.err == "FENCED_LEADER_EPOCH" {
					req.Partitions[0].CurrentLeaderEpoch = 0
				}
				f := h.park(req)
				expect(t, "parked", f.answered(), false)
				c.end(h, id)
				expect(t, "answered", f.answered(), true)
				expectError(t, "error", req.Partitions[0].Result.Err, c.err)
			})
		})
	}
}

// TestFetchCancelled: a connection that ends takes its parked fetch with it.
func TestFetchCancelled(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		ctx, cancel := context.WithCancel(context.Background())
		f := h.parkWith(ctx, withWait(fetchOf(id, 0), time.Hour))
		cancel()
		expect(t, "answered", f.answered(), true)
		expect(t, "waiting", h.m.fetches.Len(), 0)
	})
}

// TestTimedOutFetchesLeaveNothing behind, on a partition that nobody ever touches.
func TestTimedOutFetchesLeaveNothing(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		for range 10_000 {
			h.m.Fetch(context.Background(), withWait(fetchOf(id, 0), 10*time.Millisecond))
		}
		expect(t, "waiting", h.m.fetches.Len(), 0)
	})
}

// TestFollowerFetch: a follower reads to the log end, its offset acknowledges, and it is
// woken by an append, and some time after the high watermark has passed the one that it
// knows, if it tells.
func TestFollowerFetch(t *testing.T) {
	bubble(t, func(h *harness) {
		h.registerBrokers(1, 2)
		id := h.topic("t", 1, pair)
		follow := func(offset, hw int64) *parked {
			req := withWait(fetchOf(id, offset), time.Minute)
			req.ReplicaID, req.ReplicaEpoch = 2, 102
			req.Partitions[0].HighWatermark = hw
			return h.park(req)
		}
		later := func() { time.Sleep(highWatermarkPatience); synctest.Wait() }
		f := follow(0, 0)
		expect(t, "parked", f.answered(), false)
		h.gate.close()
		p := h.produce(id, AcksAll, "a")
		expect(t, "woken by the append", f.answered(), true)
		expect(t, "unflushed", h.values(&f.Partitions[0].Result), []string{"a"})
		f = follow(1, UnknownHighWatermark) // it has flushed what it got
		expect(t, "the leader has not flushed", p.answered(), false)
		h.gate.release()
		expect(t, "both have", p.answered(), true)
		later()
		expect(t, "not woken by the high watermark", f.answered(), false)
		h.must(h.topic("other", 1, alone), "unrelated")
		expect(t, "nor by another partition", f.answered(), false)
		f = follow(1, 0)
		expect(t, "told at once what it does not know", f.answered(), false)
		later()
		expect(t, "told what it does not know", f.answered(), true)

		f = follow(1, 1)
		h.produce(id, AcksOne, "b")
		expect(t, "woken by the append", f.answered(), true)
		f.Partitions[0].Result.release()
		h.gate.close()
		h.produce(id, AcksOne, "c")
		f = follow(3, 2)
		expect(t, "the leader has not flushed", f.answered(), false)
		h.gate.release()
		expect(t, "woken at once by the high watermark", f.answered(), false)
		later()
		expect(t, "woken by the high watermark", f.answered(), true)
		expect(t, "high watermark", f.Partitions[0].Result.HighWatermark, int64(3))
	})
}

// TestRecordsCarryTheHighWatermark: an append that comes soon after the high watermark has
// moved answers the follower once, with both.
func TestRecordsCarryTheHighWatermark(t *testing.T) {
	bubble(t, func(h *harness) {
		h.registerBrokers(1, 2)
		id := h.topic("t", 1, pair)
		h.produce(id, AcksOne, "a")
		req := withWait(fetchOf(id, 1), time.Minute)
		req.ReplicaID, req.ReplicaEpoch = 2, 102
		req.Partitions[0].HighWatermark = 0
		f := h.park(req) // which moves the high watermark
		time.Sleep(highWatermarkPatience - 1)
		expect(t, "answered", f.answered(), false)
		h.produce(id, AcksOne, "b")
		expect(t, "answered", f.answered(), true)
		expect(t, "records", h.values(&f.Partitions[0].Result), []string{"b"})
		expect(t, "high watermark", f.Partitions[0].Result.HighWatermark, int64(1))
		time.Sleep(time.Second) // what was to tell of the high watermark finds nobody
		synctest.Wait()
	})
}

// TestISRChangesGoToTheController, and its answer comes back.
func TestISRChangesGoToTheController(t *testing.T) {
	sent := &sender{}
	bubble(t, func(h *harness) {
		h.registerBrokers(1, 2)
		id := h.topic("t", 1, assignment{replicas: []int32{1, 2}, isr: []int32{1}, dir: uuid.DirUnassigned})
		h.must(id, "a")
		req := fetchOf(id, 1)
		req.ReplicaID, req.ReplicaEpoch = 2, 102
		h.m.Fetch(context.Background(), req)
		expect(t, "proposed", sent.last.ISR, []ISRMember{{1, 101}, {2, 102}})
		sent.done(ISRResult{PartitionEpoch: 1, ISR: []int32{1, 2}})

		p := h.produce(id, AcksAll, "b")
		expect(t, "waits for the new member", p.answered(), false)
		// It falls silent, and is dropped half a lag time after it counts as late.
		time.Sleep(46 * time.Second)
		synctest.Wait()
		expect(t, "proposed", sent.last.ISR, []ISRMember{{1, 101}})
		sent.done(ISRResult{PartitionEpoch: 2, ISR: []int32{1}})
		h.apply( // both changes: the second counts when metadata shows it
			metadata.PartitionChangeRecord{TopicID: id.TopicID, ISR: []int32{1, 2}},
			metadata.PartitionChangeRecord{TopicID: id.TopicID, ISR: []int32{1}},
		)
		expectError(t, "timed out meanwhile", p.result().Err, "REQUEST_TIMED_OUT")
		expect(t, "visible", h.read(id, 0), []string{"a", "b"})
	}, withOptions(func(o *Options) { o.AlterPartition = sent }))
}

// sender keeps what it is given.
type sender struct {
	last *ISRChange
	done func(ISRResult)
}

// AlterPartition implements AlterPartitionSender.
func (s *sender) AlterPartition(change *ISRChange, done func(ISRResult)) {
	s.last, s.done = change, done
}
