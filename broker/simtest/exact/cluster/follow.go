package cluster

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/replica"
)

// fetcher drives one replica.Fetcher, as replica.Manager's does, one request at a time.
// What metadata changes it hears of only between two requests: an answer may find that a
// replica leads by now, or follows somebody else.
type fetcher struct {
	b       *broker
	key     fetcherKey
	core    *replica.Fetcher
	changes []followChange
	busy    bool // a request is under way, or a look is scheduled
	over    bool // no replica is left to it
	// awaitsFlush: nothing before a group commit.
	awaitsFlush bool
	requests    int  // sent so far
	asking      bool // the last of them has no answer yet
}

type fetcherKey struct {
	leader    int32
	d         *directory
	throttled bool
}

// followChange is to follow in an epoch, or with a nil partition to leave.
type followChange struct {
	id    replica.TopicIDPartition
	p     *partition
	epoch int32
}

// patience is how long changes wait for the answer to the request that is under way.
//
// In production it is 10 ms, in which almost every answer is there; here they take longer.
const patience = 20 * time.Millisecond

func (b *broker) follow(p *partition, leader, epoch int32) {
	key := fetcherKey{leader, p.d, p.throttled(p.config.FollowerThrottled)}
	if old := b.fetchedBy[p.id]; old != nil && old.key != key {
		b.leave(p)
	}
	f := b.fetchers[key]
	if f == nil {
		f = &fetcher{b: b, key: key, core: replica.NewFetcher(replica.FetcherOptions{
			BrokerID: b.n.id, BrokerEpoch: func() int64 { return b.epoch },
			PartitionMaxBytes: b.w.plan.fetchBytes, MaxBytes: 2 * b.w.plan.fetchBytes, MinBytes: 1,
			MaxWait: fetchWait, Backoff: fetchBackoff, Full: p.d.Full, Throttle: &askedThrottle{Throttle: b.followerThrottle, w: b.w},
		})}
		b.fetchers[key] = f
	}
	b.fetchedBy[p.id] = f
	f.changes = append(f.changes, followChange{p.id, p, epoch})
	f.wake()
	if request := f.requests; f.asking {
		b.after(patience, "fetch is given up", func() { f.interrupt(request) })
	}
}

// leave ends the fetching of p. What is being answered about it may still be appended, if
// it follows on.
func (b *broker) leave(p *partition) {
	f := b.fetchedBy[p.id]
	if f == nil {
		return
	}
	delete(b.fetchedBy, p.id)
	f.changes = append(f.changes, followChange{id: p.id})
	for _, other := range b.fetchedBy {
		if other == f {
			f.wake()
			return
		}
	}
	f.over = true
	delete(b.fetchers, f.key)
}

// flushed wakes the fetchers that waited for a group commit.
func (b *broker) flushed() {
	for _, n := range b.w.nodes { // in an order that is always the same
		for _, d := range b.dirs {
			for _, throttled := range []bool{false, true} {
				if f := b.fetchers[fetcherKey{n.id, d, throttled}]; f != nil && f.awaitsFlush {
					f.wake()
				}
			}
		}
	}
}

// wake has the fetcher look soon.
func (f *fetcher) wake() {
	if f.busy {
		return
	}
	f.busy = true
	f.b.after(f.b.w.delay()/8, "fetcher looks", func() {
		f.busy = false
		f.look()
	})
}

func (f *fetcher) look() {
	if f.over {
		return
	}
	for _, c := range f.changes {
		if c.p == nil {
			f.core.Leave(c.id)
			continue
		}
		f.core.Follow(c.p.Partition, c.epoch)
	}
	f.changes = nil
	w := f.b.w
	step := f.core.Next(w.now)
	f.awaitsFlush = step.ForFlush
	switch {
	case step.Request != nil:
		f.busy = true
		f.request(step.Request)
		return
	case step.ForFlush:
		f.key.d.wantFlush()
	}
	if !step.Until.IsZero() {
		f.b.after(step.Until.Sub(w.now), "fetcher's pause ends", f.wake)
	}
}

// request sends what the core wants sent.
func (f *fetcher) request(req kmsg.Request) {
	w := f.b.w
	w.breakRequest(req)
	f.requests++
	f.asking = true
	request := f.requests
	done := func(resp kmsg.Response, err error) {
		if f.over || !f.asking || f.requests != request {
			return
		}
		f.asking = false
		f.b.appendAnyway(resp)
		f.b.flushAlone(f.took(f.core.Answered(w.now, resp, err)), func() {
			f.busy = false
			f.wake()
		})
	}
	switch req := req.(type) {
	case *kmsg.FetchRequest:
		f.b.forgetAnyway(req)
		w.judge.asks(f.b, req)
		call(w, f.b, f.key.leader, "fetch", func(b *broker, reply func(kmsg.Response)) { b.serveFetch(req, reply) }, done)
	case *kmsg.ListOffsetsRequest:
		call(w, f.b, f.key.leader, "list offsets", func(b *broker, reply func(kmsg.Response)) { b.serveListOffsets(req, reply) }, done)
	}
}

// interrupt gives a request up for the sake of changes, if it is still under way.
func (f *fetcher) interrupt(request int) {
	if f.over || !f.asking || f.requests != request {
		return
	}
	f.asking, f.busy = false, false
	f.core.Interrupted()
	f.wake()
}

// took carries out what an answer came to, but for what is to be flushed alone.
func (f *fetcher) took(effects []replica.FollowerEffects) *flushAlone {
	alone := &flushAlone{b: f.b}
	for i := range effects {
		e := &effects[i]
		if p := f.b.parts[e.Partition.ID()]; p != nil && p.Partition == e.Partition {
			f.b.carryOut(p, e.Effects)
			if e.FlushAlone {
				alone.add(p, e.Forget)
			}
		}
	}
	return alone
}
