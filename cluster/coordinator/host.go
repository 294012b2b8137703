package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// host drives one shard in one leadership: it loads it, and then runs what is scheduled
// and what is due, on one goroutine.
type host[S Shard] struct {
	runtime   *Runtime[S]
	partition Partition
	logger    *slog.Logger
	ctx       context.Context // ends when the shard is to stop
	stop      context.CancelFunc

	wake  chan struct{} // of capacity one: there is something to do
	moved atomic.Bool   // the offsets of the partition may have changed

	mu      sync.Mutex
	state   state
	queue   []event[S]
	backlog int // of the core, when the goroutine last looked
	changes []imageChange
	seen    uint64 // position of the image that the shard was loaded with

	spare []event[S] // the room of the queue before

	failure string // the last that was logged
}

// state is what a shard can do.
type state int8

const (
	stateLoading state = iota
	stateActive
	stateFailed // to load, and tries again; or has lost the leadership
)

// event is one operation in the queue.
type event[S Shard] struct {
	write  func(time.Time, S) Effects // one of write and read is set
	read   func(S)
	failed func(error)
	queued time.Time
}

// imageChange is a change of metadata that the shard has not been told.
type imageChange struct {
	delta *metadata.Delta
	image *metadata.Image
}

// maxImageChanges bounds the changes that wait; more become one.
const maxImageChanges = 64

func (r *Runtime[S]) startHost(p Partition) *host[S] {
	h := &host[S]{
		runtime: r, partition: p, wake: make(chan struct{}, 1),
		logger: r.opts.Logger.With("partition", p.Index, "epoch", p.LeaderEpoch),
	}
	h.ctx, h.stop = context.WithCancel(r.ctx)
	r.running.Go(h.run)
	return h
}

// enqueue schedules an operation, or says why it cannot.
func (h *host[S]) enqueue(e event[S]) error {
	e.queued = time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.ctx.Err() != nil, h.state == stateFailed:
		return kafkaerr.NotCoordinator
	case h.state == stateLoading:
		return kafkaerr.CoordinatorLoadInProgress
	case len(h.queue) >= h.runtime.opts.MaxQueued, e.write != nil && h.backlog >= h.runtime.opts.MaxUncommitted:
		h.runtime.metrics.full.Inc()
		return kafkaerr.CoordinatorNotAvailable
	}
	if h.queue = append(h.queue, e); len(h.queue) == 1 {
		h.signal()
	}
	return nil
}

func (h *host[S]) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// offsetsChanged is what the log's watch calls.
func (h *host[S]) offsetsChanged() {
	if !h.moved.Swap(true) {
		h.signal()
	}
}

// metadataChanged files a change for the shard. One that is being loaded will see the
// newest image anyway.
func (h *host[S]) metadataChanged(delta *metadata.Delta, image *metadata.Image) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != stateActive || image.Position().Index <= h.seen {
		return
	}
	if len(h.changes) == maxImageChanges {
		delta = metadata.Between(h.changes[0].delta.Base(), image)
		h.changes = h.changes[:0]
	}
	h.changes = append(h.changes, imageChange{delta, image})
	h.signal()
}

// run is the shard's goroutine.
func (h *host[S]) run() {
	defer h.stop()
	pause := firstLoadPause
	for h.ctx.Err() == nil {
		h.enter(stateLoading)
		begun := time.Now()
		s, c, err := h.load()
		if err == nil {
			h.serve(s, c)
		}
		h.enter(stateFailed)
		if h.ctx.Err() != nil {
			return
		}
		h.logFailure(err, pause)
		h.sleep(pause)
		if pause = min(2*pause, maxLoadPause); time.Since(begun) > maxLoadPause {
			pause = firstLoadPause
		}
	}
}

// A shard that failed to load, or was lost, is loaded again: not at once, when it would
// likely fail again, but when metadata may say who leads, or a disk have recovered.
const (
	firstLoadPause = 100 * time.Millisecond
	maxLoadPause   = 30 * time.Second
)

func (h *host[S]) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-h.ctx.Done():
	}
}

// logFailure says why a shard did not load, once for each reason; nil if it was lost, which
// has been logged.
func (h *host[S]) logFailure(err error, pause time.Duration) {
	switch {
	case err == nil:
		h.failure = ""
	case leadershipLost(err):
		h.logger.Debug("shard is not loaded: the partition is not led here any more", "err", err)
	case err.Error() != h.failure:
		h.failure = err.Error()
		level := slog.LevelError
		if errors.Is(err, kafkaerr.KafkaStorageError) { // the log or its directory is offline, which has been told
			level = slog.LevelWarn
		}
		h.logger.Log(h.ctx, level, "shard could not be loaded", "again", pause, "err", err)
	}
}

// enter changes the state. Outside of the active one nothing is queued: what was is
// answered NOT_COORDINATOR.
func (h *host[S]) enter(s state) {
	h.mu.Lock()
	h.state = s
	left := h.queue
	h.queue, h.changes, h.backlog = nil, nil, 0
	h.mu.Unlock()
	for i := range left {
		left[i].failed(kafkaerr.NotCoordinator)
	}
}

// load makes a shard of what its partition holds.
func (h *host[S]) load() (s S, c *core, err error) {
	r := h.runtime
	select {
	case r.loading <- struct{}{}:
		defer func() { <-r.loading }()
	case <-h.ctx.Done():
		return s, nil, context.Cause(h.ctx)
	}
	start := time.Now()
	s = r.opts.NewShard(h.partition.Index)
	l := loader{
		log: r.opts.Log, partition: h.partition, shard: s, codecs: r.opts.Codecs,
		logger: h.logger, progress: h.loadProgress(start),
	}
	if err := l.run(h.ctx); err != nil {
		s.Unload(kafkaerr.NotCoordinator)
		return s, nil, err
	}
	h.noteLoaded(start, &l.report)
	return s, l.core(h.coreOptions()), nil
}

// loadProgress says now and then how far a load has come.
func (h *host[S]) loadProgress(start time.Time) func(loadReport) {
	last := start
	return func(report loadReport) {
		if now := time.Now(); now.Sub(last) >= progressInterval {
			last = now
			h.logger.Info("loading a shard", "records", report.Records, "bytes", report.Bytes,
				"upTo", report.Offsets.End, "after", now.Sub(start).Round(time.Second))
		}
	}
}

func (h *host[S]) noteLoaded(start time.Time, report *loadReport) {
	took := time.Since(start)
	h.runtime.metrics.loads.note(start.Add(took), took)
	h.runtime.metrics.unknown.Add(float64(report.Unknown))
	level := slog.LevelDebug // most partitions are empty
	if report.Records > 0 {
		level = slog.LevelInfo
	}
	h.logger.Log(h.ctx, level, "shard is loaded", "records", report.Records, "bytes", report.Bytes,
		"notUnderstood", report.Unknown, "took", took.Round(time.Millisecond))
}

func (h *host[S]) coreOptions() coreOptions {
	r, p := h.runtime, h.partition
	return coreOptions{
		append:        func(records []byte) (int64, error) { return r.opts.Log.Append(p, records) },
		maxBatchBytes: func() int { return r.opts.Log.MaxBatchBytes(p) },
		codec:         r.opts.Codec, codecs: r.opts.Codecs,
		writeTimeout: r.opts.WriteTimeout, linger: r.opts.AppendLinger,
		maxBufferBytes: r.opts.CachedBufferBytes,
		logger:         h.logger, metrics: r.metrics,
	}
}

// activate lets operations in, and returns the metadata that the shard begins with.
func (h *host[S]) activate() *metadata.Image {
	h.mu.Lock()
	defer h.mu.Unlock()
	image := h.runtime.image.Load()
	h.state, h.seen = stateActive, image.Position().Index
	return image
}

// serve runs a loaded shard until it is lost or stopped.
func (h *host[S]) serve(s S, c *core) {
	unwatch, err := h.runtime.opts.Log.Watch(h.partition, h.offsetsChanged)
	if err != nil {
		c.lose()
		return
	}
	defer unwatch()
	h.moved.Store(true) // it may have moved before the watch began
	stopWaking := context.AfterFunc(h.ctx, h.signal)
	defer stopWaking()
	var alarm alarm
	defer alarm.stop()
	c.begin(time.Now(), h.activate())
	for h.round(s, c) {
		at, ok := c.nextDeadline()
		alarm.set(at, ok)
		select {
		case <-h.wake:
		case <-alarm.c():
			alarm.fired()
		}
	}
}

// round does what there is to do; false if the shard is lost. What is in the queue when it
// begins goes into one append, as long as it fits.
func (h *host[S]) round(s S, c *core) bool {
	if h.ctx.Err() != nil {
		c.lose()
		return false
	}
	events, changes := h.take()
	for _, change := range changes {
		c.onImage(time.Now(), change.delta, change.image)
	}
	for i := range events {
		h.runEvent(s, c, &events[i])
	}
	now := time.Now()
	h.endBatch(now, c)
	if h.moved.Swap(false) && c.lost == nil {
		h.look(now, c)
	}
	c.tick(now)
	h.endBatch(now, c)
	h.giveBack(events, c)
	return c.lost == nil
}

// endBatch appends what has been collected, unless it may linger.
func (h *host[S]) endBatch(now time.Time, c *core) {
	if c.lost == nil && c.linger <= 0 {
		_ = c.flush(now) // who is in the batch has been answered
	}
}

// look takes the high watermark from the log.
func (h *host[S]) look(now time.Time, c *core) {
	at, err := h.runtime.opts.Log.Offsets(h.partition)
	if err != nil {
		h.logger.Debug("partition is not led here any more", "err", err)
		c.lose()
		return
	}
	c.advance(now, at.HighWatermark)
}

func (h *host[S]) runEvent(s S, c *core, e *event[S]) {
	if c.lost != nil {
		e.failed(c.lost)
		return
	}
	now := time.Now()
	h.runtime.metrics.queueTime.Observe(ms(now.Sub(e.queued)))
	if e.read != nil {
		e.read(s)
	} else {
		c.carryOut(now, e.write(now, s))
	}
	h.runtime.metrics.processingTime.Observe(ms(time.Since(now)))
}

// take empties the queue.
func (h *host[S]) take() ([]event[S], []imageChange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	events, changes := h.queue, h.changes
	h.queue, h.spare, h.changes = h.spare, nil, nil
	return events, changes
}

// giveBack keeps the room of events for the queue after the next, and notes the backlog.
func (h *host[S]) giveBack(events []event[S], c *core) {
	clear(events)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spare = events[:0]
	h.backlog = c.backlog()
}

func (h *host[S]) currentState() state {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

func (h *host[S]) queued() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.queue)
}
