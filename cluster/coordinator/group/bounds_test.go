package group

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// A client that asks for ids and never comes back takes the room of maxPendingMembers, and
// the group works on.
func TestFloodOfJoinsIsBounded(t *testing.T) {
	f := newFixture(t, 1)
	reg := prometheus.NewRegistry()
	f.shard.metrics = NewMetrics(reg)
	var ids []string
	flood := func(resp *kmsg.JoinGroupResponse) { ids = append(ids, resp.MemberID) }
	const extra = 50
	for range maxPendingMembers + extra {
		f.carryOut(f.shard.JoinGroup(f.now, Context{Version: 9, ClientID: "flood"}, testJoin("g"), flood))
	}
	g := f.shard.lookup("g")
	if n := g.pending.len(); n != maxPendingMembers {
		t.Errorf("%d pending members", n)
	}
	if n := len(f.shard.timers.queue); n > maxPendingMembers+2 {
		t.Errorf("%d timers", n)
	}
	if n := metric(t, reg, "klamm_group_pending_members_dropped_total"); n != extra {
		t.Errorf("%v dropped, want %d", n, extra)
	}
	join := func(id string) (code int16) {
		code = -2
		req := testJoin("g")
		req.MemberID = id
		f.carryOut(f.shard.JoinGroup(f.now, Context{Version: 9}, req, func(resp *kmsg.JoinGroupResponse) { code = resp.ErrorCode }))
		return code
	}
	if code := join(ids[extra-1]); code != kafkaerr.UnknownMemberID.Code {
		t.Errorf("the last one forgotten: %s", errorName(code))
	}
	if code := join(ids[extra]); code != -2 {
		t.Errorf("the first one kept is answered %s, want it parked", errorName(code))
	}
	f.pass(10 * time.Second)
	if n := g.pending.len(); n != 0 {
		t.Errorf("%d pending members after the session timeout", n)
	}
}

// metric is the sum of all series of a name.
func metric(t *testing.T, reg *prometheus.Registry, name string) (sum float64) {
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

// A rebalance timeout of 0 does not keep the shard busy while static members are missing.
func TestMissingStaticMembersAreWaitedFor(t *testing.T) {
	f := newFixture(t, 1)
	join := func(instance string, rebalanceMs int32) {
		req := testJoin("g")
		req.InstanceID, req.RebalanceTimeoutMillis = &instance, rebalanceMs
		f.carryOut(f.shard.JoinGroup(f.now, Context{Version: 9}, req, func(*kmsg.JoinGroupResponse) {}))
	}
	join("a", 60_000)
	join("b", 60_000)
	f.pass(6 * time.Second)
	g := f.shard.lookup("g")
	for _, m := range g.members {
		req := &kmsg.SyncGroupRequest{Group: "g", MemberID: m.id, Generation: 1}
		f.carryOut(f.shard.SyncGroup(f.now, Context{Version: 4}, req, func(*kmsg.SyncGroupResponse) {}))
	}
	join("a", 0) // replaced while the group is Stable
	join("b", 0)
	leave := &kmsg.LeaveGroupRequest{Group: "g", Members: []kmsg.LeaveGroupRequestMember{{InstanceID: g.members[0].instanceID}}}
	f.carryOut(f.shard.LeaveGroup(f.now, Context{Version: 5}, leave, func(*kmsg.LeaveGroupResponse) {}))
	if g.state != PreparingRebalance {
		t.Errorf("group is %v, want it to wait for b", g.state)
	}
	f.pass(time.Minute)
	if g.state != Empty {
		t.Errorf("group is %v after the session of b", g.state)
	}
}

// Members that leave in the middle of the row do not stay in it.
func TestPendingMembersAreForgottenForGood(t *testing.T) {
	var p pendingMembers
	p.add("first", nil)
	for i := range 1000 {
		id := fmt.Sprint(i)
		p.add(id, nil)
		p.remove(id)
	}
	if len(p.order) > 20 || p.len() != 1 || p.oldest() != "first" {
		t.Errorf("%d of %d members kept in order, the oldest is %q", len(p.order), p.len(), p.oldest())
	}
}

func TestThousandMembers(t *testing.T) {
	f := newFixture(t, 1)
	const n = 1000
	joined := make(map[string]*kmsg.JoinGroupResponse)
	join := func(i int) {
		req := testJoin("g")
		instance := fmt.Sprint("i", i)
		req.InstanceID = &instance
		f.carryOut(f.shard.JoinGroup(f.now, Context{Version: 9}, req, func(resp *kmsg.JoinGroupResponse) { joined[instance] = resp }))
	}
	for i := range n {
		join(i)
	}
	f.pass(6 * time.Second)
	if len(joined) != n || len(joined["i0"].Members) != n {
		t.Fatalf("%d of %d joined", len(joined), n)
	}
	synced := 0
	sync := func(resp *kmsg.JoinGroupResponse) {
		req := &kmsg.SyncGroupRequest{Group: "g", MemberID: resp.MemberID, Generation: 1}
		for _, m := range resp.Members {
			req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: []byte("a")})
		}
		f.carryOut(f.shard.SyncGroup(f.now, Context{Version: 4}, req, func(resp *kmsg.SyncGroupResponse) {
			if string(resp.MemberAssignment) == "a" {
				synced++
			}
		}))
	}
	for _, resp := range joined {
		sync(resp)
	}
	if synced != n {
		t.Errorf("%d of %d synced", synced, n)
	}
	// All vanish: the group ends as one whose members' sessions are over.
	f.pass(5 * time.Minute)
	if g := f.shard.lookup("g"); g.state != Empty || len(f.shard.timers.queue) != 1 {
		t.Errorf("group is %v with %d members, %d timers are left", g.state, len(g.members), len(f.shard.timers.queue))
	}
}

// The offsets of a topic that is deleted are removed in portions, between which others can
// be served; so are those that expire.
func TestSweepsWriteInPortions(t *testing.T) {
	const groups, partitions = 30, 100
	fill := func(f *fixture, topicID uuid.UUID) {
		for g := range groups {
			for p := range int32(partitions) {
				req := commitOf(fmt.Sprint("g", g), "t", p, 1)
				req.Topics[0].TopicID = topicID
				f.carryOut(f.shard.OffsetCommit(f.now, Context{Version: 9}, req, func(*kmsg.OffsetCommitResponse) {}))
			}
		}
	}
	var largest, total int
	count := func(e coordinator.Effects) coordinator.Effects {
		largest, total = max(largest, len(e.Records)), total+len(e.Records)
		if len(e.Records) > 1 && !e.Divisible {
			t.Error("a portion may not be divided into batches")
		}
		return e
	}
	tick := func(f *fixture) {
		for {
			at, _ := f.shard.NextDeadline()
			if at.After(f.now) {
				return
			}
			f.carryOut(count(f.shard.Tick(f.now)))
		}
	}

	t.Run("deletion", func(t *testing.T) {
		largest, total = 0, 0
		f := newFixture(t, 1)
		id := uuid.UUID{7}
		fill(f, id)
		delta := metadata.NewDelta(imageWith(t, metadata.TopicRecord{Name: "t", ID: id}))
		if err := delta.Replay(metadata.RemoveTopicRecord{ID: id}); err != nil {
			t.Fatal(err)
		}
		image := delta.Image(metadata.Position{Index: 2, Term: 1})
		f.carryOut(count(f.shard.OnImage(f.now, delta, image)))
		tick(f)
		if total != groups*partitions || largest > sweepRecords+partitions {
			t.Errorf("%d tombstones, up to %d at a time", total, largest)
		}
		if n := len(allCommitted(f.shard)); n != 0 {
			t.Errorf("%d offsets left", n)
		}
	})
	t.Run("expiry", func(t *testing.T) {
		largest, total = 0, 0
		f := newFixture(t, 1)
		fill(f, uuid.Zero)
		f.now = f.now.Add(8 * 24 * time.Hour)
		tick(f)
		if total != groups*(partitions+1) || largest > sweepRecords+partitions+1 {
			t.Errorf("%d tombstones, up to %d at a time", total, largest)
		}
		if len(f.shard.offsets) > 0 {
			// The maps go with the next round, when the tombstones are committed.
			f.pass(10 * time.Minute)
		}
		if n := len(f.shard.offsets); n != 0 || f.shard.groups.Len() != 0 {
			t.Errorf("%d maps and %d groups left", n, f.shard.groups.Len())
		}
	})
}

func imageWith(t *testing.T, records ...metadata.Record) *metadata.Image {
	delta := metadata.NewDelta(nil)
	for _, r := range records {
		if err := delta.Replay(r); err != nil {
			t.Fatal(err)
		}
	}
	return delta.Image(metadata.Position{Index: 1, Term: 1})
}

// The gauges follow a while after a change, wake nobody when nothing changes, and are let
// go with the shard.
func TestGroupsAreCounted(t *testing.T) {
	f := newFixture(t, 1)
	reg := prometheus.NewRegistry()
	f.shard.metrics = NewMetrics(reg)
	check := func(groups, offsets float64) {
		t.Helper()
		for name, want := range map[string]float64{
			metricsPrefix + "group_count": groups, metricsPrefix + "classic_group_count": groups, metricsPrefix + "offset_count": offsets,
			"kafka_coordinator_group_groupmetadatamanager_numgroups":      groups,
			"kafka_coordinator_group_groupmetadatamanager_numoffsets":     offsets,
			"kafka_coordinator_group_groupmetadatamanager_numgroupsempty": groups,
		} {
			if got := metric(t, reg, name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	}
	for i := range 3 {
		f.carryOut(f.shard.OffsetCommit(f.now, Context{Version: 9}, commitOf(fmt.Sprint("g", i%2), "t", int32(i), 1), func(*kmsg.OffsetCommitResponse) {}))
	}
	check(0, 0)
	f.pass(censusInterval)
	check(2, 3)
	if n := len(f.shard.timers.queue); n != 1 {
		t.Errorf("%d timers, want that of expiry alone", n)
	}
	f.carryOut(f.shard.DeleteGroups(f.now, Context{}, []string{"g0"}, func([]kmsg.DeleteGroupsResponseGroup) {}))
	f.pass(censusInterval)
	check(1, 1)
	f.shard.Unload(kafkaerr.NotCoordinator)
	check(0, 0)
}

// What an administrator reads of a rebalance names the group and why.
func TestLogTellsWhy(t *testing.T) {
	var out bytes.Buffer
	f := newFixture(t, 1)
	f.shard.logger = slog.New(slog.NewTextHandler(&out, nil))
	req := testJoin("g")
	instance, reason := "i", "I feel like it"
	req.InstanceID, req.Reason = &instance, &reason
	f.carryOut(f.shard.JoinGroup(f.now, Context{Version: 9}, req, func(*kmsg.JoinGroupResponse) {}))
	if !strings.Contains(out.String(), "group=g") || !strings.Contains(out.String(), reason) {
		t.Errorf("log: %s", out.String())
	}
}

func BenchmarkOffsetCommit(b *testing.B) {
	f := newFixture(b, 1)
	f.onRecord = func(coordinator.Record) { f.log = f.log[:0] }
	req := commitOf("g", "topic", 0, 1)
	answer := func(*kmsg.OffsetCommitResponse) {}
	b.ReportAllocs()
	end := int64(0)
	for b.Loop() {
		e := f.shard.OffsetCommit(f.now, Context{Version: 9}, req, answer)
		for _, r := range e.Records {
			_ = f.shard.Replay(end, r)
			end++
		}
		f.shard.Committed(end)
		for _, a := range e.Answers {
			a(nil)
		}
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	f := newFixture(b, 1)
	req := testJoin("g")
	instance := "i"
	req.InstanceID = &instance
	var id string
	f.carryOut(f.shard.JoinGroup(f.now, Context{Version: 9}, req, func(resp *kmsg.JoinGroupResponse) { id = resp.MemberID }))
	f.pass(3 * time.Second)
	beat := &kmsg.HeartbeatRequest{Group: "g", MemberID: id, Generation: 1}
	b.ReportAllocs()
	for b.Loop() {
		e := f.shard.Heartbeat(f.now, Context{Version: 4}, beat, func(resp *kmsg.HeartbeatResponse) {
			if resp.ErrorCode != 0 {
				b.Fatal(errorName(resp.ErrorCode))
			}
		})
		e.Answers[0](nil)
	}
}

// BenchmarkLoad replays commits on 10,000 keys, as a load does.
func BenchmarkLoad(b *testing.B) {
	records := make([]coordinator.Record, 10_000)
	for i := range records {
		records[i] = offsetCommitRecord(fmt.Sprint("group-", i/10), topicPartition{"topic", int32(i % 10)}, committedOffset{offset: int64(i), metadata: "", topicID: uuid.UUID{1}, expireTimestamp: noExpireTimestamp})
	}
	s := newTestShard()
	s.Committed(1 << 62)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if err := s.Replay(int64(n), records[n%len(records)]); err != nil {
			b.Fatal(err)
		}
		n++
	}
}

// A member's id has its instance id or its client's in it and goes into records, where its
// length has two bytes.
func TestMemberIDsThatRecordsCannotHoldAreRefused(t *testing.T) {
	longest := strings.Repeat("i", maxMemberID-randomIDLength)
	tooLong := longest + "i"
	for name, c := range map[string]struct {
		instance *string
		clientID string
		want     int16
	}{
		"longest instance":       {&longest, tooLong, -2}, // parked
		"too long an instance":   {&tooLong, "c", kafkaerr.UnknownServerErrorCode},
		"longest client":         {nil, longest, kafkaerr.MemberIDRequired.Code},
		"too long a client's id": {nil, tooLong, kafkaerr.UnknownServerErrorCode},
	} {
		f := newFixture(t, 1)
		code := int16(-2)
		req := testJoin("g")
		req.InstanceID = c.instance
		f.carryOut(f.shard.JoinGroup(f.now, Context{Version: 9, ClientID: c.clientID}, req,
			func(resp *kmsg.JoinGroupResponse) { code = resp.ErrorCode }))
		if code != c.want {
			t.Errorf("%s: %s, want %s", name, errorName(code), errorName(c.want))
		}
	}
}

func noTopics(string) uuid.UUID { return uuid.Zero }

// What clients call themselves is in the ids that they are sent.
func TestFloodOfLongClientIDsIsBounded(t *testing.T) {
	f := newFixture(t, 1)
	client := Context{Version: 9, ClientID: strings.Repeat("c", 30_000)}
	for range 200 {
		f.carryOut(f.shard.JoinGroup(f.now, client, testJoin("g"), func(*kmsg.JoinGroupResponse) {}))
	}
	p := &f.shard.lookup("g").pending
	size := 0
	for id := range p.byID {
		size += len(id)
	}
	if size != p.bytes || size > maxPendingBytes+len(client.ClientID)+randomIDLength || p.len() < 100 {
		t.Errorf("%d pending members with ids of %d bytes, counted as %d", p.len(), size, p.bytes)
	}
	if n := len(f.shard.timers.queue); n > p.len()+2 {
		t.Errorf("%d timers for %d pending members", n, p.len())
	}
	f.pass(10 * time.Second)
	if p.len() != 0 || p.bytes != 0 {
		t.Errorf("%d pending members of %d bytes after their sessions", p.len(), p.bytes)
	}
}
