package group

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// FuzzOperations sends any sequence of requests, of clients that keep no rule of the
// protocol, over a log that fails: nothing stops the process, every request is answered at
// most once, and the groups stay consistent.
func FuzzOperations(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"))
	f.Add([]byte("\x01\x00\x00\x00\x10\x01\x00\x00\x00\x10\x0a\x50\x02\x00\x00\x00\x00\x03\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		z := &fuzzer{simulation: newSimulation(t, 1, false), data: data, ids: []string{"", "bogus"}}
		z.fixture.config.MaxSize = 3
		z.fixture.load()
		for steps := 0; len(z.data) > 0 && steps < 200; steps++ {
			z.request()
			z.check()
		}
		z.shard.Unload(kafkaerr.NotCoordinator)
	})
}

// fuzzer reads what to do from bytes.
type fuzzer struct {
	*simulation
	data []byte
	ids  []string // that members were given
}

// n draws a number below most from the bytes.
func (z *fuzzer) n(most int) int {
	if len(z.data) == 0 {
		return 0
	}
	b := z.data[0]
	z.data = z.data[1:]
	return int(b) % most
}

func (z *fuzzer) group() string { return []string{"g", "g", "h"}[z.n(3)] }
func (z *fuzzer) id() string    { return z.ids[len(z.ids)-1-z.n(min(len(z.ids), 8))] }

func (z *fuzzer) instance() *string {
	if name := []string{"", "", "A", "B"}[z.n(4)]; name != "" {
		return &name
	}
	return nil
}

func (z *fuzzer) generation(group string) int32 {
	generation := int32(z.n(4)) - 2
	if g := z.shard.lookup(group); g != nil && generation < 1 {
		generation += g.generation
	}
	return generation
}

// once fails the test when a request is answered again.
func once[T any](z *fuzzer, hear func(T)) func(T) {
	answered := false
	return func(v T) {
		if answered {
			z.t.Error("answered twice")
		}
		answered = true
		hear(v)
	}
}

func ignore[T any](T) {}

func (z *fuzzer) request() {
	c := Context{Version: int16(z.n(10)), ClientID: "c", ClientHost: "/::1"}
	group := z.group()
	switch z.n(14) {
	case 0, 1, 2, 3:
		z.joinAny(c, group)
	case 4, 5:
		z.syncAny(c, group)
	case 6:
		req := &kmsg.HeartbeatRequest{Group: group, MemberID: z.id(), InstanceID: z.instance(), Generation: z.generation(group)}
		z.carryOut(z.shard.Heartbeat(z.now, c, req, once(z, ignore[*kmsg.HeartbeatResponse])))
	case 7:
		req := &kmsg.LeaveGroupRequest{Group: group, MemberID: z.id()}
		for range z.n(3) {
			req.Members = append(req.Members, kmsg.LeaveGroupRequestMember{MemberID: z.id(), InstanceID: z.instance()})
		}
		z.carryOut(z.shard.LeaveGroup(z.now, c, req, once(z, ignore[*kmsg.LeaveGroupResponse])))
	case 8:
		req := commitOf(group, "t", int32(z.n(3)), int64(z.n(9)))
		req.MemberID, req.InstanceID, req.Generation = z.id(), z.instance(), z.generation(group)
		z.carryOut(z.shard.OffsetCommit(z.now, c, req, once(z, ignore[*kmsg.OffsetCommitResponse])))
	case 9:
		z.carryOut(z.shard.DeleteGroups(z.now, c, []string{group, "nope"}, once(z, ignore[[]kmsg.DeleteGroupsResponseGroup])))
	case 10:
		z.pass([]time.Duration{time.Second, 4 * time.Second, 20 * time.Second, 10 * time.Minute, 8 * 24 * time.Hour}[z.n(5)])
	default:
		z.fault()
	}
	z.shard.DescribeGroup(c, group)
	z.shard.ListGroups(nil, nil)
}

func (z *fuzzer) fault() {
	switch z.n(6) {
	case 0:
		z.hold = !z.hold
	case 1:
		z.linger = !z.linger
		z.flush()
	case 2:
		z.refuse = kafkaerr.NotEnoughReplicas
	case 3:
		z.flush()
		z.advance(z.hw + int64(z.n(4))%(int64(len(z.log))-z.hw+1))
	case 4:
		z.timeOut()
	default:
		z.refuse = nil
		z.clean(z.hw-int64(z.n(4))%(z.hw+1), z.hw)
		z.crash(z.n(4))
	}
}

func (z *fuzzer) joinAny(c Context, group string) {
	req := testJoin(group)
	req.MemberID, req.InstanceID = z.id(), z.instance()
	req.RebalanceTimeoutMillis = []int32{60_000, 1000, 0, -1}[z.n(4)]
	req.ProtocolType = []string{"consumer", "consumer", "consumer", "connect", ""}[z.n(5)]
	names := [][]string{{"range"}, {"range", "rr"}, {"rr", "range"}, {"rr"}, {""}, {}, {"range", "range"}}[z.n(7)]
	req.Protocols = nil
	for _, name := range names {
		metadata := [][]byte{subscription([]string{"t"}), subscription([]string{"u"}), nil, {0}}[z.n(4)]
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: metadata})
	}
	z.carryOut(z.shard.JoinGroup(z.now, c, req, once(z, func(resp *kmsg.JoinGroupResponse) {
		if resp.MemberID != "" {
			z.ids = append(z.ids, resp.MemberID)
		}
	})))
}

func (z *fuzzer) syncAny(c Context, group string) {
	req := &kmsg.SyncGroupRequest{Group: group, MemberID: z.id(), InstanceID: z.instance(), Generation: z.generation(group)}
	for range z.n(3) {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: z.id(), MemberAssignment: []byte{1}})
	}
	z.carryOut(z.shard.SyncGroup(z.now, c, req, once(z, ignore[*kmsg.SyncGroupResponse])))
}
