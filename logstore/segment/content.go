package segment

import "github.com/klamm-mq/klamm/protocol/batch"

// content is what is known in memory of a segment's batches. It is built by walking
// over batches, in order, from the file or as they are appended.
type content struct {
	loaded  bool // the indexes are in memory
	offsets offsetIndex
	times   timeIndex

	known      bool // the fields below are
	nextOffset int64
	max        TimestampOffset // the largest timestamp so far
	indexedPos int64           // of the batch with the last index entry, else 0

	first  firstBatch
	recent recentBatches
}

// firstBatch is the max timestamp of the first batch, by which segment.ms is counted.
type firstBatch struct {
	known       bool
	timestampMs int64
}

// emptyContent is that of a segment without batches.
func emptyContent(base int64) content {
	return content{
		nextOffset: base,
		max:        TimestampOffset{TimestampMs: noTimestamp, Offset: base, LeaderEpoch: -1},
	}
}

// note adds the batch at pos, the end of what is known. Only the header of v is used.
// The order is that of Kafka's LogSegment.append: first the largest timestamp, then the
// index entries, so that a time index entry covers the batch whose offset index entry
// it comes with.
func (c *content) note(v batch.View, pos, base int64, interval int) {
	if v.MaxTimestamp() > c.max.TimestampMs {
		c.max = TimestampOffset{TimestampMs: v.MaxTimestamp(), Offset: v.LastOffset(), LeaderEpoch: v.LeaderEpoch()}
	}
	if pos-c.indexedPos > int64(interval) {
		c.offsets.add(v.LastOffset()-base, pos)
		c.times.maybeAdd(c.max.TimestampMs, c.max.Offset-base)
		c.indexedPos = pos
	}
	if pos == 0 {
		c.first = firstBatch{known: true, timestampMs: v.MaxTimestamp()}
	}
	c.recent.add(recentBatch{base: uint32(v.BaseOffset() - base), last: uint32(v.LastOffset() - base), pos: uint32(pos)})
	c.nextOffset = v.NextOffset()
}

// noteLastTime adds the time index entry with which a segment ends.
func (c *content) noteLastTime(base int64) {
	c.times.maybeAdd(c.max.TimestampMs, c.max.Offset-base)
}

// recentBatch is where a batch at the end of the segment lies, relative to the base
// offset.
type recentBatch struct{ base, last, pos uint32 }

const recentBatchSize = 12 // bytes in memory

// recentBatches are the last batches, contiguous to the end, so that readers at the end
// find theirs without touching the file.
type recentBatches []recentBatch

// maxRecent are kept at least; when there are twice as many, the older half goes.
const maxRecent = 256

func (r *recentBatches) add(b recentBatch) {
	if len(*r) == 2*maxRecent {
		n := copy(*r, (*r)[maxRecent:])
		*r = (*r)[:n]
	}
	*r = append(*r, b)
}
