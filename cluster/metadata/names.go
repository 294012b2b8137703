package metadata

import (
	"fmt"
	"strings"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// MaxTopicNameLength is the longest legal topic name, in bytes: with partition number
// and suffix it still is a file name.
const MaxTopicNameLength = 249

// The topics in which brokers keep their own state (Kafka's Topic.INTERNAL_TOPICS).
const (
	GroupMetadataTopic    = "__consumer_offsets"
	TransactionStateTopic = "__transaction_state"
	ShareGroupStateTopic  = "__share_group_state"
)

// IsInternalTopic reports whether the name is one of the topics in which coordinators
// keep their state.
func IsInternalTopic(name string) bool {
	return name == GroupMetadataTopic || name == TransactionStateTopic || name == ShareGroupStateTopic
}

// ValidateTopicName refuses, with INVALID_TOPIC_EXCEPTION, what cannot name a topic
// (Kafka's Topic.validate).
func ValidateTopicName(name string) error {
	switch {
	case name == "":
		return illegalName(name, "it is empty")
	case name == "." || name == "..":
		return illegalName(name, "it names a directory")
	case len(name) > MaxTopicNameLength:
		return illegalName(name, fmt.Sprintf("it is longer than %d characters", MaxTopicNameLength))
	case strings.ContainsFunc(name, func(r rune) bool { return !isTopicNameRune(r) }):
		return illegalName(name, "only ASCII letters, digits, '.', '_' and '-' are allowed")
	}
	return nil
}

func illegalName(name, reason string) error {
	return kafkaerr.New(kafkaerr.InvalidTopic, fmt.Sprintf("topic name %q is not legal: %s", name, reason))
}

func isTopicNameRune(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return true
	}
	return r == '.' || r == '_' || r == '-'
}

// HasOnlineDir reports whether the broker has the log directory that a replica is
// assigned to (Kafka's BrokerRegistration.hasOnlineDir): one that is not assigned yet, or
// is being moved there, counts; a lost one does not.
func (b *Broker) HasOnlineDir(dir uuid.UUID) bool {
	switch dir {
	case uuid.DirUnassigned, uuid.DirMigrating:
		return true
	case uuid.DirLost:
		return false
	}
	for _, d := range b.LogDirs {
		if d == dir {
			return true
		}
	}
	return false
}
