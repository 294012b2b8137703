package group

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// The records of __consumer_offsets (GroupCoordinatorRecordHelpers). A key begins with its
// type, a value with its version:
//
//	type 0, 1   offset of (group, topic, partition)   values 0 to 4; 0 as key is of Kafka 0.8
//	type 2      a classic group                       values 0 to 4
//	type 3 on   groups of the newer protocols
//
// A record without value (tombstone) says that its key is no more.
const (
	offsetCommitKeyV0 int16 = 0
	offsetCommitKey   int16 = 1
	groupMetadataKey  int16 = 2
	// lastKnownKey is the last type that Kafka 4.4 writes (CoordinatorRecordType).
	lastKnownKey int16 = 23

	// Versions written: those that Kafka 4.4 writes. An offset with a retention of its own
	// has version 1, the only one with a field for it.
	groupMetadataValueVersion        int16 = 3
	offsetCommitValueVersion         int16 = 4
	offsetCommitExpiringValueVersion int16 = 1
	lastValueVersion                 int16 = 4

	// noExpireTimestamp is the expire timestamp of an offset that expires by the broker's
	// retention.
	noExpireTimestamp int64 = -1
)

var errMalformedRecord = errors.New("malformed record")

// committedOffset is one committed offset (Kafka's OffsetAndMetadata). Timestamps are in
// milliseconds since 1970.
type committedOffset struct {
	offset          int64
	leaderEpoch     int32 // -1: unknown
	metadata        string
	commitTimestamp int64
	expireTimestamp int64     // noExpireTimestamp: by retention
	topicID         uuid.UUID // zero: committed by a client or a broker that knew none
}

// topicPartition names a partition within a group's offsets.
type topicPartition struct {
	topic     string
	partition int32
}

// offsetCommitRecord is the record of one committed offset.
func offsetCommitRecord(group string, at topicPartition, o committedOffset) coordinator.Record {
	v := kmsg.OffsetCommitValue{
		Version: offsetCommitValueVersion, Offset: o.offset, LeaderEpoch: o.leaderEpoch,
		Metadata: o.metadata, CommitTimestamp: o.commitTimestamp,
		ExpireTimestamp: o.expireTimestamp, TopicID: o.topicID,
	}
	if o.expireTimestamp != noExpireTimestamp {
		v.Version = offsetCommitExpiringValueVersion
	}
	return coordinator.Record{Key: offsetKeyBytes(group, at), Value: v.AppendTo(nil)}
}

// offsetTombstone is the record that removes one committed offset.
func offsetTombstone(group string, at topicPartition) coordinator.Record {
	return coordinator.Record{Key: offsetKeyBytes(group, at)}
}

func offsetKeyBytes(group string, at topicPartition) []byte {
	k := kmsg.OffsetCommitKey{Version: offsetCommitKey, Group: group, Topic: at.topic, Partition: at.partition}
	return k.AppendTo(nil)
}

// groupRecord is the record of a classic group: what of it survives a change of
// coordinator.
func groupRecord(group string, v kmsg.GroupMetadataValue) coordinator.Record {
	v.Version = groupMetadataValueVersion
	return coordinator.Record{Key: groupKeyBytes(group), Value: v.AppendTo(nil)}
}

// groupTombstone is the record that removes a classic group.
func groupTombstone(group string) coordinator.Record {
	return coordinator.Record{Key: groupKeyBytes(group)}
}

func groupKeyBytes(group string) []byte {
	k := kmsg.GroupMetadataKey{Version: groupMetadataKey, Group: group}
	return k.AppendTo(nil)
}

// recordType is the type that a key begins with.
func recordType(key []byte) (int16, error) {
	return leadingInt16(key, "key")
}

func leadingInt16(b []byte, what string) (int16, error) {
	if len(b) < 2 {
		return 0, fmt.Errorf("%w: %s of %d bytes", errMalformedRecord, what, len(b))
	}
	return int16(binary.BigEndian.Uint16(b)), nil
}

// decodeOffsetCommit reads a record of type 0 or 1; ok is false for a tombstone.
func decodeOffsetCommit(r coordinator.Record) (group string, at topicPartition, o committedOffset, ok bool, err error) {
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(r.Key); err != nil {
		return "", at, o, false, fmt.Errorf("%w: key of an offset: %w", errMalformedRecord, err)
	}
	at = topicPartition{k.Topic, k.Partition}
	if r.Value == nil {
		return k.Group, at, o, false, nil
	}
	if err := checkValueVersion(r.Value); err != nil {
		return "", at, o, false, fmt.Errorf("offset of group %q in %s-%d: %w", k.Group, k.Topic, k.Partition, err)
	}
	v := kmsg.NewOffsetCommitValue()
	if err := v.ReadFrom(r.Value); err != nil {
		return "", at, o, false, fmt.Errorf("%w: offset of group %q in %s-%d: %w", errMalformedRecord, k.Group, k.Topic, k.Partition, err)
	}
	o = committedOffset{
		offset: v.Offset, leaderEpoch: v.LeaderEpoch, metadata: v.Metadata,
		commitTimestamp: v.CommitTimestamp, expireTimestamp: noExpireTimestamp, topicID: v.TopicID,
	}
	if v.Version == offsetCommitExpiringValueVersion {
		o.expireTimestamp = v.ExpireTimestamp
	}
	if v.Version < 3 {
		o.leaderEpoch = -1
	}
	return k.Group, at, o, true, nil
}

// decodeGroup reads a record of type 2; v is nil for a tombstone.
func decodeGroup(r coordinator.Record) (group string, v *kmsg.GroupMetadataValue, err error) {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(r.Key); err != nil {
		return "", nil, fmt.Errorf("%w: key of a group: %w", errMalformedRecord, err)
	}
	if r.Value == nil {
		return k.Group, nil, nil
	}
	if err := checkValueVersion(r.Value); err != nil {
		return "", nil, fmt.Errorf("group %q: %w", k.Group, err)
	}
	value := kmsg.NewGroupMetadataValue()
	if err := value.ReadFrom(r.Value); err != nil {
		return "", nil, fmt.Errorf("%w: group %q: %w", errMalformedRecord, k.Group, err)
	}
	return k.Group, &value, nil
}

func checkValueVersion(value []byte) error {
	version, err := leadingInt16(value, "value")
	if err != nil {
		return err
	}
	if version < 0 || version > lastValueVersion {
		return fmt.Errorf("%w: version %d", errMalformedRecord, version)
	}
	return nil
}
