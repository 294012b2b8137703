package metadata

import (
	"fmt"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Position is a place in the metadata log. Positions of one log order by Index.
type Position struct {
	Index uint64
	Term  uint64
}

// Durability is what acks=all promises: see docs/architecture.md, "What an ack means".
type Durability int8

// Values of Durability, with the numbers of the bootstrap record.
const (
	DurabilityUnset      Durability = 0
	DurabilityFsync      Durability = 1 // every in-sync replica has flushed
	DurabilityReplicated Durability = 2 // every in-sync replica has written
)

// String is the value of the topic key durability.
func (d Durability) String() string {
	switch d {
	case DurabilityFsync:
		return "fsync"
	case DurabilityReplicated:
		return "replicated"
	default:
		return "unset"
	}
}

// ParseDurability reads the value of the topic key durability.
func ParseDurability(s string) (Durability, error) {
	switch s {
	case "fsync":
		return DurabilityFsync, nil
	case "replicated":
		return DurabilityReplicated, nil
	default:
		return DurabilityUnset, fmt.Errorf("durability %q: want fsync or replicated", s)
	}
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

// Controller is one registered controller: a node that keeps the metadata log and may lead
// it.
type Controller struct {
	ID            int32
	IncarnationID uuid.UUID // drawn anew by each process
	Listeners     []Endpoint
	Features      []Feature
}

// Endpoint is a listener of a broker or controller as clients of that listener reach it.
type Endpoint struct {
	Name             string // listener name, upper case
	Host             string
	Port             int32
	SecurityProtocol int16 // 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL
	// Unadvertised says that Host is a guess: the listener is a wildcard and has no
	// advertised address (D22).
	Unadvertised bool
}

// FeatureLevel is the finalized level of one feature.
type FeatureLevel struct {
	Name  string
	Level int16
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

// Partition finds a partition, nil if there is none with that number or t is nil.
func (t *Topic) Partition(index int32) *Partition {
	if t == nil || index < 0 || int(index) >= len(t.Partitions) {
		return nil
	}
	return t.Partitions[index]
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
