package coordinator

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Runtime drives the shards of one internal topic that this broker leads. All methods are
// safe for concurrent use.
type Runtime[S Shard] struct {
	opts    Options[S]
	metrics *metrics
	loading chan struct{} // as many tokens as shards may load at a time
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup // goroutines of shards

	// applying is held while metadata is taken in.
	applying sync.Mutex
	topic    *metadata.Topic // as of the last metadata
	mine     bool            // whether that has this incarnation registered

	image atomic.Pointer[metadata.Image]

	mu     sync.RWMutex
	shards map[int32]*host[S]
	closed bool
}

// Options configure a Runtime. Name, Topic, Log and NewShard are required.
type Options[S Shard] struct {
	Name  string // of the coordinator, for logs and metrics: group, transaction, share
	Topic string // __consumer_offsets

	// BrokerID and Incarnation say who this broker is. A partition is led here only when
	// metadata has this incarnation registered: until then what it says of leaders was
	// decided for the process before this one, whose epoch must not be written in.
	BrokerID    int32
	Incarnation uuid.UUID

	Log      Log
	NewShard func(partition int32) S

	// WriteTimeout bounds how long an answer waits for its commit (offsets.commit.timeout.ms).
	WriteTimeout time.Duration
	// AppendLinger is how long a batch is filled; negative means until there is nothing to
	// do (group.coordinator.append.linger.ms).
	AppendLinger time.Duration
	Codec        batch.Codec // of the batches (offsets.topic.compression.codec)
	Codecs       *batch.Codecs
	// CachedBufferBytes bounds the buffer that a shard keeps from batch to batch
	// (group.coordinator.cached.buffer.max.bytes); 0 means 1 MiB.
	CachedBufferBytes int
	// LoadThreads is how many shards load at a time; 0 means 4.
	LoadThreads int
	// MaxQueued bounds the operations that wait in the queue of a shard, MaxUncommitted
	// the records and operations of a shard that wait for the high watermark; 0 means the
	// defaults. More are answered COORDINATOR_NOT_AVAILABLE.
	MaxQueued, MaxUncommitted int

	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Defaults of Options. A queued operation holds a request, of which each connection has
// one under way.
const (
	defaultMaxQueued         = 10_000
	defaultMaxUncommitted    = 200_000
	defaultLoadThreads       = 4
	defaultWriteTimeout      = 5 * time.Second
	defaultCachedBufferBytes = 1 << 20
)

// New makes a runtime without shards; OnMetadataUpdate brings them.
func New[S Shard](o Options[S]) *Runtime[S] {
	setDefault(&o.MaxQueued, defaultMaxQueued)
	setDefault(&o.MaxUncommitted, defaultMaxUncommitted)
	setDefault(&o.LoadThreads, defaultLoadThreads)
	setDefault(&o.WriteTimeout, defaultWriteTimeout)
	setDefault(&o.CachedBufferBytes, defaultCachedBufferBytes)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = o.Logger.With("coordinator", o.Name)
	r := &Runtime[S]{opts: o, loading: make(chan struct{}, o.LoadThreads), shards: make(map[int32]*host[S])}
	r.metrics = newMetrics(o.Registerer, o.Name, r.countState, r.countQueued)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

func setDefault[T int | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}

// Write runs op on a shard and carries out its effects. Either op is called, on the
// shard's goroutine, or failed, possibly before Write returns:
//
//	NOT_COORDINATOR               the partition is not led here, or could not be loaded
//	COORDINATOR_LOAD_IN_PROGRESS  it is being loaded
//	COORDINATOR_NOT_AVAILABLE     too many operations wait already
func (r *Runtime[S]) Write(shard int32, op func(now time.Time, s S) Effects, failed func(error)) {
	r.schedule(shard, event[S]{write: op, failed: failed})
}

// Read runs op on a shard, as Write does. It sees the shard as it is when its turn comes,
// and should look at committed state only.
func (r *Runtime[S]) Read(shard int32, op func(s S), failed func(error)) {
	r.schedule(shard, event[S]{read: op, failed: failed})
}

// ReadAll runs op on every shard that is led here, each on its own goroutine. For each
// either op or failed is called. It returns for how many shards that is, and may do so
// after they have been called.
func (r *Runtime[S]) ReadAll(op func(partition int32, s S), failed func(partition int32, err error)) int {
	hosts := r.all()
	for _, h := range hosts {
		i := h.partition.Index
		e := event[S]{read: func(s S) { op(i, s) }, failed: func(err error) { failed(i, err) }}
		if err := h.enqueue(e); err != nil {
			e.failed(err)
		}
	}
	return len(hosts)
}

// Active lists the partitions whose shards are loaded here.
func (r *Runtime[S]) Active() (partitions []int32) {
	for _, h := range r.all() {
		if h.currentState() == stateActive {
			partitions = append(partitions, h.partition.Index)
		}
	}
	return partitions
}

func (r *Runtime[S]) schedule(shard int32, e event[S]) {
	r.mu.RLock()
	h := r.shards[shard]
	r.mu.RUnlock()
	if h == nil {
		e.failed(kafkaerr.NotCoordinator)
		return
	}
	if err := h.enqueue(e); err != nil {
		e.failed(err)
	}
}

// Close unloads every shard: what waits is answered NOT_COORDINATOR. Metadata is ignored
// afterwards.
func (r *Runtime[S]) Close() {
	r.mu.Lock()
	r.closed = true
	hosts := r.shards
	r.shards = make(map[int32]*host[S])
	r.mu.Unlock()
	for _, h := range hosts {
		h.stop()
	}
	r.cancel()
	r.running.Wait()
}

func (r *Runtime[S]) all() []*host[S] {
	r.mu.RLock()
	defer r.mu.RUnlock()
	hosts := make([]*host[S], 0, len(r.shards))
	for _, h := range r.shards {
		hosts = append(hosts, h)
	}
	return hosts
}

func (r *Runtime[S]) countState(s state) (n int) {
	for _, h := range r.all() {
		if h.currentState() == s {
			n++
		}
	}
	return n
}

func (r *Runtime[S]) countQueued() (n int) {
	for _, h := range r.all() {
		n += h.queued()
	}
	return n
}
