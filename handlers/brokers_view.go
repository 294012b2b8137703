package handlers

import (
	"slices"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// brokersView is what the clients of one listener see of the brokers, looked up once for
// the thousands of partitions of an answer (Kafka's KRaftMetadataCache).
type brokersView struct {
	brokers []seenBroker // by id
}

type seenBroker struct {
	*metadata.Broker
	listed bool // it has an address on the listener
}

func viewBrokers(image *metadata.Image, listener string) brokersView {
	v := brokersView{make([]seenBroker, 0, image.NumBrokers())}
	for b := range image.Brokers() {
		v.brokers = append(v.brokers, seenBroker{b, endpointOf(b, listener) != nil})
	}
	return v
}

// find is nil for a broker that is not registered. Ids mostly follow each other.
func (v *brokersView) find(id int32) *seenBroker {
	if len(v.brokers) == 0 {
		return nil
	}
	i, found := int(id)-int(v.brokers[0].ID), true
	if i < 0 || i >= len(v.brokers) || v.brokers[i].ID != id {
		i, found = slices.BinarySearchFunc(v.brokers, id, func(b seenBroker, id int32) int { return int(b.ID) - int(id) })
	}
	if !found {
		return nil
	}
	return &v.brokers[i]
}

// alive tells whether a client can talk to a broker now.
func (v *brokersView) alive(id int32) bool { return v.find(id).alive() }

func (b *seenBroker) alive() bool { return b != nil && b.listed && !b.Fenced }

// leader is the leader if a client can reach it, else -1 and why not.
func (v *brokersView) leader(version int16, id int32) (leader int32, errorCode int16) {
	b := v.find(id)
	switch {
	case b != nil && b.listed:
		return id, 0
	case b != nil && version >= 6:
		return metadata.NoLeader, kafkaerr.ListenerNotFound.Code
	default:
		return metadata.NoLeader, kafkaerr.LeaderNotAvailable.Code
	}
}

// appendOffline lists the replicas that are out of service, or whose disk is.
func (v *brokersView) appendOffline(ids []int32, p *metadata.Partition) []int32 {
	for i, id := range p.Replicas {
		if b := v.find(id); !b.alive() || i < len(p.Directories) && !b.HasOnlineDir(p.Directories[i]) {
			ids = append(ids, id)
		}
	}
	return ids
}

// living are those of the replicas that are alive; all of them as they are if all are.
func (v *brokersView) living(ids []int32) []int32 {
	if !slices.ContainsFunc(ids, func(id int32) bool { return !v.alive(id) }) {
		return ids
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return !v.alive(id) })
}
