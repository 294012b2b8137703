package conform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Options say how scenarios are run.
type Options struct {
	// Parallel is how many scenarios run at a time; 0 means 4.
	Parallel int
	// Invasive runs the scenarios of that kind, too.
	Invasive bool
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
// It ends early with ctx; scenarios that did not run are skipped then.
func Run(ctx context.Context, t *Target, scenarios []Scenario, o Options) []Outcome {
	outcomes := make([]Outcome, len(scenarios))
	var progress progress
	progress.of, progress.call = len(scenarios), o.Progress
	run := func(i int) {
		s := &scenarios[i]
		outcomes[i] = runOne(ctx, t, s, o)
		progress.ended(s, outcomes[i].Err)
	}
	var wg sync.WaitGroup
	next := make(chan int)
	for range cmp.Or(o.Parallel, 4) {
		wg.Go(func() {
			for i := range next {
				run(i)
			}
		})
	}
	for i := range scenarios {
		if !scenarios[i].Alone {
			next <- i
		}
	}
	close(next)
	wg.Wait()
	for i := range scenarios {
		if scenarios[i].Alone {
			run(i)
		}
	}
	return outcomes
}

type progress struct {
	sync.Mutex
	done, of int
	call     func(done, of int, s *Scenario, err error)
}

func (p *progress) ended(s *Scenario, err error) {
	p.Lock()
	defer p.Unlock()
	p.done++
	if p.call != nil {
		p.call(p.done, p.of, s, err)
	}
}

func runOne(ctx context.Context, t *Target, s *Scenario, o Options) (out Outcome) {
	out.Scenario = s
	switch {
	case ctx.Err() != nil:
		out.Skipped = "interrupted"
	case !s.runnable(t):
		out.Skipped = "not advertised"
	case s.Invasive && !o.Invasive:
		out.Skipped = "invasive"
	default:
		out.Transcript, out.Err = runScenario(t, s)
	}
	return out
}

func runScenario(t *Target, s *Scenario) (transcript Transcript, err error) {
	r := newRun(s, t)
	defer func() { err = errors.Join(err, r.close()) }()
	defer func() {
		switch e := recover().(type) {
		case nil:
		case failure:
			err = fmt.Errorf("%s: after %d steps: %w", s.Name, len(r.t.Steps), e.error)
		default: // an answer that the scenario did not reckon with
			err = fmt.Errorf("%s: after %d steps: %v", s.Name, len(r.t.Steps), e)
		}
		transcript = r.t
	}()
	s.Run(r)
	return r.t, nil
}

// close deletes what the run made and ends its connections.
func (r *R) close() (err error) {
	defer func() {
		if e, ok := recover().(failure); ok {
			err = fmt.Errorf("%s: cleaning up: %w", r.t.Scenario, e.error)
		}
		for name := range r.conns {
			r.Disconnect(name)
		}
	}()
	r.Disconnect("quiet")
	if len(r.created) > 0 {
		slices.Sort(r.created)
		r.deleteTopics(slices.Compact(r.created))
	}
	r.deleteGroups()
	return nil
}

// OwnsGroup notes that a group of the run's may exist, to be deleted at the end.
func (r *R) OwnsGroup(name string) { r.groups = append(r.groups, r.Name(name)) }

func (r *R) deleteGroups() {
	if len(r.groups) == 0 || !r.target.Advertises(int16(kmsg.DeleteGroups)) {
		return
	}
	slices.Sort(r.groups)
	r.groups = slices.Compact(r.groups)
	for range 20 { // until members that went silent have left
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Version, req.Groups = 1, r.groups
		busy := false
		for _, g := range r.Quiet(req).(*kmsg.DeleteGroupsResponse).Groups {
			busy = busy || g.ErrorCode == 68 // NON_EMPTY_GROUP
		}
		if !busy {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
