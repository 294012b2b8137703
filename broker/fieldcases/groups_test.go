package fieldcases

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// awaitCoordinator asks until a group has one: the first who asks has the topic of groups
// made.
func (w *world) awaitCoordinator(group string) {
	w.t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorKeys = 4, []string{group}
	w.eventually("the group has a coordinator", 30*time.Second, func() bool {
		return ask[*kmsg.FindCoordinatorResponse](w.conn, req).Coordinators[0].ErrorCode == 0
	})
	w.eventually("it is loaded", 30*time.Second, func() bool {
		return w.committed(group, "none", 0).ErrorCode != kafkaerr.CoordinatorLoadInProgress.Code
	})
}

// committed asks what a group has committed of one partition.
func (c *conn) committed(group, topic string, partition int32) kmsg.OffsetFetchResponseTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 7, group
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
	resp := ask[*kmsg.OffsetFetchResponse](c, req)
	if resp.ErrorCode != 0 {
		return kmsg.OffsetFetchResponseTopicPartition{ErrorCode: resp.ErrorCode}
	}
	return resp.Topics[0].Partitions[0]
}

// commit commits an offset of some partitions, from outside of the group or as a member,
// and returns their codes.
func (c *conn) commit(group, member string, generation int32, topic string, offset int64, partitions ...int32) map[int32]int16 {
	c.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 8, group, member, generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for _, p := range partitions {
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset = p, offset
		t.Partitions = append(t.Partitions, part)
	}
	req.Topics = append(req.Topics, t)
	codes := map[int32]int16{}
	for _, p := range ask[*kmsg.OffsetCommitResponse](c, req).Topics[0].Partitions {
		codes[p.Partition] = p.ErrorCode
	}
	return codes
}

// joinRequest is of a version that needs no member id beforehand.
func joinRequest(group, member, instance string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = 5, group, member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 60_000
	if instance != "" {
		req.InstanceID = &instance
	}
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "any", Metadata: []byte("what the member wants")}}
	return req
}

// join joins, with the id that the coordinator gives to a dynamic member first.
func (c *conn) join(group, instance string) *kmsg.JoinGroupResponse {
	c.t.Helper()
	resp := ask[*kmsg.JoinGroupResponse](c, joinRequest(group, "", instance))
	if resp.ErrorCode == kafkaerr.MemberIDRequired.Code {
		resp = ask[*kmsg.JoinGroupResponse](c, joinRequest(group, resp.MemberID, instance))
	}
	if resp.ErrorCode != 0 {
		c.t.Fatalf("join %s: error %d", group, resp.ErrorCode)
	}
	return resp
}

func syncRequest(group, member string, generation int32, assignments map[string]string) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 3, group, member, generation
	for id, bytes := range assignments {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(bytes)})
	}
	return req
}

// sync returns what a member is assigned; the leader gives the assignments.
func (c *conn) sync(group, member string, generation int32, assignments map[string]string) string {
	c.t.Helper()
	resp := ask[*kmsg.SyncGroupResponse](c, syncRequest(group, member, generation, assignments))
	if resp.ErrorCode != 0 {
		c.t.Fatalf("sync %s: error %d", group, resp.ErrorCode)
	}
	return string(resp.MemberAssignment)
}

func (c *conn) heartbeat(group, member, instance string, generation int32) int16 {
	c.t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 3, group, member, generation
	if instance != "" {
		req.InstanceID = &instance
	}
	return ask[*kmsg.HeartbeatResponse](c, req).ErrorCode
}

// franz-go#1312: without a commit the answer was UNKNOWN_TOPIC_OR_PARTITION, and the group
// never began.
func TestNoCommitYetIsNoError(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		w.awaitCoordinator("new")
		got := w.committed("new", "t", 0)
		if got.Offset != -1 || got.LeaderEpoch != -1 || got.ErrorCode != 0 || got.Metadata == nil || *got.Metadata != "" {
			t.Errorf("nothing committed: %+v", got)
		}
	})
}

// franz-go 05542e81: commits to partitions that do not exist were stored. They are refused,
// and those beside them are not.
func TestCommitOfAPartitionThatDoesNotExist(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 2)
		w.awaitCoordinator("g")
		unknown := kafkaerr.UnknownTopicOrPartition.Code
		if diff := cmp.Diff(map[int32]int16{0: 0, 7: unknown, 1: 0}, w.commit("g", "", -1, "t", 5, 0, 7, 1)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if got := w.committed("g", "t", 7); got.Offset != -1 {
			t.Errorf("the missing partition: %+v", got)
		}
		if got := w.committed("g", "t", 1); got.Offset != 5 {
			t.Errorf("the other one: %+v", got)
		}
	})
}

// redpanda#5277: the error was confusing when an admin set offsets of a group with members.
func TestOffsetsOfALiveGroupAreItsMembers(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		w.awaitCoordinator("g")
		member := w.dial()
		joined := member.join("g", "")
		member.sync("g", joined.MemberID, joined.Generation, map[string]string{joined.MemberID: "all"})
		if codes := w.commit("g", "", -1, "t", 1, 0); codes[0] != kafkaerr.UnknownMemberID.Code {
			t.Errorf("an admin: %v", codes)
		}
		if codes := member.commit("g", joined.MemberID, joined.Generation, "t", 2, 0); codes[0] != 0 {
			t.Errorf("the member: %v", codes)
		}
	})
}

// nisshi#679, #625, 50e5666: assignments were lost, the second member was unknown, and the
// generation rose by more than one.
func TestAssignmentsPassThroughUnchanged(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.awaitCoordinator("g")
		one, two := w.dial(), w.dial()
		first := one.join("g", "")
		if first.Generation != 1 || first.LeaderID != first.MemberID {
			t.Fatalf("the first member: %+v", first)
		}
		bytes := string([]byte{0, 1, 0xff, 0, 'x'})
		if got := one.sync("g", first.MemberID, 1, map[string]string{first.MemberID: bytes}); got != bytes {
			t.Errorf("assigned %q, the leader gave %q", got, bytes)
		}

		second := ask[*kmsg.JoinGroupResponse](two, joinRequest("g", "", "")).MemberID
		two.send(joinRequest("g", second, ""))
		w.eventually("the first member is told to join again", 10*time.Second, func() bool {
			return one.heartbeat("g", first.MemberID, "", 1) == kafkaerr.RebalanceInProgress.Code
		})
		again := ask[*kmsg.JoinGroupResponse](one, joinRequest("g", first.MemberID, ""))
		var joined kmsg.JoinGroupResponse
		joined.Version = 5
		if err := two.receive(&joined); err != nil {
			t.Fatal(err)
		}
		if again.Generation != 2 || joined.Generation != 2 || len(again.Members) != 2 {
			t.Errorf("the leader has generation %d and %d members, the second member %d", again.Generation, len(again.Members), joined.Generation)
		}
		two.send(syncRequest("g", second, 2, nil)) // waits for the leader
		if got := one.sync("g", first.MemberID, 2, map[string]string{first.MemberID: "a", second: "b"}); got != "a" {
			t.Errorf("the leader is assigned %q", got)
		}
		synced := kmsg.SyncGroupResponse{Version: 3}
		if err := two.receive(&synced); err != nil || string(synced.MemberAssignment) != "b" {
			t.Errorf("the second member is assigned %q, error %d, %v", synced.MemberAssignment, synced.ErrorCode, err)
		}
	})
}

// redpanda#1335, #4189, #3842: static members were not known, or hung. Who comes back within
// its session timeout has what it had, and nobody is disturbed; the holder before is fenced.
func TestStaticMemberComesBackUnnoticed(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.awaitCoordinator("g")
		one, two := w.dial(), w.dial()
		before := one.join("g", "rack-7")
		one.sync("g", before.MemberID, before.Generation, map[string]string{before.MemberID: "mine"})
		time.Sleep(10 * time.Second)

		after := two.join("g", "rack-7")
		if after.Generation != before.Generation || after.MemberID == before.MemberID {
			t.Errorf("came back as %+v, was %+v", after, before)
		}
		if got := two.sync("g", after.MemberID, after.Generation, nil); got != "mine" {
			t.Errorf("assigned %q after it came back", got)
		}
		if code := one.heartbeat("g", before.MemberID, "rack-7", before.Generation); code != kafkaerr.FencedInstanceID.Code {
			t.Errorf("the holder before: error %d", code)
		}
		if code := two.heartbeat("g", after.MemberID, "rack-7", after.Generation); code != 0 {
			t.Errorf("the holder: error %d", code)
		}
	})
}

// kop#530, librdkafka#1582: a topic was deleted and made again, and the group waited at an
// offset of the one before.
func TestTopicThatIsMadeAnewHasNoCommits(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		w.awaitCoordinator("g")
		w.must("t", records(batch.BuilderOptions{}, nowMs()))
		w.commit("g", "", -1, "t", 1, 0)
		w.delete("t")
		w.create("t", 1)
		if got := w.committed("g", "t", 0); got.Offset != -1 || got.ErrorCode != 0 {
			t.Errorf("committed of the new topic: %+v", got)
		}
	})
}

// redpanda#30624, PR #30822: a group was far behind records that retention had removed.
func TestLagEndsWhereTheLogStarts(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1, "retention.ms=1000", "segment.ms=500")
		w.awaitCoordinator("g")
		for range 3 {
			w.must("t", records(batch.BuilderOptions{}, nowMs()))
			time.Sleep(time.Second)
		}
		w.commit("g", "", -1, "t", 0, 0)
		w.eventually("the group is seen to be behind", 2*time.Minute, func() bool { return w.metric("kafka_consumergroup_lag") > 0 })
		end := w.list("t", latest).Offset
		w.eventually("everything expires", 20*time.Minute, func() bool { return w.list("t", earliest).Offset == end })
		w.eventually("the group is behind nothing", 2*time.Minute, func() bool { return w.metric("kafka_consumergroup_lag") == 0 })
	})
}

// nisshi 310ead8: groups were gone after a restart.
func TestGroupSurvivesARestart(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		w.awaitCoordinator("g")
		member := w.dial()
		joined := member.join("g", "rack-7")
		member.sync("g", joined.MemberID, joined.Generation, map[string]string{joined.MemberID: "all"})
		member.commit("g", joined.MemberID, joined.Generation, "t", 3, 0)
		brokertest.Stop(t, w.broker)
		w.start()
		w.awaitCoordinator("g")
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Version, req.Groups = 5, []string{"g"}
		g := ask[*kmsg.DescribeGroupsResponse](w.conn, req).Groups[0]
		if g.State != "Stable" || len(g.Members) != 1 || g.Members[0].MemberID != joined.MemberID || string(g.Members[0].MemberAssignment) != "all" {
			t.Errorf("described as %+v", g)
		}
		if got := w.committed("g", "t", 0); got.Offset != 3 {
			t.Errorf("committed: %+v", got)
		}
		if code := w.heartbeat("g", joined.MemberID, "rack-7", joined.Generation); code != 0 {
			t.Errorf("the member goes on: error %d", code)
		}
	})
}
