package replica

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// LogDirInfo is a log directory as DescribeLogDirs tells of it.
type LogDirInfo struct {
	Path string // absolute
	Err  error  // KAFKA_STORAGE_ERROR if it is offline; then there is nothing else
	// TotalBytes and UsableBytes are those of the file system.
	TotalBytes, UsableBytes int64
	Logs                    []LogInfo
}

// LogInfo is the log of a replica.
type LogInfo struct {
	Topic     string
	Partition int32
	Size      int64 // bytes of its segments
	// OffsetLag is how far it is behind: the high watermark, or, for a future replica, the
	// one that it will replace. -1: the replica is not usable.
	OffsetLag int64
	Future    bool
}

// errDirOffline is a directory that answers nothing.
var errDirOffline = kafkaerr.New(kafkaerr.KafkaStorageError, "the log directory is offline")

// DescribeLogDirs describes every configured log directory, also those that could not be
// opened (ReplicaManager.describeLogDirs).
func (m *Manager) DescribeLogDirs() []LogDirInfo {
	infos := make([]LogDirInfo, 0, len(m.dirs)+len(m.opts.DirsMissing))
	for _, d := range m.dirs {
		infos = append(infos, m.describeDir(d))
	}
	for _, path := range m.opts.DirsMissing {
		infos = append(infos, LogDirInfo{Path: absolute(path), Err: errDirOffline})
	}
	return infos
}

func (m *Manager) describeDir(d *directory) LogDirInfo {
	info := LogDirInfo{Path: absolute(d.Path()), Err: d.offline()}
	if info.Err != nil {
		info.Err = errDirOffline
		return info
	}
	space, err := d.Space()
	if err != nil {
		info.Err = storageError(err)
		return info
	}
	info.TotalBytes, info.UsableBytes = int64(min(space.TotalBytes, 1<<63-1)), int64(min(space.AvailBytes, 1<<63-1))
	for _, l := range d.Logs() {
		if m.isReplaced(l) {
			continue
		}
		info.Logs = append(info.Logs, m.describeLog(l))
	}
	for _, l := range d.Futures() {
		info.Logs = append(info.Logs, m.describeFuture(l))
	}
	return info
}

func (m *Manager) describeLog(l *logstore.Log) LogInfo {
	id := l.ID()
	info := LogInfo{Topic: id.Topic, Partition: id.Partition, Size: l.SizeBytes(), OffsetLag: -1}
	if h := m.ofLog(l); h != nil && h.Failure() == nil {
		info.OffsetLag = max(0, int64(h.HighWatermark())-int64(l.LogEnd()))
	}
	return info
}

// isReplaced: the replica has moved, to where it is described.
func (m *Manager) isReplaced(l *logstore.Log) bool {
	h := m.get(TopicIDPartition{l.ID().TopicID, l.ID().Partition})
	return h != nil && h.at().log != nil && h.at().log != l
}

func (m *Manager) describeFuture(l *logstore.Log) LogInfo {
	id := l.ID()
	info := LogInfo{Topic: id.Topic, Partition: id.Partition, Size: l.SizeBytes(), OffsetLag: -1, Future: true}
	if h := m.get(TopicIDPartition{id.TopicID, id.Partition}); h != nil && h.Failure() == nil {
		info.OffsetLag = int64(h.log().LogEnd()) - int64(l.LogEnd())
	}
	return info
}

// absolute is a path as Kafka names directories.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// LogEnd tells how far the log of a replica here has come, whatever its role, and the latest
// leader epoch that it knows, -1 if none; false if there is no such log, or it is offline.
func (m *Manager) LogEnd(id TopicIDPartition) (epoch int32, end offset.LogEnd, ok bool) {
	h := m.get(id)
	if h == nil || h.Failure() != nil {
		return 0, 0, false
	}
	log := h.log()
	if epoch, ok = log.LatestEpoch(); !ok {
		epoch = -1
	}
	return epoch, log.LogEnd(), true
}

// ProducerInfo is what a replica knows of one producer.
type ProducerInfo = logstore.ProducerInfo

// Producers are the producers that a replica here remembers, whether it leads or not
// (Partition.activeProducerState).
func (m *Manager) Producers(id TopicIDPartition) ([]ProducerInfo, error) {
	h, err := m.find(id)
	if err != nil {
		return nil, err
	}
	return h.Producers(time.Now())
}

// Producers are the producers that the replica remembers, by id.
func (p *Partition) Producers(now time.Time) ([]ProducerInfo, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.gone != nil {
		return nil, p.gone
	}
	producers, err := p.log().Producers(now)
	if err != nil {
		return nil, storageError(err)
	}
	return slices.Clip(producers), nil
}
