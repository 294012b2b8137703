package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	diskMiB   = 512
	downFor   = 6 * time.Second // after SIGKILL
	healBound = 2 * time.Minute // until all replicas are in sync after a fault
)

// strike is one fault: what happens to which node for how long.
type strike struct {
	number int
	kind   *faultKind
	node   int
	other  int // of two nodes
	lasts  time.Duration
	delay  time.Duration
	// in, out: what is cut, as seen by the node.
	in, out bool
	dice    uint64 // for what is drawn later
	// hasty: the next one does not wait until all replicas are in sync again.
	hasty bool
}

func (s strike) String() string {
	text := fmt.Sprintf("%d: %s of node %d", s.number, s.kind.name, s.node)
	switch {
	case s.kind.name == "pair":
		text = fmt.Sprintf("%d: pair of nodes %d and %d", s.number, s.node, s.other)
	case s.kind.name == "delay":
		text += fmt.Sprintf(" by %s", s.delay)
	case s.in != s.out && s.in:
		text += ", inwards"
	case s.in != s.out:
		text += ", outwards"
	}
	if s.lasts > 0 {
		text += fmt.Sprintf(" for %s", s.lasts)
	}
	if s.hasty {
		text += ", hasty"
	}
	return text
}

// faultKind is a kind of fault. plan chooses what strike leaves open; begin and end do it.
type faultKind struct {
	name       string
	plan       func(rng *rand.Rand, s *strike)
	begin, end func(c *cluster, s strike)
}

// faultKinds are all that FAULTS can name.
func faultKinds() []*faultKind {
	return []*faultKind{
		{"kill", lasting(downFor, downFor), killNode, startNode},
		{"stop", lasting(0, 2*time.Second), stopNode, startNode},
		{"pause", lasting(time.Second, 30*time.Second), pauseNode, resumeNode},
		{"cut", lasting(5*time.Second, 15*time.Second), cutFromNodes, healNetwork},
		{"one-way", oneWay, cutFromNodes, healNetwork},
		{"pair", lasting(5*time.Second, 15*time.Second), cutPair, healNetwork},
		{"clients", someWay, cutFromClients, healNetwork},
		{"delay", slowly, delayNode, healNetwork},
		{"break", lasting(0, 0), breakConnections, healNetwork},
		{"disk", func(rng *rand.Rand, s *strike) {
			lasting(5*time.Second, 15*time.Second)(rng, s)
			s.node, s.other = nodes, 1 // the one with the small disk
		}, fillDisk, emptyDisk},
		{"all", lasting(0, 2*time.Second), killAll, startAll},
		{"damage", func(rng *rand.Rand, s *strike) {
			lasting(0, 2*time.Second)(rng, s)
			s.dice, s.hasty = rng.Uint64(), false
		}, damageNode, startDamaged},
	}
}

// chosenFaults are the kinds that FAULTS names, all of them if it is empty.
func chosenFaults(t testing.TB) (list []*faultKind) {
	t.Helper()
	names := strings.FieldsFunc(os.Getenv("FAULTS"), func(r rune) bool { return r == ',' })
	var known []string
	for _, k := range faultKinds() {
		known = append(known, k.name)
		if len(names) == 0 || slices.Contains(names, k.name) {
			list = append(list, k)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			t.Fatalf("FAULTS=%s: there is no %s, only %s", os.Getenv("FAULTS"), name, strings.Join(known, ", "))
		}
	}
	if (&schedule{kinds: list}).has("disk") && os.Geteuid() != 0 {
		t.Fatal("a full disk needs a file system of its own, and that root: as somebody else choose FAULTS without disk")
	}
	return list
}

// schedule deals faults from a seed: each kind once, in some order, then each again.
type schedule struct {
	rng   *rand.Rand
	kinds []*faultKind
	deck  []*faultKind
	dealt int
}

func newSchedule(seed uint64, kinds []*faultKind) *schedule {
	return &schedule{rng: rand.New(rand.NewPCG(seed, 0)), kinds: kinds}
}

func (s *schedule) has(name string) bool {
	return slices.ContainsFunc(s.kinds, func(k *faultKind) bool { return k.name == name })
}

// only names the kind that is the only one.
func (s *schedule) only() string {
	if len(s.kinds) != 1 {
		return ""
	}
	return "only=" + s.kinds[0].name + " "
}

func (s *schedule) next() strike {
	if len(s.deck) == 0 {
		s.deck = slices.Clone(s.kinds)
		s.rng.Shuffle(len(s.deck), func(i, j int) { s.deck[i], s.deck[j] = s.deck[j], s.deck[i] })
	}
	kind := s.deck[0]
	s.deck = s.deck[1:]
	s.dealt++
	next := strike{number: s.dealt, kind: kind, in: true, out: true, node: 1 + s.rng.IntN(nodes)}
	next.other = 1 + (next.node+s.rng.IntN(nodes-1))%nodes
	next.hasty = s.rng.IntN(4) == 0
	kind.plan(s.rng, &next)
	return next
}

func lasting(least, most time.Duration) func(rng *rand.Rand, s *strike) {
	return func(rng *rand.Rand, s *strike) {
		s.lasts = (least + time.Duration(rng.Int64N(int64(most-least)+1))).Round(10 * time.Millisecond)
	}
}

func oneWay(rng *rand.Rand, s *strike) {
	lasting(5*time.Second, 15*time.Second)(rng, s)
	s.in = rng.IntN(2) == 0
	s.out = !s.in
}

func someWay(rng *rand.Rand, s *strike) {
	lasting(5*time.Second, 15*time.Second)(rng, s)
	if rng.IntN(2) == 0 {
		oneWay(rng, s)
	}
}

func slowly(rng *rand.Rand, s *strike) {
	lasting(5*time.Second, 15*time.Second)(rng, s)
	s.delay = time.Duration(10+rng.IntN(490)) * time.Millisecond
}

func (c *cluster) node(id int) *server { return c.nodes[id-1] }

func killNode(c *cluster, s strike)   { c.kill(c.node(s.node)) }
func stopNode(c *cluster, s strike)   { c.stop(c.node(s.node)) }
func startNode(c *cluster, s strike)  { c.start(c.node(s.node)) }
func pauseNode(c *cluster, s strike)  { c.pause(c.node(s.node), syscall.SIGSTOP) }
func resumeNode(c *cluster, s strike) { c.pause(c.node(s.node), syscall.SIGCONT) }
func healNetwork(c *cluster, _ strike) {
	c.network.heal()
}

func killAll(c *cluster, _ strike) {
	for _, n := range c.nodes {
		c.kill(n)
	}
}

func startAll(c *cluster, _ strike) { c.start(c.nodes...) }

// ways are those between a node and another one, or clients, as the strike wants them.
func (s strike) ways(other int) (list []way) {
	if s.in {
		list = append(list, way{other, s.node})
	}
	if s.out {
		list = append(list, way{s.node, other})
	}
	return list
}

func (s strike) waysToNodes(c *cluster) (list []way) {
	for _, n := range c.others(s.node) {
		list = append(list, s.ways(n.id)...)
	}
	return list
}

func cutFromNodes(c *cluster, s strike)   { c.network.hold(s.waysToNodes(c)...) }
func cutPair(c *cluster, s strike)        { c.network.hold(s.ways(s.other)...) }
func cutFromClients(c *cluster, s strike) { c.network.hold(s.ways(everybody)...) }
func delayNode(c *cluster, s strike) {
	c.network.slow(s.delay, append(s.waysToNodes(c), s.ways(everybody)...)...)
}

func breakConnections(c *cluster, s strike) {
	c.network.breakAll(func(w way) bool { return w.from == s.node || w.to == s.node })
}

func fillDisk(c *cluster, s strike)  { c.node(s.node).disk.Fill("somebody-else", 0) }
func emptyDisk(c *cluster, s strike) { c.node(s.node).disk.Remove("somebody-else") }
