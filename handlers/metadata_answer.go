package handlers

import (
	"encoding/binary"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// metadataAnswer is an answer to Metadata whose topics are encoded from the image, without a
// copy of each partition: there may be tens of thousands, and each change of one of them has
// clients ask for all. The rest is that of kmsg, whose list of topics stays empty.
//
//	throttle, brokers, cluster, controller │ topics │ cluster's operations, error, tags
//	kmsg                                   │ here   │ kmsg
type metadataAnswer struct {
	*kmsg.MetadataResponse
	view       brokersView
	topics     []topicAnswer
	operations bool // of each topic are told

	offline []int32 // memory that is used again
}

// topicAnswer is a topic, or a name or an id that is none.
type topicAnswer struct {
	*metadata.Topic
	unknown *unknownTopic
}

type unknownTopic struct {
	name      *string
	id        uuid.UUID
	errorCode int16
}

const (
	metadataFlexible      = 9  // the first version with tags
	metadataNullableNames = 12 // and that which may lack names
)

// AppendTo is kmsg.Response.
func (m *metadataAnswer) AppendTo(dst []byte) []byte {
	dst = m.MetadataResponse.AppendTo(dst)
	cut := len(dst) - m.tailSize()
	tail := slices.Clone(dst[cut:])
	dst = dst[:cut-len(m.appendLen(nil, 0))]
	dst = m.appendLen(dst, len(m.topics))
	for _, t := range m.topics {
		dst = m.appendTopic(dst, t)
	}
	return append(dst, tail...)
}

// tailSize is of what follows the topics.
func (m *metadataAnswer) tailSize() (n int) {
	if m.Version >= 8 && m.Version <= 10 {
		n += 4 // operations of the cluster
	}
	if m.Version >= 13 {
		n += 2 // error
	}
	if m.Version >= metadataFlexible {
		n++ // no tags
	}
	return n
}

func (m *metadataAnswer) appendTopic(dst []byte, t topicAnswer) []byte {
	u := t.unknown
	if u == nil {
		u = &unknownTopic{name: &t.Name, id: t.ID}
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(u.errorCode))
	dst = m.appendName(dst, u.name)
	if m.Version >= 10 {
		dst = append(dst, u.id[:]...)
	}
	if m.Version >= 1 {
		dst = appendBool(dst, u.name != nil && metadata.IsInternalTopic(*u.name))
	}
	if t.Topic == nil {
		dst = m.appendLen(dst, 0)
	} else {
		dst = m.appendPartitions(dst, t.Partitions)
	}
	if m.Version >= 8 {
		dst = binary.BigEndian.AppendUint32(dst, uint32(m.operationsOf(u)))
	}
	return m.appendNoTags(dst)
}

// operationsOf are what the client may do with a topic, also with one that does not exist,
// but not with an id that stands for none.
func (m *metadataAnswer) operationsOf(u *unknownTopic) int32 {
	if !m.operations || u.errorCode == kafkaerr.UnknownTopicID.Code {
		return kmsg.NewMetadataResponseTopic().AuthorizedOperations // not told
	}
	return topicOperations
}

func (m *metadataAnswer) appendPartitions(dst []byte, partitions []*metadata.Partition) []byte {
	dst = m.appendLen(dst, len(partitions))
	for _, p := range partitions {
		leader, errorCode := m.view.leader(m.Version, p.Leader)
		replicas, isr := p.Replicas, p.ISR
		if m.Version == 0 {
			replicas, isr = m.view.living(replicas), m.view.living(isr)
		}
		if errorCode == 0 && (len(replicas) < len(p.Replicas) || len(isr) < len(p.ISR)) {
			errorCode = kafkaerr.ReplicaNotAvailable.Code
		}
		dst = binary.BigEndian.AppendUint16(dst, uint16(errorCode))
		dst = binary.BigEndian.AppendUint32(dst, uint32(p.Index))
		dst = binary.BigEndian.AppendUint32(dst, uint32(leader))
		if m.Version >= 7 {
			dst = binary.BigEndian.AppendUint32(dst, uint32(p.LeaderEpoch))
		}
		dst = m.appendIDs(m.appendIDs(dst, replicas), isr)
		if m.Version >= 5 {
			m.offline = m.view.appendOffline(m.offline[:0], p)
			dst = m.appendIDs(dst, m.offline)
		}
		dst = m.appendNoTags(dst)
	}
	return dst
}

func (m *metadataAnswer) appendIDs(dst []byte, ids []int32) []byte {
	dst = m.appendLen(dst, len(ids))
	for _, id := range ids {
		dst = binary.BigEndian.AppendUint32(dst, uint32(id))
	}
	return dst
}

// appendLen begins an array.
func (m *metadataAnswer) appendLen(dst []byte, n int) []byte {
	if m.Version < metadataFlexible {
		return binary.BigEndian.AppendUint32(dst, uint32(n))
	}
	return binary.AppendUvarint(dst, uint64(n)+1)
}

func (m *metadataAnswer) appendName(dst []byte, name *string) []byte {
	switch {
	case name == nil && m.Version >= metadataNullableNames:
		return append(dst, 0)
	case name == nil:
		name = new(string)
	}
	if m.Version < metadataFlexible {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(*name)))
	} else {
		dst = binary.AppendUvarint(dst, uint64(len(*name))+1)
	}
	return append(dst, *name...)
}

func (m *metadataAnswer) appendNoTags(dst []byte) []byte {
	if m.Version < metadataFlexible {
		return dst
	}
	return append(dst, 0)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}
