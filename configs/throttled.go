package configs

import (
	"strconv"
	"strings"
)

// ThrottledReplicas are replicas of a topic: all, or those in a list of partition:broker.
type ThrottledReplicas struct {
	All      bool
	Replicas []ThrottledReplica
}

// ThrottledReplica is the replica of a partition on a broker.
type ThrottledReplica struct{ Partition, Broker int32 }

// On gives the partitions that have a throttled replica on a broker, if not all have.
func (t ThrottledReplicas) On(broker int32) (partitions []int32) {
	for _, r := range t.Replicas {
		if r.Broker == broker {
			partitions = append(partitions, r.Partition)
		}
	}
	return partitions
}

// throttled reads a list that throttledReplicas has checked. Numbers that are no partition's
// or no broker's name nothing.
func throttled(list []string) (t ThrottledReplicas) {
	for _, element := range list {
		if element == "*" {
			return ThrottledReplicas{All: true}
		}
		partition, broker, _ := strings.Cut(element, ":")
		p, err := strconv.ParseInt(partition, 10, 32)
		if err != nil {
			continue
		}
		if b, err := strconv.ParseInt(broker, 10, 32); err == nil {
			t.Replicas = append(t.Replicas, ThrottledReplica{int32(p), int32(b)})
		}
	}
	return t
}
