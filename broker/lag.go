package broker

import (
	"github.com/klamm-mq/klamm/cluster/coordinator/group"
	"github.com/klamm-mq/klamm/cluster/coordinator/group/lag"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// measureLag registers the metrics of groups' lag.
func (b *Broker) measureLag(groups *group.Service) {
	b.env.Registry.MustRegister(lag.New(lag.Options{Groups: groups, Logs: ledPartitions{b.replicas}, Image: b.published.get}))
}

// ledPartitions are the logs that lag is measured against.
type ledPartitions struct{ replicas *replica.Manager }

func (l ledPartitions) Bounds(topic uuid.UUID, partition int32) (logStart, highWatermark int64, err error) {
	at, err := l.replicas.OffsetsInEpoch(replica.Leadership{
		TopicIDPartition: replica.TopicIDPartition{TopicID: topic, Partition: partition}, Epoch: replica.NoEpoch,
	})
	return at.LogStart, at.HighWatermark, err
}

func (l ledPartitions) BatchTime(topic uuid.UUID, partition int32, offset int64) (ms int64, err error) {
	return l.replicas.BatchTime(replica.TopicIDPartition{TopicID: topic, Partition: partition}, offset)
}
