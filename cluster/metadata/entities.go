package metadata

import (
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Position is a place in the metadata log. Positions of one log order by Index.
type Position struct {
	Index uint64
	Term  uint64
}

// NoLeader is the leader of a partition that has none.
const NoLeader int32 = -1

// Broker is one registered broker.
type Broker struct {
	ID                   int32
	Epoch                int64 // rises with each registration
	IncarnationID        uuid.UUID
	LogDirs              []uuid.UUID
	Listeners            []Endpoint
	Rack                 *string
	Features             []Feature
	Fenced               bool
	InControlledShutdown bool
}

// Endpoint is a listener of a broker as clients of that listener reach it.
type Endpoint struct {
	Name             string // listener name, upper case
	Host             string
	Port             int32
	SecurityProtocol int16 // 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL
}

// Feature is a range of levels of one feature that a broker supports.
type Feature struct {
	Name     string
	Min, Max int16
}

// Topic is one topic with all its partitions, indexed by partition number.
type Topic struct {
	Name       string
	ID         uuid.UUID
	Partitions []*Partition
}

// RecoveryState tells whether the leader must recover from an unclean election.
type RecoveryState int8

// Values of RecoveryState, as in AlterPartition.
const (
	Recovered  RecoveryState = 0
	Recovering RecoveryState = 1
)

// Partition is the state of one partition that the controller decides.
// Values are immutable once they are in an Image.
type Partition struct {
	Index            int32
	Replicas         []int32
	Directories      []uuid.UUID // of each replica, same order
	ISR              []int32
	AddingReplicas   []int32
	RemovingReplicas []int32
	ELR              []int32
	LastKnownELR     []int32
	Leader           int32
	LeaderEpoch      int32
	PartitionEpoch   int32
	RecoveryState    RecoveryState
}

// ResourceType is the kind of a configuration resource, as in DescribeConfigs.
type ResourceType int8

// The resource types that hold configuration in metadata.
const (
	TopicResource         ResourceType = 2
	BrokerResource        ResourceType = 4
	ClientMetricsResource ResourceType = 16
	GroupResource         ResourceType = 32
)

// Resource names an owner of configuration: a topic, a broker ("" = all brokers) …
type Resource struct {
	Type ResourceType
	Name string
}
