package replica

import (
	"testing"
	"time"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// What the caller refuses is not looked for, and its error stands.
func TestLookUpsLeaveErrorsOfTheCallerAlone(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		h.must(id, "a", "b")

		list := &ListOffsetsRequest{Version: 7, ReplicaID: ConsumerReplicaID, Partitions: []ListOffsetsPartition{
			{TopicIDPartition: id, CurrentLeaderEpoch: NoEpoch, Timestamp: LatestTimestamp, Result: ListOffsetsResult{Err: kafkaerr.InvalidRequest}},
			{TopicIDPartition: id, CurrentLeaderEpoch: NoEpoch, Timestamp: LatestTimestamp},
		}}
		h.m.ListOffsets(list)
		expectError(t, "refused", list.Partitions[0].Result.Err, "INVALID_REQUEST")
		expectError(t, "the other", list.Partitions[1].Result.Err, "NONE")
		expect(t, "end", list.Partitions[1].Result.Offset, int64(2))

		epochs := []EpochRequestPartition{
			{TopicIDPartition: id, CurrentLeaderEpoch: NoEpoch, Err: kafkaerr.UnknownTopicID},
			{TopicIDPartition: id, CurrentLeaderEpoch: NoEpoch},
		}
		h.m.OffsetForLeaderEpoch(epochs)
		expectError(t, "refused", epochs[0].Err, "UNKNOWN_TOPIC_ID")
		expectError(t, "the other", epochs[1].Err, "NONE")
		expect(t, "end of epoch 0", epochs[1].Result.EndOffset, int64(2))

		fetch := withWait(fetchOf(id, 0), time.Hour) // an error does not wait for more
		fetch.Partitions[0].Result.Err = kafkaerr.InconsistentTopicID
		h.m.Fetch(t.Context(), fetch)
		expectError(t, "refused", fetch.Partitions[0].Result.Err, "INCONSISTENT_TOPIC_ID")
		expect(t, "high watermark", fetch.Partitions[0].Result.HighWatermark, int64(-1))
	})
}

func TestCheckTimestamp(t *testing.T) {
	for _, c := range []struct {
		timestamp int64
		first     int16 // version that has it
	}{
		{LatestTimestamp, 1},
		{EarliestTimestamp, 1},
		{0, 1},
		{1 << 60, 1},
		{MaxTimestamp, 7},
		{EarliestLocalTimestamp, 8},
		{LatestTieredTimestamp, 9},
		{EarliestPendingUploadTimestamp, 11},
		{-7, 99},
		{-1 << 63, 99},
	} {
		for version := int16(1); version <= 11; version++ {
			want := "UNSUPPORTED_VERSION"
			if version >= c.first {
				want = "NONE"
			}
			expectError(t, "timestamp", CheckTimestamp(version, c.timestamp), want)
		}
	}
}
