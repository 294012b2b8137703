package generate

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// maxReads bounds the fetches that read one partition to its end.
const maxReads = 200

// final compares what is left: the topics, their offsets, every record, and what groups
// have committed.
func (p *player) final() {
	for i := range p.sessions { // brokers keep only so many
		if s := p.sessions[i]; s.id != 0 {
			req := limits{maxBytes: 1}.request(12)
			req.SessionID, req.SessionEpoch = s.id, -1
			p.r.Quiet(req)
		}
	}
	p.finalMetadata()
	for _, topic := range sortedKeys(p.topics) {
		for partition := range p.topics[topic] {
			at := place{topic, partition}
			for _, time := range []int64{-2, -1, -3} {
				p.r.Send(fmt.Sprintf("final offset %d of %v", time, at), listOne(p, at, p.time(at, time)))
			}
			p.readAll(at)
		}
	}
	for _, group := range sortedKeys(p.groups) {
		p.r.Send("final offsets of "+group, offsetFetch(p, 7, group, nil, true))
	}
}

func (p *player) finalMetadata() {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 12, false
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, slot := range slots {
		topic := kmsg.NewMetadataRequestTopic()
		name := p.r.Name(slot)
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	p.r.Send("final metadata", req)
}

func listOne(p *player, at place, time int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 9, -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = p.r.Name(at.topic)
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition, part.Timestamp = at.partition, time
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	return req
}

// readAll reads a partition from its start to its end.
func (p *player) readAll(at place) {
	start, ok := p.r.Quiet(listOne(p, at, -2)).(*kmsg.ListOffsetsResponse)
	if !ok || len(start.Topics) != 1 || len(start.Topics[0].Partitions) != 1 {
		return
	}
	for from, n := start.Topics[0].Partitions[0].Offset, 0; n < maxReads; n++ {
		req := p.r.FetchFrom(12, at.topic, at.partition, from)
		req.MaxWaitMillis, req.MinBytes = 0, 0
		resp, ok := p.r.Send(fmt.Sprintf("final read of %v from %d", at, from), req).(*kmsg.FetchResponse)
		if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return
		}
		next := after(resp.Topics[0].Partitions[0].RecordBatches, from)
		if next <= from {
			return
		}
		from = next
	}
}

// after is the offset behind the whole batches in b, or else from.
func after(b []byte, from int64) int64 {
	const lengthEnd, deltaPos, header = 12, 23, 61
	for len(b) >= header {
		size := lengthEnd + int(int32(binary.BigEndian.Uint32(b[8:])))
		if size < header || size > len(b) {
			break
		}
		from = int64(binary.BigEndian.Uint64(b)) + int64(int32(binary.BigEndian.Uint32(b[deltaPos:]))) + 1
		b = b[size:]
	}
	return from
}
