package metadata

import (
	"iter"
	"slices"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Image is all metadata at one position of the log. It never changes, may be read by any
// number of goroutines, and is cheap to derive from another: see Delta. What its methods
// return is part of it and must not be modified.
type Image struct {
	pos        Position
	clusterID  string
	durability Durability
	forOne     bool
	features   []FeatureLevel // by name

	brokers      tree[*Broker]     // by int32Key(id)
	controllers  tree[*Controller] // by int32Key(id)
	topicsByID   tree[*Topic]      // by id
	topicsByName tree[*Topic]      // by name
	configs      tree[*settings]   // by resourceKey
	quotas       tree[*quotas]     // by quotaKey

	partitions     int // in all topics
	nextProducerID int64
}

// settings is the configuration of one resource. Immutable once in an Image.
type settings struct {
	resource Resource
	values   map[string]string
}

// Empty is the image before the first record.
func Empty() *Image {
	return &Image{
		brokers:      newTree[*Broker](),
		controllers:  newTree[*Controller](),
		topicsByID:   newTree[*Topic](),
		topicsByName: newTree[*Topic](),
		configs:      newTree[*settings](),
		quotas:       newTree[*quotas](),
	}
}

// Position is the last log entry that the image contains.
func (i *Image) Position() Position { return i.pos }

// At is the same metadata at a later position of the log.
func (i *Image) At(pos Position) *Image {
	next := *i
	next.pos = pos
	return &next
}

// ClusterID is the id drawn at bootstrap, "" before the bootstrap record.
func (i *Image) ClusterID() string { return i.clusterID }

// Durability is what an ack means by default in this cluster, fixed at bootstrap.
// DurabilityUnset before the bootstrap record.
func (i *Image) Durability() Durability { return i.durability }

// BootstrappedForOne tells whether the cluster was bootstrapped by a node alone (D21).
func (i *Image) BootstrappedForOne() bool { return i.forOne }

// Feature is the finalized level of a feature, 0 if it is not set.
func (i *Image) Feature(name string) int16 {
	n, ok := slices.BinarySearchFunc(i.features, name, compareFeature)
	if !ok {
		return 0
	}
	return i.features[n].Level
}

// Features lists the finalized feature levels by name.
func (i *Image) Features() []FeatureLevel { return i.features }

// Broker finds a registered broker, nil if there is none with that id.
func (i *Image) Broker(id int32) *Broker {
	b, _ := i.brokers.get(int32Key(id))
	return b
}

// Brokers yields the registered brokers by id, fenced ones included.
func (i *Image) Brokers() iter.Seq[*Broker] { return i.brokers.all() }

// NumBrokers counts the registered brokers, fenced ones included.
func (i *Image) NumBrokers() int { return i.brokers.len() }

// Controller finds a registered controller, nil if there is none with that id.
func (i *Image) Controller(id int32) *Controller {
	c, _ := i.controllers.get(int32Key(id))
	return c
}

// Controllers yields the registered controllers by id.
func (i *Image) Controllers() iter.Seq[*Controller] { return i.controllers.all() }

// Topic finds a topic by name, nil if there is none.
func (i *Image) Topic(name string) *Topic {
	t, _ := i.topicsByName.get([]byte(name))
	return t
}

// TopicByID finds a topic by id, nil if there is none.
func (i *Image) TopicByID(id uuid.UUID) *Topic {
	t, _ := i.topicsByID.get(id[:])
	return t
}

// Partition finds a partition, nil if the topic or the partition does not exist.
func (i *Image) Partition(topic uuid.UUID, index int32) *Partition {
	return i.TopicByID(topic).Partition(index)
}

// Topics yields all topics by name.
func (i *Image) Topics() iter.Seq[*Topic] { return i.topicsByName.all() }

// NumTopics counts the topics.
func (i *Image) NumTopics() int { return i.topicsByID.len() }

// NumPartitions counts the partitions of all topics.
func (i *Image) NumPartitions() int { return i.partitions }

// Config is the configuration set on a resource, by key; nil if there is none.
func (i *Image) Config(r Resource) map[string]string {
	s, _ := i.configs.get(resourceKey(r))
	return s.get()
}

// Configs yields every resource that has configuration, by type and name.
func (i *Image) Configs() iter.Seq2[Resource, map[string]string] {
	return func(yield func(Resource, map[string]string) bool) {
		for s := range i.configs.all() {
			if !yield(s.resource, s.values) {
				return
			}
		}
	}
}

// NextProducerID is the first producer id that no broker has been given.
func (i *Image) NextProducerID() int64 { return i.nextProducerID }

func (s *settings) get() map[string]string {
	if s == nil {
		return nil
	}
	return s.values
}
