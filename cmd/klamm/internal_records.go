package main

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/logstore/dump"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// This file decodes records of the topics in which brokers keep their own state.

// decodeInternal gives key and value of a record of an internal topic as fields; nil if
// the topic is not one, or the bytes are not what it holds.
func decodeInternal(topic string, key, value []byte) []dump.Field {
	if len(key) < 2 {
		return nil
	}
	kind := int16(binary.BigEndian.Uint16(key))
	switch {
	case topic == "__transaction_state" && kind == 0:
		return transactionFields(key, value)
	case topic != "__consumer_offsets":
		return nil
	case kind == 0 || kind == 1:
		return offsetFields(key, value)
	case kind == 2:
		return groupFields(key, value)
	}
	return newerGroupFields(kind, key, value)
}

func offsetFields(key, value []byte) []dump.Field {
	var k kmsg.OffsetCommitKey
	if k.ReadFrom(key) != nil {
		return nil
	}
	fields := []dump.Field{{Name: "type", Value: "offset"}, {Name: "group", Value: k.Group}, {Name: "topic", Value: k.Topic}, {Name: "partition", Value: k.Partition}}
	if value == nil {
		return append(fields, tombstone())
	}
	v := kmsg.NewOffsetCommitValue()
	if v.ReadFrom(value) != nil {
		return nil
	}
	fields = append(fields, dump.Field{Name: "version", Value: v.Version}, dump.Field{Name: "committed", Value: v.Offset})
	if v.Version >= 3 {
		fields = append(fields, dump.Field{Name: "leader_epoch", Value: v.LeaderEpoch})
	}
	fields = append(fields, dump.Field{Name: "metadata", Value: v.Metadata}, dump.Field{Name: "commit_timestamp", Value: v.CommitTimestamp})
	if v.Version == 1 {
		fields = append(fields, dump.Field{Name: "expire_timestamp", Value: v.ExpireTimestamp})
	}
	if id := uuid.UUID(v.TopicID); !id.IsZero() {
		fields = append(fields, dump.Field{Name: "topic_id", Value: id})
	}
	return fields
}

// tombstone says that the key is no more.
func tombstone() dump.Field { return dump.Field{Name: "deleted", Value: true} }

func groupFields(key, value []byte) []dump.Field {
	var k kmsg.GroupMetadataKey
	if k.ReadFrom(key) != nil {
		return nil
	}
	fields := []dump.Field{{Name: "type", Value: "group"}, {Name: "group", Value: k.Group}}
	if value == nil {
		return append(fields, tombstone())
	}
	v := kmsg.NewGroupMetadataValue()
	if v.ReadFrom(value) != nil {
		return nil
	}
	members := [][]dump.Field{}
	for _, m := range v.Members {
		members = append(members, memberFields(v.ProtocolType, m))
	}
	return append(fields,
		dump.Field{Name: "version", Value: v.Version},
		dump.Field{Name: "protocol_type", Value: v.ProtocolType},
		dump.Field{Name: "generation", Value: v.Generation},
		dump.Field{Name: "protocol", Value: orNull(v.Protocol)},
		dump.Field{Name: "leader", Value: orNull(v.Leader)},
		dump.Field{Name: "state_timestamp", Value: v.CurrentStateTimestamp},
		dump.Field{Name: "members", Value: members},
	)
}

func orNull(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

func memberFields(protocolType string, m kmsg.GroupMetadataValueMember) []dump.Field {
	fields := []dump.Field{
		{Name: "member", Value: m.MemberID},
		{Name: "instance", Value: orNull(m.InstanceID)},
		{Name: "client", Value: m.ClientID},
		{Name: "host", Value: m.ClientHost},
		{Name: "rebalance_timeout_ms", Value: m.RebalanceTimeoutMillis},
		{Name: "session_timeout_ms", Value: m.SessionTimeoutMillis},
	}
	if protocolType != "consumer" {
		return append(fields, dump.Field{Name: "subscription", Value: m.Subscription}, dump.Field{Name: "assignment", Value: m.Assignment})
	}
	var meta kmsg.ConsumerMemberMetadata
	if meta.ReadFrom(m.Subscription) == nil {
		fields = append(fields, dump.Field{Name: "subscribed", Value: meta.Topics})
	}
	var assigned kmsg.ConsumerMemberAssignment
	if assigned.ReadFrom(m.Assignment) == nil {
		texts := []string{}
		for _, t := range assigned.Topics {
			texts = append(texts, t.Topic+":"+nodes(t.Partitions))
		}
		fields = append(fields, dump.Field{Name: "assigned", Value: texts})
	}
	return fields
}

// newerGroupFields decodes the keys of the newer protocols' records (Kafka's
// CoordinatorRecordType): a group, and for some a member or an expression beside. Values
// are shown as bytes.
func newerGroupFields(kind int16, key, value []byte) []dump.Field {
	name, second := newerGroupKind(kind)
	if name == "" {
		return nil
	}
	rest := key[2:]
	group, rest, ok := cutString(rest)
	if !ok {
		return nil
	}
	fields := []dump.Field{{Name: "type", Value: name}, {Name: "group", Value: group}}
	if second != "" {
		what, _, ok := cutString(rest)
		if !ok {
			return nil
		}
		fields = append(fields, dump.Field{Name: second, Value: what})
	}
	if value == nil {
		return append(fields, tombstone())
	}
	return append(fields, dump.Field{Name: "value", Value: value})
}

func newerGroupKind(kind int16) (name, second string) {
	switch kind {
	case 3:
		return "consumer-group", ""
	case 4:
		return "consumer-group-partition-metadata", ""
	case 5:
		return "consumer-group-member", "member"
	case 6:
		return "consumer-group-target-assignment", ""
	case 7:
		return "consumer-group-target-assignment-member", "member"
	case 8:
		return "consumer-group-current-assignment", "member"
	case 10:
		return "share-group-member", "member"
	case 11:
		return "share-group", ""
	case 12:
		return "share-group-target-assignment", ""
	case 13:
		return "share-group-target-assignment-member", "member"
	case 14:
		return "share-group-current-assignment", "member"
	case 15:
		return "share-group-state-partition-metadata", ""
	case 16:
		return "consumer-group-regular-expression", "expression"
	case 17:
		return "streams-group", ""
	case 19:
		return "streams-group-member", "member"
	case 20:
		return "streams-group-target-assignment", ""
	case 21:
		return "streams-group-target-assignment-member", "member"
	case 22:
		return "streams-group-current-assignment", "member"
	case 23:
		return "streams-group-topology", ""
	}
	return "", ""
}

// cutString takes a string with a 16-bit length off the front.
func cutString(b []byte) (s string, rest []byte, ok bool) {
	if len(b) < 2 {
		return "", nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if len(b) < 2+n {
		return "", nil, false
	}
	return string(b[2 : 2+n]), b[2+n:], true
}

func transactionFields(key, value []byte) []dump.Field {
	var k kmsg.TxnMetadataKey
	if k.ReadFrom(key) != nil {
		return nil
	}
	fields := []dump.Field{{Name: "type", Value: "transaction"}, {Name: "transactional_id", Value: k.TransactionalID}}
	if value == nil {
		return append(fields, tombstone())
	}
	v := kmsg.NewTxnMetadataValue()
	if v.ReadFrom(value) != nil {
		return nil
	}
	partitions := []string{}
	for _, t := range v.Topics {
		partitions = append(partitions, t.Topic+":"+nodes(t.Partitions))
	}
	return append(fields,
		dump.Field{Name: "version", Value: v.Version},
		dump.Field{Name: "producer_id", Value: v.ProducerID},
		dump.Field{Name: "producer_epoch", Value: v.ProducerEpoch},
		dump.Field{Name: "timeout_ms", Value: v.TimeoutMillis},
		dump.Field{Name: "state", Value: fmt.Sprint(v.State)},
		dump.Field{Name: "partitions", Value: partitions},
		dump.Field{Name: "last_update_timestamp", Value: v.LastUpdateTimestamp},
		dump.Field{Name: "start_timestamp", Value: v.StartTimestamp},
	)
}
