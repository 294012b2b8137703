package metadata

import "github.com/klamm-mq/klamm/protocol/uuid"

// Record is one decision of the controller: the unit of the metadata log. The types below
// are all there are. A record is immutable once it has been replayed or encoded, and it
// shares its slices with the images built from it.
type Record interface {
	// kind tells the record's row in the table of versions.
	kind() kind
}

// BootstrapRecord is the first record of a cluster.
type BootstrapRecord struct {
	ClusterID  string
	Durability Durability
	Features   []FeatureLevel // FeatureMetadata must be among them
	ForOne     bool           // bootstrapped by a node alone (D21)
}

// FeatureLevelRecord finalizes the level of a feature; level 0 removes it.
type FeatureLevelRecord struct {
	FeatureLevel
}

// RegisterBrokerRecord registers a broker, amends its registration, or registers a new
// incarnation of it: that one's epoch must be higher than the one it replaces.
type RegisterBrokerRecord struct {
	Broker
}

// RegisterControllerRecord registers a controller, or replaces its registration (KIP-919).
type RegisterControllerRecord struct {
	Controller
}

// UnregisterBrokerRecord removes a registration.
type UnregisterBrokerRecord struct {
	ID    int32
	Epoch int64
}

// BrokerChangeRecord fences or unfences a registered broker, or notes that it shuts down
// or that log directories failed.
type BrokerChangeRecord struct {
	ID                   int32
	Epoch                int64
	Fenced               *bool       // nil: unchanged
	InControlledShutdown *bool       // nil: unchanged
	LogDirs              []uuid.UUID // those still online; nil: unchanged
}

// BumpLeaderEpochsRecord raises the leader epoch and the partition epoch of every
// partition that the broker leads (D20).
type BumpLeaderEpochsRecord struct {
	BrokerID int32
}

// TopicRecord creates a topic without partitions; PartitionRecords follow.
type TopicRecord struct {
	Name string
	ID   uuid.UUID
}

// RemoveTopicRecord removes a topic with its partitions and its configuration.
type RemoveTopicRecord struct {
	ID uuid.UUID
}

// PartitionRecord creates a partition. Its Index must be the number of partitions that
// the topic has so far.
type PartitionRecord struct {
	TopicID uuid.UUID
	Partition
}

// PartitionChangeRecord changes a partition; what is nil stays. The partition epoch rises
// by one, and the leader epoch too if Leader is given, also if it is the same leader
// (Kafka's PartitionRegistration.merge).
type PartitionChangeRecord struct {
	TopicID          uuid.UUID
	Index            int32
	Replicas         []int32 // nil: unchanged; here and below an empty list is a value
	Directories      []uuid.UUID
	ISR              []int32
	AddingReplicas   []int32
	RemovingReplicas []int32
	ELR              []int32
	LastKnownELR     []int32
	Leader           *int32 // NoLeader: none
	RecoveryState    *RecoveryState
}

// ConfigRecord sets or removes one configuration key of a resource.
type ConfigRecord struct {
	Resource
	Key   string
	Value *string // nil: removed
}

// ProducerIDsRecord gives the producer ids from the previous Next to this one to a broker.
type ProducerIDsRecord struct {
	BrokerID    int32
	BrokerEpoch int64
	Next        int64
}

// NoOpRecord changes nothing.
type NoOpRecord struct{}

// BeginTransactionRecord starts a group of entries that take effect together (D25). It must
// be the first record of its entry.
type BeginTransactionRecord struct {
	Name string // for logs
}

// EndTransactionRecord makes the records since Begin take effect. It must be the last
// record of its entry.
type EndTransactionRecord struct{}

// AbortTransactionRecord drops the records since Begin. It must be the last record of its
// entry.
type AbortTransactionRecord struct {
	Reason string // for logs
}

// Ptr gives the optional fields of records.
func Ptr[T any](v T) *T { return &v }
