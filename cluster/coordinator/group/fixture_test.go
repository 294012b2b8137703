package group

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// fixture runs one shard the way the runtime does, over a log in memory, in virtual time.
// Each operation is a batch, unless linger is set.
type fixture struct {
	t      testing.TB
	config Config
	shard  *Shard
	rand   *rand.ChaCha8
	now    time.Time

	log     []coordinator.Record // as it was written
	gone    []bool               // what compaction has taken of it
	cleaned int64                // up to where
	hw      int64
	batch   []coordinator.Record
	ops     []coordinator.Effects // of the open batch
	linger  bool                  // the open batch waits for flush
	hold    bool                  // the high watermark stands still
	refuse  error                 // what the next append is refused with
	waiting []waiter
	// onRecord sees every record that is written.
	onRecord func(r coordinator.Record)
}

type waiter struct {
	end     int64
	effects coordinator.Effects
}

// epoch is when the virtual clock begins.
var epoch = time.UnixMilli(1_700_000_000_000)

func newFixture(t testing.TB, seed uint64) *fixture {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	f := &fixture{t: t, config: DefaultConfig(), rand: rand.NewChaCha8(key), now: epoch, onRecord: func(coordinator.Record) {}}
	f.load()
	return f
}

// load makes the shard anew from what is left of the log.
func (f *fixture) load() {
	f.waiting, f.batch, f.ops = nil, nil, nil
	f.shard = f.replayed(f.isGone)
	if f.cleaned > 0 {
		whole := hardState(f.replayed(func(int) bool { return false }))
		if d := cmp.Diff(whole, hardState(f.shard)); d != "" {
			f.t.Errorf("StateIsTheLog: cleaned up to %d of %d the log is loaded as another (-whole +cleaned): %s", f.cleaned, len(f.log), d)
		}
	}
	f.carryOut(f.shard.OnImage(f.now, nil, nil))
	f.carryOut(f.shard.Loaded(f.now))
}

// replayed is a shard that has replayed the records that are left.
func (f *fixture) replayed(gone func(int) bool) *Shard {
	s := NewShard(ShardOptions{Config: f.config, Rand: f.rand, Logger: slog.New(slog.DiscardHandler)})
	s.Committed(f.hw)
	for i, r := range f.log {
		if gone(i) {
			continue
		}
		if err := s.Replay(int64(i), r); err != nil {
			f.t.Fatalf("replay record %d: %v", i, err)
		}
	}
	return s
}

// crash drops the shard and loads it again. What lies above the high watermark may be
// lost; keep says how much of it is not.
func (f *fixture) crash(keep int) {
	f.log = f.log[:int(f.hw)+min(keep, len(f.log)-int(f.hw))]
	f.load()
	if !f.hold {
		f.advance(int64(len(f.log)))
	}
}

// carryOut does what an operation wants: its records are replayed at once and go into the
// open batch.
func (f *fixture) carryOut(e coordinator.Effects) {
	for _, r := range e.Records {
		if err := f.shard.Replay(int64(len(f.log)+len(f.batch)), r); err != nil {
			f.t.Fatalf("replay own record: %v", err)
		}
		f.batch = append(f.batch, r)
	}
	f.ops = append(f.ops, e)
	if !f.linger {
		f.flush()
	}
}

// flush appends the open batch, or has it refused.
func (f *fixture) flush() {
	base, batch, ops := int64(len(f.log)), f.batch, f.ops
	f.batch, f.ops = nil, nil
	if err := f.refuse; err != nil && len(batch) > 0 {
		f.refuse = nil
		f.shard.Rollback(base)
		for _, e := range ops {
			f.refused(e, err)
		}
		return
	}
	for _, r := range batch {
		f.log = append(f.log, r)
		f.onRecord(r)
	}
	for _, e := range ops {
		f.waiting = append(f.waiting, waiter{int64(len(f.log)), e})
	}
	if !f.hold {
		f.advance(int64(len(f.log)))
	}
}

func (f *fixture) refused(e coordinator.Effects, err error) {
	if e.Refused != nil {
		f.carryOut(e.Refused(f.now, err))
	}
	for _, answer := range e.Answers {
		answer(err)
	}
}

// advance moves the high watermark and answers what waited for it.
func (f *fixture) advance(hw int64) {
	f.hw = max(f.hw, hw)
	f.shard.Committed(f.hw)
	for len(f.waiting) > 0 && f.waiting[0].end <= f.hw {
		e := f.waiting[0].effects
		f.waiting = f.waiting[1:]
		if e.Committed != nil {
			f.carryOut(e.Committed(f.now))
		}
		for _, answer := range e.Answers {
			answer(nil)
		}
	}
}

// timeOut ends the waits without a commit: the records stay.
func (f *fixture) timeOut() {
	waiting := f.waiting
	f.waiting = nil
	for _, w := range waiting {
		f.refused(w.effects, kafkaerr.CoordinatorNotAvailable)
	}
}

// pass lets time go by, with a Tick at each deadline.
func (f *fixture) pass(d time.Duration) {
	until := f.now.Add(d)
	for at, n := f.now, 0; ; n++ {
		if !f.now.Equal(at) {
			at, n = f.now, 0
		}
		if n > 1000 {
			f.t.Fatal("the shard wants to be ticked again and again, without time going by")
		}
		at, ok := f.shard.NextDeadline()
		if !ok || at.After(until) {
			break
		}
		f.now = maxTime(f.now, at)
		f.carryOut(f.shard.Tick(f.now))
	}
	f.now = until
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
