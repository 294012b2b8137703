package replica

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// ReplicaDir asks for a replica to be in a log directory of this broker, and carries the
// answer.
type ReplicaDir struct {
	Topic     string
	Partition int32
	Dir       string // absolute path
	Err       error  // nil, or wraps the kind to answer
}

// AlterReplicaLogDirs begins to move replicas to other directories, ends the move of those
// that are where they should be, and remembers the wish for those that are not here yet
// (ReplicaManager.alterReplicaLogDirs). Nothing is awaited; DescribeLogDirs shows how far it
// is.
func (m *Manager) AlterReplicaLogDirs(wanted []ReplicaDir) {
	m.applying.Lock()
	defer m.applying.Unlock()
	now := time.Now()
	for i := range wanted {
		w := &wanted[i]
		if w.Err = m.alterLogDir(now, w); w.Err != nil {
			m.opts.Logger.Warn("replica is not moved", "topic", w.Topic, "partition", w.Partition, "dir", w.Dir, "err", w.Err)
		}
	}
}

// alterLogDir checks in the order of Kafka.
func (m *Manager) alterLogDir(now time.Time, w *ReplicaDir) error {
	if !logstore.HasFutureName(w.Topic, w.Partition) {
		return kafkaerr.New(kafkaerr.InvalidTopic, "the name of the topic is too long for a directory beside the partition's")
	}
	to, err := m.directoryAt(w.Dir)
	if err != nil {
		return err
	}
	h, unhosted := m.byName(w.Topic, w.Partition)
	if h == nil {
		m.preferences.set(topicPartition{w.Topic, w.Partition}, to)
		return unhosted
	}
	if err := h.Failure(); err != nil {
		return storageError(err)
	}
	if x := m.moves.of(h.ID()); x != nil && x.to != to {
		m.moves.end(now, h)
	} else if x != nil {
		return nil // on its way
	}
	if m.moves.of(h.ID()) != nil {
		return kafkaerr.New(kafkaerr.KafkaStorageError, "the log directory hangs that the replica is about to leave")
	}
	switch {
	case h.at().dir == to:
		return nil
	case m.anyDirOffline():
		return kafkaerr.New(kafkaerr.KafkaStorageError, "another log directory is offline, and may have a copy of the replica")
	}
	if err := m.moves.begin(now, h, to); err != nil {
		return storageError(err)
	}
	return nil
}

// directoryAt is the directory of a path, as it is configured.
func (m *Manager) directoryAt(path string) (*directory, error) {
	i := slices.IndexFunc(m.dirs, func(d *directory) bool { return absolute(d.Path()) == path })
	switch {
	case i < 0 && slices.ContainsFunc(m.opts.DirsMissing, func(p string) bool { return absolute(p) == path }):
		return nil, errDirOffline
	case i < 0:
		return nil, kafkaerr.New(kafkaerr.LogDirNotFound, fmt.Sprintf("%q is no log directory of this broker", path))
	case m.dirs[i].offline() != nil:
		return nil, errDirOffline
	}
	return m.dirs[i], nil
}

// byName finds a replica here, or says why there is none: its topic is on other brokers, or
// unknown.
func (m *Manager) byName(topic string, partition int32) (*hosted, error) {
	image := m.image.Load()
	if image == nil {
		return nil, kafkaerr.UnknownTopicOrPartition
	}
	t := image.Topic(topic)
	if t == nil {
		return nil, kafkaerr.UnknownTopicOrPartition
	}
	h, err := m.find(TopicIDPartition{t.ID, partition})
	if errors.Is(err, kafkaerr.NotLeaderOrFollower) {
		return nil, kafkaerr.ReplicaNotAvailable // for old clients, as in Kafka
	}
	return h, err
}

// topicPartition names a partition that may not exist yet.
type topicPartition struct {
	topic     string
	partition int32
}

// maxPreferences bounds the wishes for replicas that are not here yet: any client may have
// some.
const maxPreferences = 10_000

// preferences are directories that are wanted for replicas when they come to be.
type preferences map[topicPartition]*directory

func (p preferences) set(of topicPartition, dir *directory) {
	if len(p) < maxPreferences || p[of] != nil {
		p[of] = dir
	}
}

// take gives the wish and forgets it.
func (p preferences) take(of topicPartition) *directory {
	dir := p[of]
	delete(p, of)
	return dir
}

// moved tells the controller where a replica is, and remembers who is to forget it when
// metadata says so.
//
// It is not told of one that has failed meanwhile: that serves again after a restart only,
// and what metadata says keeps others from counting on it until then.
func (m *Manager) moved(h *hosted, from, to *directory) {
	h.leave(from)
	if h.Failure() != nil {
		return
	}
	m.opts.AssignDirectory(h.ID(), to.DirectoryID())
}

// settlePlace compares the place of a replica with what metadata says. If they agree, the
// directories where it has been may forget it; else the controller is to be told.
func (m *Manager) settlePlace(h *hosted, p *metadata.Partition) {
	at := h.at()
	if at.dir == nil || h.Failure() != nil {
		return
	}
	if _, assigned := m.placement(p); assigned != at.dir.DirectoryID() {
		m.opts.AssignDirectory(h.ID(), at.dir.DirectoryID())
		return
	}
	h.forgetLeft(h.takeLeft())
}

// forgetLeft ends what directories remember where the replica has been; those that cannot, later.
func (h *hosted) forgetLeft(left []*directory) {
	for _, d := range left {
		if d == h.at().dir {
			continue
		}
		if err := d.ForgetMoved(h.logID()); err != nil {
			h.leave(d)
			d.warn("directory does not forget a replica that has left", h, err)
		}
	}
}

// leave notes a directory where the replica has been.
func (h *hosted) leave(d *directory) {
	h.leftMu.Lock()
	defer h.leftMu.Unlock()
	h.left = append(h.left, d)
}

func (h *hosted) takeLeft() []*directory {
	h.leftMu.Lock()
	defer h.leftMu.Unlock()
	left := h.left
	h.left = nil
	return left
}

// resumeMoves goes on with the moves that an earlier run has begun. Of a partition that is
// not here any more, or is in the directory already, the copy is thrown away; of one that
// cannot be used it is kept.
func (m *Manager) resumeMoves(now time.Time) {
	for _, f := range m.futures {
		h := m.get(TopicIDPartition{f.log.ID().TopicID, f.log.ID().Partition})
		var err error
		switch {
		case h != nil && h.at().log == nil:
			m.opts.Logger.Warn("replica is offline, there is an unfinished copy of it", "log", f.log.Path())
			continue
		case h == nil, h.at().dir == f.dir, m.moves.of(h.ID()) != nil:
			err = f.dir.DeleteLogs(now, f.log)
		default:
			err = m.moves.begin(now, h, f.dir)
		}
		if err != nil {
			m.opts.Logger.Error("unfinished copy of a replica cannot be used", "log", f.log.Path(), "err", err)
		}
	}
	m.futures = nil
}

// dropCopies throws away the copies of a replica that nobody makes: those that were kept
// because what they are copies of could not be used.
func (m *Manager) dropCopies(now time.Time, id TopicIDPartition) {
	of := func(l *logstore.Log) bool { return l.ID().TopicID == id.TopicID && l.ID().Partition == id.Partition }
	m.futures = slices.DeleteFunc(m.futures, func(f place) bool { return of(f.log) })
	for _, d := range m.dirs {
		for _, l := range d.Futures() {
			if !of(l) {
				continue
			}
			if err := d.DeleteLogs(now, l); err != nil {
				m.opts.Logger.Error("unfinished copy of a replica was not removed", "log", l.Path(), "err", err)
			}
		}
	}
}

// hasFuture tells that start has found an unfinished copy of a replica: it is not to be
// begun anew.
func (m *Manager) hasFuture(id TopicIDPartition) bool {
	return slices.ContainsFunc(m.futures, func(f place) bool {
		return f.log.ID().TopicID == id.TopicID && f.log.ID().Partition == id.Partition
	})
}
