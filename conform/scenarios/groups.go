package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// member is one member of a classic group, on a connection and under a client id of its
// own, so that member ids tell who is who.
type member struct {
	r        *conform.R
	name     string // of connection and client
	group    string
	id       string
	instance *string
	gen      int32
	session  int32 // milliseconds
}

func newMember(r *conform.R, group, name string) *member {
	r.OwnsGroup(group)
	return &member{r: r, name: name, group: r.Name(group), gen: -1, session: 10_000}
}

// newStatic is a member with a group instance id.
func newStatic(r *conform.R, group, name, instance string) *member {
	m := newMember(r, group, name)
	m.instance = &instance
	return m
}

// as sets the client id to the member's name while it sends.
func (m *member) as() func() {
	m.r.ClientID(&m.name)
	old := "conform"
	return func() { m.r.ClientID(&old) }
}

// join is a JoinGroup with one protocol, "range", and the member's name as metadata.
func (m *member) join(version int16) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID = version, m.group, m.id
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = m.session, 10_000
	req.InstanceID = m.instance
	req.ProtocolType = "consumer"
	req.Protocols = []kmsg.JoinGroupRequestProtocol{protocol("range", m.name)}
	return req
}

func protocol(name, metadata string) kmsg.JoinGroupRequestProtocol {
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = name, []byte(metadata)
	return p
}

// startJoin sends a join, whose answer learn reads.
func (m *member) startJoin(label string, req *kmsg.JoinGroupRequest) *conform.Pending {
	defer m.as()()
	return m.r.Start(m.name, label, req)
}

// learn reads the answer to a join and remembers id and generation.
func (m *member) learn(p *conform.Pending) *kmsg.JoinGroupResponse {
	resp, ok := p.Wait().(*kmsg.JoinGroupResponse)
	if !ok {
		return &kmsg.JoinGroupResponse{}
	}
	if resp.MemberID != "" {
		m.id = resp.MemberID
	}
	if resp.ErrorCode == 0 {
		m.gen = resp.Generation
	}
	return resp
}

// doJoin joins, twice if the broker wants the member to know its id first (KIP-394).
func (m *member) doJoin(label string, version int16) *kmsg.JoinGroupResponse {
	resp := m.learn(m.startJoin(label, m.join(version)))
	if resp.ErrorCode == 79 { // MEMBER_ID_REQUIRED
		resp = m.learn(m.startJoin(label+" with id", m.join(version)))
	}
	return resp
}

// sync is a SyncGroup; assignments are pairs of a member and what it gets.
func (m *member) sync(version int16, assignments ...any) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.Generation, req.MemberID, req.InstanceID = version, m.group, m.gen, m.id, m.instance
	kind, name := "consumer", "range"
	req.ProtocolType, req.Protocol = &kind, &name
	for i := 0; i+1 < len(assignments); i += 2 {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = assignments[i].(*member).id, []byte(assignments[i+1].(string))
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	return req
}

func (m *member) startSync(label string, req *kmsg.SyncGroupRequest) *conform.Pending {
	defer m.as()()
	return m.r.Start(m.name, label, req)
}

func (m *member) send(label string, req kmsg.Request) kmsg.Response {
	defer m.as()()
	return m.r.SendOn(m.name, label, req)
}

func (m *member) heartbeat(version int16) *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.Generation, req.MemberID, req.InstanceID = version, m.group, m.gen, m.id, m.instance
	return req
}

// leave is a LeaveGroup of these members, of the first alone before version 3.
func leave(version int16, group string, members ...*member) *kmsg.LeaveGroupRequest {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = version, group
	for i, m := range members {
		if i == 0 {
			req.MemberID = m.id
		}
		l := kmsg.NewLeaveGroupRequestMember()
		l.MemberID, l.InstanceID = m.id, m.instance
		req.Members = append(req.Members, l)
	}
	return req
}

// commit is an OffsetCommit of one offset by a member of this generation.
func (m *member) commit(version int16, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := commit(m.r, version, m.group, topic, partition, offset)
	req.Generation, req.MemberID, req.InstanceID = m.gen, m.id, m.instance
	return req
}

// commit is an OffsetCommit of one offset from outside of the group.
func commit(r *conform.R, version int16, group, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group = version, group
	req.Topics = append(req.Topics, commitTopic(r, version, topic, partition, offset))
	return req
}

func commitTopic(r *conform.R, version int16, topic string, partition int32, offset int64) kmsg.OffsetCommitRequestTopic {
	t := kmsg.NewOffsetCommitRequestTopic()
	if version >= 10 {
		t.TopicID = r.TopicID(topic)
	} else {
		t.Topic = r.Name(topic)
	}
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	t.Partitions = append(t.Partitions, p)
	return t
}

// fetchOffsets asks for the offsets of one group; without topics for all of them.
func fetchOffsets(r *conform.R, version int16, group string, topics ...string) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = version, group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	for _, name := range topics {
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = r.Name(name), []int32{0, 1}
		req.Topics = append(req.Topics, t)
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Partitions = t.Partitions
		if version >= 10 {
			gt.TopicID = r.TopicID(name)
		} else {
			gt.Topic = t.Topic
		}
		g.Topics = append(g.Topics, gt)
	}
	req.Groups = append(req.Groups, g)
	return req
}

// awaitCoordinator waits until the group's coordinator is there and has loaded.
func awaitCoordinator(r *conform.R, group string) {
	find := func() kmsg.Request {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorKey = 3, r.Name(group)
		return req
	}
	r.Until("coordinator of "+group, find, func(resp kmsg.Response) bool {
		return resp.(*kmsg.FindCoordinatorResponse).ErrorCode == 0
	})
	offsets := func() kmsg.Request { return fetchOffsets(r, 5, r.Name(group)) }
	r.Until("offsets of "+group, offsets, func(resp kmsg.Response) bool {
		return resp.(*kmsg.OffsetFetchResponse).ErrorCode == 0
	})
}
