package generate

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/klamm-mq/klamm/conform"
)

// Sequence is what one seed asks for.
type Sequence struct {
	Seed  uint64
	Steps []Step
}

// Step is one request, and what is learned from its answer.
type Step struct {
	// Number is the step's place in the sequence that it was made for.
	Number int
	// Text says what is asked.
	Text string

	do func(p *player, label string)
}

// String is the step as it is labelled in transcripts.
func (s Step) String() string { return fmt.Sprintf("%02d %s", s.Number, s.Text) }

// kind is a family of steps, with how often it is drawn.
type kind struct {
	weight int
	keys   []int16 // APIs that it uses
	draw   func(d dice) Step
}

func kinds() []kind {
	return []kind{
		{30, []int16{0}, drawProduce},
		{16, []int16{1}, drawFetch},
		{12, []int16{1}, drawSessionFetch},
		{8, []int16{2}, drawListOffsets},
		{5, []int16{3}, drawMetadata},
		{10, []int16{19}, drawCreateTopics},
		{4, []int16{20}, drawDeleteTopics},
		{3, []int16{22}, drawInitProducerID},
		{4, []int16{23}, drawOffsetForLeaderEpoch},
		{1, []int16{60}, drawDescribeCluster},
		{1, []int16{18}, drawAPIVersions},
		{4, []int16{8, 10}, drawOffsetCommit},
		{4, []int16{9, 10}, drawOffsetFetch},
		{2, []int16{47, 8}, drawOffsetDelete},
		{4, []int16{21}, drawDeleteRecords},
		{4, []int16{44, 32}, drawAlterConfigs},
		{4, []int16{32}, drawDescribeConfigs},
		{3, []int16{37}, drawCreatePartitions},
	}
}

// New makes the sequence of a seed, of length steps, out of the APIs that advertised
// allows.
func New(seed uint64, length int, advertised func(key int16) bool) Sequence {
	d := dice{rand.New(rand.NewPCG(seed, 0x6b6c616d6d))}
	var possible []kind
	total := 0
	for _, k := range kinds() {
		if !slices.ContainsFunc(k.keys, func(key int16) bool { return !advertised(key) }) {
			possible = append(possible, k)
			total += k.weight
		}
	}
	s := Sequence{Seed: seed}
	for n := range length {
		step := drawKind(d, possible, total).draw(d)
		if n < 2 { // there is something to work on
			step = drawGoodTopic(d, slots[n])
		}
		step.Number = n
		s.Steps = append(s.Steps, step)
	}
	return s
}

func drawKind(d dice, from []kind, total int) kind {
	at := d.IntN(total)
	for _, k := range from {
		if at -= k.weight; at < 0 {
			return k
		}
	}
	return from[0]
}

// Name is the name of the sequence's scenario.
func (s Sequence) Name() string { return fmt.Sprintf("generated/%d", s.Seed) }

// Scenario plays the sequence.
func (s Sequence) Scenario() conform.Scenario {
	return conform.Scenario{Name: s.Name(), Key: 0, Run: func(r *conform.R) {
		p := newPlayer(r)
		for _, step := range s.Steps {
			step.do(p, step.String())
		}
		p.final()
	}}
}

// dice are the choices of a seed.
type dice struct{ *rand.Rand }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// in is true in so many cases of a hundred.
func (d dice) in(percent int) bool { return d.IntN(100) < percent }

// version of an API, and now and then one that does not exist.
func (d dice) version(key int16) int16 {
	all := conform.Versions(key)
	if d.in(1) {
		return all[len(all)-1] + 1
	}
	return pick(d, all...)
}
