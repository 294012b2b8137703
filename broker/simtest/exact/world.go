package exact

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// Options of a run.
type Options struct {
	Seed   uint64
	Events int   // after which the faults end; 0: DefaultEvents
	Break  Break // how the broker is broken, if it is
}

// DefaultEvents is enough for a few crashes.
const DefaultEvents = 500

// Violation is a broken invariant.
type Violation struct {
	Invariant string
	Detail    string
	Seed      uint64
	Trace     []string // of events, oldest first
}

func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d breaks %s: %s", v.Seed, v.Invariant, v.Detail)
}

// Report is what a run did, so that a test can tell that seeds cover what they should.
type Report struct {
	Events, Crashes, Stops, Acked, Rounds, Truncations int
	Topics, Producers                                  int // created
	Deletions                                          int // of records, acknowledged
	Cleanings, Removed, Overtaken                      int // of logs; records that they took; cleanings that were given up
	Full, NoFiles, Offline                             int // disks that filled, times without descriptors, disks that failed
	Trace                                              []string
}

// String is one line.
func (r Report) String() string {
	return fmt.Sprintf("%d events, %d crashes, %d clean stops, %d batches acknowledged, %d flush rounds, %d truncations, %d deletions of records, %d cleanings (%d records removed, %d overtaken), %d topics; %d times full, %d without descriptors, %d disks failed",
		r.Events, r.Crashes, r.Stops, r.Acked, r.Rounds, r.Truncations, r.Deletions, r.Cleanings, r.Removed, r.Overtaken, r.Topics, r.Full, r.NoFiles, r.Offline)
}

// Add adds the counts of another run.
func (r *Report) Add(o Report) {
	r.Events += o.Events
	r.Crashes += o.Crashes
	r.Stops += o.Stops
	r.Acked += o.Acked
	r.Rounds += o.Rounds
	r.Truncations += o.Truncations
	r.Topics += o.Topics
	r.Deletions += o.Deletions
	r.Cleanings += o.Cleanings
	r.Removed += o.Removed
	r.Overtaken += o.Overtaken
	r.Full += o.Full
	r.NoFiles += o.NoFiles
	r.Offline += o.Offline
}

// world is one run.
type world struct {
	opts   Options
	rand   *rand.Rand
	plan   plan
	codecs *batch.Codecs
	fs     *vfs.CrashFS

	now    time.Time
	skew   int64 // of the wall clock, in ms
	events eventHeap
	seq    int // breaks ties in the order of scheduling
	calm   bool

	broker  *broker // nil while down
	life    int     // counts processes, so that events of a dead one are ignored
	crashed bool    // during the event at hand

	// Faults to come: at which sync, or call on the file system, from now on; 0: not planned.
	dieAtSync, dieAtCall, failAtSync int
	full, noFiles                    bool      // faults that go on
	wellAt                           time.Time // when the broker must have noticed their end
	diskErrors                       int       // syncs that failed
	// What a broken broker forgets at the moment, see Break.
	recovering, losingRenames bool

	deletions deletions
	cleanings cleanings
	topics    []*topic
	producers []*producer
	judge     *judge
	report    Report
	failed    *Violation
}

// plan is what a seed draws before the run begins.
type plan struct {
	dirs      []string
	config    logstore.Config // of new topics
	keeper    logstore.KeeperOptions
	openFiles int  // that are kept open
	powerCuts bool // never with durability=replicated: it does not promise to survive them
	follower  bool // broker 2 is in every ISR, and slow
	fullDisks bool
	noFiles   bool
	badDisks  bool
	pageSize  int
	maxDelay  time.Duration
}

// event is something that happens at a time. One that belongs to a process is dropped if
// that process has died.
type event struct {
	at   time.Time
	seq  int
	name string
	life int // 0: of no process
	run  func()
}

// Run plays the world of a seed and returns the first violation, nil if there is none.
func Run(o Options) (Report, *Violation) {
	if o.Events == 0 {
		o.Events = DefaultEvents
	}
	w := newWorld(o)
	w.start()
	for w.report.Events < o.Events && w.failed == nil {
		w.step()
	}
	w.settle()
	w.report.Trace = append(w.report.Trace, "end")
	if w.failed != nil {
		w.failed.Trace = w.report.Trace
	}
	return w.report, w.failed
}

func newWorld(o Options) *world {
	w := &world{
		opts: o, rand: rand.New(rand.NewPCG(o.Seed, 1)),
		codecs: batch.NewCodecs(batch.CodecsOptions{}),
		fs:     vfs.NewCrash(rand.NewPCG(o.Seed, 2)),
		now:    time.UnixMilli(1_700_000_000_000),
	}
	w.plan = w.draw()
	w.drawCleanings()
	w.fs.SetPageSize(w.plan.pageSize)
	w.fs.SetClock(w.wall)
	w.fs.OnSync(w.onSync)
	w.judge = &judge{w}
	return w
}

// wall is the time of day, which may step.
func (w *world) wall() time.Time { return w.now.Add(time.Duration(w.skew) * time.Millisecond) }

func (w *world) draw() plan {
	r := w.rand
	c := logstore.DefaultConfig()
	c.SegmentBytes = int32(300 + r.IntN(4000))
	c.IndexIntervalBytes = int32(1 + r.IntN(300))
	c.FileDeleteDelayMs = int64(r.IntN(300))
	if r.IntN(4) == 0 {
		c.RetentionBytes = int64(c.SegmentBytes) * int64(r.IntN(4))
	}
	if r.IntN(8) == 0 {
		c.RetentionMs = int64(100 + r.IntN(2000))
	}
	p := plan{
		dirs: []string{"/data"}, config: c, powerCuts: true, openFiles: []int{1, 3, 1000}[r.IntN(3)],
		pageSize: 1 << (5 + r.IntN(8)), maxDelay: time.Duration(1+r.IntN(20)) * time.Millisecond,
		fullDisks: r.IntN(4) == 0, noFiles: r.IntN(4) == 0, badDisks: r.IntN(4) == 0,
		keeper: logstore.KeeperOptions{
			FlushedInterval:       time.Duration(5+r.IntN(200)) * time.Millisecond,
			ColdAfter:             time.Duration(w.opts.Seed%200) * time.Millisecond,
			RecoveryPointInterval: time.Duration(10+r.IntN(500)) * time.Millisecond,
			RecoveryPointBytes:    int64(100 + r.IntN(5000)),
			LogStartInterval:      time.Duration(10+r.IntN(500)) * time.Millisecond,
			HighWatermarkInterval: time.Duration(10+r.IntN(500)) * time.Millisecond,
			RetentionInterval:     time.Duration(10+r.IntN(500)) * time.Millisecond,
			SpaceInterval:         100 * time.Millisecond,
		},
	}
	if w.opts.Seed%3 == 0 {
		p.config.WriteAheadBytes = int32(16 << (w.opts.Seed / 3 % 9))
	}
	if r.IntN(3) == 0 {
		p.dirs = []string{"/data1", "/data2"}
	}
	p.follower = r.IntN(3) == 0 || w.opts.Break == MarksNotLowered || w.opts.Break == CleanedUncommitted
	if r.IntN(5) == 0 && w.opts.Break == Nothing {
		p.config.Durability = logstore.DurabilityReplicated
		p.powerCuts = false
	}
	return p
}

// start schedules what keeps itself going.
func (w *world) start() {
	if w.rand.IntN(4) == 0 {
		w.dieAtSync = 1 + w.rand.IntN(12) // during the very first start, or soon after
	}
	w.after(0, "restart", w.restart)
	w.createTopic()
	w.after(w.delay(), "fault", w.fault)
	w.drawDeletions()
	w.startCleanings()
}

// after schedules an event that happens to whatever process lives then.
func (w *world) after(d time.Duration, name string, run func()) {
	w.schedule(&event{at: w.now.Add(d), name: name, run: run})
}

// inLife schedules an event of the process that lives now.
func (w *world) inLife(d time.Duration, name string, run func()) {
	w.schedule(&event{at: w.now.Add(d), name: name, life: w.life, run: run})
}

func (w *world) schedule(e *event) {
	w.seq++
	e.seq = w.seq
	heap.Push(&w.events, e)
}

// delay is how long something takes on its way.
func (w *world) delay() time.Duration { return time.Duration(w.rand.Int64N(int64(w.plan.maxDelay))) }

// step takes one event, and looks at the invariants.
func (w *world) step() {
	e := heap.Pop(&w.events).(*event)
	w.now = e.at
	if e.life != 0 && e.life != w.life {
		return
	}
	w.report.Events++
	w.tracef("%s", e.name)
	e.run()
	if w.crashed {
		w.died()
	}
	w.producers = slices.DeleteFunc(w.producers, (*producer).over)
	w.judge.always()
	if w.crashed {
		w.died()
	}
}

// settle ends the faults, lets everything in flight arrive, and takes stock: of the
// running broker, and once more after a clean stop.
func (w *world) settle() {
	w.calm = true
	w.dieAtSync, w.dieAtCall, w.failAtSync = 0, 0, 0
	for range w.opts.Events * 30 {
		if w.failed != nil || w.quiet() {
			break
		}
		w.step()
	}
	if w.failed == nil && !w.quiet() {
		w.fail("Progress", "still not quiet: broker up %v, %s", w.broker != nil, w.producersState())
	}
	if w.failed == nil {
		w.judge.everything()
		w.judge.visible()
		w.stopCleanly()
	}
	if w.failed == nil && w.broker != nil {
		w.judge.everything()
	}
}

func (w *world) quiet() bool {
	for _, p := range w.producers {
		if len(p.unacked) > 0 {
			return false
		}
	}
	return !w.disturbed() && w.broker != nil && w.broker.idle() && w.caughtUp()
}

// caughtUp tells whether all followers have everything.
func (w *world) caughtUp() bool {
	for _, p := range w.broker.partitions {
		if p.follower != nil && int64(p.HighWatermark()) < int64(p.log.LogEnd()) {
			return false
		}
	}
	return true
}

func (w *world) producersState() string {
	var s []string
	for _, p := range w.producers {
		s = append(s, fmt.Sprintf("%s has %d unacknowledged", p.name, len(p.unacked)))
	}
	return strings.Join(s, ", ")
}

func (w *world) tracef(format string, args ...any) {
	w.report.Trace = append(w.report.Trace, fmt.Sprintf("%9s  ", w.now.Sub(time.UnixMilli(1_700_000_000_000)))+fmt.Sprintf(format, args...))
}

// fail notes the first violation. What goes wrong while a process dies under its own
// feet is none: its errors have no witness.
func (w *world) fail(invariant, format string, args ...any) {
	if w.failed != nil || w.crashed {
		return
	}
	w.failed = &Violation{Invariant: invariant, Detail: fmt.Sprintf(format, args...), Seed: w.opts.Seed}
	w.tracef("VIOLATION of %s: %s", invariant, w.failed.Detail)
}

// eventHeap is a heap by time, then by order of scheduling; heap.Interface.
type eventHeap []*event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *eventHeap) Push(x any) { *h = append(*h, x.(*event)) }

// Pop implements heap.Interface.
func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}
