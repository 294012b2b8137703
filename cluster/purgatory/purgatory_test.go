package purgatory

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// fakeOp is done when its flag is set.
type fakeOp struct {
	item  Item[int]
	done  atomic.Bool
	tries atomic.Int32
	ends  atomic.Int32
	cause Cause
	onTry func()
}

func (o *fakeOp) TryComplete() bool {
	o.tries.Add(1)
	if o.onTry != nil {
		o.onTry()
	}
	return o.done.Load()
}

func (o *fakeOp) OnComplete(c Cause) { o.cause = c; o.ends.Add(1) }

func (o *fakeOp) park(p *Purgatory[int], timeout time.Duration, keys ...int) Cause {
	return p.TryCompleteElseWatch(&o.item, o, keys, timeout)
}

func inBubble(t *testing.T, o Options, f func(*testing.T, *Purgatory[int])) {
	synctest.Test(t, func(t *testing.T) {
		p := New[int](o)
		f(t, p)
		p.Close()
	})
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestDoneAtOnceNeverWatches(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Purgatory[int]) {
		var op fakeOp
		op.done.Store(true)
		expect(t, "cause", op.park(p, time.Second, 1), Satisfied)
		expect(t, "waiting", p.Len(), 0)
		expect(t, "ends", op.ends.Load(), int32(0))
	})
}

func TestAnyKeyCompletes(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Purgatory[int]) {
		for key := 1; key <= 3; key++ {
			var op fakeOp
			expect(t, "cause", op.park(p, time.Second, 1, 2, 3), Waiting)
			expect(t, "too early", p.CheckAndComplete(key), 0)
			op.done.Store(true)
			expect(t, "another key", p.CheckAndComplete(4), 0)
			expect(t, "completed", p.CheckAndComplete(key), 1)
			expect(t, "once", p.CheckAndComplete(key), 0)
			expect(t, "ends", op.ends.Load(), int32(1))
			expect(t, "cause", op.cause, Satisfied)
			expect(t, "waiting", p.Len(), 0)
		}
	})
}

// TestManyEventsAreOneLook: what waits for thousands of things that all have changed looks
// at them once.
func TestManyEventsAreOneLook(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Purgatory[int]) {
		expect(t, "nobody", p.CheckAndCompleteAll([]int{1, 2}), 0)
		var many, one, other fakeOp
		many.park(p, time.Second, 1, 2, 3)
		one.park(p, time.Second, 2)
		other.park(p, time.Second, 4)
		before := many.tries.Load()
		one.done.Store(true)
		expect(t, "completed", p.CheckAndCompleteAll([]int{1, 2, 3}), 1)
		expect(t, "looks", many.tries.Load()-before, int32(1))
		expect(t, "ends", []int32{many.ends.Load(), one.ends.Load(), other.ends.Load()}, []int32{0, 1, 0})
		many.done.Store(true)
		other.done.Store(true)
		expect(t, "completed", p.CheckAndCompleteAll([]int{3, 3, 4}), 2)
		expect(t, "waiting", p.Len(), 0)
	})
}

// lateOp sees its event only from the second try on.
type lateOp struct {
	fakeOp
	p *Purgatory[int]
}

func (o *lateOp) TryComplete() bool {
	if o.tries.Add(1) == 1 {
		o.p.CheckAndComplete(1) // the event: nobody watches yet
		return false
	}
	return true
}

// TestEventBetweenTryAndWatch: the event of step 2 in the package comment is not lost.
func TestEventBetweenTryAndWatch(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Purgatory[int]) {
		op := &lateOp{p: p}
		expect(t, "cause", p.TryCompleteElseWatch(&op.item, op, []int{1}, time.Second), Satisfied)
		expect(t, "ends", op.ends.Load(), int32(0))
	})
}

// TestEventDuringTry: an event that arrives while another goroutine is trying makes
// that goroutine try again.
func TestEventDuringTry(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Purgatory[int]) {
		var op fakeOp
		expect(t, "cause", op.park(p, time.Minute, 1), Waiting)
		read := make(chan struct{})
		event := make(chan struct{})
		op.onTry = func() {
			if op.tries.Load() == 3 {
				close(read)
				<-event
			}
		}
		go p.CheckAndComplete(1)
		<-read
		// The goroutine above is inside TryComplete. This call does not wait for it.
		expect(t, "by the second", p.CheckAndComplete(1), 0)
		op.onTry = nil
		close(event)
		synctest.Wait()
		expect(t, "tries", op.tries.Load(), int32(4))
		expect(t, "waiting", p.Len(), 1)
	})
}

func TestDeadline(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Purgatory[int]) {
		var late, early fakeOp
		late.park(p, 30*time.Second, 1)
		early.park(p, 500*time.Millisecond, 1, 2) // moves the timer forward
		time.Sleep(499 * time.Millisecond)
		synctest.Wait()
		expect(t, "before", early.ends.Load(), int32(0))
		time.Sleep(time.Millisecond)
		synctest.Wait()
		expect(t, "early", early.cause, Expired)
		expect(t, "late still waits", late.ends.Load(), int32(0))
		time.Sleep(30 * time.Second)
		synctest.Wait()
		expect(t, "late", late.cause, Expired)
		expect(t, "waiting", p.Len(), 0)
	})
}

func TestTimeoutZeroEndsAtOnce(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Purgatory[int]) {
		var op fakeOp
		expect(t, "cause", op.park(p, 0, 1), Expired)
		expect(t, "tries", op.tries.Load(), int32(1))
	})
}

func TestCancel(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Purgatory[int]) {
		var op fakeOp
		op.park(p, time.Second, 1)
		p.Cancel(&op.item)
		expect(t, "cause", op.cause, Cancelled)
		p.Cancel(&op.item)
		expect(t, "ends", op.ends.Load(), int32(1))
	})
}

func TestFullAndClosed(t *testing.T) {
	inBubble(t, Options{MaxOperations: 1}, func(t *testing.T, p *Purgatory[int]) {
		var a, b, c, d fakeOp
		expect(t, "first", a.park(p, time.Second, 1), Waiting)
		expect(t, "second", b.park(p, time.Second, 1), Refused)
		p.Cancel(&a.item)
		expect(t, "third", c.park(p, time.Second, 1), Waiting)
		p.Close()
		expect(t, "at close", c.cause, Cancelled)
		expect(t, "after close", d.park(p, time.Second, 1), Refused)
	})
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	inBubble(t, Options{Name: "Produce", MaxOperations: 1, Registerer: reg}, func(t *testing.T, p *Purgatory[int]) {
		var a, b fakeOp
		a.park(p, time.Second, 1)
		b.park(p, time.Second, 1)
		expect(t, "metrics", gather(t, reg), map[string]float64{
			"kafka_server_delayedoperationpurgatory_purgatorysize":        1,
			"kafka_server_delayedoperationpurgatory_numdelayedoperations": 1,
			"klamm_purgatory_refused_total":                               1,
			"klamm_purgatory_expired_total":                               0,
		})
	})
}

func gather(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		got[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return got
}

// TestOnceUnderFire races events, cancels and deadlines on reused items.
func TestOnceUnderFire(t *testing.T) {
	p := New[int](Options{})
	defer p.Close()
	const keys, rounds, workers = 4, 300, 4
	stop := make(chan struct{})
	var pokers, parkers sync.WaitGroup
	for key := range keys {
		pokers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					p.CheckAndComplete(key)
				}
			}
		})
	}
	for w := range workers {
		parkers.Go(func() { parkAndEnd(t, p, rand.New(rand.NewPCG(1, uint64(w))), keys, rounds) })
	}
	parkers.Wait()
	close(stop)
	pokers.Wait()
	expect(t, "waiting", p.Len(), 0)
	expect(t, "watched keys", len(p.lists.watchers), 0)
}

// endingOp counts its ends and tells each.
type endingOp struct {
	fakeOp
	ended chan Cause
}

func (o *endingOp) OnComplete(c Cause) { o.ends.Add(1); o.ended <- c }

func parkAndEnd(t *testing.T, p *Purgatory[int], rnd *rand.Rand, keys, rounds int) {
	op := &endingOp{ended: make(chan Cause, 1)}
	for range rounds {
		op.done.Store(rnd.IntN(8) == 0)
		op.ends.Store(0)
		watched := []int{rnd.IntN(keys), rnd.IntN(keys)}[:1+rnd.IntN(2)]
		if p.TryCompleteElseWatch(&op.item, op, watched, time.Duration(rnd.IntN(300))*time.Microsecond) != Waiting {
			continue
		}
		switch rnd.IntN(3) {
		case 0:
			op.done.Store(true)
		case 1:
			p.Cancel(&op.item)
		}
		<-op.ended
		if n := op.ends.Load(); n != 1 {
			t.Errorf("ended %d times", n)
		}
	}
}

// TestSteadyWaitAllocatesNothing is the budget of a produce that waits for its flush.
func TestSteadyWaitAllocatesNothing(t *testing.T) {
	p := New[int](Options{})
	defer p.Close()
	op := &fakeOp{}
	key := []int{1}
	avg := testing.AllocsPerRun(1000, func() {
		op.done.Store(false)
		p.TryCompleteElseWatch(&op.item, op, key, time.Minute)
		op.done.Store(true)
		p.CheckAndComplete(1)
	})
	expect(t, "allocations", avg, 0.0)
}
