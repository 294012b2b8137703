package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator"
)

// LeaveGroup removes members at their own or an administrator's wish (KIP-345: several at
// once, also by instance id).
func (s *Shard) LeaveGroup(now time.Time, c Context, req *kmsg.LeaveGroupRequest, answer func(*kmsg.LeaveGroupResponse)) coordinator.Effects {
	return s.run(now, func(o *op) {
		members := s.leaveGroup(o, c, req)
		o.reply(func(err error) { answer(leaveResponse(c, members, err)) })
	})
}

// leaving lists who is to leave: before version 3 a single member.
func leaving(c Context, req *kmsg.LeaveGroupRequest) []kmsg.LeaveGroupRequestMember {
	if c.Version >= 3 {
		return req.Members
	}
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = req.MemberID
	return []kmsg.LeaveGroupRequestMember{m}
}

func (s *Shard) leaveGroup(o *op, c Context, req *kmsg.LeaveGroupRequest) []kmsg.LeaveGroupResponseMember {
	g := s.lookup(req.Group)
	left := false
	var results []kmsg.LeaveGroupResponseMember
	for _, l := range leaving(c, req) {
		err := errUnknownMemberID
		if g != nil {
			err = s.leave(g, l)
		}
		left = left || err == nil
		r := kmsg.NewLeaveGroupResponseMember()
		r.MemberID, r.InstanceID, r.ErrorCode = l.MemberID, l.InstanceID, answerCode(err)
		results = append(results, r)
	}
	if left {
		s.afterLeaving(o, g)
	}
	return results
}

// leave removes one member.
func (s *Shard) leave(g *group, l kmsg.LeaveGroupRequestMember) error {
	id := l.MemberID
	switch {
	case id == "":
		if l.InstanceID == nil || g.static[*l.InstanceID] == nil {
			return errUnknownMemberID
		}
		id = g.static[*l.InstanceID].id
	case g.pending.has(id):
		s.timers.stop(g.pending.byID[id])
		g.remove(id)
		return nil
	default:
		if err := g.validate(id, l.InstanceID); err != nil {
			return err
		}
	}
	s.logger.Info("member leaves", "group", g.id, "member", id, "reason", reasonOf(l))
	s.drop(g, g.byID[id])
	return nil
}

func reasonOf(l kmsg.LeaveGroupRequestMember) string {
	if l.Reason == nil {
		return "not provided"
	}
	return *l.Reason
}

func (s *Shard) afterLeaving(o *op, g *group) {
	switch g.state {
	case Stable, CompletingRebalance:
		s.prepareRebalance(o, g, "members left")
	case PreparingRebalance:
		s.completeIfAllJoined(o, g)
	case Empty, Dead:
	}
}

// leaveResponse shapes an answer. Before version 3 it has one error for its one member.
func leaveResponse(c Context, members []kmsg.LeaveGroupResponseMember, err error) *kmsg.LeaveGroupResponse {
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.Version, resp.ErrorCode = c.Version, answerCode(err)
	switch {
	case err != nil:
	case c.Version >= 3:
		resp.Members = members
	case len(members) == 1:
		resp.ErrorCode = members[0].ErrorCode
	}
	return resp
}
