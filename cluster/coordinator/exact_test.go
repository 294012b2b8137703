package coordinator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// The exact tier: one shard on a log in memory, stepped by one goroutine from one seed.
// Between any two steps the process may die, leadership be lost and won again, an append
// be refused, fail with or without having written, or find somebody else's record. What
// the log holds above the high watermark may be gone afterwards.
//
//	go test ./cluster/coordinator -run TestExact -seed=42 -v   # one seed with its trace
var (
	oneSeed   = flag.Uint64("seed", 0, "run this seed of the exact tier, with its trace")
	exactRuns = flag.Uint64("runs", exactSeeds, "how many seeds the exact tier runs through")
)

// ExactWorkload is what is run on the shard, and judges it.
type ExactWorkload interface {
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

// ExactWorld is one run.
type ExactWorld struct {
	t        *testing.T
	rng      *rand.Rand
	now      time.Time
	log      *fakeLog
	epoch    int32
	core     *core // nil while nobody leads
	workload ExactWorkload
	trace    strings.Builder
	fault    string // what the next append meets
	// Killed says that the shard before had no chance to answer.
	Killed bool
}

// RunExact runs a workload for so many steps. Errorf of the world has the seed in it.
func RunExact(t *testing.T, seed uint64, steps int, make func(w *ExactWorld) ExactWorkload) {
	w := &ExactWorld{t: t, rng: rand.New(rand.NewPCG(seed, 0)), now: time.UnixMilli(1_000_000), log: newFakeLog(1)}
	w.log.with(0, func(p *fakePartition) { p.autoCommit, p.max = false, 600 })
	w.workload = make(w)
	w.elect()
	for i := range steps {
		w.step(i)
		if t.Failed() {
			break
		}
	}
	if w.core == nil && !t.Failed() {
		w.elect()
	}
	w.stop()
	if err := w.workload.Ended(); err != nil {
		w.Errorf("at the end: %v", err)
	}
	if t.Failed() {
		t.Fatalf("seed %d; its trace:\n%s", seed, w.tail())
	}
	if *oneSeed != 0 {
		t.Log(w.trace.String())
	}
}

// tail is the end of the trace: what failed, and what went before.
func (w *ExactWorld) tail() string {
	const most = 6000
	s := w.trace.String()
	return s[max(0, len(s)-most):]
}

// Tracef notes an event.
func (w *ExactWorld) Tracef(format string, args ...any) {
	fmt.Fprintf(&w.trace, format+"\n", args...)
}

// Errorf fails the run.
func (w *ExactWorld) Errorf(format string, args ...any) {
	w.Tracef("FAILED: "+format, args...)
	w.t.Errorf(format, args...)
}

func (w *ExactWorld) step(i int) {
	if w.core == nil {
		w.elect()
		return
	}
	switch n := w.rng.IntN(100); {
	case n < 45:
		w.workload.Step(w.now, w.rng, func(e Effects) { w.core.carryOut(w.now, e) })
	case n < 65:
		w.Tracef("%d flush", i)
		if w.core.lost == nil {
			_ = w.core.flush(w.now)
		}
	case n < 80:
		w.advance()
	case n < 88:
		w.now = w.now.Add(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
		w.Tracef("%d time %v", i, w.now.UnixMilli())
		w.core.tick(w.now)
	case n < 93:
		w.fault = []string{"refuse", "fail", "fail after writing", "not leader", "foreign"}[w.rng.IntN(5)]
		w.Tracef("%d next append: %s", i, w.fault)
	case n < 94:
		w.Tracef("%d somebody else writes", i)
		w.foreign(Partition{LeaderEpoch: w.epoch})
	case n < 95:
		w.Tracef("%d image", i)
		w.core.onImage(w.now, metadata.Unchanged(metadata.Empty(), metadata.Position{Index: uint64(i)}), metadata.Empty())
	case n < 98:
		w.Tracef("%d resigned", i)
		w.stop()
		w.lose()
	default:
		w.Tracef("%d killed", i)
		w.core, w.Killed = nil, true
		w.lose()
	}
	w.check()
}

// check compares the shard with the log wherever that can be done.
func (w *ExactWorld) check() {
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
		w.Errorf("the shard has committed up to %d, the log ends at %d", w.core.hw, len(records))
		return
	}
	if err := w.workload.Check(records[:w.core.hw], false); err != nil {
		w.Errorf("committed state, up to %d: %v", w.core.hw, err)
	}
	if w.core.builder.Len() == 0 && int64(len(records)) == w.core.end {
		if err := w.workload.Check(records, true); err != nil {
			w.Errorf("newest state, up to %d: %v", w.core.end, err)
		}
	}
}

// records is the log by offset.
func (w *ExactWorld) records() (records []Record) {
	for _, b := range w.log.partitions[0].batches {
		err := batch.Iterate(b, nil, func(r batch.Record) error {
			records = append(records, Record{Key: r.Key, Value: r.Value})
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return records
}

// advance moves the high watermark, or some of the way.
func (w *ExactWorld) advance() {
	w.log.with(0, func(p *fakePartition) { p.hw += w.rng.Int64N(p.end - p.hw + 1) })
	hw := w.log.partitions[0].hw
	w.Tracef("high watermark %d", hw)
	w.core.advance(w.now, hw)
}

// lose cuts the log above the high watermark, as a new leader or a power cut may.
func (w *ExactWorld) lose() {
	w.log.with(0, func(p *fakePartition) {
		p.epoch = -1
		for len(p.batches) > 0 && p.batches[len(p.batches)-1].BaseOffset() >= p.hw && w.rng.IntN(2) == 0 {
			p.end = p.batches[len(p.batches)-1].BaseOffset()
			p.batches = p.batches[:len(p.batches)-1]
		}
		p.hw = min(p.hw, p.end)
	})
}

// stop unloads the shard in good order.
func (w *ExactWorld) stop() {
	if w.core != nil {
		w.core.lose()
		w.core = nil
	}
}

// elect loads the shard in a new epoch, while the world goes on.
func (w *ExactWorld) elect() {
	w.epoch++
	w.fault = ""
	p := Partition{LeaderEpoch: w.epoch}
	w.log.with(0, func(part *fakePartition) { part.epoch = w.epoch })
	shard := w.workload.NewShard()
	w.Killed = false
	l := loader{log: poisoned{w.log}, partition: p, shard: shard, logger: slog.New(slog.DiscardHandler), progress: func(loadReport) {
		if w.rng.IntN(2) == 0 { // the high watermark moves while the shard loads
			w.log.with(0, func(p *fakePartition) { p.hw += w.rng.Int64N(p.end - p.hw + 1) })
		}
	}}
	if err := l.run(context.Background()); err != nil {
		w.Errorf("load: %v", err)
		return
	}
	w.Tracef("loaded in epoch %d up to %d, high watermark %d", w.epoch, l.next, l.report.Offsets.HighWatermark)
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
func (w *ExactWorld) append(p Partition, records []byte) (int64, error) {
	fault := w.fault
	w.fault = ""
	switch fault {
	case "refuse":
		return -1, &RefusedError{kafkaerr.NotEnoughReplicas}
	case "fail":
		return -1, errors.New("nothing was written, maybe")
	case "not leader":
		return -1, fmt.Errorf("append: %w", kafkaerr.NotLeaderOrFollower)
	case "foreign":
		w.foreign(p)
	}
	base, err := w.log.Append(p, records)
	w.Tracef("append of %d bytes at %d: %v", len(records), base, err)
	if fault == "fail after writing" {
		return -1, errors.New("something was written, maybe")
	}
	return base, err
}

// foreign is a record that the shard did not write: a client may, as an administrator.
func (w *ExactWorld) foreign(p Partition) {
	r := batch.NewRecord{Key: []byte("foreign"), Value: make([]byte, 8)}
	if _, err := w.log.Append(p, batch.New(batch.BuilderOptions{}, r)); err != nil {
		w.t.Fatal(err)
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

// Committed is the end of what is committed in the log.
func (w *ExactWorld) Committed() int64 { return w.log.partitions[0].hw }

// Records is the log by offset.
func (w *ExactWorld) Records() []Record { return w.records() }

// Now is the time of the world.
func (w *ExactWorld) Now() time.Time { return w.now }
