package metadata

import (
	"iter"
	"maps"
	"slices"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Delta is what happened between two images. It has two lives.
//
// First it is written: NewDelta, Replay for each record, Image. That may be repeated: each
// Image contains what was replayed so far.
//
// Then it is read: Topics, Brokers, Configs and so on compare the base image with the last
// one that Image gave. They are exact: what ended as it began is no change, whatever
// happened in between. Reading is safe for any number of goroutines.
type Delta struct {
	base, next *Image
	touched    touched
	draft      *imageDraft // nil once the delta only merges others
}

// touched names what may differ between base and next.
type touched struct {
	topics      map[uuid.UUID]struct{}
	brokers     map[int32]struct{}
	controllers map[int32]struct{}
	configs     map[Resource]struct{}
	quotas      map[QuotaEntity]struct{}
	elections   Elections
}

// NewDelta starts a delta on base; nil means Empty.
func NewDelta(base *Image) *Delta {
	if base == nil {
		base = Empty()
	}
	return &Delta{base: base, next: base, touched: newTouched(), draft: newDraft(base)}
}

// Between gives the delta that leads from base to next, whatever lies between them. It
// costs a walk over both.
func Between(base, next *Image) *Delta {
	d := &Delta{base: base, next: next, touched: newTouched()}
	for _, image := range []*Image{base, next} {
		for t := range image.topicsByID.all() {
			d.touched.topics[t.ID] = struct{}{}
		}
		for b := range image.Brokers() {
			d.touched.brokers[b.ID] = struct{}{}
		}
		for c := range image.Controllers() {
			d.touched.controllers[c.ID] = struct{}{}
		}
		for r := range image.Configs() {
			d.touched.configs[r] = struct{}{}
		}
		for e := range image.Quotas() {
			d.touched.quotas[e] = struct{}{}
		}
	}
	return d
}

// Unchanged gives the delta of a log entry that changed nothing.
func Unchanged(base *Image, pos Position) *Delta {
	return &Delta{base: base, next: base.At(pos), touched: newTouched()}
}

// Merge makes d lead on to the end of later, which must begin where d ends. It costs what
// later changed. Neither may be replayed into afterwards, and nobody may be reading d.
func (d *Delta) Merge(later *Delta) {
	d.next, d.draft = later.next, nil
	d.touched.elections.add(later.touched.elections)
	// What exists at neither end is dropped, so that a delta that goes on merging while
	// topics come and go stays as small as its two images.
	merge(d.touched.topics, later.touched.topics, func(id uuid.UUID) bool {
		return d.base.TopicByID(id) != nil || d.next.TopicByID(id) != nil
	})
	merge(d.touched.brokers, later.touched.brokers, func(id int32) bool {
		return d.base.Broker(id) != nil || d.next.Broker(id) != nil
	})
	merge(d.touched.controllers, later.touched.controllers, func(id int32) bool {
		return d.base.Controller(id) != nil || d.next.Controller(id) != nil
	})
	merge(d.touched.configs, later.touched.configs, func(r Resource) bool {
		return d.base.Config(r) != nil || d.next.Config(r) != nil
	})
	merge(d.touched.quotas, later.touched.quotas, func(e QuotaEntity) bool {
		return d.base.Quota(e) != nil || d.next.Quota(e) != nil
	})
}

func merge[K comparable](into, from map[K]struct{}, exists func(K) bool) {
	for k := range from {
		if exists(k) {
			into[k] = struct{}{}
		} else {
			delete(into, k)
		}
	}
}

// Base is the image before.
func (d *Delta) Base() *Image { return d.base }

// Next is the image after: the last that Image gave.
func (d *Delta) Next() *Image { return d.next }

// IsEmpty tells that nothing but the position may have changed.
func (d *Delta) IsEmpty() bool {
	return len(d.touched.topics) == 0 && len(d.touched.brokers) == 0 && len(d.touched.controllers) == 0 &&
		len(d.touched.configs) == 0 && len(d.touched.quotas) == 0 &&
		!d.ClusterChanged() && !d.FeaturesChanged() && !d.ProducerIDsChanged()
}

// TopicChange is one topic before and after; nil where it does not exist. A topic that is
// deleted and created anew under its name makes two changes, since the ids differ.
type TopicChange struct {
	ID       uuid.UUID
	Old, New *Topic
}

// Created tells that the topic is new.
func (c TopicChange) Created() bool { return c.Old == nil }

// Deleted tells that the topic is gone.
func (c TopicChange) Deleted() bool { return c.New == nil }

// Name is the topic's name, also of a deleted one.
func (c TopicChange) Name() string {
	if c.New != nil {
		return c.New.Name
	}
	return c.Old.Name
}

// PartitionChange is one partition before and after; nil where it does not exist.
type PartitionChange struct {
	Index    int32
	Old, New *Partition
}

// Partitions yields the partitions of the topic that differ, by number: all of them if
// the topic was created or deleted.
func (c TopicChange) Partitions() iter.Seq[PartitionChange] {
	return func(yield func(PartitionChange) bool) {
		for i := range max(c.Old.numPartitions(), c.New.numPartitions()) {
			change := PartitionChange{int32(i), c.Old.Partition(int32(i)), c.New.Partition(int32(i))}
			if !equalPartition(change.Old, change.New) && !yield(change) {
				return
			}
		}
	}
}

// Topics yields the topics that were created, deleted, or have a partition that differs,
// in the order of their ids. Deletions come first, so that a name is free before it is
// used again.
func (d *Delta) Topics() iter.Seq[TopicChange] {
	return func(yield func(TopicChange) bool) {
		ids := slices.SortedFunc(maps.Keys(d.touched.topics), compareUUID)
		for _, deletions := range []bool{true, false} {
			for _, id := range ids {
				c := TopicChange{id, d.base.TopicByID(id), d.next.TopicByID(id)}
				if c.Deleted() == deletions && !equalTopic(c.Old, c.New) && !yield(c) {
					return
				}
			}
		}
	}
}

// BrokerChange is one broker before and after; nil where it is not registered.
type BrokerChange struct {
	ID       int32
	Old, New *Broker
}

// Brokers yields the brokers whose registration differs, by id.
func (d *Delta) Brokers() iter.Seq[BrokerChange] {
	return func(yield func(BrokerChange) bool) {
		for _, id := range slices.Sorted(maps.Keys(d.touched.brokers)) {
			c := BrokerChange{id, d.base.Broker(id), d.next.Broker(id)}
			if !equalBroker(c.Old, c.New) && !yield(c) {
				return
			}
		}
	}
}

// ControllerChanged tells that the registration of a controller differs.
func (d *Delta) ControllerChanged(id int32) bool {
	_, touched := d.touched.controllers[id]
	return touched && !equalController(d.base.Controller(id), d.next.Controller(id))
}

// ConfigChange is the configuration of one resource before and after; nil where it has none.
type ConfigChange struct {
	Resource
	Old, New map[string]string
}

// Configs yields the resources whose configuration differs, by type and name. A topic that
// is created with configuration, or deleted, is among them.
func (d *Delta) Configs() iter.Seq[ConfigChange] {
	return func(yield func(ConfigChange) bool) {
		for _, r := range slices.SortedFunc(maps.Keys(d.touched.configs), compareResource) {
			c := ConfigChange{r, d.base.Config(r), d.next.Config(r)}
			if !maps.Equal(c.Old, c.New) && !yield(c) {
				return
			}
		}
	}
}

// ClusterChanged tells that the cluster was bootstrapped in between.
func (d *Delta) ClusterChanged() bool { return d.base.clusterID != d.next.clusterID }

// FeaturesChanged tells that a finalized feature level differs.
func (d *Delta) FeaturesChanged() bool { return !slices.Equal(d.base.features, d.next.features) }

// ProducerIDsChanged tells that a broker was given producer ids in between.
func (d *Delta) ProducerIDsChanged() bool { return d.base.nextProducerID != d.next.nextProducerID }

func newTouched() touched {
	return touched{
		topics:      map[uuid.UUID]struct{}{},
		brokers:     map[int32]struct{}{},
		controllers: map[int32]struct{}{},
		configs:     map[Resource]struct{}{},
		quotas:      map[QuotaEntity]struct{}{},
	}
}

func (t *Topic) numPartitions() int {
	if t == nil {
		return 0
	}
	return len(t.Partitions)
}
