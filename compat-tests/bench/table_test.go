package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// spread is the values of one figure, one for each round.
type spread []float64

// median is not a number if nothing was measured.
func (s spread) median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

func (s spread) String() string {
	if len(s) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s (%s–%s)", figure(s.median()), figure(slices.Min(s)), figure(slices.Max(s)))
}

// figure prints three digits that mean something.
func figure(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// target is a promise about the medians of one figure.
type target struct {
	what  string
	limit float64
	kind  kind
}

type kind int

const (
	ofKafka        kind = iota // at most limit times Kafka's
	atMost                     // at most limit
	atLeastOfKafka             // at least limit times Kafka's
	near                       // limit, give or take a tenth
	told                       // whatever it is
)

// topic is a name for topics that the figure needs.
func (t target) topic() string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(t.what))
}

// verdict holds the first broker, which acknowledges as Kafka does, against the last.
func (t target) verdict(found []spread) string {
	klamm, kafka := found[0].median(), found[len(found)-1].median()
	promise, kept := fmt.Sprintf("≤ %s", figure(t.limit)), klamm <= t.limit
	switch t.kind {
	case atMost:
	case told:
		return "–"
	case near:
		promise, kept = fmt.Sprintf("%s ± 10 %%", figure(t.limit)), klamm >= 0.9*t.limit && klamm <= 1.1*t.limit
	case ofKafka:
		promise, kept = fmt.Sprintf("≤ %s × Kafka's: %s", figure(t.limit), figure(klamm/kafka)), klamm <= t.limit*kafka
	case atLeastOfKafka:
		promise, kept = fmt.Sprintf("≥ %s × Kafka's: %s", figure(t.limit), figure(klamm/kafka)), klamm >= t.limit*kafka
	}
	if !kept {
		return promise + ", MISSED"
	}
	return promise + ", kept"
}

// table is what docs/performance.md shows: median, smallest and largest of all rounds.
type table struct{ lines []string }

func (t *table) add(want target, subjects []subject, found []spread) {
	if len(t.lines) == 0 {
		head, rule := "| figure |", "|---|"
		for _, s := range subjects {
			head, rule = head+" "+s.name+" |", rule+"---|"
		}
		t.lines = append(t.lines, head+" target |", rule+"---|")
	}
	line := "| " + want.what + " |"
	for _, f := range found {
		line += " " + f.String() + " |"
	}
	t.lines = append(t.lines, line+" "+want.verdict(found)+" |")
}

func (t *table) last() string { return t.lines[len(t.lines)-1] }

func (t *table) String() string { return strings.Join(t.lines, "\n") }
