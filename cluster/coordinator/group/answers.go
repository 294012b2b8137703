package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

var (
	errUnknownMemberID     error = kafkaerr.UnknownMemberID
	errRebalanceInProgress error = kafkaerr.RebalanceInProgress
)

// noGeneration is the generation in an answer that has none, and in a request of someone
// who is no member.
const noGeneration int32 = -1

func joinError(memberID string, err error) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Generation, resp.MemberID, resp.ErrorCode = noGeneration, memberID, answerCode(err)
	return resp
}

// joinedResponse tells a member about the current generation; the leader, about all.
func (g *group) joinedResponse(m *member) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Generation, resp.LeaderID, resp.MemberID = g.generation, g.leader, m.id
	resp.ProtocolType, resp.Protocol = g.protocolTypeOrNil(), g.protocol
	if g.isLeader(m.id) {
		resp.Members = g.joinedMembers()
	}
	return resp
}

func (g *group) protocolTypeOrNil() *string {
	if g.protocolType == "" {
		return nil
	}
	t := g.protocolType
	return &t
}

func (g *group) joinedMembers() []kmsg.JoinGroupResponseMember {
	all := make([]kmsg.JoinGroupResponseMember, len(g.members))
	for i, m := range g.members {
		all[i] = kmsg.NewJoinGroupResponseMember()
		all[i].MemberID, all[i].InstanceID = m.id, m.instanceID
		all[i].ProtocolMetadata = m.metadataFor(*g.protocol)
	}
	return all
}

// shapeJoin fits an answer to its version: before version 7 the protocol is never null,
// from there on it is never empty.
func shapeJoin(version int16, resp *kmsg.JoinGroupResponse) *kmsg.JoinGroupResponse {
	resp.Version = version
	switch none := resp.Protocol == nil || *resp.Protocol == ""; {
	case none && version < 7:
		resp.Protocol = new(string)
	case none:
		resp.Protocol = nil
	}
	return resp
}

func syncError(err error) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode = answerCode(err)
	resp.MemberAssignment = []byte{}
	return resp
}

// assigned is the answer that gives a member its assignment.
func (g *group) assigned(m *member) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ProtocolType, resp.Protocol = g.protocolTypeOrNil(), g.protocol
	resp.MemberAssignment = m.assignment
	if resp.MemberAssignment == nil {
		resp.MemberAssignment = []byte{}
	}
	return resp
}
