package cluster

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// Options of a run.
type Options struct {
	Seed   uint64
	Events int   // after which the faults end; 0: DefaultEvents
	Break  Break // how the cluster is broken, if it is
}

// DefaultEvents is enough for some crashes and changes of leaders.
const DefaultEvents = 3000

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
	Events, Kills, PowerCuts, Stops, Pauses, Cuts, Controllers int
	Damaged, Full                                              int // replicas on the disk, disks
	Leaders, ISRChanges, Truncations                           int // begun leaderships, committed changes, cut logs
	Leaderless, Reassigned, Repaired                           int // partitions: lost their leader; got other replicas; replicas that were fetched again
	Acked                                                      int // batches
	GivenUp                                                    int // times that an idempotent producer gave up
	NotAvailable                                               int // times that a leader did not know its latest offset
	Deleted                                                    int // topics
	HandedOver                                                 int // leaders: by a broker whose disk stayed full
	Moved, Resumed                                             int // replicas: to another directory; of which an earlier process had begun the copy
	Unclean, Lost, Diverged                                    int // elections; promises that they broke; times that a consumer was told so
	Cleaned, Removed, Overtaken                                int // replicas; records that it took; cleanings that were given up
	Forsaken                                                   int // of the elections: the last replica in sync was there, and damaged
	Throttles, FlushedAlone                                    int // changes; flushes beside the group commits
	Withheld, HeldBack, Forgotten                              int // times that a leader, a follower held replicas back; of which the session had them
	Trace                                                      []string
}

// Faults counts what was done to the cluster.
func (r Report) Faults() int {
	return r.Kills + r.PowerCuts + r.Stops + r.Pauses + r.Cuts + r.Controllers + r.Damaged + r.Full
}

// String is one line.
func (r Report) String() string {
	return fmt.Sprintf("%d events, %d kills, %d power cuts, %d clean stops, %d pauses, %d cuts, %d new controllers, %d damaged replicas, %d full disks; "+
		"%d leaderships, %d ISR changes, %d truncations, %d times without a leader, %d reassigned, %d repaired, %d batches acknowledged, %d times given up, %d topics deleted, %d times not available, %d moved, %d moves resumed, %d handed over for lack of room, %d unclean elections, %d of them beside the last replica, damaged, %d promises lost, %d consumers sent back, %d cleanings (%d records removed, %d overtaken), %d changes of throttles, %d times withheld, %d times held back (%d in a session), %d flushed alone",
		r.Events, r.Kills, r.PowerCuts, r.Stops, r.Pauses, r.Cuts, r.Controllers, r.Damaged, r.Full,
		r.Leaders, r.ISRChanges, r.Truncations, r.Leaderless, r.Reassigned, r.Repaired, r.Acked, r.GivenUp, r.Deleted, r.NotAvailable, r.Moved, r.Resumed, r.HandedOver, r.Unclean, r.Forsaken, r.Lost, r.Diverged, r.Cleaned, r.Removed, r.Overtaken,
		r.Throttles, r.Withheld, r.HeldBack, r.Forgotten, r.FlushedAlone)
}

// Add adds the counts of another run.
func (r *Report) Add(o Report) {
	r.Events += o.Events
	r.Kills += o.Kills
	r.PowerCuts += o.PowerCuts
	r.Stops += o.Stops
	r.Pauses += o.Pauses
	r.Cuts += o.Cuts
	r.Controllers += o.Controllers
	r.Damaged += o.Damaged
	r.Full += o.Full
	r.Leaderless += o.Leaderless
	r.Reassigned += o.Reassigned
	r.Repaired += o.Repaired
	r.Leaders += o.Leaders
	r.ISRChanges += o.ISRChanges
	r.Truncations += o.Truncations
	r.Acked += o.Acked
	r.GivenUp += o.GivenUp
	r.Deleted += o.Deleted
	r.NotAvailable += o.NotAvailable
	r.Moved += o.Moved
	r.Resumed += o.Resumed
	r.Unclean += o.Unclean
	r.Lost += o.Lost
	r.Forsaken += o.Forsaken
	r.Diverged += o.Diverged
	r.HandedOver += o.HandedOver
	r.Cleaned += o.Cleaned
	r.Removed += o.Removed
	r.Overtaken += o.Overtaken
	r.Throttles += o.Throttles
	r.Withheld += o.Withheld
	r.HeldBack += o.HeldBack
	r.Forgotten += o.Forgotten
	r.FlushedAlone += o.FlushedAlone
}

// world is one run.
type world struct {
	opts   Options
	rand   *rand.Rand
	plan   plan
	codecs *batch.Codecs

	now    time.Time
	begin  time.Time
	events eventHeap
	seq    int // breaks ties in the order of scheduling
	calm   bool

	nodes     []*node
	net       network
	quorum    quorum
	cleanings cleanings
	throttles throttles
	producers []*producer
	consumers []*consumer
	numbered  int // producers so far
	judge     judge
	report    Report
	failed    *Violation
	running   *node               // whose process runs the event at hand, nil: nobody's
	fragile   *node               // has lost what it had not synced, with durability=replicated
	damages   []damage            // that were done and not undone
	rescued   map[replicaOf]int64 // brought back, with the broker epoch that knows it as failed
}

// plan is what a seed draws before the run begins.
type plan struct {
	nodes, topics, partitions int
	minISR                    int
	directories               int  // of a node
	fsync                     bool // durability; without, only kills
	preferred                 bool // leaders are balanced
	impatient                 bool // producers give up what takes long
	unclean                   unclean
	config                    logstore.Config
	keeper                    logstore.KeeperOptions
	pageSize                  int
	maxDelay                  time.Duration // of a message, a sync
	loss, duplicates          int           // of 1000 messages
	stragglers                int           // of 1000 messages, that take ten times as long
	late                      int           // of 1000 fetches, that arrive when nobody waits for them any more
	slowMetadata              time.Duration // by which metadata, and the controller's answers, are later at most
	fetchBytes                int32         // of a partition in one answer
}

func (w *world) draw() plan {
	r := w.rand
	c := logstore.DefaultConfig()
	c.SegmentBytes = int32(500 + r.IntN(6000))
	c.IndexIntervalBytes = int32(1 + r.IntN(300))
	c.FileDeleteDelayMs = int64(r.IntN(300))
	p := plan{
		nodes: 3, topics: 1 + r.IntN(2), partitions: 1 + r.IntN(3), minISR: 1 + r.IntN(2),
		fsync: w.opts.Break.fsync(r.IntN(4) > 0), preferred: r.IntN(2) == 0, config: c,
		pageSize: 1 << (5 + r.IntN(8)), maxDelay: time.Duration(1+r.IntN(15)) * time.Millisecond,
		fetchBytes: int32(1 + r.IntN(2000)),
		keeper: logstore.KeeperOptions{
			FlushedInterval:       time.Duration(5+r.IntN(200)) * time.Millisecond,
			RecoveryPointInterval: time.Duration(10+r.IntN(500)) * time.Millisecond,
			RecoveryPointBytes:    int64(100 + r.IntN(5000)),
			LogStartInterval:      time.Duration(10+r.IntN(500)) * time.Millisecond,
			HighWatermarkInterval: time.Duration(10+r.IntN(500)) * time.Millisecond,
			RetentionInterval:     time.Duration(10+r.IntN(500)) * time.Millisecond,
			SpaceInterval:         100 * time.Millisecond,
		},
	}
	if r.IntN(4) == 0 {
		p.nodes = 5
	}
	if r.IntN(3) == 0 {
		p.loss, p.duplicates = r.IntN(30), r.IntN(30)
	}
	if r.IntN(4) == 0 {
		p.config.RetentionBytes = int64(c.SegmentBytes) * int64(r.IntN(4))
	}
	if r.IntN(2) == 0 {
		p.stragglers = r.IntN(60)
	}
	if r.IntN(3) == 0 {
		p.late = r.IntN(60)
	}
	if r.IntN(3) == 0 {
		p.slowMetadata = time.Duration(r.IntN(120)) * time.Millisecond
	}
	p.impatient = w.opts.Seed%4 == 1
	p.unclean = w.drawUnclean()
	p.directories = 1 + int(w.opts.Seed%5)/3
	if w.opts.Seed%3 == 0 {
		p.config.WriteAheadBytes = int32(16 << (w.opts.Seed / 3 % 9))
		p.keeper.ColdAfter = time.Duration(w.opts.Seed%200) * time.Millisecond
	}
	p.config.Durability = logstore.DurabilityReplicated
	if p.fsync {
		p.config.Durability = logstore.DurabilityFsync
	}
	return p
}

// The times of the cluster, much shorter than in production, as everything else here.
const (
	heartbeatInterval = 40 * time.Millisecond
	sessionTimeout    = 250 * time.Millisecond
	lagMax            = 200 * time.Millisecond
	fetchWait         = 60 * time.Millisecond
	fetchBackoff      = 80 * time.Millisecond
	requestTimeout    = 200 * time.Millisecond
	walkEvery         = 500 * time.Millisecond
)

// event is something that happens at a time. One that belongs to a process is dropped if
// that has died, and put off while its node is paused.
type event struct {
	at   time.Time
	seq  int
	name string
	node *node // nil: of no node
	life int   // 0: of whatever process runs there then
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
		opts: o, rand: rand.New(rand.NewPCG(o.Seed, 3)),
		codecs:  batch.NewCodecs(batch.CodecsOptions{}),
		now:     time.UnixMilli(1_700_000_000_000),
		rescued: map[replicaOf]int64{},
	}
	w.begin = w.now
	w.plan = w.draw()
	w.drawCleanings()
	w.drawThrottles()
	w.net.init(w)
	w.judge.init(w)
	for i := range w.plan.nodes {
		w.nodes = append(w.nodes, newNode(w, int32(i+1)))
	}
	w.quorum.init(w)
	return w
}

// start schedules what keeps itself going.
func (w *world) start() {
	for _, n := range w.nodes {
		w.after(w.delay(), "start", n.start)
	}
	w.after(w.delay(), "elect a controller", w.quorum.check)
	for i := range w.plan.topics {
		w.createTopic(fmt.Sprintf("t%d", i))
	}
	w.after(20*w.plan.maxDelay, "fault", w.fault)
	w.startCleanings()
	w.startThrottles()
}

// node finds a node by its id.
func (w *world) node(id int32) *node { return w.nodes[id-1] }

// after schedules an event of no node.
func (w *world) after(d time.Duration, name string, run func()) {
	w.schedule(&event{at: w.now.Add(d), name: name, run: run})
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
	if n := e.node; n != nil {
		if e.life != 0 && e.life != n.life {
			return
		}
		if w.now.Before(n.pausedUntil) {
			e.at = n.pausedUntil
			heap.Push(&w.events, e) // in the order of their sending, also if the pause becomes longer meanwhile
			return
		}
		w.running = n
	}
	w.report.Events++
	w.tracef("%s", e.name)
	e.run()
	w.running = nil
	w.bury()
	w.judge.always()
	w.noticeFailures()
	w.bury()
}

func (w *world) noticeFailures() {
	for _, n := range w.nodes {
		if n.b != nil && !n.crashed {
			w.running = n
			n.b.noticeFailures()
		}
	}
	w.running = nil
}

// bury ends the processes that have died during an event.
func (w *world) bury() {
	for _, n := range w.nodes {
		if n.crashed {
			n.died()
		}
	}
}

// settle ends the faults, lets everything in flight arrive, and takes stock. What that
// finds to be damaged is mended first.
func (w *world) settle() {
	w.calm = true
	w.net.heal()
	for _, n := range w.nodes {
		n.dieAtSync, n.dieAtCall = 0, 0
		w.empty(n)
		if n.b == nil {
			w.after(w.delay(), "start", n.start)
		}
	}
	w.liftThrottles()
	w.withoutRoom()
	for {
		w.calmDown(w.unrest)
		if w.failed != nil {
			return
		}
		w.judge.everything()
		if w.noticeFailures(); w.failed != nil || w.quiet() {
			return
		}
	}
}

// calmDown goes on until there is no unrest.
func (w *world) calmDown(unrest func() string) {
	for i := range w.opts.Events * 20 {
		if w.failed != nil || unrest() == "" {
			return
		}
		if i%200 == 199 {
			w.rescue()
		}
		w.step()
	}
	w.fail("Progress", "still not quiet: %s", unrest())
}

// quiet tells that everything is answered, and every replica in every ISR has everything.
func (w *world) quiet() bool { return w.unrest() == "" }

func (w *world) tracef(format string, args ...any) {
	who := "   "
	if w.running != nil {
		who = fmt.Sprintf("b%d ", w.running.id)
	}
	w.report.Trace = append(w.report.Trace, fmt.Sprintf("%10s %s", w.now.Sub(w.begin), who)+fmt.Sprintf(format, args...))
}

// fail notes the first violation. What goes wrong in a process that is dying has no
// witness.
func (w *world) fail(invariant, format string, args ...any) {
	if w.failed != nil || w.running != nil && w.running.crashed {
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
