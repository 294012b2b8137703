package group

import (
	"container/heap"
	"time"
)

// timer is one deadline: what to do, and when. It is stopped while index is negative.
type timer struct {
	run   func(o *op)
	at    time.Time
	seq   uint64 // among equal deadlines, the order in which they were set
	index int
}

func newTimer(run func(o *op)) *timer { return &timer{run: run, index: -1} }

// timers holds the deadlines of one shard. An event changes one deadline in logarithmic
// time; nothing is paid while no deadline passes.
type timers struct {
	queue timerQueue
	seq   uint64
}

// set makes t due at the given time, instead of when it was due before.
func (ts *timers) set(t *timer, at time.Time) {
	ts.seq++
	t.at, t.seq = at, ts.seq
	if t.index >= 0 {
		heap.Fix(&ts.queue, t.index)
		return
	}
	heap.Push(&ts.queue, t)
}

// stop makes t due never.
func (ts *timers) stop(t *timer) {
	if t.index >= 0 {
		heap.Remove(&ts.queue, t.index)
	}
}

// next is the earliest deadline.
func (ts *timers) next() (time.Time, bool) {
	if len(ts.queue) == 0 {
		return time.Time{}, false
	}
	return ts.queue[0].at, true
}

// due takes the earliest timer if it is due at now and was set before the sequence number
// limit: what a timer sets anew runs at the next Tick, not in this one.
func (ts *timers) due(now time.Time, limit uint64) *timer {
	if len(ts.queue) == 0 || ts.queue[0].at.After(now) || ts.queue[0].seq > limit {
		return nil
	}
	return heap.Pop(&ts.queue).(*timer)
}

// timerQueue orders timers by deadline, for container/heap.
type timerQueue []*timer

func (q timerQueue) Len() int { return len(q) }

func (q timerQueue) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].seq < q[j].seq
	}
	return q[i].at.Before(q[j].at)
}

func (q timerQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *timerQueue) Push(x any) {
	t := x.(*timer)
	t.index = len(*q)
	*q = append(*q, t)
}

func (q *timerQueue) Pop() any {
	old := *q
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	t.index = -1
	return t
}
