package replica

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// Faults that users of Kafka-compatible brokers reported, as far as they show at this
// level. Each test names the report.

// redpanda#4308, redpanda commits 1a080ee1, 3dd1c3a4, 8f2de964.
func TestTimeQueryOfAnEmptyPartition(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		for _, ts := range []int64{0, 1000, MaxTimestamp} {
			expect(t, fmt.Sprint("timestamp ", ts), h.list(id, ts), ListOffsetsResult{TimestampMs: -1, Offset: -1, LeaderEpoch: -1})
		}
		for _, ts := range []int64{LatestTimestamp, EarliestTimestamp} {
			expect(t, fmt.Sprint("timestamp ", ts), h.list(id, ts), ListOffsetsResult{TimestampMs: -1, Offset: 0})
		}
	})
}

// apache/kafka PR 15621: the record with the largest timestamp, the first if several have it.
func TestMaxTimestampIsOfTheRightRecord(t *testing.T) {
	for _, c := range []struct {
		timestamps []int64
		offset     int64
	}{{[]int64{5, 9, 3}, 1}, {[]int64{9, 9, 3}, 0}, {[]int64{0}, 0}} {
		bubble(t, func(h *harness) {
			id := h.topic("t", 1, alone)
			var records []batch.NewRecord
			var largest int64
			for _, ts := range c.timestamps {
				records = append(records, batch.NewRecord{TimestampMs: ts})
				largest = max(largest, ts)
			}
			h.send(id, AcksAll, h.batch(nil, records...)).result()
			expect(t, fmt.Sprint(c.timestamps), h.list(id, MaxTimestamp), ListOffsetsResult{TimestampMs: largest, Offset: c.offset})
		})
	}
}

// redpanda PR 4010: a batch older than those before it must not upset time queries.
func TestOlderBatchLater(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		for _, ts := range []int64{1000, 1} {
			h.send(id, AcksAll, h.batch(nil, batch.NewRecord{TimestampMs: ts})).result()
		}
		expect(t, "largest", h.list(id, MaxTimestamp), ListOffsetsResult{TimestampMs: 1000, Offset: 0})
		expect(t, "from 1", h.list(id, 1), ListOffsetsResult{TimestampMs: 1000, Offset: 0})
		expect(t, "from 1001", h.list(id, 1001).Offset, int64(-1))
	})
}

// franz-go commit 06e62e6d: the epoch of the record, not of the leader.
func TestListOffsetsTellsTheEpochOfTheRecord(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		h.send(id, AcksAll, h.batch(nil, batch.NewRecord{TimestampMs: 5})).result()
		h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Leader: metadata.Ptr(int32(1))})
		h.must(id, "later")
		for _, ts := range []int64{EarliestTimestamp, 5} {
			expect(t, fmt.Sprint("timestamp ", ts), h.list(id, ts).LeaderEpoch, int32(0))
		}
		expect(t, "latest", h.list(id, LatestTimestamp).LeaderEpoch, int32(1))
	})
}

// redpanda#1646, #12549: whatever ListOffsets calls the earliest can be fetched; and
// materialize#6078: Fetch tells the same log start.
func TestEarliestIsFetchableAfterRetention(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone, "segment.bytes=300", "retention.bytes=600")
		for range 20 {
			h.must(id, strings.Repeat("x", 100))
		}
		time.Sleep(6 * time.Minute) // retention runs every five
		synctest.Wait()
		earliest := h.list(id, EarliestTimestamp).Offset
		if earliest == 0 {
			t.Fatal("retention has deleted nothing")
		}
		req := fetchOf(id, earliest)
		h.m.Fetch(context.Background(), req)
		expect(t, "log start", req.Partitions[0].Result.LogStartOffset, earliest)
		expect(t, "records", len(h.values(&req.Partitions[0].Result)) > 0, true)
		req = fetchOf(id, earliest-1)
		h.m.Fetch(context.Background(), req)
		expectError(t, "before it", req.Partitions[0].Result.Err, "OFFSET_OUT_OF_RANGE")
	})
}

// klite commit d6986e7: a batch that is partly above the high watermark is not shown. Only
// a follower that asks for the middle of a batch can bring the high watermark there.
func TestBatchPartlyAboveTheHighWatermark(t *testing.T) {
	bubble(t, func(h *harness) {
		h.registerBrokers(1, 2)
		id := h.topic("t", 1, pair)
		h.produce(id, AcksAll, "a", "b")
		synctest.Wait()
		req := fetchOf(id, 1)
		req.ReplicaID, req.ReplicaEpoch = 2, 102
		h.m.Fetch(context.Background(), req)
		req.Partitions[0].Result.release()
		req = fetchOf(id, 0)
		h.m.Fetch(context.Background(), req)
		expect(t, "high watermark", req.Partitions[0].Result.HighWatermark, int64(1))
		expect(t, "records", h.values(&req.Partitions[0].Result), []string(nil))
	})
}

// redpanda PR 1532, kafka-python#1232: a batch larger than every limit is returned whole.
func TestOversizedBatchIsReturnedWhole(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		large := strings.Repeat("x", 1_000_000)
		h.must(id, large)
		req := fetchOf(id, 0)
		req.MaxBytes, req.Partitions[0].MaxBytes = 50, 100
		h.m.Fetch(context.Background(), req)
		expect(t, "whole", h.values(&req.Partitions[0].Result), []string{large})
	})
}

// redpanda#1109: max.message.bytes is of the batch as it is sent.
func TestMaxMessageBytes(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone, "max.message.bytes=1000")
		h.must(id, strings.Repeat("x", 900))
		r := h.produce(id, AcksAll, strings.Repeat("x", 1000)).result()
		expectError(t, "too large", r.Err, "MESSAGE_TOO_LARGE")
		expect(t, "log start", r.LogStartOffset, int64(-1))
	})
}

// klite commit ceb71a9: a new epoch that begins with sequence 0 is accepted (KIP-360);
// franz-go commit cf861a0e: an old epoch is told so.
func TestProducerEpochs(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		send := func(epoch int16, sequence int32) error {
			return h.send(id, AcksAll, h.records(&batch.Producer{ID: 5, Epoch: epoch, BaseSequence: sequence}, "v")).result().Err
		}
		expectError(t, "first", send(0, 0), "NONE")
		expectError(t, "gap", send(0, 7), "OUT_OF_ORDER_SEQUENCE_NUMBER")
		expectError(t, "new epoch", send(1, 0), "NONE")
		expectError(t, "old epoch", send(0, 1), "INVALID_PRODUCER_EPOCH")
	})
}
