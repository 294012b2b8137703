package group

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type (
	joinAnswer func(*kmsg.JoinGroupResponse)
	syncAnswer func(*kmsg.SyncGroupResponse)
)

// member is one member of a classic group (Kafka's ClassicGroupMember).
type member struct {
	id         string
	instanceID *string // nil: dynamic
	clientID   string
	clientHost string // as Kafka writes it: "/127.0.0.1"

	sessionTimeoutMs   int32
	rebalanceTimeoutMs int32
	protocols          []protocol // in the order of the member's preference
	assignment         []byte     // of the current generation

	session *timer
	// joining and syncing are the parked answers of a JoinGroup and a SyncGroup.
	joining *parkedJoin
	syncing *parkedSync
	// isNew is true from the first JoinGroup until the join phase ends. Such a member may
	// not know its id and cannot heartbeat, so its session lasts newMemberJoinTimeout, and
	// that a JoinGroup is parked does not keep it alive: the client may be gone.
	isNew bool
}

// protocol is one way to assign partitions that a member supports.
type protocol struct {
	name     string
	metadata []byte
}

type parkedJoin struct {
	context Context
	answer  joinAnswer
}

type parkedSync struct {
	context Context
	answer  syncAnswer
}

func (m *member) isStatic() bool { return m.instanceID != nil }

// keepsSession tells that no heartbeat is expected: the member waits for us.
func (m *member) keepsSession() bool {
	return !m.isNew && (m.joining != nil || m.syncing != nil)
}

// metadataFor is what the member said about a protocol; nil if it does not support it.
func (m *member) metadataFor(name string) []byte {
	for _, p := range m.protocols {
		if p.name == name {
			return p.metadata
		}
	}
	return nil
}

// vote is the member's favourite among the candidates.
func (m *member) vote(candidate func(name string) bool) (string, bool) {
	for _, p := range m.protocols {
		if candidate(p.name) {
			return p.name, true
		}
	}
	return "", false
}

func (m *member) matches(protocols []protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b protocol) bool {
		return a.name == b.name && bytes.Equal(a.metadata, b.metadata)
	})
}

// protocolsOf are the protocols of a request.
func protocolsOf(req *kmsg.JoinGroupRequest) []protocol {
	ps := make([]protocol, len(req.Protocols))
	for i, p := range req.Protocols {
		ps[i] = protocol{p.Name, p.Metadata}
	}
	return ps
}

// namesTwice tells that a protocol occurs more than once.
func namesTwice(ps []kmsg.JoinGroupRequestProtocol) bool {
	seen := make(map[string]struct{}, len(ps))
	for _, p := range ps {
		seen[p.Name] = struct{}{}
	}
	return len(seen) < len(ps)
}
