package group

import (
	"context"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// errorOf asks one thing and gives the error code of the answer.
type errorOf struct {
	api string
	ask func(b *testBroker, ctx context.Context, group string) int16
}

// everyAPI asks each API about a group, as a member of generation 1.
var everyAPI = []errorOf{
	{"JoinGroup", func(b *testBroker, ctx context.Context, group string) int16 {
		req := testJoin(group)
		req.MemberID = "m"
		return b.JoinGroup(ctx, Context{Version: 9}, req).ErrorCode
	}},
	{"SyncGroup", func(b *testBroker, ctx context.Context, group string) int16 {
		return b.SyncGroup(ctx, Context{Version: 4}, &kmsg.SyncGroupRequest{Group: group, MemberID: "m", Generation: 1}).ErrorCode
	}},
	{"Heartbeat", func(b *testBroker, ctx context.Context, group string) int16 {
		return b.Heartbeat(ctx, Context{Version: 4}, &kmsg.HeartbeatRequest{Group: group, MemberID: "m", Generation: 1}).ErrorCode
	}},
	{"LeaveGroup", func(b *testBroker, ctx context.Context, group string) int16 {
		return b.LeaveGroup(ctx, Context{Version: 2}, &kmsg.LeaveGroupRequest{Group: group, MemberID: "m"}).ErrorCode
	}},
	{"OffsetCommit", func(b *testBroker, ctx context.Context, group string) int16 {
		req := commitOf(group, "t", 0, 1)
		req.MemberID, req.Generation = "m", 1
		return b.OffsetCommit(ctx, Context{Version: 9}, req).Topics[0].Partitions[0].ErrorCode
	}},
	{"OffsetFetch", func(b *testBroker, ctx context.Context, group string) int16 {
		return b.OffsetFetch(ctx, Context{Version: 8}, []kmsg.OffsetFetchRequestGroup{{Group: group}}, false)[0].ErrorCode
	}},
	{"OffsetFetch stable", func(b *testBroker, ctx context.Context, group string) int16 {
		return b.OffsetFetch(ctx, Context{Version: 8}, []kmsg.OffsetFetchRequestGroup{{Group: group}}, true)[0].ErrorCode
	}},
	{"OffsetDelete", func(b *testBroker, ctx context.Context, group string) int16 {
		return b.OffsetDelete(ctx, Context{}, &kmsg.OffsetDeleteRequest{Group: group}).ErrorCode
	}},
	{"DescribeGroups", func(b *testBroker, ctx context.Context, group string) int16 {
		return b.DescribeGroups(ctx, Context{Version: 6}, []string{group})[0].ErrorCode
	}},
	{"DeleteGroups", func(b *testBroker, ctx context.Context, group string) int16 {
		return b.DeleteGroups(ctx, Context{Version: 2}, []string{group})[0].ErrorCode
	}},
}

// want is what each API answers, and errors that are not the common one.
func expect(t *testing.T, b *testBroker, ctx context.Context, group string, common *kafkaerr.Kind, others map[string]*kafkaerr.Kind) {
	t.Helper()
	for _, api := range everyAPI {
		want := common.Code
		if other, ok := others[api.api]; ok {
			want = 0
			if other != nil {
				want = other.Code
			}
		}
		if got := api.ask(b, ctx, group); got != want {
			t.Errorf("%s: %s, want %s", api.api, errorName(got), errorName(want))
		}
	}
}

func TestWithoutTopicNobodyIsCoordinator(t *testing.T) {
	inBubble(t, func(t *testing.T, b *testBroker) {
		expect(t, b, t.Context(), "g", kafkaerr.NotCoordinator, nil)
		if _, err := b.Coordinator("g"); kafkaerr.Code(err) != kafkaerr.CoordinatorNotAvailable.Code || b.asked != 1 {
			t.Errorf("coordinator: %v, the topic was asked for %d times", err, b.asked)
		}
		if resp := b.ListGroups(t.Context(), Context{Version: 5}, kmsg.NewPtrListGroupsRequest()); resp.ErrorCode != 0 || len(resp.Groups) > 0 {
			t.Errorf("list: %+v", resp)
		}
	})
}

func TestErrorsOfUnknownGroups(t *testing.T) {
	inBubble(t, func(t *testing.T, b *testBroker) {
		b.createTopic()
		expect(t, b, t.Context(), groupsOn(0, 1)[0], kafkaerr.UnknownMemberID, map[string]*kafkaerr.Kind{
			"OffsetCommit": kafkaerr.GroupIDNotFound, "OffsetFetch": nil, "OffsetFetch stable": nil,
			"OffsetDelete": kafkaerr.GroupIDNotFound, "DescribeGroups": kafkaerr.GroupIDNotFound, "DeleteGroups": kafkaerr.GroupIDNotFound,
		})
	})
}

func TestGroupsOfAnotherBroker(t *testing.T) {
	inBubble(t, func(t *testing.T, b *testBroker) {
		b.createTopic()
		id := groupsOn(testPartitions-1, 1)[0]
		expect(t, b, t.Context(), id, kafkaerr.NotCoordinator, nil)
		if leader, err := b.Coordinator(id); leader != 2 || err != nil {
			t.Errorf("coordinator %d, %v", leader, err)
		}
		b.publish(metadata.BrokerChangeRecord{ID: 2, Epoch: 2, Fenced: new(true)})
		if _, err := b.Coordinator(id); kafkaerr.Code(err) != kafkaerr.CoordinatorNotAvailable.Code {
			t.Errorf("coordinator that is fenced: %v", err)
		}
	})
}

// An empty group id is no group, but clients without membership may use it.
func TestErrorsOfTheEmptyGroupID(t *testing.T) {
	inBubble(t, func(t *testing.T, b *testBroker) {
		b.createTopic()
		expect(t, b, t.Context(), "", kafkaerr.InvalidGroupID, map[string]*kafkaerr.Kind{
			"OffsetCommit": kafkaerr.GroupIDNotFound, "OffsetFetch": nil, "OffsetFetch stable": nil,
			"DescribeGroups": kafkaerr.GroupIDNotFound, "DeleteGroups": kafkaerr.GroupIDNotFound,
		})
	})
}

func TestWhileAShardIsLoaded(t *testing.T) {
	inBubble(t, func(t *testing.T, b *testBroker) {
		loading := make(chan struct{})
		b.log.partitions[0].loading = loading
		b.createTopic()
		id := groupsOn(0, 1)[0]
		expect(t, b, t.Context(), id, kafkaerr.CoordinatorLoadInProgress, map[string]*kafkaerr.Kind{"Heartbeat": nil})
		// The list would not be whole.
		if resp := b.ListGroups(t.Context(), Context{Version: 5}, kmsg.NewPtrListGroupsRequest()); resp.ErrorCode != kafkaerr.CoordinatorLoadInProgress.Code {
			t.Errorf("list: %+v", resp)
		}
		close(loading)
		synctest.Wait()
		if code := everyAPI[2].ask(b, t.Context(), id); code != kafkaerr.UnknownMemberID.Code {
			t.Errorf("heartbeat when it is loaded: %s", errorName(code))
		}
	})
}

// Whoever gives up waiting is answered, and what was asked still happens.
func TestWhoGivesUpWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T, b *testBroker) {
		b.createTopic()
		id := groupsOn(0, 1)[0]
		b.log.hold(0, true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		resp := b.OffsetCommit(ctx, Context{Version: 9}, commitOf(id, "t", 0, 7))
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != kafkaerr.CoordinatorNotAvailable.Code {
			t.Errorf("commit: %s", errorName(code))
		}
		b.log.hold(0, false)
		b.OffsetCommit(t.Context(), Context{Version: 9}, commitOf(id, "t", 1, 8))
		want := kmsg.OffsetFetchResponseGroupTopicPartition{Partition: 0, Offset: 7, LeaderEpoch: -1, Metadata: new(string)}
		if got := b.fetch(id)[0]; !cmp.Equal(got, want, cmp.AllowUnexported(kmsg.Tags{})) {
			t.Errorf("fetched %+v", got)
		}
	})
}

func (b *testBroker) fetch(id string) []kmsg.OffsetFetchResponseGroupTopicPartition {
	resp := b.OffsetFetch(b.t.Context(), Context{Version: 8}, []kmsg.OffsetFetchRequestGroup{{Group: id}}, false)[0]
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 {
		b.t.Fatalf("fetch: %+v", resp)
	}
	return resp.Topics[0].Partitions
}

func TestRequestsForManyGroupsAreSplit(t *testing.T) {
	inBubble(t, func(t *testing.T, b *testBroker) {
		b.createTopic()
		here, there, elsewhere := groupsOn(0, 2), groupsOn(1, 1), groupsOn(2, 1)
		ids := []string{here[0], elsewhere[0], there[0], here[1]}
		for i, id := range ids {
			b.OffsetCommit(t.Context(), Context{Version: 9}, commitOf(id, "t", 0, int64(i)))
		}
		var asked []kmsg.OffsetFetchRequestGroup
		for _, id := range ids {
			asked = append(asked, kmsg.OffsetFetchRequestGroup{Group: id})
		}
		for i, resp := range b.OffsetFetch(t.Context(), Context{Version: 8}, asked, true) {
			switch {
			case resp.Group != ids[i]:
				t.Errorf("answer %d is for %q, want %q", i, resp.Group, ids[i])
			case i == 1 && resp.ErrorCode != kafkaerr.NotCoordinator.Code, i != 1 && resp.Topics[0].Partitions[0].Offset != int64(i):
				t.Errorf("answer %d: %+v", i, resp)
			}
		}
		list := b.ListGroups(t.Context(), Context{Version: 5}, kmsg.NewPtrListGroupsRequest())
		var listed []string
		for _, g := range list.Groups {
			listed = append(listed, g.Group)
		}
		slices.Sort(listed)
		want := []string{here[0], here[1], there[0]}
		if slices.Sort(want); !slices.Equal(listed, want) {
			t.Errorf("listed %q, want %q", listed, want)
		}
		if offsets, _ := b.CommittedOffsets(t.Context(), 100); len(offsets) != 3 {
			t.Errorf("offsets: %+v", offsets)
		}
		for i, d := range b.DescribeGroups(t.Context(), Context{Version: 6}, ids) {
			if d.Group != ids[i] || (d.ErrorCode == kafkaerr.NotCoordinator.Code) != (i == 1) {
				t.Errorf("description %d: %+v", i, d)
			}
		}
		for i, d := range b.DeleteGroups(t.Context(), Context{Version: 2}, ids) {
			if d.Group != ids[i] || (d.ErrorCode == kafkaerr.NotCoordinator.Code) != (i == 1) || i != 1 && d.ErrorCode != 0 {
				t.Errorf("deletion %d: %+v", i, d)
			}
		}
	})
}

func TestArgumentsAreChecked(t *testing.T) {
	inBubble(t, func(t *testing.T, b *testBroker) {
		b.createTopic()
		for ms, want := range map[int32]int16{
			5999: kafkaerr.InvalidSessionTimeout.Code, 1_800_001: kafkaerr.InvalidSessionTimeout.Code, -1: kafkaerr.InvalidSessionTimeout.Code,
			6000: kafkaerr.MemberIDRequired.Code, 1_800_000: kafkaerr.MemberIDRequired.Code,
		} {
			req := testJoin(groupsOn(0, 1)[0])
			req.SessionTimeoutMillis = ms
			if resp := b.JoinGroup(t.Context(), Context{Version: 4}, req); resp.ErrorCode != want {
				t.Errorf("session timeout %d: %s", ms, errorName(resp.ErrorCode))
			}
		}
		// SyncGroup 5 must name the protocol, before anything else is looked at.
		if resp := b.SyncGroup(t.Context(), Context{Version: 5}, &kmsg.SyncGroupRequest{}); resp.ErrorCode != kafkaerr.InconsistentGroupProtocol.Code {
			t.Errorf("sync: %s", errorName(resp.ErrorCode))
		}
		if resp := b.SyncGroup(t.Context(), Context{Version: 4}, &kmsg.SyncGroupRequest{}); resp.ErrorCode != kafkaerr.InvalidGroupID.Code {
			t.Errorf("sync: %s", errorName(resp.ErrorCode))
		}
	})
}

// Answers have the shape of their version.
func TestShapesOfVersions(t *testing.T) {
	for version := range int16(10) {
		resp := shapeJoin(version, joinError("m", kafkaerr.UnknownMemberID))
		if isNull := resp.Protocol == nil; isNull != (version >= 7) {
			t.Errorf("JoinGroup %d: protocol is null: %v", version, isNull)
		}
	}
	for version := int16(1); version <= 10; version++ {
		req := &kmsg.OffsetFetchRequestGroup{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{4}}}}
		resp := fetchError(Context{Version: version}, req, kafkaerr.CoordinatorNotAvailable)
		perPartition := len(resp.Topics) == 1 && resp.Topics[0].Partitions[0].ErrorCode == kafkaerr.NotCoordinator.Code && resp.ErrorCode == 0
		if perPartition != (version < 2) || !perPartition && resp.ErrorCode != kafkaerr.NotCoordinator.Code {
			t.Errorf("OffsetFetch %d: %+v", version, resp)
		}
	}
	members := []kmsg.LeaveGroupResponseMember{{MemberID: "m", ErrorCode: 25}}
	for version := range int16(6) {
		resp := leaveResponse(Context{Version: version}, members, nil)
		if top := resp.ErrorCode == 25; top != (version < 3) || (len(resp.Members) == 1) != (version >= 3) {
			t.Errorf("LeaveGroup %d: %+v", version, resp)
		}
	}
}

// testdata/kafka-4.4 is a partition of __consumer_offsets that Apache Kafka 4.4 wrote: a
// classic group with a dynamic and a static member; groups that only commit, one with a
// retention of its own, one deleted; one that its member left; one of the newer protocol;
// and one with an offset of a transaction that was committed, and of one that was not.
func TestLoadWhatKafkaWrote(t *testing.T) {
	bytes, err := os.ReadFile("testdata/kafka-4.4/00000000000000000000.log")
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(t *testing.T, b *testBroker) {
		for i := range int32(testPartitions) { // all, since Kafka had one
			p := b.log.partitions[i]
			p.bytes = bytes
			for rest := bytes; len(rest) > 0; {
				v, next, err := batch.Next(rest)
				if err != nil {
					t.Fatal(err)
				}
				p.end, p.hw, rest = v.NextOffset(), v.NextOffset(), next
			}
		}
		b.createTopic()
		on := func(do func(s *Shard)) {
			done := make(chan struct{})
			b.runtime.Read(0, func(s *Shard) { do(s); close(done) }, func(err error) { t.Error(err); close(done) })
			<-done
		}
		on(func(s *Shard) {
			got := map[string]string{}
			for _, l := range s.ListGroups(nil, nil) {
				got[l.Group] = l.GroupState + " " + l.ProtocolType
			}
			want := map[string]string{"classic": "Stable consumer", "simple": "Empty ", "expiring": "Empty ", "emptied": "Empty consumer", "newer": "Empty ", "txn": "Empty "}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			d := s.DescribeGroup(Context{Version: 6}, "classic")
			if d.Protocol != "cooperative-sticky" || len(d.Members) != 2 || len(d.Members[0].MemberAssignment) == 0 || d.Members[0].ClientHost != "/127.0.0.1" {
				t.Errorf("classic: %+v", d)
			}
			offsets := map[string]int64{}
			for _, o := range allCommitted(s) {
				offsets[o.Group+" "+string('0'+o.Partition)] = o.Offset
			}
			wantOffsets := map[string]int64{"classic 0": 5, "classic 1": 6, "simple 0": 42, "simple 1": 43, "expiring 0": 8, "emptied 0": 11, "newer 0": 77, "txn 0": 7}
			if d := cmp.Diff(wantOffsets, offsets); d != "" {
				t.Error(d)
			}
		})
	})
}

// A deleted topic takes its offsets along; one of its name keeps those that bear its id.
func TestOffsetsOfDeletedTopics(t *testing.T) {
	inBubble(t, func(t *testing.T, b *testBroker) {
		b.createTopic()
		id := groupsOn(0, 1)[0]
		old, anew := uuid.UUID{1}, uuid.UUID{2}
		b.publish(metadata.TopicRecord{Name: "t", ID: old})
		b.publish(metadata.TopicRecord{Name: "u", ID: uuid.UUID{3}})
		for i, topicID := range []uuid.UUID{old, anew, uuid.Zero} {
			req := commitOf(id, "t", int32(i), 1)
			req.Topics[0].TopicID = topicID
			b.OffsetCommit(t.Context(), Context{Version: 10}, req)
		}
		b.OffsetCommit(t.Context(), Context{Version: 10}, commitOf(id, "u", 0, 1))
		b.publish(metadata.RemoveTopicRecord{ID: old})
		var left []string
		list, _ := b.CommittedOffsets(t.Context(), 100)
		for _, o := range list {
			left = append(left, o.Topic+string('0'+o.Partition))
		}
		if slices.Sort(left); !slices.Equal(left, []string{"t1", "u0"}) {
			t.Errorf("offsets left: %q", left)
		}
	})
}

// A broker that goes down after a topic was deleted may not have deleted its offsets. The
// topic that is made in its place does not have them, whichever way they are asked for.
func TestOffsetsOutliveTheirTopicByACrash(t *testing.T) {
	inBubble(t, func(t *testing.T, b *testBroker) {
		b.createTopic()
		id := groupsOn(0, 1)[0]
		old, anew := uuid.UUID{1}, uuid.UUID{2}
		for i, topicID := range []uuid.UUID{old, anew, uuid.Zero} {
			req := commitOf(id, "t", int32(i), 7)
			req.Topics[0].TopicID = topicID
			b.OffsetCommit(t.Context(), Context{Version: 10}, req)
		}
		named := []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0, 1, 2}}}
		want := func(partitions ...int32) {
			t.Helper()
			for _, topics := range [][]kmsg.OffsetFetchRequestGroupTopic{nil, named} {
				for _, stable := range []bool{false, true} {
					answer := b.OffsetFetch(t.Context(), Context{Version: 8}, []kmsg.OffsetFetchRequestGroup{{Group: id, Topics: topics}}, stable)[0]
					var got []int32
					for _, p := range answer.Topics[0].Partitions {
						if p.Offset == 7 {
							got = append(got, p.Partition)
						}
					}
					if !slices.Equal(got, partitions) {
						t.Errorf("stable %t, named %t: offsets in %v, want %v", stable, topics != nil, got, partitions)
					}
				}
			}
		}
		want(0, 1, 2) // as long as there is no topic, which may have been the one
		b.publish(metadata.TopicRecord{Name: "t", ID: anew})
		want(1, 2)
	})
}
