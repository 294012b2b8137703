package broker

import (
	"slices"
	"sync"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/node"
	"github.com/klamm-mq/klamm/cluster/replica"
)

// undecided are the partitions of which this broker has a replica and whose leader is decided
// by what is in the logs: there are some only after metadata was restored from a backup.
type undecided struct {
	mu    sync.Mutex
	image *metadata.Image // of which ids are
	ids   []replica.TopicIDPartition
	next  int // who is told of first the next time
}

// some gives a part of them, each time another one if they are many.
func (u *undecided) some(image *metadata.Image, broker int32, most int) (ids []replica.TopicIDPartition) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.image != image {
		u.image, u.ids = image, undecidedIn(image, broker)
	}
	if len(u.ids) <= most {
		return u.ids
	}
	for i := range most {
		ids = append(ids, u.ids[(u.next+i)%len(u.ids)])
	}
	u.next = (u.next + most) % len(u.ids)
	return ids
}

func undecidedIn(image *metadata.Image, broker int32) (ids []replica.TopicIDPartition) {
	for t := range image.Topics() {
		for _, p := range t.Partitions {
			if p.Undecided() && slices.Contains(p.Replicas, broker) {
				ids = append(ids, replica.TopicIDPartition{TopicID: t.ID, Partition: p.Index})
			}
		}
	}
	return ids
}

// logEnds tells the controller how far the logs of undecided partitions have come
// (node.Options.LogEnds). One that is offline, or not there yet, is not told of.
func (b *Broker) logEnds() (ends []controller.LogEnd) {
	for _, id := range b.undecided.some(b.published.get(), b.cfg.NodeID, node.MaxLogEnds) {
		if epoch, end, ok := b.replicas.LogEnd(id); ok {
			ends = append(ends, controller.LogEnd{TopicID: id.TopicID, Partition: id.Partition, Epoch: epoch, Offset: int64(end)})
		}
	}
	return ends
}
