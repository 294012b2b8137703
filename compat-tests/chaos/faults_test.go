package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestScheduleOfASeed(t *testing.T) {
	deal := func(seed uint64) (list []string, times map[string]int) {
		s, times := newSchedule(seed, faultKinds()), map[string]int{}
		for range 3 * len(faultKinds()) {
			next := s.next()
			if next.node < 1 || next.node > nodes || next.other < 1 || next.other > nodes || next.other == next.node {
				t.Errorf("%s strikes nodes %d and %d", next, next.node, next.other)
			}
			list, times[next.kind.name] = append(list, next.String()), times[next.kind.name]+1
		}
		return list, times
	}
	one, times := deal(1)
	again, _ := deal(1)
	other, _ := deal(2)
	if !slices.Equal(one, again) {
		t.Errorf("the same seed deals\n%s\nand\n%s", strings.Join(one, "\n"), strings.Join(again, "\n"))
	}
	if slices.Equal(one, other) {
		t.Error("two seeds deal the same")
	}
	for _, k := range faultKinds() {
		if times[k.name] != 3 {
			t.Errorf("%s comes %d times in three rounds", k.name, times[k.name])
		}
	}
}

func TestPauseLastsAsLongAsItShould(t *testing.T) {
	s := newSchedule(1, []*faultKind{faultKinds()[2]})
	shortest, longest := time.Hour, time.Duration(0)
	for range 1000 {
		d := s.next().lasts
		shortest, longest = min(shortest, d), max(longest, d)
	}
	if shortest < time.Second || shortest > 2*time.Second || longest > 30*time.Second || longest < 29*time.Second {
		t.Errorf("pauses last from %s to %s", shortest, longest)
	}
}

func TestPulse(t *testing.T) {
	var p pulse
	at := func(ms int) time.Time { return time.UnixMilli(int64(1000 + ms)) }
	if got := p.lap(at(0)); got != 0 {
		t.Errorf("a silence of %s before the first beat", got)
	}
	p.beat(at(0))
	p.beat(at(30))
	p.beat(at(40))
	if got := p.lap(at(50)); got != 30*time.Millisecond {
		t.Errorf("the longest silence is %s, want 30 ms", got)
	}
	if got := p.lap(at(90)); got != 50*time.Millisecond {
		t.Errorf("the silence that lasts is %s, want 50 ms", got)
	}
}

func TestTable(t *testing.T) {
	kill, pause := faultKinds()[0], faultKinds()[2]
	ms := func(n ...int) (list []time.Duration) {
		for _, n := range n {
			list = append(list, time.Duration(n)*time.Millisecond)
		}
		return list
	}
	got := table([]string{"franz", "java"}, []cost{
		{strike: strike{kind: pause}, gaps: ms(3000, 3100)},
		{strike: strike{kind: kill}, gaps: ms(100, 900), moved: 70 * time.Millisecond, whole: time.Second},
		{strike: strike{kind: kill}, gaps: ms(300, 800), moved: 90 * time.Millisecond},
		{strike: strike{kind: kill}, gaps: ms(200, 1000), whole: 2 * time.Second},
		{strike: strike{kind: kill}, gaps: ms(7000, 8000), unhealed: true},
	}, func(c cost) []time.Duration { return c.gaps })
	want := "" +
		"fault            times  franz          java         leaders elsewhere  whole again\n" +
		"kill             3      200ms / 300ms  900ms / 1s   70ms / 90ms        1s / 2s\n" +
		"kill (unhealed)  1      7s / 7s        8s / 8s      -                  -\n" +
		"pause            1      3s / 3s        3.1s / 3.1s  -                  -\n"
	if got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
}
