package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog"
)

// inflight is a decision that waits for its records, and for those of the decisions before
// it, to be committed.
type inflight struct {
	decision
	request *request            // nil if nobody asked
	entries [][]metadata.Record // none if it has no records
}

// outcome is what became of an inflight with records.
type outcome struct {
	of  *inflight
	at  metadata.Position
	err error
}

// pipeline proposes decisions in order without waiting for one before it starts the next,
// so that the log can write many with one flush. Outcomes come in the same order; after
// the first error there are no more, and nothing more is proposed.
//
//	in ──► [start goroutine] ── started ──► [wait goroutine] ──► out
type pipeline struct {
	log     Log
	term    metalog.Term
	timeout time.Duration // of one decision

	in   chan *inflight
	out  chan outcome
	stop context.CancelFunc
	done chan struct{} // closed when both goroutines have ended
}

// maxStarted bounds the decisions between the two goroutines.
const maxStarted = 256

type started struct {
	of        *inflight
	proposals []Proposal
	err       error
}

func newPipeline(ctx context.Context, log Log, term metalog.Term, timeout time.Duration) *pipeline {
	ctx, cancel := context.WithCancel(ctx)
	p := &pipeline{
		log: log, term: term, timeout: timeout,
		in: make(chan *inflight), out: make(chan outcome), stop: cancel, done: make(chan struct{}),
	}
	begun := make(chan started, maxStarted)
	go p.start(ctx, begun)
	go p.wait(ctx, begun)
	return p
}

func (p *pipeline) start(ctx context.Context, begun chan<- started) {
	defer close(begun)
	for {
		select {
		case d := <-p.in:
			s := p.startOne(ctx, d)
			select {
			case begun <- s:
			case <-ctx.Done():
				return
			}
			if s.err != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (p *pipeline) startOne(ctx context.Context, d *inflight) started {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	s := started{of: d}
	for _, records := range d.entries {
		proposal, err := p.log.Start(ctx, p.term, records)
		if err != nil {
			s.err = err
			return s
		}
		s.proposals = append(s.proposals, proposal)
	}
	return s
}

func (p *pipeline) wait(ctx context.Context, begun <-chan started) {
	defer close(p.done)
	for s := range begun {
		o := p.waitOne(ctx, s)
		select {
		case p.out <- o:
		case <-ctx.Done():
		}
		if o.err != nil {
			p.stop()
			for range begun { // let start end
			}
			return
		}
	}
}

func (p *pipeline) waitOne(ctx context.Context, s started) outcome {
	o := outcome{of: s.of, err: s.err}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	for _, proposal := range s.proposals {
		if o.err == nil {
			o.at, o.err = proposal.Wait(ctx)
		}
	}
	return o
}

// entryBudget is what the records of one entry may take: the rest is the entry's frame.
const (
	entryBudget     = metalog.MaxEntryBytes - 1024
	recordFrameSize = 8 // tag and length of a record within an entry
)

// split distributes records over entries that fit the log (D25). If they must take effect
// together and do not fit one, a transaction brackets them.
func split(records []metadata.Record, atomic bool, level int16) ([][]metadata.Record, error) {
	if len(records) == 0 {
		return nil, nil
	}
	var entries [][]metadata.Record
	size, from := 0, 0
	for i, r := range records {
		b, err := metadata.EncodeRecord(r, level)
		if err != nil {
			return nil, fmt.Errorf("%s record: %w", metadata.Name(r), err)
		}
		n := len(b) + recordFrameSize
		if n > entryBudget {
			return nil, fmt.Errorf("%s record of %d bytes does not fit an entry", metadata.Name(r), n)
		}
		if size+n > entryBudget {
			entries = append(entries, records[from:i:i])
			size, from = 0, i
		}
		size += n
	}
	entries = append(entries, records[from:])
	if atomic && len(entries) > 1 {
		entries = bracket(entries)
	}
	return entries, nil
}

// bracket makes the entries one transaction. The first and the last have room for it.
func bracket(entries [][]metadata.Record) [][]metadata.Record {
	first, last := 0, len(entries)-1
	begin := metadata.BeginTransactionRecord{Name: metadata.Name(entries[first][0])}
	entries[first] = append([]metadata.Record{begin}, entries[first]...)
	entries[last] = append(slices.Clip(entries[last]), metadata.EndTransactionRecord{})
	return entries
}
