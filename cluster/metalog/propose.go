package metalog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// maxInFlight bounds proposals whose outcome is not known. It also bounds what a leader
// that was cut off can leave as a tail on its own log, which must stay below trailingLogs:
// Raft cannot replace a longer tail that reaches beyond a snapshot it is sent.
const maxInFlight = 256

// sequencer numbers the entries of one leadership (D17). Whoever holds it enqueues entries
// in the order of their numbers.
type sequencer struct {
	term Term   // no Barrier has passed yet: 0
	next uint64 // number of the next entry
	// epoch counts barriers, from 1.
	epoch uint64
}

// brokenEpoch is the newest epoch in which a proposal failed: what was computed after it
// must not be sent until a barrier begins another. A failure that is noticed after that
// spoils nothing.
type brokenEpoch struct{ atomic.Uint64 }

func (b *brokenEpoch) raise(epoch uint64) {
	for {
		old := b.Load()
		if old >= epoch || b.CompareAndSwap(old, epoch) {
			return
		}
	}
}

// lock is held by whoever uses the sequencer. A channel, since the holder waits for Raft.
type lock chan struct{}

func (l lock) take(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l lock) release() { <-l }

// Proposal is an entry on its way into the log.
type Proposal struct {
	epoch  uint64
	broken *brokenEpoch
	done   chan struct{}
	pos    metadata.Position
	err    error
}

// Wait gives the outcome: the position at which the records took effect on this node, or
// the error described at Propose. If ctx ends first the outcome stays open, which counts as
// a failure.
func (p *Proposal) Wait(ctx context.Context) (metadata.Position, error) {
	select {
	case <-p.done:
		return p.pos, p.err
	case <-ctx.Done():
		p.broken.raise(p.epoch)
		return metadata.Position{}, notController("outcome of a metadata proposal not awaited", context.Cause(ctx))
	}
}

// Done is closed when Wait will not block.
func (p *Proposal) Done() <-chan struct{} { return p.done }

func notController(what string, cause error) error {
	return fmt.Errorf("%s: %w: %w", what, cause, kafkaerr.NotController)
}

// Propose appends the records as one entry, computed in term, and returns once this node
// has applied it. Proposals take effect in the order of the calls, each as a whole or not
// at all. Within a transaction (D25) only the success of the last entry means that any of
// it took effect.
//
// An error that wraps ErrFull or ErrTooLarge means that nothing was written. One that wraps
// kafkaerr.NotController means that the records did not take effect or that nobody knows:
// then every later proposal of the term fails, too, until a Barrier has passed, and what
// the caller computed from pending records must be computed anew.
func (l *Log) Propose(ctx context.Context, term Term, records []metadata.Record) (metadata.Position, error) {
	p, err := l.Start(ctx, term, records)
	if err != nil {
		return metadata.Position{}, err
	}
	return p.Wait(ctx)
}

// Start is Propose up to the point where the entry has its place after those before it.
func (l *Log) Start(ctx context.Context, term Term, records []metadata.Record) (*Proposal, error) {
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	if err := l.sequence.take(ctx); err != nil {
		l.leave()
		return nil, notController("propose metadata", err)
	}
	defer l.sequence.release()
	p, err := l.start(term, records)
	if err != nil {
		l.leave()
	}
	return p, err
}

// enter takes one of the places for proposals in flight; leave gives it back.
func (l *Log) enter(ctx context.Context) error {
	select {
	case l.inFlight <- struct{}{}:
	case <-ctx.Done():
		return notController("propose metadata", context.Cause(ctx))
	case <-l.closing:
		return ErrClosed
	}
	l.metrics.inFlight.Inc()
	select {
	case <-l.closing: // Close waits for those who entered before it
		l.leave()
		return ErrClosed
	default:
		return nil
	}
}

func (l *Log) leave() {
	<-l.inFlight
	l.metrics.inFlight.Dec()
}

// start sends an entry to Raft. The caller holds the sequencer.
func (l *Log) start(term Term, records []metadata.Record) (*Proposal, error) {
	s := &l.seq
	switch {
	case l.failure() != nil:
		return nil, notController("propose metadata", l.failure())
	case s.term != term || s.term == 0:
		return nil, notController("propose metadata", fmt.Errorf("no barrier has passed in term %d", term))
	case l.broken.Load() >= s.epoch:
		return nil, notController("propose metadata", errors.New("a proposal failed and no barrier has passed since"))
	}
	entry := metadata.Entry{Term: term, Number: s.next, Records: records}
	b, err := metadata.EncodeEntry(entry, l.Image().Feature(metadata.FeatureMetadata))
	if err != nil {
		return nil, fmt.Errorf("propose metadata: %w", err)
	}
	if len(b) > MaxEntryBytes {
		return nil, fmt.Errorf("propose metadata entry of %d bytes: %w", len(b), ErrTooLarge)
	}
	if err := l.space.forProposals(len(b) + int(l.bytesInFlight.Load())); err != nil {
		return nil, fmt.Errorf("propose metadata: %w", err)
	}
	s.next++
	l.bytesInFlight.Add(int64(len(b)))
	p := &Proposal{epoch: s.epoch, broken: &l.broken, done: make(chan struct{})}
	future := l.raft.Apply(b, l.opts.Timing.EnqueueTimeout)
	go func() {
		l.await(p, future)
		l.bytesInFlight.Add(-int64(len(b)))
		l.leave()
	}()
	return p, nil
}

// await notes the outcome of a proposal. It always ends: Raft answers every future of an
// entry that it took, and Close shuts Raft down only when nothing is in flight.
func (l *Log) await(p *Proposal, future raft.ApplyFuture) {
	defer close(p.done)
	out, err := result(future)
	if err != nil {
		l.metrics.failed.Inc()
		p.broken.raise(p.epoch)
		p.err = notController("propose metadata", err)
		return
	}
	p.pos = out.pos
}

// result waits for Raft's answer and, if it took the entry, for the state machine's.
func result(future raft.ApplyFuture) (outcome, error) {
	if err := future.Error(); err != nil {
		return outcome{}, err
	}
	out := future.Response().(outcome)
	return out, out.err
}

// Barrier makes this node ready to propose in term: it returns once everything that was
// committed before has been applied here, with the image as it then is. Nothing else may be
// in the works when it is called: its caller has just become leader, or has seen a proposal
// fail. An error wraps kafkaerr.NotController.
//
// The first Barrier of a new cluster also proposes Options.Bootstrap.
func (l *Log) Barrier(ctx context.Context, term Term) (*metadata.Image, error) {
	if err := l.barrier(ctx, term); err != nil {
		return nil, err
	}
	if len(l.opts.Bootstrap) > 0 && l.Image().ClusterID() == "" {
		if _, err := l.Propose(ctx, term, l.opts.Bootstrap); err != nil {
			return nil, fmt.Errorf("bootstrap the cluster: %w", err)
		}
	}
	image := l.Image()
	l.loader.start(image.Position())
	return image, nil
}

func (l *Log) barrier(ctx context.Context, term Term) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	if err := l.sequence.take(ctx); err != nil {
		l.leave()
		return notController("metadata barrier", err)
	}
	// The sequencer is held until the outcome is known, whoever waits for it: nothing may
	// be proposed before.
	done := make(chan error, 1)
	go func() {
		defer l.leave()
		defer l.sequence.release()
		done <- l.passBarrier(term)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return notController("metadata barrier", context.Cause(ctx))
	}
}

func (l *Log) passBarrier(term Term) error {
	if err := l.failure(); err != nil {
		return notController("metadata barrier", err)
	}
	b, err := metadata.EncodeEntry(metadata.Entry{Term: term, Barrier: true}, 0)
	if err != nil {
		return fmt.Errorf("metadata barrier: %w", err)
	}
	out, err := result(l.raft.Apply(b, l.opts.Timing.EnqueueTimeout))
	if err != nil {
		l.broken.raise(l.seq.epoch)
		return notController("metadata barrier", err)
	}
	l.seq = sequencer{term: term, next: out.next, epoch: l.seq.epoch + 1}
	return nil
}

// drain waits until no proposal is in flight. Raft decides each of them in bounded time: it
// commits, or a leader without quorum steps down after its lease.
func (l *Log) drain() {
	for range cap(l.inFlight) {
		l.inFlight <- struct{}{}
	}
}
