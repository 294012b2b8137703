package conform

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
)

// Options say how scenarios are run.
type Options struct {
	// Parallel is how many scenarios run at a time; 0 means 4.
	Parallel int
	// Invasive runs the scenarios of that kind, too.
	Invasive bool
	// Keep leaves topics and groups where they are, for somebody who wants to look at the
	// broker's files afterwards.
	Keep bool
	// Progress, if set, is called when a scenario has ended, from one goroutine at a time.
	Progress func(done, of int, s *Scenario, err error)
}

// Outcome is what came of one scenario.
type Outcome struct {
	Scenario   *Scenario
	Transcript Transcript
	// Skipped says why the scenario did not run, "" if it did.
	Skipped string
	// Err says why it could not run to its end.
	Err error
}

// Run runs scenarios against t and returns their outcomes in the order of the scenarios.
// It ends early with ctx; scenarios that did not run are skipped then. Whatever they made
// is deleted in any case: the error tells what could not be.
func Run(ctx context.Context, t *Target, scenarios []Scenario, o Options) ([]Outcome, error) {
	run := session{ctx: ctx, target: t, scenarios: scenarios, options: o, outcomes: make([]Outcome, len(scenarios))}
	unique := make([]byte, 3)
	_, _ = rand.Read(unique)
	run.prefix = "conform-" + hex.EncodeToString(unique)
	run.together()
	for i := range scenarios {
		if scenarios[i].Alone || scenarios[i].Faults {
			run.one(i)
		}
	}
	if o.Keep {
		return run.outcomes, nil
	}
	return run.outcomes, run.sweep()
}

// session is one call of Run.
type session struct {
	ctx       context.Context
	target    *Target
	scenarios []Scenario
	options   Options
	prefix    string // of the names of everything that the session makes
	outcomes  []Outcome

	progress sync.Mutex
	done     int
}

// together runs the scenarios that do not mind others.
func (run *session) together() {
	var wg sync.WaitGroup
	defer wg.Wait()
	next := make(chan int)
	defer close(next)
	for range cmp.Or(run.options.Parallel, 4) {
		wg.Go(func() {
			for i := range next {
				run.one(i)
			}
		})
	}
	for i := range run.scenarios {
		if !run.scenarios[i].Alone && !run.scenarios[i].Faults {
			next <- i
		}
	}
}

func (run *session) one(i int) {
	s := &run.scenarios[i]
	out := &run.outcomes[i]
	out.Scenario = s
	switch {
	case run.ctx.Err() != nil:
		out.Skipped = "interrupted"
	case s.missing(run.target) != "":
		out.Skipped = s.missing(run.target)
	case s.Invasive && !run.options.Invasive:
		out.Skipped = "invasive"
	default:
		r := newRun(run.ctx, s, run.target, fmt.Sprintf("%s%04x-", run.prefix, i))
		r.keep = run.options.Keep
		out.Transcript, out.Err = play(r, s)
	}
	run.progress.Lock()
	defer run.progress.Unlock()
	run.done++
	if run.options.Progress != nil {
		run.options.Progress(run.done, len(run.scenarios), s, out.Err)
	}
}

// NotAdvertised is why a scenario is skipped whose API the broker does not have.
const NotAdvertised = "not advertised"

// play runs a scenario to its end, whatever that is.
func play(r *R, s *Scenario) (transcript Transcript, err error) {
	defer func() { err = errors.Join(err, r.close()) }()
	defer func() {
		transcript = r.t
		if e := recover(); e != nil {
			err = fmt.Errorf("%s: after %d steps: %w", s.Name, len(r.t.Steps), asError(e))
		}
	}()
	s.Run(r)
	return r.t, nil
}

// asError is a panic as error: a run that could not go on, or an answer that the scenario
// did not reckon with.
func asError(e any) error {
	switch e := e.(type) {
	case failure:
		return e.error
	case error:
		return e
	}
	return fmt.Errorf("%v", e)
}
