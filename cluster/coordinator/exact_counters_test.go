package coordinator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// TestExact runs counters through the exact tier. Its invariants:
//
//	OneAnswer         every operation is answered once
//	AckedIsThere      what was answered without error is in the log, for good
//	RefusedIsNot      what was refused is not in it
//	NoLostUpdate      the log has each value of a counter once, in order: no operation was
//	                  decided on state that did not stay
//	StateIsTheLog     committed and newest state are what the log says, at any time
//	OrderOfAnswers    operations are acknowledged in their order
func TestExact(t *testing.T) {
	var all counts
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		if *oneSeed != 0 {
			seed = *oneSeed
		}
		w := runExact(seed, exactSteps, noFlaw, countersOf(&all, nil))
		all.cleanings += w.cleanings
		if len(w.broken) > 0 {
			t.Fatalf("seed %d: %s; its trace:\n%s", seed, w.broken[0], w.tail())
		}
		if *oneSeed != 0 {
			t.Log(w.trace.String())
			return
		}
	}
	t.Logf("%d seeds: %+v", *seeds, all)
	all.requireAll(t)
}

const exactSteps = 400

// TestExactFindsFlaws: what is broken on purpose is noticed, and as what it is.
func TestExactFindsFlaws(t *testing.T) {
	for _, c := range []struct {
		name  string
		how   flaw
		spoil func(*counters) Shard
		found []string
	}{
		{"told of a high watermark too early", earlyWatermark, nil, []string{"AckedIsThere", "the shard has committed"}},
		{"refused but written", lyingRefusal, nil, []string{"RefusedIsNot", "newest state", "committed state"}},
		{"cleaned above the high watermark", cleanedPending, nil, []string{"committed state", "newest state"}},
		{"tombstones go before what they delete", earlyTombstones, nil, []string{"committed state", "newest state"}},
		{"written but lost", lostAppend, nil, []string{"AckedIsThere", "the shard has committed", "newest state", "committed state"}},
		{"keeps what was refused", noFlaw, func(s *counters) Shard { return keepsRefused{s} }, []string{"newest state", "committed state"}},
		{"commits what is pending", noFlaw, func(s *counters) Shard { return commitsAll{s} }, []string{"committed state"}},
		{"forgets to answer", noFlaw, func(s *counters) Shard { return forgets{s} }, []string{"OneAnswer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 200; seed++ {
				w := runExact(seed, exactSteps, c.how, countersOf(new(counts), c.spoil))
				if len(w.broken) == 0 {
					continue
				}
				if !slices.ContainsFunc(c.found, func(prefix string) bool { return strings.HasPrefix(w.broken[0], prefix) }) {
					t.Errorf("found as %q; its trace:\n%s", w.broken[0], w.tail())
				}
				return
			}
			t.Error("not found")
		})
	}
}

// keepsRefused does not take back what was not written.
type keepsRefused struct{ *counters }

// Rollback implements Shard.
func (keepsRefused) Rollback(int64) {}

// commitsAll takes everything that is replayed for committed.
type commitsAll struct{ *counters }

// Replay implements Shard.
func (s commitsAll) Replay(offset int64, r Record) error {
	err := s.counters.Replay(offset, r)
	s.values.Advance(offset + 1)
	return err
}

// Rollback implements Shard.
func (commitsAll) Rollback(int64) {}

// forgets drops the answers of what it does by itself.
type forgets struct{ *counters }

// Tick implements Shard.
func (s forgets) Tick(now time.Time) Effects {
	e := s.counters.Tick(now)
	e.Answers = nil
	return e
}

// countersOf makes the workload, with the shard spoiled if spoil is not nil.
func countersOf(all *counts, spoil func(*counters) Shard) func(*exactWorld) exactWorkload {
	return func(w *exactWorld) exactWorkload { return &countersWorkload{w: w, counts: all, spoil: spoil} }
}

// counts is what a whole run has met: a tier that never sees a fault proves nothing.
type counts struct{ acked, refused, late, lost, hooks, tombstones, cleanings int }

func (c *counts) requireAll(t *testing.T) {
	if c.acked == 0 || c.refused == 0 || c.late == 0 || c.lost == 0 || c.hooks == 0 || c.tombstones == 0 || c.cleanings == 0 {
		t.Errorf("something was never met: %+v", *c)
	}
}

type countersWorkload struct {
	w      *exactWorld
	counts *counts
	spoil  func(*counters) Shard
	shard  *counters
	ops    []*counterOp // of this life
	number int
	life   int
	last   int // the last operation that was acknowledged in this life
}

type counterOp struct {
	number, life int
	records      []counterValue
	issued       time.Time
	answers      int
}

type counterValue struct {
	name string
	n    int64 // 0: a tombstone
}

func (v counterValue) record() Record {
	if v.n == 0 {
		return Record{Key: []byte(v.name)}
	}
	return counterRecord(v.name, v.n)
}

func (v counterValue) is(r Record) bool {
	return string(r.Key) == v.name && (r.Value == nil) == (v.n == 0) &&
		(r.Value == nil || int64(binary.BigEndian.Uint64(r.Value)) == v.n)
}

func (c *countersWorkload) NewShard() Shard {
	if err := c.Ended(); err != nil && !c.w.killed {
		c.w.violated("%v", err)
	}
	c.life, c.last, c.ops = c.life+1, -1, nil
	c.shard = newCounters(0)
	c.shard.onTick = func(time.Time) Effects { return c.op(c.value("ticks")) }
	c.shard.deadline = c.w.now.Add(time.Second)
	c.shard.onLoaded = func() Effects { return c.op(c.value("loaded")) }
	if c.spoil != nil {
		return c.spoil(c.shard)
	}
	return c.shard
}

func (c *countersWorkload) value(name string) counterValue {
	n, _ := c.shard.values.Get(name)
	return counterValue{name, n + 1}
}

// op is an operation that writes values.
func (c *countersWorkload) op(values ...counterValue) Effects {
	c.number++
	op := &counterOp{number: c.number, life: c.life, records: values, issued: c.w.now}
	c.ops = append(c.ops, op)
	e := Effects{Answers: []func(error){func(err error) { c.answered(op, err) }}}
	for _, v := range values {
		e.Records = append(e.Records, v.record())
	}
	c.w.tracef("op %d: %v", op.number, values)
	return e
}

func (c *countersWorkload) Step(_ time.Time, rng *rand.Rand, do func(Effects)) {
	name := string(rune('a' + rng.IntN(4)))
	switch rng.IntN(14) {
	case 12:
		do(c.op(counterValue{fmt.Sprint("once-", c.number), 1}))
	case 13:
		do(c.op(c.passing()...))
	case 0:
		do(c.op())
	case 1:
		do(c.op(c.value("x"), c.value("y")))
	case 2:
		e := c.op(c.value("p"), c.value("q"), c.value("r"), c.value("s"))
		e.Divisible = true
		e.Answers = nil // a part may be refused
		c.ops = c.ops[:len(c.ops)-1]
		do(e)
	case 3:
		e := c.op(c.value(name))
		e.Committed = func(time.Time) Effects { c.counts.hooks++; return c.op(c.value("committed")) }
		e.Refused = func(time.Time, error) Effects { c.counts.hooks++; return c.op(c.value("refused")) }
		do(e)
	case 4:
		e := c.op()
		e.Records = []Record{{Key: make([]byte, 700), Value: make([]byte, 8)}} // never fits
		do(e)
	default:
		do(c.op(c.value(name)))
	}
}

// passing removes the oldest counter that is used once.
func (c *countersWorkload) passing() []counterValue {
	var once []string
	for name := range c.shard.values.All() {
		if strings.HasPrefix(name, "once-") {
			once = append(once, name)
		}
	}
	if len(once) == 0 {
		return nil
	}
	c.counts.tombstones++
	return []counterValue{{name: slices.Min(once)}}
}

func (c *countersWorkload) answered(op *counterOp, err error) {
	if op.answers++; op.answers > 1 {
		c.w.violated("OneAnswer: operation %d was answered again: %v", op.number, err)
	}
	if err == nil {
		c.acked(op)
		return
	}
	c.w.tracef("op %d: %v", op.number, err)
	in := c.find(op.records)
	late := c.w.now.Sub(op.issued) >= 5*time.Second
	switch {
	case errors.Is(err, kafkaerr.NotCoordinator):
		c.counts.lost++
	case late && errors.Is(err, kafkaerr.CoordinatorNotAvailable):
		c.counts.late++
	case in && len(op.records) > 0:
		c.w.violated("RefusedIsNot: operation %d got %v and is in the log", op.number, err)
	default:
		c.counts.refused++
	}
}

func (c *countersWorkload) acked(op *counterOp) {
	c.counts.acked++
	c.w.tracef("op %d: ok", op.number)
	if !c.find(op.records) {
		c.w.violated("AckedIsThere: operation %d is not among the committed records", op.number)
	}
	if op.life != c.life {
		c.w.violated("operation %d of life %d was acknowledged in life %d", op.number, op.life, c.life)
	}
	if op.number < c.last {
		c.w.violated("OrderOfAnswers: operation %d was acknowledged after %d", op.number, c.last)
	}
	c.last = op.number
}

// find tells whether all values are in the committed part of the log.
func (c *countersWorkload) find(values []counterValue) bool {
	records := c.w.records()[:c.w.log.partitions[0].hw]
	for _, v := range values {
		found := false
		for _, r := range records {
			found = found || v.is(r)
		}
		if !found {
			return false
		}
	}
	return true
}

func (c *countersWorkload) Check(records []Record, newest bool) error {
	want := map[string]int64{}
	for o, r := range records {
		name := string(r.Key)
		if r.Value == nil {
			delete(want, name)
			continue
		}
		n := int64(binary.BigEndian.Uint64(r.Value))
		if n != want[name]+1 && name != "foreign" {
			return fmt.Errorf("NoLostUpdate: %s is %d at offset %d, after %d", name, n, o, want[name])
		}
		want[name] = n
	}
	got := maps.Collect(c.shard.values.AllCommitted())
	if newest {
		got = maps.Collect(c.shard.values.All())
	}
	if d := cmp.Diff(want, got); d != "" {
		return fmt.Errorf("StateIsTheLog (-log +shard): %s", d)
	}
	return nil
}

func (c *countersWorkload) Ended() error {
	for _, op := range c.ops {
		if op.answers == 0 {
			return fmt.Errorf("OneAnswer: operation %d was never answered", op.number)
		}
	}
	return nil
}
