package group

import (
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// JoinGroup lets a member in, or back in (KIP-62, 345, 394, 814). The answer is parked
// until the join phase ends, unless it is an error or nothing changes.
func (s *Shard) JoinGroup(now time.Time, c Context, req *kmsg.JoinGroupRequest, answer func(*kmsg.JoinGroupResponse)) coordinator.Effects {
	return s.run(now, func(o *op) { s.joinGroup(o, &joinCall{c, req, answer}) })
}

// joinCall is one JoinGroup request with its answer to be.
type joinCall struct {
	context Context
	req     *kmsg.JoinGroupRequest
	answer  joinAnswer
}

func (j *joinCall) refuse(memberID string, err error) { j.reply(joinError(memberID, err)) }

func (j *joinCall) reply(resp *kmsg.JoinGroupResponse) {
	j.answer(shapeJoin(j.context.Version, resp))
}

// replyCommitted answers when all that is written is committed, so that whoever is told of
// a group can describe it.
func (j *joinCall) replyCommitted(o *op, resp *kmsg.JoinGroupResponse) {
	p := parkedJoin{j.context, j.answer}
	p.release(o, resp)
}

func (p *parkedJoin) release(o *op, resp *kmsg.JoinGroupResponse) {
	o.reply(func(err error) {
		if err != nil {
			resp = joinError("", err)
		}
		p.answer(shapeJoin(p.context.Version, resp))
	})
}

// rebalanceTimeoutMs: version 0 has none, there the session timeout stands for it.
func (j *joinCall) rebalanceTimeoutMs() int32 {
	if j.context.Version == 0 {
		return j.req.SessionTimeoutMillis
	}
	return j.req.RebalanceTimeoutMillis
}

func (j *joinCall) reason() string {
	if j.req.Reason == nil || *j.req.Reason == "" {
		return "not provided"
	}
	return *j.req.Reason
}

func (s *Shard) joinGroup(o *op, j *joinCall) {
	id := j.req.MemberID
	g := s.lookup(j.req.Group)
	isNew := g == nil
	if isNew {
		if id != "" {
			j.refuse(id, errUnknownMemberID)
			return
		}
		g = s.makeGroup(j.req.Group, o.nowMs())
		s.creating = g
	}
	switch {
	case !s.accepts(g, id):
		g.remove(id)
		j.refuse("", kafkaerr.GroupMaxSizeReached)
	case !g.supportsAny(j.req.ProtocolType, j.req.Protocols) || namesTwice(j.req.Protocols):
		j.refuse(id, kafkaerr.InconsistentGroupProtocol)
	case id == "":
		s.joinNewMember(o, g, j)
	default:
		s.joinKnownMember(o, g, j)
	}
	if isNew && len(o.effects.Records) == 0 {
		// A group exists by a record only, whatever the answer was.
		v := kmsg.NewGroupMetadataValue()
		v.CurrentStateTimestamp = g.stateSince
		o.record(groupRecord(g.id, v))
	}
}

// accepts tells whether a group has room for a member. While members join, those that
// have joined count, so that the last of a group that is too large are kept out.
func (s *Shard) accepts(g *group, id string) bool {
	m := g.byID[id]
	switch g.state {
	case PreparingRebalance:
		return m != nil && m.joining != nil || g.joining < s.config.MaxSize
	case CompletingRebalance, Stable:
		return m != nil || len(g.members) < s.config.MaxSize
	case Empty, Dead:
	}
	return true
}

// joinNewMember gives a member its id.
func (s *Shard) joinNewMember(o *op, g *group, j *joinCall) {
	instance := j.req.InstanceID
	if !fitsMemberID(instance, j.context.ClientID) {
		j.refuse("", errIllegalState)
		return
	}
	switch {
	case instance != nil && g.static[*instance] != nil:
		s.replaceStaticMember(o, g, g.static[*instance], j)
	case instance != nil:
		s.addMember(o, g, s.newMemberID(*instance), j)
	case j.context.Version >= 4:
		s.requireMemberID(o, g, j)
	default:
		s.addMember(o, g, s.newMemberID(j.context.ClientID), j)
	}
}

// requireMemberID sends a member an id to join with (KIP-394), so that a client that
// retries does not become a second member.
func (s *Shard) requireMemberID(o *op, g *group, j *joinCall) {
	for g.pending.isFull() {
		s.metrics.pendingDropped()
		oldest := g.pending.oldest()
		s.timers.stop(g.pending.byID[oldest])
		g.remove(oldest)
	}
	id := s.newMemberID(j.context.ClientID)
	session := newTimer(func(o *op) {
		if s.isCurrent(g) && g.pending.has(id) {
			s.pendingEnded(o, g, id)
		}
	})
	g.pending.add(id, session)
	s.timers.set(session, o.now.Add(millis(j.req.SessionTimeoutMillis)))
	j.replyCommitted(o, joinError(id, kafkaerr.MemberIDRequired))
}

// maxMemberID is the longest id of a member, in bytes: records have two bytes for its
// length. randomIDLength is what newMemberID adds.
const (
	maxMemberID    = math.MaxInt16
	randomIDLength = 1 + 36
)

// fitsMemberID tells that a member can get an id, which begins with its instance id if it
// has one.
func fitsMemberID(instance *string, clientID string) bool {
	prefix := clientID
	if instance != nil {
		prefix = *instance
	}
	return len(prefix)+randomIDLength <= maxMemberID
}

// newMemberID is the client's name or instance id with a random UUID.
func (s *Shard) newMemberID(prefix string) string {
	var u [16]byte
	_, err := s.rand.Read(u[:])
	invariant.Check(err == nil, "draw the id of a member: %v", err)
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", prefix, u[0:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// joinKnownMember lets a member join that says who it is.
func (s *Shard) joinKnownMember(o *op, g *group, j *joinCall) {
	id := j.req.MemberID
	if g.pending.has(id) {
		if j.req.InstanceID != nil {
			j.refuse("", errIllegalState)
			return
		}
		s.timers.stop(g.pending.byID[id])
		s.addMember(o, g, id, j)
		return
	}
	if err := g.validate(id, j.req.InstanceID); err != nil {
		j.refuse(id, err)
		return
	}
	m := g.byID[id]
	switch {
	case g.state == PreparingRebalance:
		s.updateMember(o, g, m, j, "member joins again")
	case g.state == CompletingRebalance && m.matches(protocolsOf(j.req)):
		// The answer to its JoinGroup may have been lost.
		j.replyCommitted(o, g.joinedResponse(m))
	case g.state == Stable && g.isLeader(id):
		// The leader knows why: topics may have changed, which metadata does not show.
		s.updateMember(o, g, m, j, "leader joins again")
	case g.state == Stable && m.matches(protocolsOf(j.req)):
		j.replyCommitted(o, g.joinedResponse(m))
	case g.state == Empty:
		j.refuse(id, errUnknownMemberID)
	default:
		s.updateMember(o, g, m, j, "member has new metadata")
	}
}

// addMember makes a member and has it wait for the join phase to end.
func (s *Shard) addMember(o *op, g *group, id string, j *joinCall) {
	m := &member{
		id: id, instanceID: j.req.InstanceID,
		clientID: j.context.ClientID, clientHost: j.context.ClientHost,
		sessionTimeoutMs: j.req.SessionTimeoutMillis, rebalanceTimeoutMs: j.rebalanceTimeoutMs(),
		protocols: protocolsOf(j.req), isNew: true,
	}
	m.session = s.sessionTimer(g, m)
	if g.state == PreparingRebalance && g.previous == Empty {
		g.newMemberAdded = true
	}
	if len(g.members) == 0 {
		g.protocolType = j.req.ProtocolType
	}
	g.add(m)
	s.park(g, m, j)
	s.timers.set(m.session, o.now.Add(newMemberJoinTimeout))
	s.rebalanceOrComplete(o, g, "new member: "+j.reason())
}

// updateMember takes over what a member says now and has it wait for the join phase.
func (s *Shard) updateMember(o *op, g *group, m *member, j *joinCall, what string) {
	g.update(m, protocolsOf(j.req), j.rebalanceTimeoutMs(), j.req.SessionTimeoutMillis)
	s.park(g, m, j)
	s.rebalanceOrComplete(o, g, what+": "+j.reason())
}

// park keeps the answer of a JoinGroup until the join phase ends. One that was parked
// before is of a client that gave up waiting.
func (s *Shard) park(g *group, m *member, j *joinCall) {
	s.finishJoin(g, m, joinError(m.id, errRebalanceInProgress))
	m.joining = &parkedJoin{j.context, j.answer}
	g.joining++
}

// finishJoin answers a parked JoinGroup at once, if there is one.
func (s *Shard) finishJoin(g *group, m *member, resp *kmsg.JoinGroupResponse) {
	if p := g.unpark(m); p != nil {
		p.answer(shapeJoin(p.context.Version, resp))
	}
}

// unpark takes the parked JoinGroup of a member, if there is one.
func (g *group) unpark(m *member) *parkedJoin {
	p := m.joining
	if p != nil {
		m.joining = nil
		g.joining--
	}
	return p
}

// validate checks that a member is who it says (ClassicGroup.validateMember).
func (g *group) validate(id string, instance *string) error {
	if instance != nil {
		switch m := g.static[*instance]; {
		case m == nil:
			return errUnknownMemberID
		case m.id != id:
			return kafkaerr.FencedInstanceID
		}
	}
	if g.byID[id] == nil {
		return errUnknownMemberID
	}
	return nil
}
