package replica

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Name is the publisher's name.
func (m *Manager) Name() string { return "replica manager" }

// OnMetadataUpdate makes this broker's replicas what next says, as a publisher of the
// metadata log; calls come one after the other. When it returns, partitions that are led
// here accept writes: the image that handlers read is swapped after it, so that nobody
// is told of a leader that is not one yet (ReplicaManager.applyDelta).
//
// A partition that cannot be made what it should be is offline and answers
// KAFKA_STORAGE_ERROR. The rest of the change is applied.
func (m *Manager) OnMetadataUpdate(delta *metadata.Delta, next *metadata.Image) {
	m.applying.Lock()
	defer m.applying.Unlock()
	now := time.Now()
	first := m.image.Load() == nil
	var found map[TopicIDPartition]*hosted
	if first {
		found = m.openDirectories(now, next)
		defer m.forgetStart()
	}
	m.image.Store(next)
	if first {
		delta = metadata.Between(metadata.Empty(), next)
	}
	m.applySupplanter(now, next)
	m.applyDeletions(now, delta)
	m.applyConfigs(now, delta)
	m.applyTopics(now, delta, found)
	m.wakeLate()
	m.fetchers.settle()
	if first {
		m.resumeMoves(now)
		m.tellLost()
		m.startCleaner()
	}
	m.isr.set(m.leadsFollowers())
}

// applySupplanter notes when another process has become this broker, and when that is over:
// all replicas then change their roles.
func (m *Manager) applySupplanter(now time.Time, next *metadata.Image) {
	supplanted := m.isSupplanted(next)
	if supplanted == m.supplanted {
		return
	}
	m.supplanted = supplanted
	if supplanted {
		m.opts.Logger.Error("another process is registered as this broker: nothing is led here", "broker", m.opts.BrokerID)
	}
	for _, h := range m.all() {
		if p := next.Partition(h.ID().TopicID, h.ID().Partition); p != nil {
			m.assume(now, h, p)
		}
	}
}

// isSupplanted tells whether metadata shows a later registration than that of this process, by
// another one. The leaderships of this broker are then the other one's: its log may be
// another, and two logs must not carry one leader epoch. This process was paused, or cut off,
// or is one of two with one id; if it is registered again, metadata shows it.
func (m *Manager) isSupplanted(image *metadata.Image) bool {
	b := image.Broker(m.opts.BrokerID)
	if b == nil || m.opts.Incarnation == uuid.Zero || m.opts.Following.BrokerEpoch == nil {
		return false
	}
	own := m.opts.Following.BrokerEpoch() // -1 before the registration
	return own >= 0 && b.Epoch > own && b.IncarnationID != m.opts.Incarnation
}

// applyDeletions ends the replicas of deleted topics and of partitions that moved away.
// They go first: a topic may have been created anew under the same name, and wants the
// name of the directory.
func (m *Manager) applyDeletions(now time.Time, delta *metadata.Delta) {
	byDir := make(map[*directory][]*logstore.Log)
	failed := make(map[*directory][]logstore.ID)
	var moved []*hosted
	for topic := range delta.Topics() {
		for change := range topic.Partitions() {
			if placed, _ := m.placement(change.New); placed {
				continue
			}
			h := m.remove(TopicIDPartition{topic.ID, change.Index})
			if h == nil {
				continue
			}
			m.fetchers.leave(h.ID())
			m.carryOut(h, h.Retire(goneBecause(topic)))
			m.moves.end(now, h)
			m.dropCopies(now, h.ID())
			if at := h.at(); at.log != nil {
				byDir[at.dir] = append(byDir[at.dir], at.log)
				moved = append(moved, h)
			}
			for _, d := range m.dirs { // also where it was before, and is missing
				if d.offline() == nil {
					failed[d] = append(failed[d], h.logID())
				}
			}
		}
	}
	for dir, logs := range byDir {
		if err := dir.DeleteLogs(now, logs...); err != nil {
			m.opts.Logger.Error("logs were not deleted", "dir", dir.Path(), "count", len(logs), "err", err)
		}
	}
	for dir, ids := range failed {
		if err := dir.DeleteFailed(now, ids...); err != nil {
			m.opts.Logger.Error("failed logs were not deleted", "dir", dir.Path(), "count", len(ids), "err", err)
		}
	}
	for _, h := range moved {
		h.forgetLeft(h.takeLeft())
	}
}

// goneBecause is what those get who wait for a replica that is no longer here. A fetch by
// id that waits while its topic is deleted gets this too, and UNKNOWN_TOPIC_ID only when
// it asks again, as seen on Kafka 4.4.
func goneBecause(topic metadata.TopicChange) error {
	if topic.Deleted() {
		return kafkaerr.UnknownTopicOrPartition
	}
	return kafkaerr.NotLeaderOrFollower
}

func (m *Manager) remove(id TopicIDPartition) *hosted {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.partitions[id]
	delete(m.partitions, id)
	delete(m.leading, id)
	return h
}

// applyTopics creates replicas that are new here, and makes each changed one leader or
// follower.
func (m *Manager) applyTopics(now time.Time, delta *metadata.Delta, found map[TopicIDPartition]*hosted) {
	for topic := range delta.Topics() {
		config := sync.OnceValue(func() TopicConfig { return m.topicConfig(delta.Next(), topic.Name()) })
		for change := range topic.Partitions() {
			if placed, _ := m.placement(change.New); !placed {
				continue
			}
			id := TopicIDPartition{topic.ID, change.Index}
			if h := m.get(id); h != nil {
				m.assume(now, h, change.New)
				m.settlePlace(h, change.New)
			} else {
				m.begin(now, id, topic.Name(), change.New, config(), found[id])
			}
			if h := m.get(id); h.Failure() != nil && m.repairable(h, change.New) {
				m.repair(now, h, change.New, config())
			}
		}
	}
}

// begin makes a replica of the log that was found for it, or of a new one. Only with its
// role does it enter the map: no request meets it without one.
func (m *Manager) begin(now time.Time, id TopicIDPartition, topic string, p *metadata.Partition, c TopicConfig, h *hosted) {
	if h == nil {
		h = m.create(now, id, topic, p, c.Log)
	}
	m.host(h, id, topic, c)
	m.assume(now, h, p)
	m.put(h)
	if f := m.failed[id]; f != nil && f != h {
		h.leave(f.remains) // it was found elsewhere
	}
	m.settlePlace(h, p)
	if err := h.failure(); err != nil {
		// It came after the log was made or opened, and DirectoryFailed or LogFailed may
		// have looked for the replica before it was in the map.
		m.fail(h, err)
	}
}

// failure is that of the replica's disk or log, nil if both work.
func (h *hosted) failure() error {
	at := h.at()
	if at.log == nil {
		return nil // it is known as failed already
	}
	return cmp.Or(at.dir.Err(), at.log.Failure())
}

func (m *Manager) get(id TopicIDPartition) *hosted {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.partitions[id]
}

func (m *Manager) put(h *hosted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.partitions[h.ID()] = h
}

// create begins an empty log for a replica that this broker never had.
func (m *Manager) create(now time.Time, id TopicIDPartition, topic string, p *metadata.Partition, c logstore.Config) *hosted {
	if h := m.failed[id]; h != nil {
		return h
	}
	// What there is a copy of is in the directory that is not here. If all are, it had no records
	// yet, and with them no files, or nothing that anybody was promised to be on the disk.
	if m.hasFuture(id) && m.anyDirOffline() {
		return &hosted{failed: errNoDirectory}
	}
	dir, err := m.chooseDirectory(p)
	if wanted := m.preferences.take(topicPartition{topic, id.Partition}); wanted != nil && err == nil && wanted.offline() == nil {
		dir = wanted
	}
	if err != nil {
		return &hosted{failed: err}
	}
	name := logstore.ID{Topic: topic, TopicID: id.TopicID, Partition: id.Partition}
	log, err := dir.CreateLog(now, name, c)
	if err != nil {
		m.opts.Logger.Error("log was not created", "dir", dir.Path(), "log", name, "err", err)
		if logstore.MayPass(err) {
			m.creations.add(id)
		}
		return &hosted{failed: storageError(err)}
	}
	return hostedAt(dir, log)
}

// host makes a replica of a log, or of the lack of one.
func (m *Manager) host(h *hosted, id TopicIDPartition, topic string, c TopicConfig) {
	o := PartitionOptions{
		ID: id, Topic: topic, BrokerID: m.opts.BrokerID, Brokers: m,
		Config: c, ReplicaLagMax: m.opts.ReplicaLagMax, Failed: h.failed,
	}
	if log := h.at().log; log != nil {
		o.Log = log
	}
	h.Partition = NewPartition(o)
}

// assume makes h what metadata says.
func (m *Manager) assume(now time.Time, h *hosted, p *metadata.Partition) {
	defer m.noteFollowers(h)
	if p.Leader != m.opts.BrokerID || m.supplanted {
		m.carryOutLate(h, h.BecomeFollower(p))
		if p.Leader == metadata.NoLeader || m.supplanted || h.Failure() != nil {
			m.fetchers.leave(h.ID())
			return
		}
		m.fetchers.follow(h, p.Leader, p.LeaderEpoch)
		return
	}
	m.fetchers.leave(h.ID())
	known := h.Failure() != nil
	e, err := h.BecomeLeader(now, p)
	if err != nil {
		level := slog.LevelError
		if known { // and told
			level = slog.LevelDebug
		}
		m.opts.Logger.Log(context.Background(), level, "replica cannot lead", "topic", h.Topic(), "partition", h.ID().Partition, "err", err)
		m.fail(h, err)
		return
	}
	m.carryOutLate(h, e)
}

// applyConfigs hands changed topic configuration to the replicas of those topics that
// existed before; new ones are made with it. What changes on brokers may be a default of
// every topic; Options.TopicConfig knows it already.
//
// It comes before a smaller ISR is taken over: the controller has judged by the new
// min.insync.replicas who is an eligible leader replica. With the new ISR and the old number
// the high watermark could pass what that one has, and what was acknowledged would be lost
// with the leader.
func (m *Manager) applyConfigs(now time.Time, delta *metadata.Delta) {
	changed := map[string]bool{}
	for change := range delta.Configs() {
		switch change.Type {
		case metadata.TopicResource:
			changed[change.Name] = true
		case metadata.BrokerResource:
			for topic := range delta.Next().Topics() {
				changed[topic.Name] = true
			}
		default: // nothing that a log reads
		}
	}
	for name := range changed {
		if topic := delta.Next().Topic(name); topic != nil && delta.Base().TopicByID(topic.ID) != nil {
			m.applyConfig(now, topic, m.topicConfig(delta.Next(), name))
		}
	}
}

func (m *Manager) applyConfig(now time.Time, topic *metadata.Topic, config TopicConfig) {
	for _, p := range topic.Partitions {
		if h, err := m.find(TopicIDPartition{topic.ID, p.Index}); err == nil {
			throttled := h.followsThrottled()
			m.carryOut(h, h.UpdateConfig(now, config))
			if h.followsThrottled() != throttled {
				m.fetchers.rehome(h)
			}
		}
	}
}

// topicConfig is the typed configuration of a topic. The controller has checked what is
// in metadata, so an error here is a defect; the topic then runs on the broker's defaults
// rather than not at all.
func (m *Manager) topicConfig(image *metadata.Image, topic string) TopicConfig {
	overrides := image.Config(metadata.Resource{Type: metadata.TopicResource, Name: topic})
	c, err := m.opts.TopicConfig(overrides)
	if err == nil {
		return c
	}
	m.opts.Logger.Error("topic configuration is not understood, defaults are used", "topic", topic, "err", err)
	if c, err = m.opts.TopicConfig(nil); err != nil {
		return TopicConfig{Log: logstore.DefaultConfig(), MinInSyncCount: 1}
	}
	return c
}
