package controller

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Tagged fields of our own in Kafka's inter-broker requests. Their numbers are far above
// Kafka's, and a Kafka node ignores them.
const (
	tagReason         = 10_000 // BrokerRegistration's response: why it was refused, text
	tagUnadvertised   = 10_000 // BrokerRegistration's listener: its host is a guess (D22), empty
	tagFailedReplicas = 10_000 // BrokerHeartbeat: see FailedReplica (D24)
	tagFullDirs       = 10_001 // BrokerHeartbeat: see SetFullDirs
	tagLogEnds        = 10_002 // BrokerHeartbeat: see LogEnd
	tagPosition       = 10_001 // responses of Envelope and BrokerRegistration: see SetPosition
)

// FailedReplica is a replica whose log is damaged or whose broker has no room for it. Its
// broker asks to be taken out of the ISR and ELR (D24). On the wire each one is the topic's
// id (16 bytes) and the partition (4 bytes, big endian).
type FailedReplica struct {
	TopicID   uuid.UUID
	Partition int32
}

const failedReplicaSize = 16 + 4

// MaxFailedReplicas bounds those in one heartbeat: with as many as that there may be more, which
// come with the next ones.
const MaxFailedReplicas = 1000

// SetFailedReplicas puts them into a heartbeat.
func SetFailedReplicas(req *kmsg.BrokerHeartbeatRequest, failed []FailedReplica) {
	if len(failed) == 0 {
		return
	}
	value := make([]byte, 0, len(failed)*failedReplicaSize)
	for _, f := range failed {
		value = append(value, f.TopicID[:]...)
		value = binary.BigEndian.AppendUint32(value, uint32(f.Partition))
	}
	req.UnknownTags.Set(tagFailedReplicas, value)
}

// FailedReplicas reads them from a heartbeat.
func FailedReplicas(req *kmsg.BrokerHeartbeatRequest) ([]FailedReplica, error) {
	value := tagValue(&req.UnknownTags, tagFailedReplicas)
	if len(value)%failedReplicaSize != 0 {
		return nil, fmt.Errorf("failed replicas in heartbeat of broker %d: %d bytes, want a multiple of %d",
			req.BrokerID, len(value), failedReplicaSize)
	}
	failed := make([]FailedReplica, 0, len(value)/failedReplicaSize)
	for ; len(value) > 0; value = value[failedReplicaSize:] {
		failed = append(failed, FailedReplica{
			TopicID:   uuid.UUID(value[:16]),
			Partition: int32(binary.BigEndian.Uint32(value[16:])),
		})
	}
	return failed, nil
}

// SetFullDirs puts the log directories that have no room into a heartbeat: others lead what
// this broker leads there. On the wire they are their ids, 16 bytes each.
func SetFullDirs(req *kmsg.BrokerHeartbeatRequest, dirs []uuid.UUID) {
	if len(dirs) == 0 {
		return
	}
	value := make([]byte, 0, len(dirs)*len(uuid.UUID{}))
	for _, d := range dirs {
		value = append(value, d[:]...)
	}
	req.UnknownTags.Set(tagFullDirs, value)
}

// FullDirs reads them from a heartbeat.
func FullDirs(req *kmsg.BrokerHeartbeatRequest) (dirs []uuid.UUID, err error) {
	value := tagValue(&req.UnknownTags, tagFullDirs)
	if len(value)%len(uuid.UUID{}) != 0 {
		return nil, fmt.Errorf("full directories in heartbeat of broker %d: %d bytes, want a multiple of %d",
			req.BrokerID, len(value), len(uuid.UUID{}))
	}
	for ; len(value) > 0; value = value[len(uuid.UUID{}):] {
		dirs = append(dirs, uuid.UUID(value[:len(uuid.UUID{})]))
	}
	return dirs, nil
}

// SetPosition says which position of the metadata log an answer depends on: an image at
// least as new shows what was decided. On the wire it is index and term, 8 bytes each.
func SetPosition(tags *kmsg.Tags, at metadata.Position) {
	value := binary.BigEndian.AppendUint64(make([]byte, 0, 16), at.Index)
	tags.Set(tagPosition, binary.BigEndian.AppendUint64(value, at.Term))
}

// PositionOf reads it, false if there is none.
func PositionOf(tags *kmsg.Tags) (at metadata.Position, ok bool) {
	value := tagValue(tags, tagPosition)
	if len(value) != 16 {
		return at, false
	}
	return metadata.Position{Index: binary.BigEndian.Uint64(value), Term: binary.BigEndian.Uint64(value[8:])}, true
}

// SetUnadvertised marks a listener whose host is a guess: a wildcard listener without
// advertised address (D22).
func SetUnadvertised(l *kmsg.BrokerRegistrationRequestListener) {
	l.UnknownTags.Set(tagUnadvertised, nil)
}

func isUnadvertised(l *kmsg.BrokerRegistrationRequestListener) bool {
	return tagValue(&l.UnknownTags, tagUnadvertised) != nil
}

func setReason(tags *kmsg.Tags, err error) { tags.Set(tagReason, []byte(err.Error())) }

// RefusalReason is the text that came with a refused registration, "" if there is none.
func RefusalReason(resp *kmsg.BrokerRegistrationResponse) string {
	return string(tagValue(&resp.UnknownTags, tagReason))
}

// tagValue is nil for a tag that is not there, and not nil for an empty one.
func tagValue(tags *kmsg.Tags, key uint32) []byte {
	var found []byte
	tags.Each(func(k uint32, v []byte) {
		if k == key {
			found = append([]byte{}, v...)
		}
	})
	return found
}
