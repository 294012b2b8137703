package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// SyncGroup gives a member its assignment; from the leader it takes the assignments of
// all. The answer is parked until they are written.
func (s *Shard) SyncGroup(now time.Time, c Context, req *kmsg.SyncGroupRequest, answer func(*kmsg.SyncGroupResponse)) coordinator.Effects {
	return s.run(now, func(o *op) { s.syncGroup(o, c, req, answer) })
}

func (s *Shard) syncGroup(o *op, c Context, req *kmsg.SyncGroupRequest, answer syncAnswer) {
	g := s.lookup(req.Group)
	if err := validateSync(g, req); err != nil {
		resp := syncError(err)
		resp.Version = c.Version
		answer(resp)
		return
	}
	m := g.byID[req.MemberID]
	delete(g.unsynced, m.id)
	if len(g.unsynced) == 0 {
		s.timers.stop(g.sync)
	}
	if g.state == Stable {
		// The group may have been loaded with a record that is not committed yet.
		resp := g.assigned(m)
		o.reply(func(err error) {
			if err != nil {
				resp = syncError(err)
			}
			resp.Version = c.Version
			answer(resp)
		})
		return
	}
	s.finishSync(m, syncError(errRebalanceInProgress)) // of a client that gave up waiting
	m.syncing = &parkedSync{c, answer}
	if g.isLeader(m.id) && !g.persisting {
		s.persistAssignment(o, g, req)
	}
}

// validateSync checks a SyncGroup in Kafka's order.
func validateSync(g *group, req *kmsg.SyncGroupRequest) error {
	if g == nil || g.state == Empty {
		return errUnknownMemberID
	}
	if err := g.validate(req.MemberID, req.InstanceID); err != nil {
		return err
	}
	switch {
	case req.Generation != g.generation:
		return kafkaerr.IllegalGeneration
	case differs(req.ProtocolType, g.protocolTypeOrNil()), differs(req.Protocol, g.protocol):
		return kafkaerr.InconsistentGroupProtocol
	case g.state == PreparingRebalance:
		return errRebalanceInProgress
	}
	return nil
}

// differs tells that both are known and not the same.
func differs(a, b *string) bool { return a != nil && b != nil && *a != *b }

// persistAssignment writes the generation with its assignments. Members that the leader
// left out get an empty one. When that is committed the group is Stable; if a rebalance
// has begun meanwhile, nothing happens.
func (s *Shard) persistAssignment(o *op, g *group, req *kmsg.SyncGroupRequest) {
	assignments := make(map[string][]byte, len(req.GroupAssignment))
	for _, a := range req.GroupAssignment {
		assignments[a.MemberID] = a.MemberAssignment
	}
	generation := g.generation
	stillDue := func() bool {
		return s.isCurrent(g) && g.state == CompletingRebalance && g.generation == generation
	}
	g.persisting = true
	o.record(groupRecord(g.id, g.recordOf(func(m *member) []byte { return assignments[m.id] })))
	o.effects.Committed = func(at time.Time) coordinator.Effects {
		if !stillDue() {
			return coordinator.Effects{}
		}
		return s.run(at, func(o *op) { s.stabilize(o, g, assignments) })
	}
	o.effects.Refused = func(at time.Time, err error) coordinator.Effects {
		if !stillDue() {
			return coordinator.Effects{}
		}
		return s.run(at, func(o *op) { s.assignmentRefused(o, g, err) })
	}
}

func (s *Shard) stabilize(o *op, g *group, assignments map[string][]byte) {
	for _, m := range g.members {
		m.assignment = assignments[m.id]
	}
	s.answerSyncs(o, g, nil)
	g.moveTo(Stable, o.nowMs())
	s.metrics.rebalanced()
	s.logger.Info("group is stable", "group", g.id, "generation", g.generation, "members", len(g.members))
}

func (s *Shard) assignmentRefused(o *op, g *group, err error) {
	g.persisting = false
	for _, m := range g.members {
		m.assignment = nil
	}
	s.answerSyncs(o, g, err)
	s.prepareRebalance(o, g, "assignment could not be written: "+err.Error())
}

// answerSyncs answers what is parked: with assignments, or with err. Those sessions begin
// anew, since a parked SyncGroup has stood for heartbeats.
func (s *Shard) answerSyncs(o *op, g *group, err error) {
	for _, m := range g.members {
		resp := g.assigned(m)
		if err != nil {
			resp = syncError(err)
		}
		if s.finishSync(m, resp) {
			s.resetSession(o, m)
		}
	}
}

// finishSync answers a parked SyncGroup, if there is one.
func (s *Shard) finishSync(m *member, resp *kmsg.SyncGroupResponse) bool {
	p := m.syncing
	if p == nil {
		return false
	}
	m.syncing = nil
	resp.Version = p.context.Version
	p.answer(resp)
	return true
}
