package metalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Proposal is an entry on its way into the log.
type Proposal struct {
	bytes   []byte
	barrier bool
	term    Term
	epoch   uint64 // of the sequencer when it was numbered
	queue   *proposals

	done chan struct{}
	out  outcome // valid once done is closed
}

// Wait gives the outcome: the position at which the records took effect on this node, or
// the error described at Propose. If ctx ends first the outcome stays open, which counts as
// a failure.
func (p *Proposal) Wait(ctx context.Context) (metadata.Position, error) {
	select {
	case <-p.done:
		return p.out.pos, p.out.err
	case <-ctx.Done():
		p.queue.fail(p)
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
// it took effect. Entries that are proposed at about the same time share a write, and then
// a position.
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

// Start is Propose up to the point where the entry has its place after those before it. It
// waits only while maxInFlight proposals are on their way.
func (l *Log) Start(ctx context.Context, term Term, records []metadata.Record) (*Proposal, error) {
	if err := l.proposals.enter(ctx); err != nil {
		return nil, fmt.Errorf("propose metadata: %w", err)
	}
	p, err := l.start(term, records)
	if err != nil {
		l.proposals.leave()
		return nil, fmt.Errorf("propose metadata: %w", err)
	}
	return p, nil
}

func (l *Log) start(term Term, records []metadata.Record) (*Proposal, error) {
	if err := l.failure(); err != nil {
		return nil, notController("not sent", err)
	}
	switch err := l.space.forProposals(l.proposals.size()); {
	case errors.Is(err, ErrFull):
		return nil, err
	case err != nil: // as in guard: whoever cannot look at the disk does not lead on it
		l.fail(err)
		return nil, notController("not sent", err)
	}
	return l.proposals.add(term, func(number uint64) ([]byte, error) {
		b, err := metadata.EncodeEntry(
			metadata.Entry{Term: term, Number: number, Records: records},
			l.Image().Feature(metadata.FeatureMetadata))
		if err == nil && len(b) > MaxEntryBytes {
			err = fmt.Errorf("entry of %d bytes: %w", len(b), ErrTooLarge)
		}
		return b, err
	})
}

// Barrier makes this node ready to propose in term: it returns once everything that was
// committed before has been applied here, with the image as it then is. Nothing else may be
// in the works when it is called: its caller has just become leader, or has seen a proposal
// fail. An error wraps kafkaerr.NotController.
//
// Where every outcome of the term is known already, and no transaction is open that the
// barrier would end, nothing is written: so a proposal that was refused for lack of room
// does not cost the node the last of it.
//
// The first Barrier of a new cluster also proposes Options.Bootstrap.
func (l *Log) Barrier(ctx context.Context, term Term) (*metadata.Image, error) {
	if err := l.barrier(ctx, term); err != nil {
		return nil, fmt.Errorf("metadata barrier: %w", err)
	}
	if len(l.opts.Bootstrap) > 0 && l.Image().ClusterID() == "" {
		if _, err := l.Propose(ctx, term, l.opts.Bootstrap); err != nil {
			return nil, fmt.Errorf("bootstrap the cluster: %w", err)
		}
	}
	image := l.Image()
	if !l.opts.PublishWhenTold {
		l.loader.start(image.Position())
	}
	return image, nil
}

func (l *Log) barrier(ctx context.Context, term Term) error {
	if l.failure() == nil && l.proposals.intact(term) {
		return nil
	}
	b, err := metadata.EncodeEntry(metadata.Entry{Term: term, Barrier: true}, 0)
	if err != nil {
		return err
	}
	if err := l.proposals.enter(ctx); err != nil {
		return err
	}
	p, err := l.proposals.addBarrier(term, b)
	if err != nil {
		l.proposals.leave()
		return err
	}
	_, err = p.Wait(ctx)
	return err
}

// send hands proposals to Raft, one batch after the other, until the queue is closed and
// empty. While a batch is written the next one gathers.
func (l *Log) send() {
	defer close(l.proposals.sent)
	for {
		batch, ok := l.proposals.take()
		if !ok {
			return
		}
		outcomes, err := l.commit(batch)
		for i, p := range batch {
			if err != nil {
				p.out.err = notController("metadata entry", err)
			} else if p.out = outcomes[i]; p.out.err != nil {
				p.out.err = notController("metadata entry", p.out.err)
			}
		}
		l.proposals.decided(batch)
	}
}

// commit gives a batch to Raft and waits for its outcome. It always ends: Raft answers
// every future of an entry that it took, and Close shuts Raft down only after send has
// ended. An entry that is committed is decided by the state machine; a leader without
// quorum steps down after its lease.
func (l *Log) commit(batch []*Proposal) ([]outcome, error) {
	entries := make([][]byte, len(batch))
	for i, p := range batch {
		entries[i] = p.bytes
	}
	future, err := l.apply(metadata.EncodeBatch(entries))
	if err != nil {
		return nil, err
	}
	switch r := future.Response().(type) {
	case []outcome:
		return r, nil
	case error:
		return nil, r
	default:
		return nil, errors.New("not applied")
	}
}

// applyStep is how often apply looks whether there is still a Raft to wait for.
const applyStep = 100 * time.Millisecond

// apply waits until Raft takes an entry, and until it is decided.
func (l *Log) apply(b []byte) (raft.ApplyFuture, error) {
	for waited := time.Duration(0); ; waited += applyStep {
		if err := l.failure(); err != nil {
			return nil, err
		}
		future := l.raft.Apply(b, applyStep)
		err := future.Error()
		if !errors.Is(err, raft.ErrEnqueueTimeout) || waited >= l.opts.Timing.EnqueueTimeout {
			return future, err
		}
	}
}
