package replica

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/purgatory"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Manager drives the replicas of this broker: it makes and ends them as metadata says,
// routes requests to them, carries out their effects and parks what has to wait.
// Kafka's ReplicaManager. All methods are safe for concurrent use.
type Manager struct {
	opts     Options
	dirs     []*directory
	produces *purgatory.Purgatory[waitKey]
	fetches  *purgatory.Purgatory[waitKey]
	news     highWatermarkNews
	deletes  *purgatory.Purgatory[waitKey] // of records
	isr      isrTimer
	fetchers fetchers
	cleaner  *logstore.Cleaner // nil: none
	metrics  metrics
	traffic  traffic

	// applying is held while metadata is applied, or what that could not do is tried again.
	applying  sync.Mutex
	late      []waitKey // guarded by applying, see carryOutLate
	creations creations
	moves     moves
	// preferences are guarded by applying.
	preferences preferences

	// image is the newest metadata this manager has been given; nil before the first.
	image atomic.Pointer[metadata.Image]
	// supplanted, guarded by applying, tells that metadata speaks of another process as this
	// broker: see isSupplanted.
	supplanted bool
	// Guarded by applying: whether the first metadata after start is applied, which replicas
	// start found unusable, and which lead others now.
	starting bool
	failed   map[TopicIDPartition]*hosted
	leading  map[TopicIDPartition]*hosted // see noteFollowers
	futures  []place                      // copies in the making, as found at start

	mu         sync.RWMutex
	partitions map[TopicIDPartition]*hosted
}

// Options configure a Manager. BrokerID, Dirs and TopicConfig are required.
type Options struct {
	BrokerID int32
	// Incarnation names this process in metadata; zero: nobody else can be this broker.
	Incarnation uuid.UUID
	// Dirs are the log directories that could be opened. Their logs are opened when the
	// first metadata is there, and they are closed by Close.
	Dirs []*logstore.Dir
	// DirsMissing are others that are configured but could not be opened.
	DirsMissing []string
	// TopicConfig makes typed configuration of what a topic overrides.
	TopicConfig func(overrides map[string]string) (TopicConfig, error)
	// AlterPartition sends changes of the ISR to the controller. Nil: none are sent, so
	// an ISR never changes but by the controller's own decision.
	AlterPartition AlterPartitionSender
	// AssignDirectory tells the controller, sooner or later, that a replica is in another
	// directory than metadata says. It must not block. Nil: it is not told.
	AssignDirectory func(id TopicIDPartition, dir uuid.UUID)
	// MoveThreads is num.replica.alter.log.dirs.threads: how many replicas are moved between
	// directories at a time; as many as there are directories.
	MoveThreads func() int
	// MoveBytesPerSecond is replica.alter.log.dirs.io.max.bytes.per.second; 0 or less is no
	// limit.
	MoveBytesPerSecond func() int64

	// LeaderThrottle and FollowerThrottle measure what is sent and fetched of throttled
	// replicas. Nil: nothing is measured, and nobody held back.
	LeaderThrottle, FollowerThrottle Throttle

	// Following is how replicas are fetched that others lead.
	Following Following

	ReplicaLagMax time.Duration // replica.lag.time.max.ms, 30 s
	// RecoveryThreads is num.recovery.threads.per.data.dir, asked when logs are opened; 2.
	RecoveryThreads func() int
	// Progress hears how many logs are open while the first metadata is applied.
	Progress func(done, total int)
	// Keeper sets the intervals of what runs by the clock; callbacks in it are replaced.
	Keeper logstore.KeeperOptions
	// Cleaner is what the log cleaner goes by at first (see SetCleaner). Nil: no log is cleaned.
	Cleaner *logstore.CleanerSettings
	// OnAllDirsOffline is called once, when the last directory has failed: the broker
	// cannot do anything useful any more.
	OnAllDirsOffline func(err error)

	// OnReplicaRepaired is called when a replica that DamagedReplicas has reported, or
	// LogFailed, is begun anew.
	OnReplicaRepaired func(TopicIDPartition)

	// MaxParkedProduces and MaxParkedFetches bound what waits; 0: purgatory's default.
	MaxParkedProduces, MaxParkedFetches int

	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// AlterPartitionSender is the way to the controller for changes of an ISR.
type AlterPartitionSender interface {
	// AlterPartition sends change, with a pause if the last one failed, and calls done
	// once with the answer, from any goroutine and without locks.
	AlterPartition(change *ISRChange, done func(ISRResult))
}

// waitKey is what operations in a purgatory watch: a partition, and whether they wait for
// its log end (followers' fetches) or for its high watermark and flushes (the rest).
type waitKey struct {
	TopicIDPartition
	logEnd bool
}

// hosted is a replica with the place of its log.
type hosted struct {
	*Partition
	// where is nil for a replica that has been unusable from the start, for the reason in
	// failed. Its files, if there are any, are in remains; missing says that there are none.
	where   atomic.Pointer[place]
	failed  error
	remains *directory
	missing bool

	// left are directories where the replica has been, and which remember it for as long
	// as metadata may name them.
	leftMu sync.Mutex
	left   []*directory

	watchers watchers
}

// place is a log and the directory that it is in.
type place struct {
	dir *directory
	log *logstore.Log
}

func hostedAt(dir *directory, log *logstore.Log) *hosted {
	h := &hosted{}
	h.where.Store(&place{dir, log})
	return h
}

// at is where the replica is, a place of nothing if it has been unusable from the start.
func (h *hosted) at() place {
	if p := h.where.Load(); p != nil {
		return *p
	}
	return place{}
}

// NewManager makes a manager without partitions; OnMetadataUpdate brings them.
func NewManager(o Options) *Manager {
	setDefaults(&o)
	m := &Manager{
		opts:       o,
		partitions: make(map[TopicIDPartition]*hosted), preferences: preferences{},
		leading: make(map[TopicIDPartition]*hosted),
		produces: purgatory.New[waitKey](purgatory.Options{
			Name: "Produce", MaxOperations: o.MaxParkedProduces, Registerer: o.Registerer,
		}),
		fetches: purgatory.New[waitKey](purgatory.Options{
			Name: "Fetch", MaxOperations: o.MaxParkedFetches, Registerer: o.Registerer,
		}),
		deletes: purgatory.New[waitKey](purgatory.Options{Name: "DeleteRecords", Registerer: o.Registerer}),
	}
	for _, d := range o.Dirs {
		m.dirs = append(m.dirs, &directory{Dir: d, logger: o.Logger})
	}
	m.news.end = func(d *delayedFetch) { m.fetches.Cancel(&d.item) }
	m.moves.init(m)
	m.isr.init(o.ReplicaLagMax/2, m.tickAll)
	m.creations.init(m.createAgain)
	m.fetchers.init(m)
	m.initCleaner()
	m.metrics.register(o.Registerer, m)
	return m
}

func setDefaults(o *Options) {
	if o.ReplicaLagMax <= 0 {
		o.ReplicaLagMax = 30 * time.Second
	}
	if o.RecoveryThreads == nil {
		o.RecoveryThreads = func() int { return 2 }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.OnReplicaRepaired == nil {
		o.OnReplicaRepaired = func(TopicIDPartition) {}
	}
	o.Following.setDefaults()
	if o.LeaderThrottle == nil {
		o.LeaderThrottle = noThrottle{}
	}
	if o.FollowerThrottle == nil {
		o.FollowerThrottle = noThrottle{}
	}
	if o.OnAllDirsOffline == nil {
		o.OnAllDirsOffline = func(error) {}
	}
	if o.AssignDirectory == nil {
		o.AssignDirectory = func(TopicIDPartition, uuid.UUID) {}
	}
	if dirs := len(o.Dirs); o.MoveThreads == nil {
		o.MoveThreads = func() int { return dirs }
	}
	if o.MoveBytesPerSecond == nil {
		o.MoveBytesPerSecond = func() int64 { return 0 }
	}
}

// find gives the replica of a partition, or says why there is none
// (ReplicaManager.getPartitionOrError).
func (m *Manager) find(id TopicIDPartition) (*hosted, error) {
	m.mu.RLock()
	h := m.partitions[id]
	m.mu.RUnlock()
	if h != nil {
		return h, nil
	}
	if m.inMetadata(id) != nil {
		// The topic exists, so the partition is on other brokers: whoever asks has old
		// metadata and should fetch new.
		return nil, kafkaerr.NotLeaderOrFollower
	}
	return nil, kafkaerr.UnknownTopicOrPartition
}

func (m *Manager) inMetadata(id TopicIDPartition) *metadata.Partition {
	image := m.image.Load()
	if image == nil {
		return nil
	}
	return image.Partition(id.TopicID, id.Partition)
}

// leaderInMetadata is the leader of a partition that is not hosted here.
func (m *Manager) leaderInMetadata(id TopicIDPartition) Leader {
	p := m.inMetadata(id)
	if p == nil {
		return noLeader
	}
	return Leader{ID: p.Leader, Epoch: p.LeaderEpoch}
}

// BrokerEpoch implements Brokers with the newest metadata.
func (m *Manager) BrokerEpoch(id int32) (epoch int64, eligible bool) {
	image := m.image.Load()
	if image == nil {
		return -1, false
	}
	b := image.Broker(id)
	if b == nil || b.Fenced {
		return -1, false
	}
	return b.Epoch, !b.InControlledShutdown
}

// HasOnlineDir implements Brokers with the newest metadata.
func (m *Manager) HasOnlineDir(id int32, dir uuid.UUID) bool {
	image := m.image.Load()
	if image == nil {
		return false
	}
	b := image.Broker(id)
	return b != nil && b.HasOnlineDir(dir)
}

// carryOut does what a change of h asks for, except waking the committer: an append to
// several partitions does that once, at its end. Called without locks.
func (m *Manager) carryOut(h *hosted, e Effects) {
	key := waitKey{TopicIDPartition: h.ID()}
	if e.Wake {
		m.produces.CheckAndComplete(key)
		m.fetches.CheckAndComplete(key)
		m.deletes.CheckAndComplete(key)
		h.watchers.notify()
	}
	if e.WakeFetcher {
		key.logEnd = true
		m.fetches.CheckAndComplete(key)
	}
	if e.AlterPartition != nil {
		m.alterPartition(h, e.AlterPartition)
	}
}

// carryOutLate is carryOut for one of many changes that metadata brings: fetches look when all
// are made (wakeLate), since each looks at all that it asks for, and one may ask for
// thousands of partitions that have all changed. Caller holds applying.
func (m *Manager) carryOutLate(h *hosted, e Effects) {
	key := waitKey{TopicIDPartition: h.ID()}
	if e.Wake {
		m.late = append(m.late, key)
		m.produces.CheckAndComplete(key)
		m.deletes.CheckAndComplete(key)
		h.watchers.notify()
	}
	if e.WakeFetcher {
		key.logEnd = true
		m.late = append(m.late, key)
	}
	m.carryOut(h, Effects{AlterPartition: e.AlterPartition})
}

// wakeLate has the fetches look that carryOutLate has left.
func (m *Manager) wakeLate() {
	m.fetches.CheckAndCompleteAll(m.late)
	m.late = nil
}

// alterPartition proposes a change of the ISR; the answer comes on another goroutine.
func (m *Manager) alterPartition(h *hosted, change *ISRChange) {
	if m.opts.AlterPartition == nil {
		return
	}
	m.opts.AlterPartition.AlterPartition(change, func(r ISRResult) {
		m.metrics.alteredISR(change, r.Err)
		e, retry := h.AlterPartitionDone(time.Now(), change, r)
		if retry {
			m.alterPartition(h, change)
		}
		m.carryOut(h, e)
	})
}

// onFlushed hears from a directory's committer which logs have a new flushed end.
func (m *Manager) onFlushed(flushed []logstore.FlushedLog) {
	now := time.Now()
	var of *directory
	for _, f := range flushed {
		if h := m.ofLog(f.Log); h != nil {
			of = h.at().dir // all are in one
			m.carryOut(h, h.FlushDone(now))
		}
	}
	if of != nil {
		m.fetchers.flushed(of)
	}
}

// onDeleted hears from a directory's keeper that retention has moved a log start.
func (m *Manager) onDeleted(l *logstore.Log, _ []logstore.DeletedSegment) {
	if h := m.ofLog(l); h != nil {
		h.LogStartMoved()
	}
}

// highWatermarkOf tells a directory's keeper what to checkpoint.
func (m *Manager) highWatermarkOf(l *logstore.Log) (offset.HighWatermark, bool) {
	h := m.ofLog(l)
	if h == nil {
		return 0, false
	}
	return h.HighWatermark(), true
}

// ofLog is the replica that has l, nil if it has been deleted.
func (m *Manager) ofLog(l *logstore.Log) *hosted {
	id := l.ID()
	m.mu.RLock()
	defer m.mu.RUnlock()
	if h := m.partitions[TopicIDPartition{id.TopicID, id.Partition}]; h != nil && h.at().log == l {
		return h
	}
	return nil
}

// all is every replica here.
func (m *Manager) all() []*hosted {
	m.mu.RLock()
	defer m.mu.RUnlock()
	hs := make([]*hosted, 0, len(m.partitions))
	for _, h := range m.partitions {
		hs = append(hs, h)
	}
	return hs
}
