package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/internal/invariant"
)

// State is the phase of a classic group (ClassicGroupState).
type State int8

// The states of a classic group; see the package comment. Dead is what DescribeGroups
// says of a group that does not exist.
const (
	Empty State = iota
	PreparingRebalance
	CompletingRebalance
	Stable
	Dead
)

// String is the state's name in answers.
func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// consumerProtocolType is the protocol type of consumers, whose metadata we can read.
const consumerProtocolType = "consumer"

// group is one classic group (Kafka's ClassicGroup). A simple group, one that only has
// committed offsets, is an Empty group without protocol type.
type group struct {
	id         string
	state      State
	previous   State
	stateSince int64 // ms since 1970; -1: unknown (loaded from an old record)

	protocolType string // "": none yet
	protocol     *string
	generation   int32
	leader       string // "": none

	members  []*member // in the order of joining
	byID     map[string]*member
	static   map[string]*member // by instance id
	supports map[string]int     // members that support a protocol
	joining  int                // members with a parked JoinGroup
	pending  pendingMembers
	unsynced map[string]struct{} // members that have not sent SyncGroup in this generation

	// subscribed is what the members subscribe to; nil if it is not known.
	subscribed map[string]struct{}
	// newMemberAdded asks for more time for an initial rebalance.
	newMemberAdded bool
	// persisting is true while the assignment of this generation is being written. A
	// leader that sends SyncGroup again does not write another: after a crash the group
	// would be loaded with it, while members got the first.
	persisting bool

	join, sync *timer
	// initial is how the join phase of a group without members goes on; nil in any other.
	initial *initialDelay
}

func newGroup(id string, nowMs int64) *group {
	return &group{
		id: id, state: Empty, previous: Dead, stateSince: nowMs,
		byID: make(map[string]*member), static: make(map[string]*member),
		supports: make(map[string]int), unsynced: make(map[string]struct{}),
	}
}

// moveTo changes the phase.
func (g *group) moveTo(to State, nowMs int64) {
	valid := map[State][]State{
		Empty:               {PreparingRebalance},
		PreparingRebalance:  {Stable, CompletingRebalance, Empty},
		CompletingRebalance: {PreparingRebalance},
		Stable:              {CompletingRebalance},
	}
	invariant.Check(slices.Contains(valid[to], g.state), "group %q goes from %v to %v", g.id, g.state, to)
	g.previous, g.state, g.stateSince = g.state, to, nowMs
	g.persisting = false
}

// add makes m a member.
func (g *group) add(m *member) {
	if m.isStatic() {
		invariant.Check(g.static[*m.instanceID] == nil, "group %q has instance %q twice", g.id, *m.instanceID)
		g.static[*m.instanceID] = m
	}
	if g.leader == "" {
		g.leader = m.id
	}
	g.members = append(g.members, m)
	g.byID[m.id] = m
	g.count(m, +1)
	if m.joining != nil {
		g.joining++
	}
	g.pending.remove(m.id)
}

// remove drops a member, or a pending one, if it is there.
func (g *group) remove(id string) {
	if m := g.byID[id]; m != nil {
		delete(g.byID, id)
		g.members = slices.DeleteFunc(g.members, func(o *member) bool { return o == m })
		g.count(m, -1)
		if m.joining != nil {
			g.joining--
		}
		if m.isStatic() {
			delete(g.static, *m.instanceID)
		}
	}
	if g.leader == id {
		g.leader = ""
		if len(g.members) > 0 {
			g.leader = g.members[0].id
		}
	}
	g.pending.remove(id)
	delete(g.unsynced, id)
}

// rename gives a static member another id (ClassicGroup.replaceStaticMember).
func (g *group) rename(m *member, id string) {
	delete(g.byID, m.id)
	if g.leader == m.id {
		g.leader = id
	}
	m.id = id
	g.byID[id] = m
}

// update takes over what a member says in a JoinGroup.
func (g *group) update(m *member, ps []protocol, rebalanceTimeoutMs, sessionTimeoutMs int32) {
	g.count(m, -1)
	m.protocols = ps
	g.count(m, +1)
	m.rebalanceTimeoutMs, m.sessionTimeoutMs = rebalanceTimeoutMs, sessionTimeoutMs
}

func (g *group) count(m *member, by int) {
	for _, p := range m.protocols {
		if g.supports[p.name] += by; g.supports[p.name] == 0 {
			delete(g.supports, p.name)
		}
	}
}

func (g *group) isLeader(id string) bool { return g.leader != "" && g.leader == id }

// canRebalance tells that a rebalance may begin, because none is in its join phase.
func (g *group) canRebalance() bool { return g.state != PreparingRebalance }

func (g *group) allJoined() bool {
	return len(g.members) == g.joining && g.pending.len() == 0
}

// rebalanceTimeoutMs is the time that the slowest member asks for.
func (g *group) rebalanceTimeoutMs() int32 {
	var most int32
	for _, m := range g.members {
		most = max(most, m.rebalanceTimeoutMs)
	}
	return most
}

// electJoinedLeader makes sure that the leader is among those that joined. False: nobody
// joined, or there is nobody.
func (g *group) electJoinedLeader() bool {
	if g.leader == "" {
		return false
	}
	if l := g.byID[g.leader]; l != nil && l.joining != nil {
		return true
	}
	for _, m := range g.members {
		if m.joining != nil {
			g.leader = m.id
			return true
		}
	}
	return false
}

// nextGeneration ends the join phase.
func (g *group) nextGeneration(nowMs int64) {
	g.generation++
	if len(g.members) > 0 {
		p := g.selectProtocol()
		g.protocol = &p
		g.subscribed = g.subscriptions()
		g.moveTo(CompletingRebalance, nowMs)
	} else {
		g.protocol = nil
		g.subscribed = g.subscriptions()
		g.moveTo(Empty, nowMs)
	}
	clear(g.unsynced)
}

// supportsAny tells that a member with these protocols can join: one of them is supported
// by all members.
func (g *group) supportsAny(protocolType string, ps []kmsg.JoinGroupRequestProtocol) bool {
	if g.state == Empty {
		return protocolType != "" && len(ps) > 0
	}
	return g.protocolType != "" && g.protocolType == protocolType &&
		slices.ContainsFunc(ps, func(p kmsg.JoinGroupRequestProtocol) bool { return g.isCandidate(p.Name) })
}

func (g *group) isCandidate(protocol string) bool { return g.supports[protocol] == len(g.members) }

// selectProtocol lets each member vote for the first of its protocols that all support.
// A tie is broken as Kafka breaks it: by the order in which java.util.HashMap is walked.
func (g *group) selectProtocol() string {
	var names []string // in the order of their first vote
	votes := make(map[string]int)
	for _, m := range g.members {
		name, ok := m.vote(g.isCandidate)
		invariant.Check(ok, "member %q of group %q supports none of its protocols", m.id, g.id)
		if votes[name] == 0 {
			names = append(names, name)
		}
		votes[name]++
	}
	slices.SortStableFunc(names, func(a, b string) int { return int(javaBucket(a) - javaBucket(b)) })
	return slices.MaxFunc(names, func(a, b string) int { return votes[a] - votes[b] })
}

// isSubscribedTo tells whether members may be subscribed to a topic: what is not known of
// consumers counts as subscribed.
func (g *group) isSubscribedTo(topic string) bool {
	if g.subscribed == nil {
		return g.usesConsumerProtocol()
	}
	_, ok := g.subscribed[topic]
	return ok
}

func (g *group) usesConsumerProtocol() bool { return g.protocolType == consumerProtocolType }

// subscriptions is what the members subscribe to by the selected protocol, nil if that
// can't be told (ClassicGroup.computeSubscribedTopics).
func (g *group) subscriptions() map[string]struct{} {
	if !g.usesConsumerProtocol() {
		return nil
	}
	topics := make(map[string]struct{})
	if len(g.members) == 0 {
		return topics
	}
	if g.protocol == nil {
		return nil
	}
	for _, m := range g.members {
		subscribed, ok := subscriptionTopics(m.metadataFor(*g.protocol))
		if !ok {
			return nil
		}
		for _, t := range subscribed {
			topics[t] = struct{}{}
		}
	}
	return topics
}
