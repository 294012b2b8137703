package coordinator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// The exact tier: one shard on a log in memory, stepped by one goroutine from one seed.
// Between any two steps the process may die, leadership be lost and won again, an append
// be refused, fail with or without having written, or find somebody else's record. What
// the log holds above the high watermark may be gone afterwards; what it holds below may be
// compacted at any time. The shard is held against the log as it was written.
//
//	go test ./cluster/coordinator -run TestExact -v -seeds=5000 -first=1   # or make sim
//	go test ./cluster/coordinator -run TestExact -v -seed=42               # one, with its trace
var (
	oneSeed   = flag.Uint64("seed", 0, "run this seed of the exact tier alone, with its trace")
	seeds     = flag.Uint64("seeds", exactSeeds, "how many seeds the exact tier runs through")
	firstSeed = flag.Uint64("first", 1, "the first of them")
)

// exactWorkload is what is run on the shard, and judges it.
type exactWorkload interface {
	// NewShard makes an empty shard; it replaces the one before, which is dead.
	NewShard() Shard
	// Step does something on the shard: it calls do once or several times.
	Step(now time.Time, rng *rand.Rand, do func(Effects))
	// Check compares the shard with the records of its log, from offset 0. Newest says
	// that all of them, else that those below the high watermark are to be compared.
	Check(records []Record, newest bool) error
	// Ended is called when everything that was asked must have been answered.
	Ended() error
}

// exactWorld is one run.
type exactWorld struct {
	rng      *rand.Rand
	now      time.Time
	log      *fakeLog
	epoch    int32
	core     *core // nil while nobody leads
	workload exactWorkload
	trace    strings.Builder
	fault    string // what the next append meets
	flaw     flaw
	// killed says that the shard before had no chance to answer.
	killed bool
	broken []string // violations

	cleanings int
}

// flaw is a way in which a run is broken on purpose, to see that it is noticed.
type flaw int

const (
	noFlaw          flaw = iota
	earlyWatermark       // the high watermark is told before it is there
	lyingRefusal         // a refused append was written
	lostAppend           // an append that succeeded was not written
	cleanedPending       // records above the high watermark make committed ones superfluous
	earlyTombstones      // tombstones go before what they delete
)

// runExact runs a workload for so many steps. What it returns ends at the first violation.
func runExact(seed uint64, steps int, how flaw, make func(w *exactWorld) exactWorkload) *exactWorld {
	w := &exactWorld{rng: rand.New(rand.NewPCG(seed, 0)), now: time.UnixMilli(1_000_000), log: newFakeLog(1), flaw: how}
	w.log.with(0, func(p *fakePartition) { p.autoCommit, p.max = false, 600 })
	w.workload = make(w)
	w.elect()
	for i := 0; i < steps && len(w.broken) == 0; i++ {
		w.step(i)
	}
	if w.core == nil && len(w.broken) == 0 {
		w.elect()
	}
	if w.stop(); len(w.broken) > 0 {
		return w
	}
	if err := w.workload.Ended(); err != nil {
		w.violated("at the end: %v", err)
	}
	return w
}

// tail is the end of the trace: what failed, and what went before.
func (w *exactWorld) tail() string {
	const most = 6000
	s := w.trace.String()
	return s[max(0, len(s)-most):]
}

// tracef notes an event.
func (w *exactWorld) tracef(format string, args ...any) {
	fmt.Fprintf(&w.trace, format+"\n", args...)
}

// violated notes a violation.
func (w *exactWorld) violated(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.tracef("VIOLATED: %s", text)
	w.broken = append(w.broken, text)
}

func (w *exactWorld) step(i int) {
	if w.core == nil {
		w.elect()
		return
	}
	switch n := w.rng.IntN(100); {
	case n < 45:
		w.workload.Step(w.now, w.rng, func(e Effects) { w.core.carryOut(w.now, e) })
	case n < 65:
		w.tracef("%d flush", i)
		if w.core.lost == nil {
			_ = w.core.flush(w.now)
		}
	case n < 80:
		w.advance()
	case n < 83:
		w.cleanings++
		w.log.with(0, func(p *fakePartition) { w.tracef("%d cleaned up to %d", i, p.clean(w.rng, w.flaw)) })
	case n < 88:
		w.now = w.now.Add(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
		w.tracef("%d time %v", i, w.now.UnixMilli())
		w.core.tick(w.now)
	case n < 93:
		w.fault = []string{"refuse", "fail", "fail after writing", "not leader", "foreign"}[w.rng.IntN(5)]
		w.tracef("%d next append: %s", i, w.fault)
	case n < 94:
		w.tracef("%d somebody else writes", i)
		w.foreign(Partition{LeaderEpoch: w.epoch})
	case n < 95:
		w.tracef("%d image", i)
		w.core.onImage(w.now, metadata.Unchanged(metadata.Empty(), metadata.Position{Index: uint64(i)}), metadata.Empty())
	case n < 98:
		w.tracef("%d resigned", i)
		w.stop()
		w.lose()
	default:
		w.tracef("%d killed", i)
		w.core, w.killed = nil, true
		w.lose()
	}
	w.check()
}

// check compares the shard with the log wherever that can be done.
func (w *exactWorld) check() {
	if w.core == nil {
		return
	}
	if w.core.lost != nil {
		w.core = nil
		w.lose()
		return
	}
	records := w.records()
	if w.core.hw > int64(len(records)) {
		w.violated("the shard has committed up to %d, the log ends at %d", w.core.hw, len(records))
		return
	}
	if err := w.workload.Check(records[:w.core.hw], false); err != nil {
		w.violated("committed state, up to %d: %v", w.core.hw, err)
	}
	if w.core.builder.Len() == 0 && int64(len(records)) == w.core.end {
		if err := w.workload.Check(records, true); err != nil {
			w.violated("newest state, up to %d: %v", w.core.end, err)
		}
	}
}

// records is the log by offset, as if nothing had been cleaned.
func (w *exactWorld) records() (records []Record) {
	for _, b := range w.log.partitions[0].whole {
		err := batch.Iterate(b, nil, func(r batch.Record) error {
			records = append(records, Record{Key: r.Key, Value: r.Value})
			return nil
		})
		if err != nil {
			panic(err)
		}
	}
	return records
}

// advance moves the high watermark, or some of the way.
func (w *exactWorld) advance() {
	w.log.with(0, func(p *fakePartition) { p.hw += w.rng.Int64N(p.end - p.hw + 1) })
	hw := w.log.partitions[0].hw
	if w.flaw == earlyWatermark {
		hw = w.log.partitions[0].end
	}
	w.tracef("high watermark %d", hw)
	w.core.advance(w.now, hw)
}

// lose cuts the log above the high watermark, as a new leader or a power cut may.
func (w *exactWorld) lose() {
	w.log.with(0, func(p *fakePartition) {
		p.epoch = -1
		for len(p.batches) > 0 && p.batches[len(p.batches)-1].BaseOffset() >= p.hw && w.rng.IntN(2) == 0 {
			p.cut()
		}
		p.hw = min(p.hw, p.end)
	})
}

// stop unloads the shard in good order.
func (w *exactWorld) stop() {
	if w.core != nil {
		w.core.lose()
		w.core = nil
	}
}

// elect loads the shard in a new epoch, while the world goes on.
func (w *exactWorld) elect() {
	w.epoch++
	w.fault = ""
	p := Partition{LeaderEpoch: w.epoch}
	w.log.with(0, func(part *fakePartition) { part.epoch = w.epoch })
	shard := w.workload.NewShard()
	w.killed = false
	l := loader{log: poisoned{w.log}, partition: p, shard: shard, logger: slog.New(slog.DiscardHandler), progress: func(loadReport) {
		if w.rng.IntN(2) == 0 { // the high watermark moves while the shard loads
			w.log.with(0, func(p *fakePartition) { p.hw += w.rng.Int64N(p.end - p.hw + 1) })
		}
	}}
	if err := l.run(context.Background()); err != nil {
		w.violated("load: %v", err)
		return
	}
	w.tracef("loaded in epoch %d up to %d, high watermark %d", w.epoch, l.next, l.report.Offsets.HighWatermark)
	w.core = l.core(coreOptions{
		append:        func(records []byte) (int64, error) { return w.append(p, records) },
		maxBatchBytes: func() int { return w.log.MaxBatchBytes(p) },
		writeTimeout:  5 * time.Second, linger: -1, maxBufferBytes: 1 << 20,
		logger: slog.New(slog.DiscardHandler), metrics: exactMetrics,
	})
	w.core.begin(w.now, metadata.Empty())
	w.check()
}

var exactMetrics = newMetrics(nil, "exact", func(state) int { return 0 }, func() int { return 0 })

// append is the log's, with the fault that is due.
func (w *exactWorld) append(p Partition, records []byte) (int64, error) {
	fault := w.fault
	w.fault = ""
	switch fault {
	case "refuse":
		if w.flaw == lyingRefusal {
			_, _ = w.log.Append(p, records)
		}
		return -1, &RefusedError{kafkaerr.NotEnoughReplicas}
	case "fail":
		return -1, errors.New("nothing was written, maybe")
	case "not leader":
		return -1, fmt.Errorf("append: %w", kafkaerr.NotLeaderOrFollower)
	case "foreign":
		w.foreign(p)
	}
	if w.flaw == lostAppend && w.rng.IntN(10) == 0 {
		return w.log.partitions[0].end, nil
	}
	base, err := w.log.Append(p, records)
	w.tracef("append of %d bytes at %d: %v", len(records), base, err)
	if fault == "fail after writing" {
		return -1, errors.New("something was written, maybe")
	}
	return base, err
}

// foreign is a record that the shard did not write: a client may, as an administrator.
func (w *exactWorld) foreign(p Partition) {
	r := batch.NewRecord{Key: []byte("foreign"), Value: make([]byte, 8)}
	if _, err := w.log.Append(p, batch.New(batch.BuilderOptions{}, r)); err != nil {
		panic(err)
	}
}

// poisoned is a log whose buffers hold garbage after they have been replayed: a shard
// that keeps what it was lent is found out.
type poisoned struct{ *fakeLog }

func (l poisoned) Read(p Partition, offset int64, buf []byte) ([]byte, error) {
	for i := range buf {
		buf[i] = 0xAA
	}
	return l.fakeLog.Read(p, offset, buf)
}
