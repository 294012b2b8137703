package fetchenc

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// Versions of Fetch that can be encoded.
const (
	MinVersion = 4
	MaxVersion = 18
)

// Versions from which on the response has or lacks a field.
const (
	firstLogStart  = 5
	firstSession   = 7
	firstPreferred = 11
	firstFlexible  = 12
	firstTopicID   = 13
)

// Sink takes a response piece by piece. AddRegion takes over the region's reference.
type Sink interface {
	// Append lets fill append bytes to the sink's buffer and keeps what it returns.
	Append(fill func(dst []byte) []byte)
	AddRegion(r wire.Region)
}

// Append encodes resp into dst. Records gives the records of resp.Topics[topic]
// .Partitions[partition] and with them the reference; where it gives nil, RecordBatches
// is encoded in their place. It is called once for each partition, in order. Records may
// be nil.
func Append(dst Sink, resp *kmsg.FetchResponse, records func(topic, partition int) wire.Region) {
	invariant.Check(MinVersion <= resp.Version && resp.Version <= MaxVersion, "fetch response of version %d", resp.Version)
	e := &encoder{resp: resp, records: records, version: resp.Version, flexible: resp.Version >= firstFlexible}
	segment := e.segment
	for e.stage != done {
		dst.Append(segment)
		if e.region != nil {
			dst.AddRegion(e.region)
			e.region = nil
		}
	}
}

// stage is what the encoder writes next.
type stage uint8

const (
	head          stage = iota // everything before the topics
	topicHead                  // a topic up to its partitions, or the tail after the last
	partitionHead              // a partition up to its records, or the tail of the topic
	partitionTail              // what follows a partition's records
	done
)

type encoder struct {
	resp             *kmsg.FetchResponse
	records          func(topic, partition int) wire.Region
	version          int16
	flexible         bool
	stage            stage
	topic, partition int         // the next ones
	region           wire.Region // that follows the segment just written, or nil
}

// segment writes up to the next region or the end.
func (e *encoder) segment(dst []byte) []byte {
	for e.region == nil && e.stage != done {
		dst = e.step(dst)
	}
	return dst
}

func (e *encoder) step(dst []byte) []byte {
	switch e.stage {
	case head:
		e.stage = topicHead
		return e.appendHead(dst)
	case topicHead:
		if e.topic == len(e.resp.Topics) {
			e.stage = done
			return e.appendTail(dst)
		}
		e.stage, e.partition = partitionHead, 0
		return e.appendTopicHead(dst, &e.resp.Topics[e.topic])
	case partitionHead:
		t := &e.resp.Topics[e.topic]
		if e.partition == len(t.Partitions) {
			e.stage = topicHead
			e.topic++
			return e.appendTags(dst, &t.UnknownTags)
		}
		e.stage = partitionTail
		dst = e.appendPartitionHead(dst, &t.Partitions[e.partition])
		return e.appendRecords(dst, &t.Partitions[e.partition])
	default: // partitionTail
		e.stage = partitionHead
		e.partition++
		return e.appendPartitionTail(dst, &e.resp.Topics[e.topic].Partitions[e.partition-1])
	}
}

func (e *encoder) appendHead(dst []byte) []byte {
	dst = appendInt32(dst, e.resp.ThrottleMillis)
	if e.version >= firstSession {
		dst = appendInt16(dst, e.resp.ErrorCode)
		dst = appendInt32(dst, e.resp.SessionID)
	}
	return e.appendLen(dst, len(e.resp.Topics))
}

func (e *encoder) appendTopicHead(dst []byte, t *kmsg.FetchResponseTopic) []byte {
	if e.version >= firstTopicID {
		dst = append(dst, t.TopicID[:]...)
	} else {
		dst = e.appendString(dst, t.Topic)
	}
	return e.appendLen(dst, len(t.Partitions))
}

func (e *encoder) appendPartitionHead(dst []byte, p *kmsg.FetchResponseTopicPartition) []byte {
	dst = appendInt32(dst, p.Partition)
	dst = appendInt16(dst, p.ErrorCode)
	dst = appendInt64(dst, p.HighWatermark)
	dst = appendInt64(dst, p.LastStableOffset)
	if e.version >= firstLogStart {
		dst = appendInt64(dst, p.LogStartOffset)
	}
	dst = e.appendAborted(dst, p.AbortedTransactions)
	if e.version >= firstPreferred {
		dst = appendInt32(dst, p.PreferredReadReplica)
	}
	return dst
}

func (e *encoder) appendAborted(dst []byte, aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction) []byte {
	if aborted == nil {
		return e.appendLen(dst, -1)
	}
	dst = e.appendLen(dst, len(aborted))
	for i := range aborted {
		dst = appendInt64(dst, aborted[i].ProducerID)
		dst = appendInt64(dst, aborted[i].FirstOffset)
		dst = e.appendTags(dst, &aborted[i].UnknownTags)
	}
	return dst
}

// appendRecords writes the length of a region, which then follows the segment, or the
// records that the response has itself.
func (e *encoder) appendRecords(dst []byte, p *kmsg.FetchResponseTopicPartition) []byte {
	if e.records != nil {
		e.region = e.records(e.topic, e.partition)
	}
	if e.region != nil {
		return e.appendLen(dst, e.region.Len())
	}
	dst = e.appendLen(dst, len(p.RecordBatches))
	return append(dst, p.RecordBatches...)
}

// Tags of the partition's and of the response's optional fields.
const (
	tagDivergingEpoch = 0
	tagCurrentLeader  = 1
	tagSnapshotID     = 2
	tagBrokers        = 0
)

func (e *encoder) appendPartitionTail(dst []byte, p *kmsg.FetchResponseTopicPartition) []byte {
	if !e.flexible {
		return dst
	}
	diverging, leader, snapshot := hasDiverging(p), hasLeader(p), hasSnapshot(p)
	dst = binary.AppendUvarint(dst, uint64(count(diverging, leader, snapshot)+p.UnknownTags.Len()))
	if diverging {
		dst = appendTagged(dst, tagDivergingEpoch, p, appendDiverging)
	}
	if leader {
		dst = appendTagged(dst, tagCurrentLeader, p, appendLeader)
	}
	if snapshot {
		dst = appendTagged(dst, tagSnapshotID, p, appendSnapshot)
	}
	return p.UnknownTags.AppendEach(dst)
}

func hasDiverging(p *kmsg.FetchResponseTopicPartition) bool {
	d := &p.DivergingEpoch
	return d.Epoch != -1 || d.EndOffset != -1 || d.UnknownTags.Len() > 0
}

func appendDiverging(dst []byte, p *kmsg.FetchResponseTopicPartition) []byte {
	dst = appendInt32(dst, p.DivergingEpoch.Epoch)
	dst = appendInt64(dst, p.DivergingEpoch.EndOffset)
	return appendTagSection(dst, &p.DivergingEpoch.UnknownTags)
}

func hasLeader(p *kmsg.FetchResponseTopicPartition) bool {
	l := &p.CurrentLeader
	return l.LeaderID != -1 || l.LeaderEpoch != -1 || l.UnknownTags.Len() > 0
}

func appendLeader(dst []byte, p *kmsg.FetchResponseTopicPartition) []byte {
	dst = appendInt32(dst, p.CurrentLeader.LeaderID)
	dst = appendInt32(dst, p.CurrentLeader.LeaderEpoch)
	return appendTagSection(dst, &p.CurrentLeader.UnknownTags)
}

func hasSnapshot(p *kmsg.FetchResponseTopicPartition) bool {
	s := &p.SnapshotID
	return s.EndOffset != -1 || s.Epoch != -1 || s.UnknownTags.Len() > 0
}

func appendSnapshot(dst []byte, p *kmsg.FetchResponseTopicPartition) []byte {
	dst = appendInt64(dst, p.SnapshotID.EndOffset)
	dst = appendInt32(dst, p.SnapshotID.Epoch)
	return appendTagSection(dst, &p.SnapshotID.UnknownTags)
}

func (e *encoder) appendTail(dst []byte) []byte {
	if !e.flexible {
		return dst
	}
	brokers := len(e.resp.Brokers) > 0
	dst = binary.AppendUvarint(dst, uint64(count(brokers)+e.resp.UnknownTags.Len()))
	if brokers {
		dst = appendTagged(dst, tagBrokers, e.resp.Brokers, appendBrokers)
	}
	return e.resp.UnknownTags.AppendEach(dst)
}

func appendBrokers(dst []byte, brokers []kmsg.FetchResponseBroker) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(brokers)+1))
	for i := range brokers {
		b := &brokers[i]
		dst = appendInt32(dst, b.NodeID)
		dst = appendCompactString(dst, b.Host)
		dst = appendInt32(dst, b.Port)
		if b.Rack == nil {
			dst = append(dst, 0)
		} else {
			dst = appendCompactString(dst, *b.Rack)
		}
		dst = appendTagSection(dst, &b.UnknownTags)
	}
	return dst
}

// count is how many of the fields are there.
func count(fields ...bool) int {
	n := 0
	for _, there := range fields {
		if there {
			n++
		}
	}
	return n
}
