package group

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// classicType is the type of these groups in ListGroups.
const classicType = "classic"

// committedGroup finds a group that readers may see.
func (s *Shard) committedGroup(id string) *group {
	g, _ := s.groups.GetCommitted(id)
	return g
}

// DescribeGroup tells a group's members. Of a Stable group also what they said of the
// protocol.
func (s *Shard) DescribeGroup(c Context, id string) kmsg.DescribeGroupsResponseGroup {
	g := s.committedGroup(id)
	if g == nil {
		return unknownGroup(c, id)
	}
	resp := kmsg.NewDescribeGroupsResponseGroup()
	resp.Group, resp.State, resp.ProtocolType = id, g.state.String(), g.protocolType
	if g.state == Stable && g.protocol != nil {
		resp.Protocol = *g.protocol
	}
	for _, m := range g.members {
		rm := kmsg.NewDescribeGroupsResponseGroupMember()
		rm.MemberID, rm.InstanceID = m.id, m.instanceID
		rm.ClientID, rm.ClientHost = m.clientID, m.clientHost
		rm.MemberAssignment = m.assignment
		if g.state == Stable {
			rm.ProtocolMetadata = m.metadataFor(resp.Protocol)
		}
		resp.Members = append(resp.Members, rm)
	}
	return resp
}

// unknownGroup is an error from version 6 on (KIP-1043), and a dead group before.
func unknownGroup(c Context, id string) kmsg.DescribeGroupsResponseGroup {
	resp := kmsg.NewDescribeGroupsResponseGroup()
	resp.Group, resp.State = id, Dead.String()
	if c.Version >= 6 {
		text := "Group " + id + " not found."
		resp.ErrorCode, resp.ErrorMessage = kafkaerr.GroupIDNotFound.Code, &text
	}
	return resp
}

// ListGroups lists the groups that pass both filters of a request; an empty filter lets
// all pass (KIP-518, KIP-848). Case does not matter, nor space around a state.
func (s *Shard) ListGroups(states, types []string) []kmsg.ListGroupsResponseGroup {
	if len(types) > 0 && !containsFold(types, classicType) {
		return nil
	}
	trimmed := make([]string, len(states))
	for i, state := range states {
		trimmed[i] = strings.TrimSpace(state)
	}
	var list []kmsg.ListGroupsResponseGroup
	for id, g := range s.groups.AllCommitted() {
		if len(states) > 0 && !containsFold(trimmed, g.state.String()) {
			continue
		}
		l := kmsg.NewListGroupsResponseGroup()
		l.Group, l.ProtocolType, l.GroupState, l.GroupType = id, g.protocolType, g.state.String(), classicType
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b kmsg.ListGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
	return list
}

func containsFold(filter []string, name string) bool {
	return slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, name) })
}

// DeleteGroups removes groups without members, with their offsets.
func (s *Shard) DeleteGroups(now time.Time, c Context, ids []string, answer func([]kmsg.DeleteGroupsResponseGroup)) coordinator.Effects {
	return s.run(now, func(o *op) {
		var results []kmsg.DeleteGroupsResponseGroup
		for _, id := range ids {
			results = append(results, deleteResult(id, s.deleteGroup(o, id)))
		}
		o.reply(func(err error) {
			if err != nil {
				results = deleteErrors(ids, err)
			}
			answer(results)
		})
	})
}

func (s *Shard) deleteGroup(o *op, id string) error {
	g := s.lookup(id)
	switch {
	case g == nil:
		return kafkaerr.GroupIDNotFound
	case g.state != Empty:
		return kafkaerr.NonEmptyGroup
	}
	for _, at := range s.offsetsOf(id) {
		o.record(offsetTombstone(id, at))
	}
	o.record(groupTombstone(id))
	return nil
}

// offsetsOf lists where a group has offsets, by topic and partition.
func (s *Shard) offsetsOf(id string) []topicPartition {
	offsets := s.offsets[id]
	if offsets == nil {
		return nil
	}
	var all []topicPartition
	for at := range offsets.All() {
		all = append(all, at)
	}
	slices.SortFunc(all, compareTopicPartition)
	return all
}

func deleteResult(id string, err error) kmsg.DeleteGroupsResponseGroup {
	r := kmsg.NewDeleteGroupsResponseGroup()
	r.Group, r.ErrorCode = id, answerCode(err)
	return r
}

func deleteErrors(ids []string, err error) []kmsg.DeleteGroupsResponseGroup {
	var results []kmsg.DeleteGroupsResponseGroup
	for _, id := range ids {
		results = append(results, deleteResult(id, err))
	}
	return results
}
