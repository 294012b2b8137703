package conform

import (
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataScenario makes a topic and looks at it, in the first and in a flexible version.
func metadataScenario() Scenario {
	return Scenario{Name: "metadata/look", Key: 3, Run: func(r *R) {
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Version = 5
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic = r.Name("a")
		create.Topics = append(create.Topics, topic)
		r.Quiet(create)
		r.Owns("a")
		for _, v := range []int16{1, 9} {
			req := metadataOf([]string{r.Name("a")})
			req.Version = v
			r.Send(kmsg.NameForKey(3), req)
		}
	}}
}

func run(t *testing.T, f *fake, scenarios ...Scenario) (*Target, []Outcome) {
	t.Helper()
	target, err := Connect(t.Context(), f.addr())
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := Run(t.Context(), target, scenarios, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return target, outcomes
}

func transcriptsOf(outcomes []Outcome) map[string]Transcript {
	all := map[string]Transcript{}
	for _, o := range outcomes {
		all[o.Scenario.Name] = o.Transcript
	}
	return all
}

// Each wrong answer, in one step of a scenario, is seen, and as what it is.
func TestSeededWrongAnswersAreCaught(t *testing.T) {
	_, reference := run(t, newFake(t, nil), metadataScenario())
	second := func(edit func(resp *kmsg.MetadataResponse, b []byte) []byte) func(kmsg.Request, kmsg.Response, []byte) []byte {
		return func(_ kmsg.Request, resp kmsg.Response, b []byte) []byte {
			if m, ok := resp.(*kmsg.MetadataResponse); ok && m.Version == 9 {
				return edit(m, b)
			}
			return b
		}
	}
	cases := []struct {
		name, field string
		edit        func(m *kmsg.MetadataResponse, b []byte) []byte
	}{
		{"one field", "Topics.Partitions.LeaderEpoch", func(m *kmsg.MetadataResponse, _ []byte) []byte {
			m.Topics[0].Partitions[1].LeaderEpoch++
			return m.AppendTo(nil)
		}},
		{"a node that is none", "Topics.Partitions.Leader", func(m *kmsg.MetadataResponse, _ []byte) []byte {
			m.Topics[0].Partitions[0].Leader = 8
			return m.AppendTo(nil)
		}},
		{"a missing struct", "Topics.Partitions.missing", func(m *kmsg.MetadataResponse, _ []byte) []byte {
			m.Topics[0].Partitions = m.Topics[0].Partitions[:1]
			return m.AppendTo(nil)
		}},
		{"a struct too many", "Topics.Partitions.extra", func(m *kmsg.MetadataResponse, _ []byte) []byte {
			m.Topics[0].Partitions = append(m.Topics[0].Partitions, kmsg.NewMetadataResponseTopicPartition())
			return m.AppendTo(nil)
		}},
		{"an unknown tag", "tag9", func(m *kmsg.MetadataResponse, _ []byte) []byte {
			m.UnknownTags.Set(9, []byte("x"))
			return m.AppendTo(nil)
		}},
		{"one byte too many", "!.extra", func(_ *kmsg.MetadataResponse, b []byte) []byte { return append(b, 0) }},
		{"one byte too few", "!.extra", func(_ *kmsg.MetadataResponse, b []byte) []byte { return b[:len(b)-1] }},
		{"closed instead of answered", "outcome", func(*kmsg.MetadataResponse, []byte) []byte { return nil }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			target, outcomes := run(t, newFake(t, second(c.edit)), metadataScenario())
			report := Judge(target, outcomes, transcriptsOf(reference), nil)
			if report.Passed || report.Different != 1 || report.Same != 1 {
				t.Fatalf("not caught: %+v", report.Counts)
			}
			for _, d := range report.Differences {
				if d.Field == c.field && d.Step == 1 && d.Version == 9 {
					return
				}
			}
			t.Errorf("want a difference at %s, got %v", c.field, report.Differences)
		})
	}
	target, outcomes := run(t, newFake(t, nil), metadataScenario())
	if report := Judge(target, outcomes, transcriptsOf(reference), nil); !report.Passed || report.Same != 2 {
		t.Errorf("the same broker once more: %+v", report)
	}
}

// What a scenario made is gone afterwards, noted as its own or not.
func TestRunGivesItsNamesBack(t *testing.T) {
	f := newFake(t, nil)
	forgetful := Scenario{Name: "create/forgetful", Key: 19, Run: func(r *R) {
		r.Quiet(createOf(r.Name("lost")))
		if !f.has(r.Name("lost")) {
			t.Error("the topic was not made")
		}
		r.Quiet(createOf("of-somebody-else"))
	}}
	run(t, f, forgetful, metadataScenario())
	if f.count() != 1 || !f.has("of-somebody-else") {
		t.Errorf("%d topics are left", f.count())
	}
}

func createOf(name string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 5
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic = name
	req.Topics = append(req.Topics, topic)
	return req
}

// Whoever wants to look at the files afterwards keeps them.
func TestRunKeepsWhatItMade(t *testing.T) {
	f := newFake(t, nil)
	target, err := Connect(t.Context(), f.addr())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), target, []Scenario{metadataScenario()}, Options{Keep: true}); err != nil || f.count() != 1 {
		t.Errorf("%v, %d topics are left", err, f.count())
	}
}

// An interrupt ends a wait at once, skips what has not begun, and still cleans up.
func TestInterruptedRunCleansUp(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	f := newFake(t, func(req kmsg.Request, _ kmsg.Response, b []byte) []byte {
		if req.Key() == int16(kmsg.Fetch) {
			interrupt() // and the answer is cut off, as if it never came
			return b[:0]
		}
		return b
	})
	target, err := Connect(ctx, f.addr())
	if err != nil {
		t.Fatal(err)
	}
	waiting := Scenario{Name: "fetch/waiting", Key: 1, Run: func(r *R) {
		r.Quiet(createOf(r.Name("a")))
		r.Owns("a")
		p := r.Start("main", "wait", r.FetchFrom(4, "a", 0, 0))
		for r.ctx.Err() == nil {
			r.Quiet(metadataOf(nil))
		}
		p.Wait()
		p.Wait() // no second answer comes
	}}
	outcomes, err := Run(ctx, target, []Scenario{waiting, metadataScenario()}, Options{Parallel: 1})
	if err != nil {
		t.Errorf("cleaning up: %v", err)
	}
	if outcomes[0].Err == nil || !strings.Contains(outcomes[0].Err.Error(), "canceled") {
		t.Errorf("the interrupted scenario says %v", outcomes[0].Err)
	}
	if outcomes[1].Skipped != "interrupted" {
		t.Errorf("the next scenario: %+v", outcomes[1])
	}
	if f.count() != 0 {
		t.Errorf("%d topics are left", f.count())
	}
}

// A scenario that stumbles over an answer fails alone, and what it did is still compared.
func TestStumblingScenario(t *testing.T) {
	look := Scenario{Name: "metadata/stumble", Key: 3, Run: func(r *R) {
		resp := r.Send("first", metadataOf(nil)).(*kmsg.MetadataResponse)
		_ = resp.Topics[5]
		r.Send("second", metadataOf(nil))
	}}
	target, outcomes := run(t, newFake(t, nil), look, metadataScenario())
	if outcomes[0].Err == nil || outcomes[1].Err != nil {
		t.Fatalf("errors %v and %v", outcomes[0].Err, outcomes[1].Err)
	}
	reference := transcriptsOf(outcomes)
	first := reference[look.Name]
	first.Steps = append(first.Steps, Step{Label: "second", Key: 3, Outcome: "answer"})
	reference[look.Name] = first
	report := Judge(target, outcomes, reference, nil)
	if report.Passed || len(report.Failures) != 1 || report.Different != 0 {
		t.Errorf("report %+v", report)
	}
}

// Scenarios run in any order, alone ones after all others, and their outcomes come back
// in the order in which they were given.
func TestOrderOfOutcomes(t *testing.T) {
	var alone bool
	var scenarios []Scenario
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s := metadataScenario()
		s.Name, s.Alone = name, name == "b"
		if s.Alone {
			s.Run = func(*R) { alone = true }
		} else {
			s.Run = func(*R) {
				if alone {
					t.Errorf("%s ran after the one that is alone", name)
				}
			}
		}
		scenarios = append(scenarios, s)
	}
	scenarios[4].Key, scenarios[3].Invasive = 94, true
	_, outcomes := run(t, newFake(t, nil), scenarios...)
	var names []string
	for _, o := range outcomes {
		names = append(names, o.Scenario.Name+o.Skipped)
	}
	if got := strings.Join(names, " "); got != "a b c dinvasive e"+NotAdvertised {
		t.Errorf("outcomes %s", got)
	}
}
