package replicalog

import (
	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/cluster/replica"
)

// Log is the logs of an internal topic's partitions.
type Log struct{ replicas *replica.Manager }

// New makes the log on replicas.
func New(replicas *replica.Manager) *Log { return &Log{replicas} }

var _ coordinator.Log = (*Log)(nil)

func leadership(p coordinator.Partition) replica.Leadership {
	return replica.Leadership{
		TopicIDPartition: replica.TopicIDPartition{TopicID: p.TopicID, Partition: p.Index},
		Epoch:            p.LeaderEpoch,
	}
}

// Append implements coordinator.Log.
func (l *Log) Append(p coordinator.Partition, batch []byte) (int64, error) {
	base, refused, err := l.replicas.AppendInEpoch(leadership(p), batch)
	if refused {
		err = &coordinator.RefusedError{Err: err}
	}
	return base, err
}

// MaxBatchBytes implements coordinator.Log.
func (l *Log) MaxBatchBytes(p coordinator.Partition) int {
	return l.replicas.MaxBatchBytes(leadership(p))
}

// Read implements coordinator.Log.
func (l *Log) Read(p coordinator.Partition, offset int64, buf []byte) ([]byte, error) {
	return l.replicas.ReadInEpoch(leadership(p), offset, buf)
}

// Offsets implements coordinator.Log.
func (l *Log) Offsets(p coordinator.Partition) (coordinator.Offsets, error) {
	at, err := l.replicas.OffsetsInEpoch(leadership(p))
	return coordinator.Offsets{Start: at.LogStart, HighWatermark: at.HighWatermark, End: at.LogEnd}, err
}

// Watch implements coordinator.Log.
func (l *Log) Watch(p coordinator.Partition, changed func()) (stop func(), err error) {
	return l.replicas.Watch(leadership(p), changed)
}
