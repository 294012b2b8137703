package generate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klamm-mq/klamm/conform"
)

// Pair is a broker and the one it is held beside.
type Pair struct {
	Broker, Reference *conform.Target
	Why               conform.Explanations
	// Parallel is how many sequences each broker is asked at a time.
	Parallel int
}

// Advertised reports whether both brokers have an API.
func (p *Pair) Advertised(key int16) bool {
	return p.Broker.Advertises(key) && p.Reference.Advertises(key)
}

// Finding is a sequence whose answers differ, and the first difference.
type Finding struct {
	Sequence   Sequence
	Difference conform.Difference
	Want, Got  conform.Transcript
	Err        error // the sequence could not be played to its end
}

// Played counts what was compared.
type Played struct{ Sequences, Steps int }

// Play plays sequences on both brokers and returns those that differ.
func (p *Pair) Play(ctx context.Context, sequences ...Sequence) (found []Finding, played Played, err error) {
	var list []conform.Scenario
	for _, s := range sequences {
		list = append(list, s.Scenario())
	}
	options := conform.Options{Parallel: p.Parallel}
	var got, want []conform.Outcome
	var gotErr, wantErr error
	var wg sync.WaitGroup
	wg.Go(func() { got, gotErr = conform.Run(ctx, p.Broker, list, options) })
	wg.Go(func() { want, wantErr = conform.Run(ctx, p.Reference, list, options) })
	wg.Wait()
	if ctx.Err() != nil { // what ended early says nothing
		return nil, played, ctx.Err()
	}
	for i, s := range sequences {
		played.Sequences++
		played.Steps += len(want[i].Transcript.Steps)
		if f, differs := p.judge(s, want[i], got[i]); differs {
			found = append(found, f)
		}
	}
	return found, played, errors.Join(of("broker", gotErr), of("reference", wantErr))
}

// of says whose an error is.
func of(whose string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", whose, err)
}

func (p *Pair) judge(s Sequence, want, got conform.Outcome) (Finding, bool) {
	f := Finding{Sequence: s, Want: want.Transcript, Got: got.Transcript, Err: errors.Join(of("reference", want.Err), of("broker", got.Err))}
	for _, d := range conform.Compare(want.Transcript, got.Transcript) {
		if p.Why.Explain(d) == nil {
			f.Difference = d
			return f, true
		}
	}
	return f, f.Err != nil
}

// Shrink takes steps out of a sequence for as long as it still differs in the same field
// of the same API, and returns what is left of it. It plays at most budget sequences.
func (p *Pair) Shrink(ctx context.Context, f Finding, budget int) (Finding, error) {
	s := shrinking{budget: budget, least: f, play: func(less Sequence) ([]Finding, error) {
		found, _, err := p.Play(ctx, less)
		return found, err
	}}
	err := s.run()
	return s.least, err
}

func (f Finding) same(other Finding) bool {
	return f.Difference.Key == other.Difference.Key && f.Difference.Field == other.Difference.Field &&
		(f.Err == nil) == (other.Err == nil)
}

// Write writes the seed, the steps that are left, and both answers to the step that
// differs.
func (f Finding) Write(w io.Writer) error {
	fmt.Fprintf(w, "seed %d differs: %v\n", f.Sequence.Seed, f.Difference)
	if f.Err != nil {
		fmt.Fprintf(w, "error: %v\n", f.Err)
	}
	for _, s := range f.Sequence.Steps {
		fmt.Fprintf(w, "  %v\n", s)
	}
	for _, side := range []struct {
		name string
		of   conform.Transcript
	}{{"reference", f.Want}, {"broker", f.Got}} {
		if f.Difference.Step >= len(side.of.Steps) {
			fmt.Fprintf(w, "%s: no such step\n", side.name)
			continue
		}
		fmt.Fprintf(w, "%s:\n", side.name)
		one := conform.Transcript{Scenario: side.of.Scenario, Steps: side.of.Steps[f.Difference.Step:][:1]}
		if err := conform.WriteTranscripts(w, []conform.Transcript{one}); err != nil {
			return err
		}
	}
	return nil
}
