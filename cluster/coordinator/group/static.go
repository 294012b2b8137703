package group

import (
	"time"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// replaceStaticMember lets a static member join that does not know its id: it was started
// anew (KIP-345). It gets a new id and takes the place of its predecessor, which is
// fenced. In a Stable group nothing else happens, if the protocol stays: the new one keeps
// the assignment of the old.
func (s *Shard) replaceStaticMember(o *op, g *group, m *member, j *joinCall) {
	was := *m
	leader := g.leader
	s.finishJoin(g, m, joinError(m.id, kafkaerr.FencedInstanceID))
	s.finishSync(m, syncError(kafkaerr.FencedInstanceID))
	g.rename(m, s.newMemberID(*m.instanceID))
	g.update(m, protocolsOf(j.req), j.rebalanceTimeoutMs(), j.req.SessionTimeoutMillis)
	m.isNew = false
	s.timers.set(m.session, o.now.Add(millis(was.sessionTimeoutMs)))
	s.park(g, m, j)

	switch g.state {
	case Stable:
		if g.protocol != nil && g.selectProtocol() == *g.protocol {
			s.persistReplacement(o, g, m, was, leader)
			return
		}
		s.prepareRebalance(o, g, "a static member that replaces another changes the protocol: "+j.reason())
	case CompletingRebalance:
		// The leader was told of the old id and will assign to it.
		s.prepareRebalance(o, g, "static member replaced: "+j.reason())
	default:
		s.completeIfAllJoined(o, g)
	}
}

// persistReplacement writes the new id of a static member. If it can't be written, the
// old one is back.
func (s *Shard) persistReplacement(o *op, g *group, m *member, was member, leader string) {
	now, parked := m.id, m.joining
	o.record(groupRecord(g.id, g.recordOf(func(m *member) []byte { return m.assignment })))
	o.effects.Committed = func(at time.Time) coordinator.Effects {
		return s.run(at, func(o *op) { s.replacementCommitted(o, g, m, leader, parked) })
	}
	o.effects.Refused = func(at time.Time, err error) coordinator.Effects {
		if !s.isCurrent(g) || g.byID[now] != m {
			return coordinator.Effects{}
		}
		return s.run(at, func(o *op) { s.revertReplacement(o, g, m, was, leader, parked, err) })
	}
}

func (s *Shard) replacementCommitted(o *op, g *group, m *member, leader string, parked *parkedJoin) {
	if m.joining != parked {
		return // a rebalance has answered it
	}
	resp := g.joinedResponse(m)
	resp.SkipAssignment = g.isLeader(m.id)
	if parked.context.Version < 9 {
		// Without SkipAssignment (KIP-814) a leader would assign anew. So it is told that the
		// one it replaces is still the leader.
		resp.Members, resp.LeaderID, resp.SkipAssignment = nil, leader, false
	}
	s.finishJoin(g, m, resp)
	s.resetSession(o, m) // it may have ended while the JoinGroup stood for heartbeats
}

func (s *Shard) revertReplacement(o *op, g *group, m *member, was member, leader string, parked *parkedJoin, err error) {
	s.logger.Warn("new id of a static member is not written, its old one stays",
		"group", g.id, "instance", *m.instanceID, "error", err)
	if m.joining == parked {
		resp := g.joinedResponse(m)
		resp.MemberID, resp.Members, resp.LeaderID = "", nil, leader
		resp.ErrorCode = answerCode(err)
		s.finishJoin(g, m, resp)
	}
	g.update(m, was.protocols, was.rebalanceTimeoutMs, was.sessionTimeoutMs)
	g.rename(m, was.id)
	s.resetSession(o, m)
}
