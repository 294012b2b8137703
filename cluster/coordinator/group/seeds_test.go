package group

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

var (
	groupSeeds = flag.Int("group.seeds", defaultSeeds, "how many seeds TestSeeds runs")
	groupSeed  = flag.Uint64("group.seed", 0, "run this seed alone and print what happens")
)

// TestSeeds has clients join, sync, commit and vanish at random, while the log refuses
// records, answers late, is compacted, and the shard is lost and loaded again between any two
// events.
func TestSeeds(t *testing.T) {
	if *groupSeed != 0 {
		newSimulation(t, *groupSeed, true).run(400)
		return
	}
	var total counts
	for seed := uint64(1); seed <= uint64(*groupSeeds); seed++ {
		s := newSimulation(t, seed, false)
		s.run(400)
		if t.Failed() {
			t.Fatalf("replay with -run TestSeeds -group.seed=%d\n%s", seed, strings.Join(s.trace[max(0, len(s.trace)-60):], "\n"))
		}
		total.add(s.counts)
	}
	t.Logf("%d seeds: %+v", *groupSeeds, total)
	if total.assigned == 0 || total.crashes == 0 || total.refused == 0 || total.commits == 0 || total.fenced == 0 || total.cleanings == 0 {
		t.Errorf("something never happened: %+v", total)
	}
}

// counts says what a run has seen.
type counts struct {
	assigned, commits, crashes, refused, fenced, converged, cleanings int
}

func (c *counts) add(o counts) {
	c.assigned, c.commits, c.crashes = c.assigned+o.assigned, c.commits+o.commits, c.crashes+o.crashes
	c.cleanings += o.cleanings
	c.refused, c.fenced, c.converged = c.refused+o.refused, c.fenced+o.fenced, c.converged+o.converged
}

// simulation is one run from a seed.
type simulation struct {
	*fixture
	rand    *rand.Rand
	cleaner *rand.Rand // of its own, so that seeds stay what they were
	counts  counts
	trace   []string
	verbose bool

	clients []*simClient
	// owners are the assignments that members were told, by generation: each is from one
	// leader's SyncGroup, and each part of it has one owner.
	owners map[int32]map[string]string
	leader map[int32]string
	// acked is the highest offset whose commit was answered, seen the highest that was
	// fetched, next the one to be committed next, which only rises.
	acked, seen, next int64
	syncs             int
}

// simClient is a consumer that follows the protocol, more or less.
type simClient struct {
	name       string
	instance   *string
	version    int16
	id         string
	generation int32
	leads      []string // the members it is to assign to
	phase      simPhase
	waiting    bool // for an answer
	life       int  // a new one after each start: answers for earlier ones are not heard
	deaf       bool // hears no answer
}

type simPhase int

const (
	simJoining simPhase = iota
	simSyncing
	simStable
)

func newSimulation(t *testing.T, seed uint64, verbose bool) *simulation {
	s := &simulation{
		fixture: newFixture(t, seed), rand: rand.New(rand.NewPCG(seed, 7)), cleaner: rand.New(rand.NewPCG(seed, 8)), verbose: verbose,
		owners: make(map[int32]map[string]string), leader: make(map[int32]string),
	}
	for i := range 2 + s.rand.IntN(4) {
		c := &simClient{name: fmt.Sprintf("c%d", i), version: int16(s.rand.IntN(10)), generation: noGeneration}
		if c.version >= 5 && s.rand.IntN(2) == 0 {
			instance := "i" + c.name
			c.instance = &instance
		}
		s.clients = append(s.clients, c)
	}
	return s
}

func (s *simulation) note(format string, args ...any) {
	line := fmt.Sprintf("%6.1fs ", s.now.Sub(epoch).Seconds()) + fmt.Sprintf(format, args...)
	s.trace = append(s.trace, line)
	if s.verbose {
		s.t.Log(line)
	}
}

func (s *simulation) run(steps int) {
	for range steps {
		s.step()
		s.check()
		if s.t.Failed() {
			return
		}
	}
	s.converge()
}

func (s *simulation) step() {
	c := s.clients[s.rand.IntN(len(s.clients))]
	switch n := s.rand.IntN(100); {
	case n < 52:
		s.act(c)
	case n < 64:
		s.commit(c)
	case n < 69:
		s.fetch(s.rand.IntN(2) == 0)
	case n < 77:
		s.pass(time.Duration(s.rand.IntN(4000)) * time.Millisecond)
	case n < 78:
		s.pass(time.Duration(s.rand.IntN(60)) * time.Second)
	case n < 81:
		s.linger = !s.linger
		if !s.linger {
			s.flush()
		}
	case n < 85:
		s.hold = !s.hold
		s.note("high watermark held: %v", s.hold)
	case n < 90:
		s.flush()
		s.advance(s.hw + s.rand.Int64N(int64(len(s.log))-s.hw+1))
	case n < 92:
		s.note("the next append is refused")
		s.refuse = kafkaerr.NotEnoughReplicas
		s.counts.refused++
	case n < 93:
		s.note("waits time out")
		s.timeOut()
	case n < 95:
		s.restart(c)
	case n < 96:
		s.leave(c)
	case n < 98:
		s.crashNow()
	default:
		s.wrong(c)
	}
}

// act does what comes next for a client.
func (s *simulation) act(c *simClient) {
	switch {
	case c.waiting:
	case c.phase == simJoining:
		s.join(c)
	case c.phase == simSyncing:
		s.sync(c)
	default:
		s.heartbeat(c)
	}
}

// restart is a client that dies and comes back: it forgets all but its instance id.
func (s *simulation) restart(c *simClient) {
	s.note("%s restarts", c.name)
	c.life++
	c.id, c.generation, c.phase, c.waiting, c.leads = "", noGeneration, simJoining, false, nil
}

// crashNow loses the shard with what was not committed, or keeps some of it. Who waits for
// an answer asks again.
func (s *simulation) crashNow() {
	keep := s.rand.IntN(5)
	s.note("crash, up to %d records above the high watermark are kept", keep)
	s.refuse = nil
	s.counts.crashes++
	if s.cleaner.IntN(2) == 0 {
		s.clean(s.cleaner.Int64N(s.hw+1), s.cleaner.Int64N(s.hw+1))
		s.note("cleaned up to %d", s.cleaned)
		s.counts.cleanings++
	}
	for _, c := range s.clients {
		c.life++
		c.waiting = false
	}
	s.crash(keep)
}

// ask sends a request: the answer is heard unless the client has a new life.
func ask[T any](s *simulation, c *simClient, what string, hear func(T)) func(T) {
	life, answered := c.life, false
	c.waiting = true
	return func(v T) {
		if answered {
			s.t.Errorf("%s of %s is answered twice", what, c.name)
		}
		answered = true
		if c.life == life && !c.deaf {
			c.waiting = false
			hear(v)
		}
	}
}

func (s *simulation) join(c *simClient) {
	req := testJoin("g")
	req.MemberID, req.InstanceID = c.id, c.instance
	s.note("%s joins as %q", c.name, c.id)
	s.carryOut(s.shard.JoinGroup(s.now, Context{Version: c.version, ClientID: c.name}, req, ask(s, c, "JoinGroup", func(resp *kmsg.JoinGroupResponse) {
		s.note("%s joined: %s", c.name, showJoin(resp))
		switch resp.ErrorCode {
		case 0:
			c.id, c.generation, c.phase, c.leads = resp.MemberID, resp.Generation, simSyncing, nil
			for _, m := range resp.Members {
				c.leads = append(c.leads, m.MemberID)
			}
			if resp.SkipAssignment {
				c.leads = nil
			}
		case kafkaerr.MemberIDRequired.Code:
			c.id = resp.MemberID
		case kafkaerr.FencedInstanceID.Code:
			s.counts.fenced++
			s.restart(c)
		case kafkaerr.UnknownMemberID.Code:
			s.restart(c)
		}
	})))
}

func (s *simulation) sync(c *simClient) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = "g", c.id, c.generation, c.instance
	s.syncs++
	for i, id := range c.leads {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{
			MemberID: id, MemberAssignment: fmt.Appendf(nil, "%d/%d", s.syncs, i),
		})
	}
	generation := c.generation
	s.note("%s syncs", c.name)
	s.carryOut(s.shard.SyncGroup(s.now, Context{Version: 5}, req, ask(s, c, "SyncGroup", func(resp *kmsg.SyncGroupResponse) {
		s.note("%s synced: %s %q", c.name, errorName(resp.ErrorCode), resp.MemberAssignment)
		if resp.ErrorCode == 0 {
			s.assigned(c, generation, string(resp.MemberAssignment))
		}
		s.afterError(c, resp.ErrorCode, simStable)
	})))
}

// afterError moves a client on as an answer says.
func (s *simulation) afterError(c *simClient, code int16, fine simPhase) {
	switch code {
	case 0:
		c.phase = fine
	case kafkaerr.UnknownMemberID.Code, kafkaerr.IllegalGeneration.Code:
		c.phase = simJoining
		if code == kafkaerr.UnknownMemberID.Code {
			c.id = ""
		}
	case kafkaerr.RebalanceInProgress.Code:
		c.phase = simJoining
	case kafkaerr.FencedInstanceID.Code:
		s.counts.fenced++
		s.restart(c)
	}
}

// assigned checks OneOwnerPerGeneration.
func (s *simulation) assigned(c *simClient, generation int32, assignment string) {
	s.counts.assigned++
	if assignment == "" {
		return // its leader did not know of it
	}
	call, _, _ := strings.Cut(assignment, "/")
	if s.leader[generation] == "" {
		s.leader[generation], s.owners[generation] = call, make(map[string]string)
	}
	if s.leader[generation] != call {
		s.t.Errorf("OneOwnerPerGeneration: members of generation %d were assigned by two SyncGroups: %s and %s", generation, s.leader[generation], call)
	}
	// A static member that is started anew keeps what its predecessor had.
	owner := c.id
	if c.instance != nil {
		owner = *c.instance
	}
	if had := s.owners[generation][assignment]; had != "" && had != owner {
		s.t.Errorf("OneOwnerPerGeneration: %q of generation %d belongs to %s and to %s", assignment, generation, had, owner)
	}
	s.owners[generation][assignment] = owner
}

func (s *simulation) heartbeat(c *simClient) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = "g", c.id, c.generation, c.instance
	s.carryOut(s.shard.Heartbeat(s.now, Context{Version: 4}, req, ask(s, c, "Heartbeat", func(resp *kmsg.HeartbeatResponse) {
		if resp.ErrorCode != 0 {
			s.note("%s heartbeat: %s", c.name, errorName(resp.ErrorCode))
		}
		s.afterError(c, resp.ErrorCode, c.phase)
	})))
}

func (s *simulation) leave(c *simClient) {
	if c.waiting || c.id == "" {
		return
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = "g"
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: c.id, InstanceID: c.instance}}
	s.note("%s leaves", c.name)
	s.carryOut(s.shard.LeaveGroup(s.now, Context{Version: 5}, req, ask(s, c, "LeaveGroup", func(*kmsg.LeaveGroupResponse) { s.restart(c) })))
}

// commit commits the next offset, as a member; the answer tells that it counts.
func (s *simulation) commit(c *simClient) {
	if c.waiting || c.phase != simStable {
		return
	}
	s.next++
	offset := s.next
	req := commitOf("g", "t", 0, offset)
	req.MemberID, req.Generation, req.InstanceID = c.id, c.generation, c.instance
	s.note("%s commits %d", c.name, offset)
	s.carryOut(s.shard.OffsetCommit(s.now, Context{Version: 9}, req, ask(s, c, "OffsetCommit", func(resp *kmsg.OffsetCommitResponse) {
		code := resp.Topics[0].Partitions[0].ErrorCode
		s.note("%s committed %d: %s", c.name, offset, errorName(code))
		if code == 0 {
			s.counts.commits++
			s.acked = max(s.acked, offset)
		}
		s.afterError(c, code, c.phase)
	})))
}

func commitOf(group, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.RetentionTimeMillis = group, noGeneration, noRetention
	rt, rp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	rt.Topic, rp.Partition, rp.Offset = topic, partition, offset
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// fetch checks that committed offsets never go back.
func (s *simulation) fetch(stable bool) {
	req := kmsg.NewOffsetFetchRequestGroup()
	req.Group = "g"
	req.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}
	acked, seen := s.acked, s.seen
	hear := func(resp kmsg.OffsetFetchResponseGroup) {
		if resp.ErrorCode != 0 {
			return
		}
		got := resp.Topics[0].Partitions[0].Offset
		if got < max(acked, seen) && max(acked, seen) > 0 {
			s.t.Errorf("CommittedOffsetsNeverGoBack: fetched %d after %d was acknowledged and %d fetched", got, acked, seen)
		}
		s.seen = max(s.seen, got)
	}
	if !stable {
		hear(s.shard.OffsetFetch(noTopics, &req))
		return
	}
	s.carryOut(s.shard.OffsetFetchStable(s.now, Context{Version: 9}, noTopics, &req, hear))
}

// wrong sends what no good client sends.
func (s *simulation) wrong(c *simClient) {
	other := s.clients[s.rand.IntN(len(s.clients))]
	deaf := &simClient{name: "nobody", id: other.id, instance: c.instance, version: c.version, generation: other.generation + int32(s.rand.IntN(3)) - 1, deaf: true}
	switch s.rand.IntN(4) {
	case 0:
		s.heartbeat(deaf)
	case 1:
		deaf.leads = nil
		s.sync(deaf)
	case 2:
		s.carryOut(s.shard.DeleteGroups(s.now, Context{Version: 2}, []string{"other"}, func([]kmsg.DeleteGroupsResponseGroup) {}))
	default:
		s.carryOut(s.shard.OffsetCommit(s.now, Context{Version: 9}, commitOf("other", "t", 0, 1), func(*kmsg.OffsetCommitResponse) {}))
	}
}

// check holds the group against itself.
func (s *simulation) check() {
	for _, g := range s.shard.newestGroups() {
		joining, supports := 0, map[string]int{}
		for _, m := range g.members {
			if m.joining != nil {
				joining++
			}
			for _, p := range m.protocols {
				supports[p.name]++
			}
			if g.byID[m.id] != m || m.isStatic() && g.static[*m.instanceID] != m {
				s.t.Errorf("member %q of %q is not where it is looked up", m.id, g.id)
			}
			if m.session.index < 0 && !m.keepsSession() {
				s.t.Errorf("member %q of %q in %v has no session", m.id, g.id, g.state)
			}
		}
		if joining != g.joining || len(g.byID) != len(g.members) || !maps.Equal(supports, g.supports) {
			s.t.Errorf("group %q counts %d joining, %d members, %v; has %d, %d, %v", g.id, g.joining, len(g.byID), g.supports, joining, len(g.members), supports)
		}
		if len(g.members) > 0 && g.byID[g.leader] == nil || len(g.members) == 0 && g.state == Stable {
			s.t.Errorf("group %q in %v with %d members is led by %q", g.id, g.state, len(g.members), g.leader)
		}
		if g.state == PreparingRebalance && g.join.index < 0 || g.state == CompletingRebalance && len(g.unsynced) > 0 && g.sync.index < 0 {
			s.t.Errorf("group %q in %v has no deadline", g.id, g.state)
		}
	}
}

// converge ends all faults: the clients that are left become one stable group, which is
// the same when it is loaded again.
func (s *simulation) converge() {
	s.note("faults end")
	s.refuse, s.hold, s.linger = nil, false, false
	s.flush()
	for range 600 {
		for _, c := range s.clients {
			s.act(c)
		}
		s.pass(500 * time.Millisecond)
		s.check()
		if s.t.Failed() {
			return
		}
	}
	for _, c := range s.clients {
		if c.phase != simStable {
			s.t.Errorf("%s is in phase %d, waiting %v, after five minutes without faults", c.name, c.phase, c.waiting)
		}
	}
	before := s.shard.DescribeGroup(Context{Version: 6}, "g")
	if before.State != "Stable" || len(before.Members) != len(s.clients) {
		s.t.Errorf("group is %s with %d members, want Stable with %d", before.State, len(before.Members), len(s.clients))
	}
	s.fetch(false)
	s.crash(0)
	after := s.shard.DescribeGroup(Context{Version: 6}, "g")
	if !slices.EqualFunc(before.Members, after.Members, sameMember) || after.State != before.State {
		s.t.Errorf("loaded again the group is %+v, was %+v", after, before)
	}
	s.fetch(false)
	s.counts.converged++
}

func sameMember(a, b kmsg.DescribeGroupsResponseGroupMember) bool {
	return a.MemberID == b.MemberID && a.ClientID == b.ClientID && deref(a.InstanceID) == deref(b.InstanceID) &&
		string(a.MemberAssignment) == string(b.MemberAssignment) && string(a.ProtocolMetadata) == string(b.ProtocolMetadata)
}
