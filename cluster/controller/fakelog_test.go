package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// fakeLog is a metadata log in memory with the rule of D17: an entry is applied only in
// the term in which it was computed, and only directly after the one numbered before it.
// Entries are committed one after the other, latency apart. What is not atomic is guarded
// by mu.
type fakeLog struct {
	leadership chan metalog.Leadership
	latency    atomic.Int64 // nanoseconds

	mu        sync.Mutex
	term      metalog.Term // of this node's leadership; 0: none
	started   uint64       // entries started in this term
	applied   uint64       // entries applied in this term
	image     *metadata.Image
	entries   [][]metadata.Record // applied
	terms     []metalog.Term      // of every Start
	tail      chan struct{}       // closed when the last started entry has its outcome
	barriers  int
	fates     map[uint64]fate // by number within the term
	noBarrier error
	full      error // what Start answers until further notice
}

// fate is what a test has planned for an entry.
type fate struct {
	drop   bool  // never applied
	report error // what Wait answers
	start  error // what Start answers; nothing is written
}

type fakeProposal struct {
	done chan struct{}
	at   metadata.Position
	err  error
}

func newFakeLog() *fakeLog {
	tail := make(chan struct{})
	close(tail)
	delta := metadata.NewDelta(nil)
	err := delta.Replay(metadata.BootstrapRecord{
		ClusterID: "cluster", Durability: metadata.DurabilityFsync, ForOne: true,
		Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: 1}},
	})
	if err != nil {
		panic(err)
	}
	l := &fakeLog{
		leadership: make(chan metalog.Leadership, 1),
		image:      delta.Image(metadata.Position{Index: 1, Term: 1}),
		tail:       tail,
		fates:      map[uint64]fate{},
	}
	l.delay(time.Millisecond)
	return l
}

// delay sets the latency.
func (l *fakeLog) delay(d time.Duration) { l.latency.Store(int64(d)) }

func (l *fakeLog) sleep() { <-time.After(time.Duration(l.latency.Load())) }

// planNext sets the fate of the next entry that is started.
func (l *fakeLog) planNext(f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fates[l.started+1] = f
}

// fill makes Start answer err until it is nil.
func (l *fakeLog) fill(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = err
}

// tries is how often an entry was started, or refused.
func (l *fakeLog) tries() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.terms)
}

// counts gives how many entries were started in this term, and how many barriers ever.
func (l *fakeLog) counts() (started uint64, barriers int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started, l.barriers
}

func (l *fakeLog) Leadership() <-chan metalog.Leadership { return l.leadership }

// lead makes this node the leader of a term, 0 that of none.
func (l *fakeLog) lead(term metalog.Term) {
	l.mu.Lock()
	l.term, l.started, l.applied = term, 0, 0
	l.mu.Unlock()
	select {
	case <-l.leadership:
	default:
	}
	l.leadership <- metalog.Leadership{Leader: term != 0, Term: term}
}

func (l *fakeLog) Start(_ context.Context, term metalog.Term, records []metadata.Record) (Proposal, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.terms = append(l.terms, term)
	if term != l.term {
		return nil, fmt.Errorf("term %d: %w", term, kafkaerr.NotController)
	}
	f := l.fates[l.started+1]
	delete(l.fates, l.started+1)
	if f.start == nil {
		f.start = l.full
	}
	if f.start != nil {
		return nil, f.start
	}
	l.started++
	p := &fakeProposal{done: make(chan struct{})}
	before, number := l.tail, l.started
	l.tail = p.done
	go func() {
		<-before
		l.sleep()
		l.settle(p, term, number, f, records)
		close(p.done)
	}()
	return p, nil
}

func (l *fakeLog) settle(p *fakeProposal, term metalog.Term, number uint64, f fate, records []metadata.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.drop || term != l.term || number != l.applied+1 {
		p.err = fmt.Errorf("entry dropped: %w", kafkaerr.NotController)
	} else {
		l.applied++
		p.at = l.apply(records)
	}
	if f.report != nil {
		p.err = f.report
	}
}

func (l *fakeLog) apply(records []metadata.Record) metadata.Position {
	delta := metadata.NewDelta(l.image)
	if err := delta.ReplayAll(records...); err != nil {
		panic(err)
	}
	at := metadata.Position{Index: l.image.Position().Index + 1, Term: l.term}
	l.image = delta.Image(at)
	l.entries = append(l.entries, records)
	return at
}

func (l *fakeLog) Barrier(ctx context.Context, term metalog.Term) (*metadata.Image, error) {
	l.mu.Lock()
	before := l.tail
	l.mu.Unlock()
	select {
	case <-before:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.sleep()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.barriers++
	switch {
	case l.noBarrier != nil:
		return nil, l.noBarrier
	case term != l.term:
		return nil, kafkaerr.NotController
	}
	l.started = l.applied // what was dropped leaves no gap after a barrier
	return l.image, nil
}

func (l *fakeLog) refuseBarriers(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noBarrier = err
}

func (l *fakeLog) startTerms() []metalog.Term {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.terms)
}

// drain waits for the entries on their way.
func (l *fakeLog) drain() {
	l.mu.Lock()
	tail := l.tail
	l.mu.Unlock()
	<-tail
}

func (l *fakeLog) newest() *metadata.Image {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.image
}

func (p *fakeProposal) Wait(ctx context.Context) (metadata.Position, error) {
	select {
	case <-p.done:
		return p.at, p.err
	case <-ctx.Done():
		return metadata.Position{}, ctx.Err()
	}
}
