package logstore

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/logstore/compaction"
)

// CleanerSettings are the log.cleaner.* keys.
type CleanerSettings struct {
	Threads           int           // logs that are cleaned at a time
	DedupeBytes       int64         // most memory for keys, of all threads together
	LoadFactor        float64       // how full that may become
	IOBufferBytes     int           // memory to read and write in, of all threads together
	MaxBytesPerSecond float64       // read and written, by all threads together
	Backoff           time.Duration // pause when nothing was found
}

// minCleanerBackoff keeps log.cleaner.backoff.ms=0 from being a loop that never pauses.
const minCleanerBackoff = 10 * time.Millisecond

func (s CleanerSettings) bounded() CleanerSettings {
	s.Threads = max(1, s.Threads)
	s.Backoff = max(s.Backoff, minCleanerBackoff)
	return s
}

// CleanerOptions configure the log cleaner.
type CleanerOptions struct {
	// Dirs are the directories whose logs are cleaned.
	Dirs []*Dir
	// Bounds tells up to where a log may be cleaned; false = it must not be now.
	Bounds   func(*Log) (CleanBounds, bool)
	Settings CleanerSettings

	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil = no metrics
}

// Cleaner cleans the compacted logs of a broker (Kafka's LogCleaner): the filthiest first, a
// few at a time. CleanOne is its core; Start drives it with as many goroutines as Settings
// say. A log that cannot be cleaned is left alone until the next start.
type Cleaner struct {
	o       CleanerOptions
	work    cleanerWork
	pace    cleanerPace
	metrics *cleanerMetrics

	// ctx ends with Stop.
	ctx    context.Context
	cancel context.CancelFunc

	// tuning is held for a few instructions: who changes settings waits for no disk.
	tuning   sync.Mutex
	settings CleanerSettings
	changed  chan struct{} // closed, and replaced, when the settings change
	running  int           // goroutines
	ended    sync.WaitGroup

	mu     sync.Mutex
	queue  []candidate // what the last look has found and nobody has taken, the filthiest first
	looked time.Time   // when that was
	busy   map[*Log]struct{}
	// uncleanable are the logs that could not be cleaned, later those that are tried again
	// when their time has come.
	uncleanable map[*Log]struct{}
	later       map[*Log]time.Time
}

// cleanerWork is what is done with one log, replaced in tests.
type cleanerWork struct {
	judge func(*Log, time.Time, CleanBounds) (compaction.Dirty, error)
	clean func(*Log, CleanParams) (CleanStats, error)
}

// cleanRetryPause is for how long a log is left alone for whose cleaning there was no room,
// or no descriptor.
const cleanRetryPause = time.Minute

// overtakenPause is the same for a log that was changed while it was cleaned. What is in the
// way, a truncation that waits for a disk say, may be there still: to try at once, again and
// again, would only take its time.
const overtakenPause = time.Second

// NewCleaner makes a cleaner.
func NewCleaner(o CleanerOptions) *Cleaner {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Cleaner{
		o: o, work: cleanerWork{(*Log).Cleanable, (*Log).Clean}, changed: make(chan struct{}), busy: map[*Log]struct{}{},
		uncleanable: map[*Log]struct{}{}, later: map[*Log]time.Time{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.metrics = newCleanerMetrics(o.Registerer, o.Dirs)
	c.SetSettings(o.Settings)
	return c
}

// SetSettings puts other settings in force: the pace at once, the rest when the next log is
// cleaned.
func (c *Cleaner) SetSettings(s CleanerSettings) {
	c.tuning.Lock()
	defer c.tuning.Unlock()
	if s = s.bounded(); s == c.settings {
		return
	}
	c.settings = s
	c.pace.set(s.MaxBytesPerSecond)
	close(c.changed)
	c.changed = make(chan struct{})
	if c.running > 0 {
		c.startMissing()
	}
}

// Start begins to clean in the background.
func (c *Cleaner) Start() {
	c.tuning.Lock()
	defer c.tuning.Unlock()
	c.startMissing()
}

// startMissing makes as many goroutines run as the settings say, if there are too few; those
// that are too many end by themselves. Callers hold tuning.
func (c *Cleaner) startMissing() {
	for c.running < c.settings.Threads && c.ctx.Err() == nil {
		c.running++
		c.ended.Go(c.run)
	}
}

// Stop ends what Start began. A cleaning in progress is given up, and nothing of it is left.
func (c *Cleaner) Stop() {
	c.tuning.Lock()
	c.cancel()
	c.tuning.Unlock()
	c.ended.Wait()
}

func (c *Cleaner) run() {
	for {
		changed, surplus := c.between()
		if surplus {
			return
		}
		_, next := c.CleanOne(time.Now())
		c.pause(time.Until(next), changed)
	}
}

// between is what a goroutine asks for before each log: how it hears of new settings, and
// whether it is to end.
func (c *Cleaner) between() (changed <-chan struct{}, surplus bool) {
	c.tuning.Lock()
	defer c.tuning.Unlock()
	if surplus = c.running > c.settings.Threads || c.ctx.Err() != nil; surplus {
		c.running--
	}
	return c.changed, surplus
}

// pause ends early when the settings change, or the cleaner is stopped.
func (c *Cleaner) pause(d time.Duration, changed <-chan struct{}) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.ctx.Done():
	case <-changed:
	case <-timer.C:
	}
}

// CleanOne cleans the log that needs it most, if one does, and returns when to call it again.
// It is the whole of what a goroutine of the cleaner does, also for simulations.
func (c *Cleaner) CleanOne(now time.Time) (did bool, next time.Time) {
	chosen, found := c.grab(now)
	if !found {
		return false, now.Add(c.backoff())
	}
	defer c.release(chosen.log)
	c.clean(now, chosen)
	return true, now
}

func (c *Cleaner) backoff() time.Duration {
	c.tuning.Lock()
	defer c.tuning.Unlock()
	return c.settings.Backoff
}
