package logstore

import (
	"time"

	"github.com/klamm-mq/klamm/protocol/offset"
)

// KeeperOptions configure what runs by the clock. Zero durations take the defaults
// that stand behind them.
type KeeperOptions struct {
	// HighWatermark tells what to checkpoint for a log, and bounds what retention may
	// delete; false = the log has none yet.
	HighWatermark func(*Log) (offset.HighWatermark, bool)
	// Wake is called when a round of the committer is due.
	Wake func()
	// OnDeleted hears of what retention removed, with no lock held.
	OnDeleted func(*Log, []DeletedSegment)

	// FlushedInterval is how old the persisted flushed offsets of logs that move may
	// be: what a power cut turns from damage into a torn tail. 1 s.
	FlushedInterval time.Duration
	// ColdAfter is how long nothing was appended to a log when the zeros that were written
	// behind its end are cut off. 2 s.
	ColdAfter time.Duration
	// RecoveryPointInterval and RecoveryPointBytes bound how much of one log a start
	// must scan. 30 s, 64 MiB.
	RecoveryPointInterval time.Duration
	RecoveryPointBytes    int64
	// LogStartInterval is log.flush.start.offset.checkpoint.interval.ms, 60 s.
	LogStartInterval time.Duration
	// HighWatermarkInterval is replica.high.watermark.checkpoint.interval.ms, 5 s.
	HighWatermarkInterval time.Duration
	// RetentionInterval is log.retention.check.interval.ms, 5 min.
	RetentionInterval time.Duration
	// SpaceInterval is how often the room on the file system is looked at. 1 s.
	SpaceInterval time.Duration
	// ProducerExpiryInterval is producer.id.expiration.check.interval.ms, 10 min.
	ProducerExpiryInterval time.Duration
}

func orDefault(d *time.Duration, v time.Duration) {
	if *d <= 0 {
		*d = v
	}
}

func (o *KeeperOptions) setDefaults() {
	orDefault(&o.FlushedInterval, time.Second)
	orDefault(&o.ColdAfter, 2*time.Second)
	orDefault(&o.RecoveryPointInterval, 30*time.Second)
	orDefault(&o.LogStartInterval, time.Minute)
	orDefault(&o.HighWatermarkInterval, 5*time.Second)
	orDefault(&o.RetentionInterval, 5*time.Minute)
	orDefault(&o.SpaceInterval, time.Second)
	orDefault(&o.ProducerExpiryInterval, 10*time.Minute)
	if o.RecoveryPointBytes <= 0 {
		o.RecoveryPointBytes = 64 << 20
	}
	if o.HighWatermark == nil {
		o.HighWatermark = func(*Log) (offset.HighWatermark, bool) { return 0, false }
	}
	if o.Wake == nil {
		o.Wake = func() {}
	}
	if o.OnDeleted == nil {
		o.OnDeleted = func(*Log, []DeletedSegment) {}
	}
}

// Keeper does the periodic work of one directory: checkpoints, recovery points,
// retention, the disk's room, the files of deleted logs and of new ones. Tick is its core; Start
// drives it with one goroutine and one timer. An idle partition takes no part in any
// of it except retention.
type Keeper struct {
	d     *Dir
	o     KeeperOptions
	tasks []keeperTask

	stop chan struct{}
	done chan struct{}
}

// keeperTask is one thing that is done again and again.
type keeperTask struct {
	every time.Duration
	due   time.Time
	run   func(now time.Time)
}

// NewKeeper returns a keeper whose tasks are first due one interval after the first
// Tick.
func NewKeeper(d *Dir, o KeeperOptions) *Keeper {
	o.setDefaults()
	k := &Keeper{d: d, o: o, stop: make(chan struct{}), done: make(chan struct{})}
	k.tasks = []keeperTask{
		{every: o.SpaceInterval, run: func(time.Time) { d.checkSpace() }},
		{every: o.FlushedInterval, run: k.promises},
		{every: o.HighWatermarkInterval, run: k.highWatermarks},
		{every: o.LogStartInterval, run: k.logStarts},
		{every: o.RetentionInterval, run: k.retain},
		{every: o.ProducerExpiryInterval, run: d.expireProducers},
		{every: o.SpaceInterval, run: d.removeRetired},
	}
	return k
}

// Tick does what is due and returns when to call it again. An offline directory needs
// no keeping.
func (k *Keeper) Tick(now time.Time) (next time.Time) {
	k.d.noteTime(now)
	for i := range k.tasks {
		t := &k.tasks[i]
		if !t.due.IsZero() && !now.Before(t.due) && k.d.Err() == nil {
			t.run(now)
		}
		if t.due.IsZero() || !now.Before(t.due) {
			t.due = now.Add(t.every)
		}
		if next.IsZero() || t.due.Before(next) {
			next = t.due
		}
	}
	if k.d.Err() != nil {
		return next
	}
	if due := k.d.bearDue(now); !due.IsZero() && due.Before(next) {
		next = due
	}
	return next
}

// promises asks for flushes that have become due, moves recovery points, and persists
// what rounds have reported.
func (k *Keeper) promises(now time.Time) {
	cut := k.d.cutColdAheads(now, k.o.ColdAfter)
	if k.d.wantDueFlushes(now) || cut || k.d.hasWantedFlushes() { // those that a round has put back
		k.o.Wake()
	}
	k.warn("retired logs", k.d.forgetRenamed())
	k.d.advanceRecoveryPoints(now, k.o.RecoveryPointInterval, k.o.RecoveryPointBytes, k.o.Wake)
	k.warn("flushed offsets and recovery points", k.d.checkpointPromises())
}

func (k *Keeper) highWatermarks(time.Time) {
	k.warn("high watermarks", k.d.checkpointHighWatermarks(k.o.HighWatermark))
}

func (k *Keeper) logStarts(time.Time) {
	k.warn("log starts", k.d.checkpointAllLogStarts())
	k.warn("segments", k.d.checkpointSegments(false))
}

// warn logs what will be tried again; a failed disk has been logged already.
func (k *Keeper) warn(what string, err error) {
	if err != nil && k.d.Err() == nil {
		k.d.o.Logger.Warn("checkpoint not written", "dir", k.d.o.Path, "of", what, "err", err)
	}
}

func (k *Keeper) retain(now time.Time) {
	for _, l := range k.d.Logs() {
		hw, ok := k.o.HighWatermark(l)
		if !ok {
			continue
		}
		deleted, err := l.Retain(now, hw)
		if err != nil && k.d.Err() == nil {
			k.d.o.Logger.Warn("retention failed", "log", l.path, "err", err)
		}
		if len(deleted) > 0 {
			k.o.OnDeleted(l, deleted)
		}
	}
}

// Start runs Tick by the clock until Stop.
func (k *Keeper) Start() { go k.run() }

func (k *Keeper) run() {
	defer close(k.done)
	timer := time.NewTimer(time.Until(k.Tick(time.Now())))
	defer timer.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-timer.C:
			timer.Reset(time.Until(k.Tick(time.Now())))
		}
	}
}

// Stop ends the goroutine that Start began, after the tick in flight, and checkpoints
// the high watermarks once more.
func (k *Keeper) Stop() {
	close(k.stop)
	<-k.done
	if k.d.Err() == nil {
		k.highWatermarks(time.Time{})
	}
}
