package metadata

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// ImagesEqual tells whether two images are the same, position included.
func ImagesEqual(a, b *Image) bool { return DiffImages(a, b) == "" }

// DiffImages names the first difference between two images, "" if there is none.
func DiffImages(a, b *Image) string {
	switch {
	case a.pos != b.pos:
		return fmt.Sprintf("position: %v, %v", a.pos, b.pos)
	case a.clusterID != b.clusterID || a.durability != b.durability || a.forOne != b.forOne:
		return fmt.Sprintf("cluster: %s %v %v, %s %v %v", a.clusterID, a.durability, a.forOne, b.clusterID, b.durability, b.forOne)
	case !slices.Equal(a.features, b.features):
		return fmt.Sprintf("features: %v, %v", a.features, b.features)
	case a.nextProducerID != b.nextProducerID:
		return fmt.Sprintf("next producer id: %d, %d", a.nextProducerID, b.nextProducerID)
	case a.partitions != b.partitions:
		return fmt.Sprintf("number of partitions: %d, %d", a.partitions, b.partitions)
	}
	return cmp.Or(
		diff("topic", a.topicsByID.all(), b.topicsByID.all(), equalTopic),
		diff("topic by name", a.Topics(), b.Topics(), equalTopic),
		diff("broker", a.Brokers(), b.Brokers(), equalBroker),
		diff("controller", a.Controllers(), b.Controllers(), equalController),
		diff("configuration", a.configs.all(), b.configs.all(), equalSettings),
		diff("quota", a.quotas.all(), b.quotas.all(), equalQuota),
	)
}

// diff names the first place where two sequences differ.
func diff[V any](what string, a, b iter.Seq[*V], equal func(x, y *V) bool) string {
	as, bs := slices.Collect(a), slices.Collect(b)
	for i := range max(len(as), len(bs)) {
		if x, y := at(as, i), at(bs, i); !equal(x, y) {
			return fmt.Sprintf("%s: %+v, %+v", what, deref(x), deref(y))
		}
	}
	return ""
}

func at[V any](list []*V, i int) *V {
	if i >= len(list) {
		return nil
	}
	return list[i]
}

func deref[V any](p *V) any {
	if p == nil {
		return "none"
	}
	return *p
}

func equalTopic(a, b *Topic) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.Name == b.Name && a.ID == b.ID && slices.EqualFunc(a.Partitions, b.Partitions, equalPartition)
}

func equalPartition(a, b *Partition) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.Index == b.Index && a.Leader == b.Leader && a.LeaderEpoch == b.LeaderEpoch &&
		a.PartitionEpoch == b.PartitionEpoch && a.RecoveryState == b.RecoveryState &&
		slices.Equal(a.Replicas, b.Replicas) && slices.Equal(a.Directories, b.Directories) &&
		slices.Equal(a.ISR, b.ISR) && slices.Equal(a.AddingReplicas, b.AddingReplicas) &&
		slices.Equal(a.RemovingReplicas, b.RemovingReplicas) && slices.Equal(a.ELR, b.ELR) &&
		slices.Equal(a.LastKnownELR, b.LastKnownELR)
}

func equalBroker(a, b *Broker) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.ID == b.ID && a.Epoch == b.Epoch && a.IncarnationID == b.IncarnationID &&
		a.Fenced == b.Fenced && a.InControlledShutdown == b.InControlledShutdown &&
		slices.Equal(a.LogDirs, b.LogDirs) && slices.Equal(a.Listeners, b.Listeners) &&
		slices.Equal(a.Features, b.Features) && equalString(a.Rack, b.Rack)
}

func equalController(a, b *Controller) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.ID == b.ID && a.IncarnationID == b.IncarnationID && slices.Equal(a.Listeners, b.Listeners) && slices.Equal(a.Features, b.Features)
}

func equalSettings(a, b *settings) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.resource == b.resource && maps.Equal(a.values, b.values)
}

func equalString(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func compareUUID(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

func compareResource(a, b Resource) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), strings.Compare(a.Name, b.Name))
}

func compareFeature(f FeatureLevel, name string) int { return strings.Compare(f.Name, name) }
