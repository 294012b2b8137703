package handlers

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator/group"
	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// fakeGroups is a coordinator that takes everything, unless err says otherwise, and notes
// what it was asked.
type fakeGroups struct {
	err     error
	leader  int32
	context group.Context
	asked   []kmsg.Request
	fetched []kmsg.OffsetFetchRequestGroup
	ids     []string
	stable  bool
	joining func(ctx context.Context) // while a JoinGroup or SyncGroup waits
}

func (f *fakeGroups) note(c group.Context, req kmsg.Request) {
	f.context = c
	f.asked = append(f.asked, req)
}

func (f *fakeGroups) Coordinator(string) (int32, error) { return f.leader, f.err }

func (f *fakeGroups) JoinGroup(ctx context.Context, c group.Context, req *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	f.note(c, req)
	if f.joining != nil {
		f.joining(ctx)
	}
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.MemberID = "joined"
	return resp
}

func (f *fakeGroups) SyncGroup(ctx context.Context, c group.Context, req *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	f.note(c, req)
	if f.joining != nil {
		f.joining(ctx)
	}
	return req.ResponseKind().(*kmsg.SyncGroupResponse)
}

func (f *fakeGroups) Heartbeat(_ context.Context, c group.Context, req *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	f.note(c, req)
	return req.ResponseKind().(*kmsg.HeartbeatResponse)
}

func (f *fakeGroups) LeaveGroup(_ context.Context, c group.Context, req *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	f.note(c, req)
	return req.ResponseKind().(*kmsg.LeaveGroupResponse)
}

func (f *fakeGroups) OffsetCommit(_ context.Context, c group.Context, req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	f.note(c, req)
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.Topics {
		rt := commitTopic(&t)
		for _, p := range t.Partitions {
			rt.Partitions = append(rt.Partitions, committedPartition(p.Partition, f.err))
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (f *fakeGroups) OffsetFetch(_ context.Context, c group.Context, groups []kmsg.OffsetFetchRequestGroup, stable bool) []kmsg.OffsetFetchResponseGroup {
	f.context, f.fetched, f.stable = c, slices.Clone(groups), stable
	answers := make([]kmsg.OffsetFetchResponseGroup, len(groups))
	for i, g := range groups {
		answers[i].Group, answers[i].ErrorCode = g.Group, kafkaerr.Code(f.err)
		if f.err != nil {
			continue
		}
		topics := g.Topics
		if topics == nil { // everything: one topic that exists, one that is gone
			topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "gone", Partitions: []int32{0}}, {Topic: "t", Partitions: []int32{0}}}
		}
		for _, t := range topics {
			rt := kmsg.OffsetFetchResponseGroupTopic{Topic: t.Topic, TopicID: t.TopicID}
			for _, p := range t.Partitions {
				rt.Partitions = append(rt.Partitions, kmsg.OffsetFetchResponseGroupTopicPartition{Partition: p, Offset: 42, LeaderEpoch: 5, Metadata: kmsg.StringPtr("m")})
			}
			answers[i].Topics = append(answers[i].Topics, rt)
		}
	}
	return answers
}

func (f *fakeGroups) OffsetDelete(_ context.Context, c group.Context, req *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	f.note(c, req)
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	if resp.ErrorCode = kafkaerr.Code(f.err); f.err != nil {
		return resp
	}
	for _, t := range req.Topics {
		rt := deletedTopic(t.Topic)
		for _, p := range t.Partitions {
			rt.Partitions = append(rt.Partitions, kmsg.OffsetDeleteResponseTopicPartition{Partition: p.Partition})
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (f *fakeGroups) DescribeGroups(_ context.Context, c group.Context, ids []string) []kmsg.DescribeGroupsResponseGroup {
	f.context, f.ids = c, ids
	answers := make([]kmsg.DescribeGroupsResponseGroup, len(ids))
	for i, id := range ids {
		answers[i] = kmsg.NewDescribeGroupsResponseGroup()
		answers[i].Group = id
		if id == "absent" {
			answers[i].ErrorCode = kafkaerr.GroupIDNotFound.Code
		}
	}
	return answers
}

func (f *fakeGroups) ListGroups(_ context.Context, c group.Context, req *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	f.note(c, req)
	return req.ResponseKind().(*kmsg.ListGroupsResponse)
}

func (f *fakeGroups) DeleteGroups(_ context.Context, c group.Context, ids []string) []kmsg.DeleteGroupsResponseGroup {
	f.context, f.ids = c, slices.Clone(ids)
	answers := make([]kmsg.DeleteGroupsResponseGroup, len(ids))
	for i, id := range ids {
		answers[i].Group = id
	}
	return answers
}

// The members of a group are known by their address as Java writes it.
func TestClientHost(t *testing.T) {
	for at, want := range map[string]string{
		"127.0.0.1:4711": "/127.0.0.1", "[::1]:4711": "/0:0:0:0:0:0:0:1", "[2001:db8::5]:1": "/2001:db8:0:0:0:0:0:5",
		"[::ffff:10.0.0.7]:1": "/10.0.0.7", "[fe80::1%eth0]:1": "/fe80:0:0:0:0:0:0:1%eth0",
	} {
		addr, err := net.ResolveTCPAddr("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if got := clientHost(addr); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
	if got := clientHost(nil); got != "/" {
		t.Errorf("without an address: %s", got)
	}
}

// commit is a request for partitions 0 and 9 of t and partition 0 of a topic that does
// not exist.
func commit(version int16) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group = version, "g"
	part := func(p int32) kmsg.OffsetCommitRequestTopicPartition {
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset = p, 7
		return rp
	}
	known, unknown := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopic()
	known.Topic, known.TopicID = "t", topicID
	known.Partitions = []kmsg.OffsetCommitRequestTopicPartition{part(0), part(9)}
	unknown.Topic, unknown.TopicID = "unknown", [16]byte{9, 9}
	unknown.Partitions = []kmsg.OffsetCommitRequestTopicPartition{part(0)}
	req.Topics = []kmsg.OffsetCommitRequestTopic{known, unknown}
	return req
}

// What does not exist is refused without asking the group, and comes first.
func TestOffsetCommit(t *testing.T) {
	for version := int16(2); version <= 10; version++ {
		f := newFixture(t)
		resp := ask[*kmsg.OffsetCommitResponse](t, f, commit(version))
		type answer struct {
			topic     string
			id        [16]byte
			partition int32
			code      int16
		}
		var got []answer
		for _, rt := range resp.Topics {
			for _, rp := range rt.Partitions {
				got = append(got, answer{rt.Topic, rt.TopicID, rp.Partition, rp.ErrorCode})
			}
		}
		none := [16]byte{}
		want := []answer{{"t", none, 9, 3}, {"t", none, 0, 0}, {"unknown", none, 0, 3}}
		if version >= 10 {
			want = []answer{{"", topicID, 9, 3}, {"", topicID, 0, 0}, {"", [16]byte{9, 9}, 0, 100}}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer{})); diff != "" {
			t.Errorf("version %d (-want +got):\n%s", version, diff)
		}
		seen := f.groups.asked[0].(*kmsg.OffsetCommitRequest)
		if len(seen.Topics) != 1 || seen.Topics[0].Topic != "t" || seen.Topics[0].TopicID != topicID || len(seen.Topics[0].Partitions) != 1 {
			t.Errorf("version %d: the group was asked %+v", version, seen.Topics)
		}
	}
}

func TestOffsetCommitOfNothingKnown(t *testing.T) {
	f := newFixture(t)
	req := commit(9)
	req.Topics = req.Topics[1:]
	empty := kmsg.NewOffsetCommitRequestTopic()
	empty.Topic = "also-unknown"
	emptyKnown := kmsg.NewOffsetCommitRequestTopic()
	emptyKnown.Topic = "t"
	req.Topics = append(req.Topics, empty, emptyKnown)
	resp := ask[*kmsg.OffsetCommitResponse](t, f, req)
	if len(f.groups.asked) != 0 {
		t.Error("the group was asked")
	}
	var names []string
	for _, rt := range resp.Topics {
		names = append(names, rt.Topic)
	}
	if want := []string{"unknown", "also-unknown"}; !slices.Equal(names, want) {
		t.Errorf("answered %v, want %v", names, want)
	}
}

// Each version's form of a request reaches the group as one, and comes back.
func TestOffsetFetch(t *testing.T) {
	for version := int16(1); version <= 10; version++ {
		f := newFixture(t)
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version, req.Group, req.RequireStable = version, "g", version >= 7
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}, {Topic: "gone", Partitions: []int32{1}}}
		req.Groups = []kmsg.OffsetFetchRequestGroup{{
			Group:  "g",
			Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", TopicID: topicID, Partitions: []int32{0}}, {Topic: "gone", TopicID: [16]byte{9}, Partitions: []int32{1}}},
		}}
		resp := ask[*kmsg.OffsetFetchResponse](t, f, req)
		asked := f.groups.fetched[0]
		if want := 2 - btoi(version >= 10); len(asked.Topics) != want || asked.Group != "g" || asked.Topics[0].Topic != "t" || f.groups.stable != (version >= 7) {
			t.Errorf("version %d: the group was asked %+v, stable %v", version, asked, f.groups.stable)
		}
		if version < 8 {
			if len(resp.Topics) != 2 || resp.Topics[0].Topic != "t" || resp.Topics[0].Partitions[0].Offset != 42 || resp.Topics[1].Partitions[0].Partition != 1 {
				t.Errorf("version %d: %+v", version, resp.Topics)
			}
			continue
		}
		topics := resp.Groups[0].Topics
		last := topics[1].Partitions[0]
		if len(topics) != 2 || topics[0].Partitions[0].Offset != 42 || (last.ErrorCode == kafkaerr.UnknownTopicID.Code) != (version >= 10) {
			t.Errorf("version %d: %+v", version, topics)
		}
		if version >= 10 && (topics[0].TopicID != topicID || topics[1].TopicID != [16]byte{9} || last.Offset != -1) {
			t.Errorf("version %d: %+v", version, topics)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Null topics ask for everything; by id, a topic that is gone cannot be answered.
func TestOffsetFetchOfEverything(t *testing.T) {
	for version := int16(1); version <= 10; version++ {
		f := newFixture(t)
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version, req.Group = version, "g"
		req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g"}}
		resp := ask[*kmsg.OffsetFetchResponse](t, f, req)
		if everything := f.groups.fetched[0].Topics == nil; everything != (version >= 2) {
			t.Errorf("version %d: everything %v", version, everything)
		}
		want := 2
		switch {
		case version < 2:
			want = 0
		case version >= 10:
			want = 1
		}
		got := len(resp.Topics)
		if version >= 8 {
			got = len(resp.Groups[0].Topics)
		}
		if got != want {
			t.Errorf("version %d: %d topics, want %d", version, got, want)
		}
		if version >= 10 && resp.Groups[0].Topics[0].TopicID != topicID {
			t.Errorf("version %d: %+v", version, resp.Groups[0].Topics)
		}
	}
}

func TestOffsetFetchOfAGroupThatFails(t *testing.T) {
	f := newFixture(t)
	f.groups.err = kafkaerr.NotCoordinator
	for version := int16(2); version <= 10; version++ {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version, req.Group = version, "g"
		req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{{TopicID: [16]byte{9}, Partitions: []int32{0}}}}}
		resp := ask[*kmsg.OffsetFetchResponse](t, f, req)
		code, topics := resp.ErrorCode, len(resp.Topics)
		if version >= 8 {
			code, topics = resp.Groups[0].ErrorCode, len(resp.Groups[0].Topics)
		}
		if code != kafkaerr.NotCoordinator.Code || topics != 0 {
			t.Errorf("version %d: code %d, %d topics", version, code, topics)
		}
	}
}

func TestOffsetDelete(t *testing.T) {
	f := newFixture(t)
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = "g"
	req.Topics = []kmsg.OffsetDeleteRequestTopic{
		{Topic: "unknown", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 3}}},
		{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 9}, {Partition: 0}}},
	}
	resp := ask[*kmsg.OffsetDeleteResponse](t, f, req)
	want := []kmsg.OffsetDeleteResponseTopic{
		{Topic: "unknown", Partitions: []kmsg.OffsetDeleteResponseTopicPartition{{Partition: 3, ErrorCode: 3}}},
		{Topic: "t", Partitions: []kmsg.OffsetDeleteResponseTopicPartition{{Partition: 9, ErrorCode: 3}, {Partition: 0}}},
	}
	if diff := cmp.Diff(want, resp.Topics); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// An error of the group is the whole answer, also where nothing was left to ask.
	f.groups.err = kafkaerr.GroupIDNotFound
	req.Topics = req.Topics[:1]
	resp = ask[*kmsg.OffsetDeleteResponse](t, f, req)
	if resp.ErrorCode != kafkaerr.GroupIDNotFound.Code || len(resp.Topics) != 0 {
		t.Errorf("%+v", resp)
	}
}

func TestFindCoordinator(t *testing.T) {
	for _, c := range []struct {
		name    string
		version int16
		kind    int8
		err     error
		leader  int32
		want    int16
		message string // of versions 1 to 3
	}{
		{"a group", 6, 0, nil, 1, 0, ""},
		{"a group, version 3", 3, 0, nil, 1, 0, "NONE"},
		{"version 0 has no types", 0, 1, nil, 1, 0, ""},
		{"no coordinator yet", 4, 0, kafkaerr.CoordinatorNotAvailable, 0, 15, ""},
		{"no coordinator yet, version 1", 1, 0, kafkaerr.CoordinatorNotAvailable, 0, 15, "COORDINATOR_NOT_AVAILABLE: The coordinator is not available."},
		{"its broker is fenced", 4, 0, nil, 2, 15, ""},
		{"a transaction", 6, 1, nil, 1, 53, ""},
		{"a transaction, version 1", 1, 1, nil, 1, 53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Transactional ID authorization failed."},
		{"share state", 6, 2, nil, 1, 42, ""},
		{"share state before its time", 5, 2, nil, 1, 42, ""},
		{"no such type", 6, 7, nil, 1, 42, ""},
	} {
		f := newFixture(t)
		f.groups.err, f.groups.leader = c.err, c.leader
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = c.version, c.kind, "g", []string{"g", "h"}
		resp := ask[*kmsg.FindCoordinatorResponse](t, f, req)
		code, node, host := resp.ErrorCode, resp.NodeID, resp.Host
		if c.version >= 4 {
			if len(resp.Coordinators) != 2 || resp.Coordinators[1].Key != "h" {
				t.Fatalf("%s: %+v", c.name, resp)
			}
			code, node, host = resp.Coordinators[0].ErrorCode, resp.Coordinators[0].NodeID, resp.Coordinators[0].Host
			if resp.Coordinators[0].ErrorMessage == nil {
				t.Errorf("%s: null message", c.name)
			}
		}
		if c.version >= 1 && c.version < 4 && deref(resp.ErrorMessage) != c.message {
			t.Errorf("%s: message %q, want %q", c.name, deref(resp.ErrorMessage), c.message)
		}
		if found := node == 1 && host == "registered"; code != c.want || found != (c.want == 0) || !found && node != -1 {
			t.Errorf("%s: code %d node %d at %q, want %d", c.name, code, node, host, c.want)
		}
	}
}

// The key of share state is a group, which may have colons in it, a topic id and a
// partition; whoever asks with one is a broker, and we have no other.
func TestFindCoordinatorOfShareState(t *testing.T) {
	const topic = "4L6g3nShT-eMCtK--X86sw"
	for key, want := range map[string]int16{
		"": 42, "g": 42, "g:" + topic: 42, ":" + topic + ":0": 42, " :" + topic + ":0": 42, "g:nope:0": 42,
		"g:" + topic + ":": 42, "g:" + topic + ":x": 42, "g:" + topic + ":2147483648": 42,
		"g:" + topic + ":0": 31, "a:b:" + topic + ":7": 31,
	} {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorType, req.CoordinatorKeys = 6, 2, []string{key}
		resp := ask[*kmsg.FindCoordinatorResponse](t, newFixture(t), req)
		if got := resp.Coordinators[0]; got.ErrorCode != want || got.NodeID != -1 {
			t.Errorf("%q: code %d, node %d, want %d", key, got.ErrorCode, got.NodeID, want)
		}
	}
}

// Requests that only pass through reach the group as they came, in every version.
func TestGroupRequestsPassThrough(t *testing.T) {
	for _, fresh := range []func() kmsg.Request{
		func() kmsg.Request { return kmsg.NewPtrJoinGroupRequest() },
		func() kmsg.Request { return kmsg.NewPtrHeartbeatRequest() },
		func() kmsg.Request { return kmsg.NewPtrLeaveGroupRequest() },
		func() kmsg.Request { return kmsg.NewPtrSyncGroupRequest() },
		func() kmsg.Request { return kmsg.NewPtrListGroupsRequest() },
	} {
		api, _ := protocol.Lookup(fresh().Key())
		for version := api.MinVersion; version <= api.MaxVersion; version++ {
			f := newFixture(t)
			req := fresh()
			req.SetVersion(version)
			out := f.h.Handle(t.Context(), f.request(req))
			if out.Response == nil {
				t.Fatalf("%s %d: %+v", api.Name, version, out)
			}
			out.Response.Release()
			if len(f.groups.asked) != 1 || f.groups.context.Version != version || f.groups.context.Principal != "User:ANONYMOUS" {
				t.Errorf("%s %d: asked %d times, as %+v", api.Name, version, len(f.groups.asked), f.groups.context)
			}
		}
	}
}

func TestDescribeGroupsTellsWhatIsAllowed(t *testing.T) {
	f := newFixture(t)
	for version := int16(0); version <= 6; version++ {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Version, req.Groups, req.IncludeAuthorizedOperations = version, []string{"g", "absent"}, true
		resp := ask[*kmsg.DescribeGroupsResponse](t, f, req)
		want := int32(-1 << 31)
		if version >= 3 {
			want = groupOperations
		}
		if resp.Groups[0].AuthorizedOperations != want || resp.Groups[1].AuthorizedOperations != -1<<31 {
			t.Errorf("version %d: %+v", version, resp.Groups)
		}
	}
	// What Kafka's AclEntry has for groups: READ, DESCRIBE, DELETE, DESCRIBE_CONFIGS, ALTER_CONFIGS.
	if want := int32(1<<3 | 1<<8 | 1<<6 | 1<<10 | 1<<11); groupOperations != want {
		t.Errorf("operations %b, want %b", groupOperations, want)
	}
}

func TestDeleteGroupsNamedTwice(t *testing.T) {
	f := newFixture(t)
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Version, req.Groups = 2, []string{"a", "b", "a"}
	resp := ask[*kmsg.DeleteGroupsResponse](t, f, req)
	if want := []string{"a", "b"}; !slices.Equal(f.groups.ids, want) || len(resp.Groups) != 2 {
		t.Errorf("asked for %v, answered %+v", f.groups.ids, resp.Groups)
	}
}

// largeJoin brings metadata of n bytes.
func largeJoin(n int) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group = 9, "g"
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte(strings.Repeat("m", n))
	req.Protocols = []kmsg.JoinGroupRequestProtocol{p}
	return req
}

// A member that waits holds neither its frame nor room for decoded requests, but counts
// against a bound of its own.
func TestJoinGroupGivesBackWhatItHolds(t *testing.T) {
	f := newFixture(t)
	const n = 1 << 20
	var r *wire.Request
	f.groups.joining = func(context.Context) {
		if !f.h.decoding.TryAcquire(maxDecoded) {
			t.Error("it holds room for decoded requests")
		} else {
			f.h.decoding.Release(maxDecoded)
		}
		if f.h.waiting.TryAcquire(maxWaitingBytes - n/2) {
			t.Error("it does not count among those that wait")
		}
		clear(r.Body[:cap(r.Body)]) // the frame belongs to somebody else now
		req := f.groups.asked[0].(*kmsg.JoinGroupRequest)
		if string(req.Protocols[0].Metadata) != strings.Repeat("m", n) {
			t.Error("its metadata is gone with the frame")
		}
	}
	r = f.request(largeJoin(n))
	out := f.h.Handle(t.Context(), r)
	out.Response.Release()
	if !f.h.waiting.TryAcquire(maxWaitingBytes) {
		t.Error("the bound was not given back")
	}
}

func TestJoinGroupBeyondTheBound(t *testing.T) {
	f := newFixture(t)
	if !f.h.waiting.TryAcquire(maxWaitingBytes) {
		t.Fatal("the bound is in use")
	}
	resp := ask[*kmsg.JoinGroupResponse](t, f, largeJoin(1<<20))
	if resp.ErrorCode != kafkaerr.CoordinatorNotAvailable.Code || resp.Generation != -1 || len(f.groups.asked) != 0 {
		t.Errorf("%+v", resp)
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version = 3
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberAssignment = make([]byte, 1<<20)
	sync.GroupAssignment = append(sync.GroupAssignment, a)
	if resp := ask[*kmsg.SyncGroupResponse](t, f, sync); resp.ErrorCode != kafkaerr.CoordinatorNotAvailable.Code {
		t.Errorf("%+v", resp)
	}
	if resp := ask[*kmsg.JoinGroupResponse](t, f, largeJoin(10)); resp.MemberID != "joined" {
		t.Errorf("a small one: %+v", resp)
	}
}

// A closed connection, or a broker that stops, ends the wait.
func TestJoinGroupEndsWithItsConnection(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.groups.joining = func(ctx context.Context) {
		cancel()
		<-ctx.Done()
	}
	f.h.Handle(ctx, f.request(largeJoin(10))).Response.Release()
}

// Whatever the bytes, decoding a request of a group ends, and so does its handler.
func FuzzGroupRequests(f *testing.F) {
	keys := []int16{8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47}
	for _, key := range keys {
		api, _ := protocol.Lookup(key)
		for version := api.MinVersion; version <= api.MaxVersion; version++ {
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			f.Add(key, version, req.AppendTo(nil))
		}
	}
	for version := int16(2); version <= 10; version++ {
		f.Add(int16(8), version, commit(version).AppendTo(nil))
	}
	f.Add(int16(11), int16(9), largeJoin(10).AppendTo(nil))
	fix := newFixture(f)
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		api, found := protocol.Lookup(key)
		if !slices.Contains(keys, key) || !found || version < api.MinVersion || version > api.MaxVersion {
			return
		}
		out := fix.h.Handle(t.Context(), wire.NewRequest(fix.buffers, key, version, body))
		if out.Response != nil {
			out.Response.Release()
		} else if out.Close == nil {
			t.Errorf("%s %d: %+v", api.Name, version, out)
		}
	})
}
