package group

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupFromRecord makes the group that a record describes: with members it is Stable,
// since only generations that synced are written.
func (s *Shard) groupFromRecord(id string, v *kmsg.GroupMetadataValue) (*group, error) {
	g := s.makeGroup(id, v.CurrentStateTimestamp)
	if v.Version < 2 {
		g.stateSince = -1
	}
	g.protocolType, g.protocol, g.generation = v.ProtocolType, v.Protocol, v.Generation
	for _, rm := range v.Members {
		m := &member{
			id: rm.MemberID, instanceID: rm.InstanceID,
			clientID: rm.ClientID, clientHost: rm.ClientHost,
			sessionTimeoutMs: rm.SessionTimeoutMillis, rebalanceTimeoutMs: rm.RebalanceTimeoutMillis,
			assignment: bytes.Clone(rm.Assignment),
		}
		if m.rebalanceTimeoutMs == -1 {
			m.rebalanceTimeoutMs = m.sessionTimeoutMs
		}
		if v.Protocol != nil {
			m.protocols = []protocol{{*v.Protocol, bytes.Clone(rm.Subscription)}}
		}
		if g.byID[m.id] != nil || m.isStatic() && g.static[*m.instanceID] != nil || v.Protocol == nil {
			return nil, fmt.Errorf("%w: group %q, member %q", errMalformedRecord, id, m.id)
		}
		m.session = s.sessionTimer(g, m)
		g.add(m)
	}
	g.leader = ""
	if v.Leader != nil {
		g.leader = *v.Leader
	}
	if len(g.members) > 0 {
		g.state = Stable
	}
	g.subscribed = g.subscriptions()
	return g, nil
}

// recordOf is the record of a group with its members' assignments.
func (g *group) recordOf(assignment func(m *member) []byte) kmsg.GroupMetadataValue {
	v := kmsg.NewGroupMetadataValue()
	v.ProtocolType, v.Protocol, v.Generation = g.protocolType, g.protocol, g.generation
	v.CurrentStateTimestamp = g.stateSince
	if g.leader != "" {
		v.Leader = &g.leader
	}
	for _, m := range g.members {
		rm := kmsg.NewGroupMetadataValueMember()
		rm.MemberID, rm.InstanceID = m.id, m.instanceID
		rm.ClientID, rm.ClientHost = m.clientID, m.clientHost
		rm.SessionTimeoutMillis, rm.RebalanceTimeoutMillis = m.sessionTimeoutMs, m.rebalanceTimeoutMs
		rm.Subscription = m.metadataFor(*g.protocol)
		rm.Assignment = assignment(m)
		v.Members = append(v.Members, rm)
	}
	return v
}

func byID(a, b *group) int { return strings.Compare(a.id, b.id) }
