package replica

import (
	"fmt"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// noOffset is "none found".
var noOffset = ListOffsetsResult{TimestampMs: -1, Offset: -1, LeaderEpoch: -1}

// firstVersionOf is the ListOffsets version that brought each special timestamp
// (ReplicaManager.timestampMinSupportedVersion).
func firstVersionOf(timestamp int64) (version int16, known bool) {
	switch timestamp {
	case EarliestTimestamp, LatestTimestamp:
		return 1, true
	case MaxTimestamp:
		return 7, true
	case EarliestLocalTimestamp:
		return 8, true
	case LatestTieredTimestamp:
		return 9, true
	case EarliestPendingUploadTimestamp:
		return 11, true
	}
	return 0, timestamp >= 0
}

// CheckTimestamp refuses a special timestamp that is none, or that this version of
// ListOffsets does not have yet. Kafka does so before it looks for the partition.
func CheckTimestamp(requestVersion int16, timestamp int64) error {
	if version, known := firstVersionOf(timestamp); !known || requestVersion < version {
		return fmt.Errorf("timestamp %d in ListOffsets version %d: %w", timestamp, requestVersion, kafkaerr.UnsupportedVersion)
	}
	return nil
}

// ListOffsets finds the offset for a timestamp, special ones included. This broker has no
// tiered storage, so "local" means all there is and "tiered" nothing
// (Partition.fetchOffsetForTimestamp, UnifiedLog.fetchOffsetByTimestamp).
func (p *Partition) ListOffsets(req *ListOffsetsRequest, want *ListOffsetsPartition) ListOffsetsResult {
	if err := CheckTimestamp(req.Version, want.Timestamp); err != nil {
		return failedListOffsets(err)
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	leaderOnly := req.ReplicaID != DebuggingReplicaID
	if err := p.checkReader(want.CurrentLeaderEpoch == NoEpoch, want.CurrentLeaderEpoch, leaderOnly); err != nil {
		return failedListOffsets(err)
	}
	found, err := p.offsetFor(req, want.Timestamp)
	if err != nil {
		return failedListOffsets(fmt.Errorf("offset for timestamp %d in %s-%d: %w", want.Timestamp, p.opts.Topic, p.opts.ID.Partition, err))
	}
	return found
}

func failedListOffsets(err error) ListOffsetsResult {
	r := noOffset
	r.Err = err
	return r
}

func (p *Partition) offsetFor(req *ListOffsetsRequest, timestamp int64) (ListOffsetsResult, error) {
	isClient := req.ReplicaID == ConsumerReplicaID
	bound := p.listBound(req, isClient)
	switch timestamp {
	case LatestTimestamp:
		if err := p.behindEpochStart(req, isClient); err != nil {
			return noOffset, err
		}
		return ListOffsetsResult{TimestampMs: -1, Offset: bound, LeaderEpoch: p.leader.Epoch}, nil
	case EarliestTimestamp, EarliestLocalTimestamp:
		return p.earliest(), nil
	case LatestTieredTimestamp, EarliestPendingUploadTimestamp:
		return noOffset, nil
	}
	found, ok, err := p.byTime(timestamp)
	if err != nil {
		return noOffset, err
	}
	if !ok || found.Offset >= bound {
		// What the reader may not fetch yet is as good as absent. But to a new leader
		// whose high watermark is still behind, "none" might be a lie.
		return noOffset, p.behindEpochStart(req, isClient)
	}
	return ListOffsetsResult{TimestampMs: found.TimestampMs, Offset: found.Offset, LeaderEpoch: found.LeaderEpoch}, nil
}

func (p *Partition) byTime(timestamp int64) (logstore.TimestampOffset, bool, error) {
	if timestamp == MaxTimestamp {
		return p.log().OffsetOfMaxTimestamp()
	}
	return p.log().OffsetForTimestamp(timestamp)
}

// earliest has the epoch of the first record if the log still knows it.
func (p *Partition) earliest() ListOffsetsResult {
	start := int64(p.log().LogStart())
	epoch, ok := p.log().EpochForOffset(start)
	if !ok {
		epoch = NoEpoch
	}
	return ListOffsetsResult{TimestampMs: -1, Offset: start, LeaderEpoch: epoch}
}

// listBound is the end of what the asker may fetch. Brokers and debuggers see the log end.
func (p *Partition) listBound(req *ListOffsetsRequest, isClient bool) int64 {
	at := p.offsets()
	switch {
	case !isClient:
		return at.logEnd
	case req.Isolation == ReadCommitted:
		return at.lastStable
	}
	return at.highWatermark
}

// behindEpochStart refuses to tell clients of a new leader what it does not know yet: as
// long as its high watermark is below where its epoch began, clients of the previous
// leader may have seen more (KIP-207). Versions before 5 don't know that error.
func (p *Partition) behindEpochStart(req *ListOffsetsRequest, isClient bool) error {
	if !isClient || !p.isLeader || p.epochStart <= p.hw.Load() {
		return nil
	}
	if req.Version < 5 {
		return kafkaerr.LeaderNotAvailable
	}
	return kafkaerr.OffsetNotAvailable
}
