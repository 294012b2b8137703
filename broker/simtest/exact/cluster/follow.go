package cluster

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/replica"
)

// fetcher drives one replica.Fetcher, as replica.Manager's does, one request at a time.
type fetcher struct {
	b    *broker
	key  fetcherKey
	core *replica.Fetcher
	busy bool // a request is under way, or a look is scheduled
	// awaitsFlush: nothing before a group commit.
	awaitsFlush bool
}

type fetcherKey struct {
	leader int32
	d      *directory
}

func (b *broker) follow(p *partition, leader, epoch int32) {
	key := fetcherKey{leader, p.d}
	for k, f := range b.fetchers {
		if k != key {
			f.core.Leave(p.id)
		}
	}
	f := b.fetchers[key]
	if f == nil {
		f = &fetcher{b: b, key: key, core: replica.NewFetcher(replica.FetcherOptions{
			BrokerID: b.n.id, BrokerEpoch: func() int64 { return b.epoch },
			PartitionMaxBytes: b.w.plan.fetchBytes, MaxBytes: 2 * b.w.plan.fetchBytes, MinBytes: 1,
			MaxWait: fetchWait, Backoff: fetchBackoff,
		})}
		b.fetchers[key] = f
	}
	f.core.Follow(p.Partition, epoch)
	f.wake()
}

// leave ends the fetching of p.
func (b *broker) leave(p *partition) {
	for _, f := range b.fetchers {
		f.core.Leave(p.id)
	}
}

// flushed wakes the fetchers that waited for a group commit.
func (b *broker) flushed() {
	for _, n := range b.w.nodes { // in an order that is always the same
		for _, d := range b.dirs {
			if f := b.fetchers[fetcherKey{n.id, d}]; f != nil && f.awaitsFlush {
				f.wake()
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
	done := func(resp kmsg.Response, err error) {
		f.busy = false
		w.breakResponse(resp)
		f.took(f.core.Answered(w.now, resp, err))
		f.wake()
	}
	switch req := req.(type) {
	case *kmsg.FetchRequest:
		call(w, f.b, f.key.leader, "fetch", func(b *broker, reply func(kmsg.Response)) { b.serveFetch(req, reply) }, done)
	case *kmsg.ListOffsetsRequest:
		call(w, f.b, f.key.leader, "list offsets", func(b *broker, reply func(kmsg.Response)) { b.serveListOffsets(req, reply) }, done)
	}
}

// took carries out what an answer came to.
func (f *fetcher) took(effects []replica.FollowerEffects) {
	for i := range effects {
		e := &effects[i]
		if p := f.b.parts[e.Partition.ID()]; p != nil && p.Partition == e.Partition {
			f.b.carryOut(p, e.Effects)
		}
	}
}
