package coordinator

import (
	"github.com/klamm-mq/klamm/cluster/metadata"
)

// Name is that of the publisher of the metadata log that a Runtime is. It comes after the
// replicas, so that a partition that is led here can be read and written, and before the
// image that requests are answered from, so that nobody is sent to a coordinator that does
// not know yet that it is one.
func (r *Runtime[S]) Name() string { return r.opts.Name + " coordinator" }

// OnMetadataUpdate begins the shards of partitions that this broker was elected for, ends
// those that it leads no more, and tells the others of the change. Calls come one after
// the other. It does not wait for loading.
func (r *Runtime[S]) OnMetadataUpdate(delta *metadata.Delta, next *metadata.Image) {
	r.applying.Lock()
	defer r.applying.Unlock()
	r.image.Store(next)
	topic, mine := next.Topic(r.opts.Topic), r.registered(next)
	if topic != r.topic || mine != r.mine {
		r.topic, r.mine = topic, mine
		r.elect(r.led(topic, mine))
	}
	if delta.IsEmpty() {
		return
	}
	for _, h := range r.all() {
		h.metadataChanged(delta, next)
	}
}

// registered tells whether this process, and not one before it, is the broker of its id.
func (r *Runtime[S]) registered(image *metadata.Image) bool {
	b := image.Broker(r.opts.BrokerID)
	return b != nil && b.IncarnationID == r.opts.Incarnation
}

// led is the partitions that this broker leads, by index.
func (r *Runtime[S]) led(topic *metadata.Topic, mine bool) map[int32]Partition {
	led := make(map[int32]Partition)
	if topic == nil || !mine {
		return led
	}
	for _, p := range topic.Partitions {
		if p.Leader == r.opts.BrokerID {
			led[p.Index] = Partition{TopicID: topic.ID, Index: p.Index, LeaderEpoch: p.LeaderEpoch}
		}
	}
	return led
}

// elect makes the shards those that are led. A partition that is led in a new epoch is
// loaded anew even if the leader is the same: its log may have been cut in between.
func (r *Runtime[S]) elect(led map[int32]Partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, h := range r.shards {
		if led[i] != h.partition {
			delete(r.shards, i)
			h.stop()
		}
	}
	for i, p := range led {
		if r.shards[i] == nil && !r.closed {
			r.shards[i] = r.startHost(p)
		}
	}
}
