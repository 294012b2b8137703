package controller

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// LogEnd is how far the log of a replica has come, as its broker says of a partition that is
// Undecided. On the wire each one is the topic's id (16 bytes), the partition and the epoch
// (4 each) and the offset (8), big endian.
type LogEnd struct {
	TopicID   uuid.UUID
	Partition int32
	Epoch     int32 // the latest leader epoch that the log knows; -1: none
	Offset    int64 // that the next record gets
}

const logEndSize = 16 + 4 + 4 + 8

// SetLogEnds puts them into a heartbeat.
func SetLogEnds(req *kmsg.BrokerHeartbeatRequest, ends []LogEnd) {
	if len(ends) == 0 {
		return
	}
	value := make([]byte, 0, len(ends)*logEndSize)
	for _, e := range ends {
		value = append(value, e.TopicID[:]...)
		value = binary.BigEndian.AppendUint32(value, uint32(e.Partition))
		value = binary.BigEndian.AppendUint32(value, uint32(e.Epoch))
		value = binary.BigEndian.AppendUint64(value, uint64(e.Offset))
	}
	req.UnknownTags.Set(tagLogEnds, value)
}

// LogEnds reads them from a heartbeat.
func LogEnds(req *kmsg.BrokerHeartbeatRequest) (ends []LogEnd, err error) {
	value := tagValue(&req.UnknownTags, tagLogEnds)
	if len(value)%logEndSize != 0 {
		return nil, fmt.Errorf("log ends in heartbeat of broker %d: %d bytes, want a multiple of %d", req.BrokerID, len(value), logEndSize)
	}
	for ; len(value) > 0; value = value[logEndSize:] {
		ends = append(ends, LogEnd{
			TopicID:   uuid.UUID(value[:16]),
			Partition: int32(binary.BigEndian.Uint32(value[16:])),
			Epoch:     int32(binary.BigEndian.Uint32(value[20:])),
			Offset:    int64(binary.BigEndian.Uint64(value[24:])),
		})
	}
	return ends, nil
}

// compareLogs orders logs by how much of what was acknowledged they have. Of two that end in
// one epoch, one is the beginning of the other; and who led in a later epoch had, when it was
// elected, all that was acknowledged before. An empty log is less than any other.
func compareLogs(a, b LogEnd) int {
	switch {
	case a.Offset == 0 || b.Offset == 0:
		return cmp.Compare(a.Offset, b.Offset)
	default:
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Offset, b.Offset))
	}
}

// note keeps what a broker says of its logs, until it says nothing any more: then all of its
// partitions are decided.
func (n *session) note(ends []LogEnd) {
	if len(ends) == 0 {
		n.ends = nil
	}
	for _, e := range ends {
		if n.ends == nil {
			n.ends = map[partitionID]LogEnd{}
		}
		n.ends[partitionID{e.TopicID, e.Partition}] = e
	}
}

// electByLogs gives leaders to Undecided partitions of which a broker has just told.
//
// A record was acknowledged when at least min.insync.replicas replicas had it. So of any
// len(replicas) - min.insync.replicas + 1 that have kept their logs one has it, and the log
// that is the greatest of these has it, too (see compareLogs). An empty log may be that of a
// replica that has lost everything, or that came after the records had been moved away: it
// counts for nothing, unless all replicas have told. Then there is nothing more to wait for.
func (s *state) electByLogs(ends []LogEnd) []metadata.Record {
	var records []metadata.Record
	for _, e := range ends {
		t := s.image.TopicByID(e.TopicID)
		p := t.Partition(e.Partition)
		if p == nil || !p.Undecided() {
			continue
		}
		tp := topicPartition{t, p}
		logs := s.logsOf(tp)
		told, whole := len(logs), 0
		for _, l := range logs {
			if l.end.Offset > 0 {
				whole++
			}
		}
		needed := len(p.Replicas) - int(s.effectiveMinISR(tp)) + 1
		if told < len(p.Replicas) && whole < needed {
			continue
		}
		best := logs[0]
		next := *p
		next.Leader, next.ISR = best.broker, []int32{best.broker}
		next.LeaderEpoch++
		next.PartitionEpoch++
		if r, changed := changeRecord(t.ID, p, &next); changed {
			records = append(records, r)
		}
		s.opts.Logger.Debug("leader by what is in the logs", "topic", t.Name, "partition", p.Index, "leader", best.broker,
			"offset", best.end.Offset, "epoch", best.end.Epoch, "logs", told, "replicas", len(p.Replicas))
	}
	if len(records) > 0 {
		s.opts.Logger.Info("partitions get leaders by what is in their logs", "partitions", len(records))
	}
	return records
}

// replicaLog is the log of a replica that may lead.
type replicaLog struct {
	broker int32
	end    LogEnd
}

// byLogs are the replicas of an Undecided partition whose logs are known, the greatest first.
func (s *state) byLogs(tp topicPartition) (brokers []int32) {
	if !tp.partition.Undecided() {
		return nil
	}
	for _, l := range s.logsOf(tp) {
		brokers = append(brokers, l.broker)
	}
	return brokers
}

// logsOf are the logs that are known of an Undecided partition, the greatest first; of equal
// ones the first replica's.
func (s *state) logsOf(tp topicPartition) (logs []replicaLog) {
	id := partitionID{tp.topic.ID, tp.partition.Index}
	for _, r := range tp.partition.Replicas {
		n := s.sessions[r]
		if n == nil || !s.mayLead(tp, r) {
			continue
		}
		if end, told := n.ends[id]; told {
			logs = append(logs, replicaLog{r, end})
		}
	}
	slices.SortStableFunc(logs, func(a, b replicaLog) int { return compareLogs(b.end, a.end) })
	return logs
}

func (s *state) effectiveMinISR(tp topicPartition) int32 {
	return min(s.elections(tp.topic.Name).MinISR, int32(len(tp.partition.Replicas)))
}
