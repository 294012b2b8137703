package generate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/conform"
)

func everything(int16) bool { return true }

func texts(s Sequence) (all []string) {
	for _, step := range s.Steps {
		all = append(all, step.String())
	}
	return all
}

// A seed is all that it takes to ask the same once more.
func TestSeedDecidesEverything(t *testing.T) {
	for seed := range uint64(50) {
		a, b := New(seed, 60, everything), New(seed, 60, everything)
		if !slices.Equal(texts(a), texts(b)) {
			t.Fatalf("seed %d asks for\n%v\nand then for\n%v", seed, texts(a), texts(b))
		}
	}
	if slices.Equal(texts(New(1, 60, everything)), texts(New(2, 60, everything))) {
		t.Error("two seeds ask for the same")
	}
}

// Every kind of step is drawn, each damage done, and each setting tried.
func TestNothingIsForgotten(t *testing.T) {
	var all strings.Builder
	for seed := range uint64(400) {
		fmt.Fprintln(&all, texts(New(seed, 60, everything)))
	}
	text := all.String()
	wanted := []string{
		"fetch v4 ", "fetch v18 ", "session 1 close", "session 0 unknown id", "list offsets v11", "metadata v12",
		"by id true", "validate only true", "init producer id", "offset for leader epoch", "offset commit", "offset fetch",
		"offset delete", "delete records", "alter configs", "describe configs", "create partitions", "api versions v5", "describe cluster", "acks 0", "producer 2 again", "gap",
		"epoch up", "codec 4", "none/0", "at 9223372036854775806",
	}
	for damage := range damages {
		wanted = append(wanted, "with "+damage)
	}
	for _, s := range settings {
		wanted = append(wanted, fmt.Sprint(s))
	}
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("%q is never drawn", want)
		}
	}
}

// What a broker does not have is not asked for.
func TestOnlyWhatIsAdvertised(t *testing.T) {
	for seed := range uint64(50) {
		s := New(seed, 60, func(key int16) bool { return key == 0 || key == 19 })
		for _, step := range s.Steps {
			if !strings.HasPrefix(step.Text, "produce") && !strings.HasPrefix(step.Text, "create topics") {
				t.Fatalf("seed %d asks for %v", seed, step)
			}
		}
	}
}

// A producer's sequence numbers are those that Kafka's client would send.
func TestSequenceNumbersGoOn(t *testing.T) {
	at, p := place{"t0", 0}, newProducer(7, 0)
	p.goOn(at, "next", sent{0, 3})
	p.goOn(at, "again", sent{0, 3})
	if p.next[at] != 3 {
		t.Errorf("after a retry it goes on at %d", p.next[at])
	}
	p.goOn(at, "high", sent{1<<31 - 2, 3})
	if p.next[at] != 1 {
		t.Errorf("behind 2147483647 comes 0: it goes on at %d", p.next[at])
	}
	p.goOn(at, "epoch up", sent{0, 2})
	if p.epoch != 1 || p.next[at] != 2 || len(p.next) != 1 {
		t.Errorf("in a new epoch it goes on at %d", p.next[at])
	}
}

// Of sixty steps those three remain that the difference takes, also where it is another
// one that shows without the first of them.
func TestShrinkKeepsWhatItTakes(t *testing.T) {
	needed := []int{3, 40, 58}
	plays := 0
	s := shrinking{budget: 500, least: Finding{Sequence: New(1, 60, everything), Difference: conform.Difference{Field: "wrong"}}}
	s.play = func(less Sequence) ([]Finding, error) {
		plays++
		f := Finding{Sequence: less, Difference: conform.Difference{Field: "wrong"}}
		has := func(n int) bool {
			return slices.ContainsFunc(less.Steps, func(s Step) bool { return s.Number == n })
		}
		switch {
		case !has(needed[1]) || !has(needed[2]):
			return nil, nil
		case !has(needed[0]):
			f.Difference.Field = "another"
		}
		return []Finding{f}, nil
	}
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	var left []int
	for _, step := range s.least.Sequence.Steps {
		left = append(left, step.Number)
	}
	if !slices.Equal(left, needed) || plays > 100 {
		t.Errorf("steps %v are left after %d plays, want %v", left, plays, needed)
	}
}

func TestShrinkStopsAtItsBudget(t *testing.T) {
	plays := 0
	s := shrinking{budget: 7, least: Finding{Sequence: New(1, 60, everything)}, play: func(Sequence) ([]Finding, error) {
		plays++
		return nil, nil
	}}
	if err := s.run(); err != nil || plays != 7 || len(s.least.Sequence.Steps) != 60 {
		t.Errorf("%v after %d plays", err, plays)
	}
}
