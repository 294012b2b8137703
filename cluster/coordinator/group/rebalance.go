package group

import (
	"time"
)

// newMemberJoinTimeout is how long a JoinGroup of a member that has no id yet is kept
// (GroupCoordinatorConfig.CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS).
const newMemberJoinTimeout = 5 * time.Minute

// minJoinWait is the least that a group whose static members are all missing waits between
// two looks at them: their rebalance timeout may be 0.
const minJoinWait = time.Second

func millis(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }

// makeGroup makes an Empty group without members, with the timers of its join phase and
// its sync phase.
func (s *Shard) makeGroup(id string, sinceMs int64) *group {
	g := newGroup(id, sinceMs)
	g.join = newTimer(func(o *op) {
		if s.isCurrent(g) {
			s.joinTimedOut(o, g)
		}
	})
	g.sync = newTimer(func(o *op) {
		if s.isCurrent(g) {
			s.syncTimedOut(o, g)
		}
	})
	return g
}

// prepareRebalance begins a join phase. Members that wait for their assignment are sent
// back to join again.
func (s *Shard) prepareRebalance(o *op, g *group, reason string) {
	if g.state == CompletingRebalance {
		for _, m := range g.members {
			m.assignment = nil
		}
		s.answerSyncs(o, g, errRebalanceInProgress)
	}
	clear(g.unsynced)
	s.timers.stop(g.sync)

	initial := g.state == Empty
	g.moveTo(PreparingRebalance, o.nowMs())
	s.logger.Info("preparing to rebalance group", "group", g.id, "generation", g.generation, "reason", reason)
	if initial {
		s.beginInitialDelay(o, g)
		return
	}
	g.initial = nil
	if g.allJoined() {
		s.completeJoin(o, g)
		return
	}
	s.timers.set(g.join, o.now.Add(millis(g.rebalanceTimeoutMs())))
}

// rebalanceOrComplete begins a rebalance, or ends the join phase of the one under way if
// all have joined.
func (s *Shard) rebalanceOrComplete(o *op, g *group, reason string) {
	if g.canRebalance() {
		s.prepareRebalance(o, g, reason)
		return
	}
	s.completeIfAllJoined(o, g)
}

// completeIfAllJoined ends the join phase, unless it is the initial one: that waits for
// its delay.
func (s *Shard) completeIfAllJoined(o *op, g *group) {
	if g.state == PreparingRebalance && g.previous != Empty && g.allJoined() {
		s.completeJoin(o, g)
	}
}

// initialDelay is how long the join phase of a group without members still waits for more
// members (group.initial.rebalance.delay.ms).
type initialDelay struct {
	current   time.Duration
	remaining time.Duration // that the members' rebalance timeout leaves
}

func (s *Shard) beginInitialDelay(o *op, g *group) {
	delay := s.config.InitialRebalanceDelay
	g.initial = &initialDelay{delay, max(millis(g.rebalanceTimeoutMs())-delay, 0)}
	s.timers.set(g.join, o.now.Add(delay))
}

// joinTimedOut ends the join phase without those that are missing, or gives the first
// members of a group more time, if others are still coming.
func (s *Shard) joinTimedOut(o *op, g *group) {
	d := g.initial
	if d == nil || !g.newMemberAdded || d.remaining == 0 {
		s.completeJoin(o, g)
		return
	}
	g.newMemberAdded = false
	g.initial = &initialDelay{min(s.config.InitialRebalanceDelay, d.remaining), max(d.remaining-d.current, 0)}
	s.timers.set(g.join, o.now.Add(g.initial.current))
}

// completeJoin ends the join phase: dynamic members that did not join are dropped, and
// the next generation begins with the others.
func (s *Shard) completeJoin(o *op, g *group) {
	s.timers.stop(g.join)
	for _, m := range g.notJoined() {
		if !m.isStatic() {
			s.logger.Info("member did not join in time", "group", g.id, "member", m.id)
			s.drop(g, m)
		}
	}
	if !g.electJoinedLeader() && len(g.members) > 0 {
		// Only static members are left, and none joined. Wait on, until one does or their
		// sessions are over.
		g.initial = nil
		s.timers.set(g.join, o.now.Add(max(millis(g.rebalanceTimeoutMs()), minJoinWait)))
		return
	}
	g.initial = nil
	g.nextGeneration(o.nowMs())
	if g.state == Empty {
		s.logger.Info("group is empty", "group", g.id, "generation", g.generation)
		o.record(groupRecord(g.id, g.recordOf(nil)))
		return
	}
	s.logger.Info("group has a new generation", "group", g.id, "generation", g.generation, "members", len(g.members))
	for _, m := range g.members {
		if p := g.unpark(m); p != nil {
			p.release(o, g.joinedResponse(m))
		}
		m.isNew = false
		s.resetSession(o, m)
		g.unsynced[m.id] = struct{}{}
	}
	s.timers.set(g.sync, o.now.Add(millis(g.rebalanceTimeoutMs())))
}

func (g *group) notJoined() []*member {
	var missing []*member
	for _, m := range g.members {
		if m.joining == nil {
			missing = append(missing, m)
		}
	}
	return missing
}

// syncTimedOut drops the members that joined and did not fetch their assignment.
func (s *Shard) syncTimedOut(o *op, g *group) {
	if len(g.unsynced) == 0 || g.state != CompletingRebalance && g.state != Stable {
		return
	}
	for _, m := range g.membersCopy() {
		if _, ok := g.unsynced[m.id]; ok {
			s.logger.Info("member did not sync in time", "group", g.id, "member", m.id)
			s.drop(g, m)
		}
	}
	s.prepareRebalance(o, g, "members did not send SyncGroup in time")
}

func (g *group) membersCopy() []*member { return append([]*member(nil), g.members...) }

// drop removes a member and its deadline. Whatever it waits for ends.
func (s *Shard) drop(g *group, m *member) {
	s.finishJoin(g, m, joinError("", errUnknownMemberID))
	s.finishSync(m, syncError(errUnknownMemberID))
	s.timers.stop(m.session)
	g.remove(m.id)
}

// sessionTimer makes the timer of a member's session.
func (s *Shard) sessionTimer(g *group, m *member) *timer {
	return newTimer(func(o *op) {
		if s.isCurrent(g) && g.byID[m.id] == m {
			s.sessionEnded(o, g, m)
		}
	})
}

func (s *Shard) resetSession(o *op, m *member) {
	s.timers.set(m.session, o.now.Add(millis(m.sessionTimeoutMs)))
}

// sessionEnded removes a member that has not been heard of, unless it waits for us.
func (s *Shard) sessionEnded(o *op, g *group, m *member) {
	if m.keepsSession() {
		return
	}
	s.logger.Info("session of member timed out", "group", g.id, "member", m.id)
	// A new member may have a JoinGroup parked, which is answered. If its client is still
	// there, it joins again.
	s.drop(g, m)
	switch {
	case g.state == Stable || g.state == CompletingRebalance:
		s.prepareRebalance(o, g, "a member's session timed out")
	case g.state == PreparingRebalance && g.allJoined():
		s.completeJoin(o, g)
	}
}

// pendingEnded forgets a member that did not come back with the id it was sent.
func (s *Shard) pendingEnded(o *op, g *group, id string) {
	g.remove(id)
	if g.state == PreparingRebalance && g.allJoined() {
		s.completeJoin(o, g)
	}
}
