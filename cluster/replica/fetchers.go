package replica

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Leaders are the ways to other brokers.
type Leaders interface {
	// Leader opens the way to a broker, whose address is that of the newest metadata at
	// each request.
	Leader(broker int32) LeaderClient
}

// LeaderClient sends requests to one broker over one connection. *peer.Client is one.
type LeaderClient interface {
	// Request returns the answer, of the request's version; it is the caller's, with all
	// that it refers to, until the next Request.
	Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
	// Close ends the connection and what waits for it.
	Close()
}

// Following configures how replicas are fetched from their leaders.
type Following struct {
	// Leaders are the ways to other brokers. Nil: nothing is fetched.
	Leaders Leaders
	// BrokerEpoch is that of this broker's registration.
	BrokerEpoch func() int64
	// Fetchers is num.replica.fetchers, asked for each replica; nil: 1.
	Fetchers func() int

	PartitionMaxBytes int32         // replica.fetch.max.bytes; 1 MiB
	MaxBytes          int32         // replica.fetch.response.max.bytes; 10 MiB
	MinBytes          int32         // replica.fetch.min.bytes; 1
	MaxWait           time.Duration // replica.fetch.wait.max.ms; 500 ms
	Backoff           time.Duration // replica.fetch.backoff.ms; 1 s
}

func (o *Following) setDefaults() {
	if o.Fetchers == nil {
		o.Fetchers = func() int { return 1 }
	}
	if o.PartitionMaxBytes <= 0 {
		o.PartitionMaxBytes = 1 << 20
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 10 << 20
	}
	o.MinBytes = max(o.MinBytes, 1) // with none, a fetch would never wait
	if o.MaxWait <= 0 {
		o.MaxWait = 500 * time.Millisecond
	}
	if o.Backoff <= 0 {
		o.Backoff = time.Second
	}
}

// fetchers drive the Fetchers of this broker: one goroutine and one connection for each
// leader, local log directory, number below num.replica.fetchers, and whether its replicas
// are throttled, while there are replicas for it (Kafka's ReplicaFetcherManager).
//
//	metadata loader                     goroutine of a fetcher
//	follow, leave ──► changes ──────►  apply; Next; request; Answered; effects
//	committer's round ──► wake ─────►
//
// The loader never waits for a fetcher: it leaves a note.
type fetchers struct {
	m *Manager

	mu      sync.Mutex
	stopped bool
	running map[fetcherKey]*fetcher
	at      map[TopicIDPartition]*fetcher
	wg      sync.WaitGroup // Add only under mu and before stopped
}

type fetcherKey struct {
	leader int32
	dir    *directory
	number int
	// throttled replicas are apart: what is let in at a certain rate comes in pieces, behind
	// which acknowledgements of others would wait.
	throttled bool
}

// fetcher is one Fetcher with its goroutine.
type fetcher struct {
	key    fetcherKey
	core   *Fetcher // the goroutine's
	cancel context.CancelFunc
	wake   chan struct{} // room for one
	// awaitsFlush is set while the fetcher waits for a group commit of its directory.
	awaitsFlush atomic.Bool

	// Guarded by fetchers.mu.
	changes   map[TopicIDPartition]followChange
	replicas  int                     // that are here when changes have been applied
	urgent    bool                    // changes that should not wait for an answer
	requests  uint64                  // sent so far
	interrupt context.CancelCauseFunc // of the request under way; nil: there is none
}

// patience is how long changes wait for the answer to the request that is under way. Under
// load it comes before that. A fetch that waits for records is given up: a new leader may
// need its followers for what it is about to acknowledge.
const patience = 10 * time.Millisecond

// errInterrupted ends a request for the sake of changes, errNotSent before it is sent.
var (
	errInterrupted = errors.New("there are other replicas to fetch")
	errNotSent     = errors.New("changes came before the request was sent")
)

// followChange is what the loader wants: to follow in an epoch, or with a nil partition to
// leave.
type followChange struct {
	p     *Partition
	epoch int32
}

func (fs *fetchers) init(m *Manager) {
	fs.m = m
	fs.running, fs.at = make(map[fetcherKey]*fetcher), make(map[TopicIDPartition]*fetcher)
}

// follow has h fetched from its leader from now on.
func (fs *fetchers) follow(h *hosted, leader int32, epoch int32) {
	o := &fs.m.opts.Following
	dir := h.at().dir
	if o.Leaders == nil || dir == nil {
		return
	}
	key := fetcherKey{leader, dir, fetcherNumber(h.ID(), o.Fetchers()), h.followsThrottled()}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if old := fs.at[h.ID()]; old != nil && old.key != key {
		fs.leaveLocked(h.ID())
	}
	f := fs.running[key]
	if f == nil {
		if f = fs.start(key); f == nil {
			return
		}
	}
	if fs.at[h.ID()] == nil {
		f.replicas++
	}
	fs.at[h.ID()] = f
	f.changes[h.ID()] = followChange{h.Partition, epoch}
	f.urgent = true
	f.wakeUp()
}

// settle ends a series of changes.
func (fs *fetchers) settle() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.running {
		if f.urgent && f.interrupt != nil {
			request := f.requests
			time.AfterFunc(patience, func() { fs.interrupt(f, request) })
		}
		f.urgent = false
	}
}

// interrupt gives a request up, if it is still the one under way.
func (fs *fetchers) interrupt(f *fetcher, request uint64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.requests == request && f.interrupt != nil {
		f.interrupt(errInterrupted)
	}
}

// fetcherNumber spreads replicas over the fetchers of a leader.
func fetcherNumber(id TopicIDPartition, n int) int {
	if n <= 1 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write(id.TopicID[:])
	return int((h.Sum32() + uint32(id.Partition)) % uint32(n))
}

// rehome has h, if it follows, fetched with the others of the directory to which it has
// moved, or with those that are throttled, or are not. The caller keeps it in its role.
func (fs *fetchers) rehome(h *hosted) {
	fs.mu.Lock()
	follows := fs.at[h.ID()] != nil
	fs.mu.Unlock()
	if leader, isHere := h.Leader(); follows && !isHere {
		fs.follow(h, leader.ID, leader.Epoch)
		fs.settle()
	}
}

// leave ends the fetching of a replica. What is being answered about it may still be
// appended, if it follows on.
func (fs *fetchers) leave(id TopicIDPartition) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.leaveLocked(id)
}

func (fs *fetchers) leaveLocked(id TopicIDPartition) {
	f := fs.at[id]
	if f == nil {
		return
	}
	delete(fs.at, id)
	f.changes[id] = followChange{}
	if f.replicas--; f.replicas == 0 {
		delete(fs.running, f.key) // and its goroutine ends
		f.cancel()
	}
	f.wakeUp()
}

func (f *fetcher) wakeUp() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// start begins a fetcher; nil if all are stopped. Caller holds mu.
func (fs *fetchers) start(key fetcherKey) *fetcher {
	if fs.stopped {
		return nil
	}
	o := &fs.m.opts.Following
	ctx, cancel := context.WithCancel(context.Background())
	f := &fetcher{key: key, cancel: cancel, wake: make(chan struct{}, 1), changes: make(map[TopicIDPartition]followChange)}
	f.core = NewFetcher(FetcherOptions{
		BrokerID: fs.m.opts.BrokerID, BrokerEpoch: o.BrokerEpoch,
		PartitionMaxBytes: o.PartitionMaxBytes, MaxBytes: o.MaxBytes, MinBytes: o.MinBytes, MaxWait: o.MaxWait, Backoff: o.Backoff,
		Full: key.dir.Full, Throttle: fs.m.opts.FollowerThrottle, Prepare: fs.m.prepareTruncations, Logger: fs.m.opts.Logger.With(slog.Int64("leader", int64(key.leader))),
	})
	fs.running[key] = f
	fs.wg.Go(func() { fs.run(ctx, f) })
	return f
}

// run is the goroutine of a fetcher.
func (fs *fetchers) run(ctx context.Context, f *fetcher) {
	leaders := fs.m.opts.Following.Leaders
	client := leaders.Leader(f.key.leader)
	defer func() { client.Close() }()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		fs.applyChanges(f)
		f.awaitsFlush.Store(true) // before Next looks, so that no flush is missed
		step := f.core.Next(time.Now())
		f.awaitsFlush.Store(step.ForFlush)
		if step.Request == nil {
			f.rest(ctx, step, timer)
			continue
		}
		resp, err := fs.request(ctx, f, client, step.Request)
		switch {
		case errors.Is(err, errNotSent):
			f.core.Interrupted()
			continue
		case errors.Is(err, errInterrupted):
			// The leader answers in order: what it keeps waiting would hold up the next.
			client.Close()
			client = leaders.Leader(f.key.leader)
			f.core.Interrupted()
			continue
		}
		fs.m.tookIn(f.core.Answered(time.Now(), resp, err))
	}
}

// rest waits until there is something to do.
func (f *fetcher) rest(ctx context.Context, step FetchStep, timer *time.Timer) {
	if step.ForFlush {
		f.key.dir.committer.Wake()
	}
	var due <-chan time.Time
	if !step.Until.IsZero() {
		timer.Reset(time.Until(step.Until))
		due = timer.C
	}
	select {
	case <-f.wake:
	case <-due:
	case <-ctx.Done():
	}
}

// request sends one request, which interrupt may end.
func (fs *fetchers) request(ctx context.Context, f *fetcher, client LeaderClient, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fs.mu.Lock()
	late := len(f.changes) > 0 // they came after Next had looked
	if !late {
		f.requests++
		f.interrupt = cancel
	}
	fs.mu.Unlock()
	if late {
		return nil, errNotSent
	}
	resp, err := client.Request(ctx, req)
	fs.mu.Lock()
	f.interrupt = nil
	fs.mu.Unlock()
	if err != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		err = errInterrupted
	}
	return resp, err
}

func (fs *fetchers) applyChanges(f *fetcher) {
	fs.mu.Lock()
	changes := f.changes
	f.changes = make(map[TopicIDPartition]followChange)
	fs.mu.Unlock()
	for id, c := range changes {
		if c.p == nil {
			f.core.Leave(id)
			continue
		}
		f.core.Follow(c.p, c.epoch)
	}
}

// flushed wakes the fetchers that have waited for a group commit of a directory.
func (fs *fetchers) flushed(d *directory) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for key, f := range fs.running {
		if key.dir == d && f.awaitsFlush.Load() {
			f.wakeUp()
		}
	}
}

// stop ends all fetchers, and returns when nothing is fetched any more.
func (fs *fetchers) stop() {
	fs.mu.Lock()
	fs.stopped = true
	for _, f := range fs.running {
		f.cancel()
	}
	fs.mu.Unlock()
	fs.wg.Wait()
}

// counts are the fetchers, and the replicas that are fetched.
func (fs *fetchers) counts() (running, replicas int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return len(fs.running), len(fs.at)
}
