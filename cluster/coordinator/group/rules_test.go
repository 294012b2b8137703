package group

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

func TestSubscriptionTopics(t *testing.T) {
	version3 := kmsg.NewConsumerMemberMetadata()
	version3.Version, version3.Topics, version3.UserData, version3.Rack = 3, []string{"a"}, []byte("data"), new(string)
	for _, c := range []struct {
		what     string
		metadata []byte
		want     []string
		ok       bool
	}{
		{"two topics", subscription([]string{"a", "bb"}), []string{"a", "bb"}, true},
		{"none", subscription(nil), []string{}, true},
		{"a later version with more fields", version3.AppendTo(nil), []string{"a"}, true},
		{"nothing", nil, nil, false},
		{"a version alone", []byte{0, 0}, nil, false},
		{"a count that nothing follows", []byte{0, 0, 0x7f, 0xff, 0xff, 0xff}, nil, false},
		{"a negative count", []byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, nil, false},
		{"a topic cut short", []byte{0, 0, 0, 0, 0, 1, 0, 5, 'a', 'b'}, nil, false},
		{"a topic of negative length", []byte{0, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0}, nil, false},
		{"no user data", []byte{0, 0, 0, 0, 0, 1, 0, 1, 'a'}, nil, false},
		{"user data cut short", []byte{0, 0, 0, 0, 0, 1, 0, 1, 'a', 0, 0, 0, 9, 1}, nil, false},
	} {
		got, ok := subscriptionTopics(c.metadata)
		if ok != c.ok || ok && !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v", c.what, got, ok)
		}
	}
}

// From when on retention counts, by the state of the group.
func TestExpiresSince(t *testing.T) {
	const committed, since = 100, 200
	subscribed := map[string]struct{}{"t": {}}
	for _, c := range []struct {
		what  string
		group group
		want  int64 // 0: never
	}{
		{"simple", group{state: Empty, stateSince: since}, committed},
		{"empty", group{state: Empty, stateSince: since, protocolType: "consumer"}, since},
		{"empty, of an old record", group{state: Empty, stateSince: -1, protocolType: "consumer"}, committed},
		{"empty connectors", group{state: Empty, stateSince: since, protocolType: "connect"}, since},
		{"stable", group{state: Stable, stateSince: since, protocolType: "consumer", subscribed: subscribed}, committed},
		{"stable, nobody knows for what", group{state: Stable, protocolType: "consumer"}, 0},
		{"stable connectors", group{state: Stable, protocolType: "connect"}, 0},
		{"rebalancing", group{state: PreparingRebalance, protocolType: "consumer", subscribed: subscribed}, 0},
		{"syncing", group{state: CompletingRebalance, protocolType: "consumer", subscribed: subscribed}, 0},
	} {
		from, ok := c.group.expiresSince()
		if ok != (c.want != 0) || ok && from(committedOffset{commitTimestamp: committed}) != c.want {
			t.Errorf("%s: %v", c.what, ok)
		}
	}
}

func TestWhichTopicsAreSubscribed(t *testing.T) {
	for _, c := range []struct {
		what  string
		group group
		want  bool
	}{
		{"it is", group{protocolType: "consumer", subscribed: map[string]struct{}{"t": {}}}, true},
		{"it is not", group{protocolType: "consumer", subscribed: map[string]struct{}{"u": {}}}, false},
		{"consumers of whom it is not known", group{protocolType: "consumer"}, true},
		{"others", group{protocolType: "connect"}, false},
		{"nobody", group{}, false},
	} {
		if got := c.group.isSubscribedTo("t"); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

func TestLeaderIsOneThatJoined(t *testing.T) {
	parked := &parkedJoin{}
	for _, c := range []struct {
		what   string
		leader string
		joined []bool // a, b, c
		want   string // "": none
	}{
		{"the leader joined", "b", []bool{true, true, true}, "b"},
		{"it did not", "b", []bool{false, false, true}, "c"},
		{"nobody did", "b", []bool{false, false, false}, ""},
		{"it is not a member", "z", []bool{false, true, true}, "b"},
		{"there is none", "", []bool{true, true, true}, ""},
	} {
		g := newGroup("g", 0)
		for i, joined := range c.joined {
			m := &member{id: string(rune('a' + i))}
			g.add(m)
			if joined {
				m.joining = parked
			}
		}
		g.leader = c.leader
		if ok := g.electJoinedLeader(); ok != (c.want != "") || ok && g.leader != c.want {
			t.Errorf("%s: %v, %q", c.what, ok, g.leader)
		}
	}
}

// The batch before may be refused when a group's first record needs room: then the record
// is not even replayed.
func TestGroupRefusedBeforeItsRecordIsReplayed(t *testing.T) {
	f := newFixture(t, 1)
	req := testJoin("g")
	instance := "i"
	req.InstanceID = &instance
	var got *kmsg.JoinGroupResponse
	f.shard.JoinGroup(f.now, Context{Version: 9}, req, func(resp *kmsg.JoinGroupResponse) { got = resp })
	f.shard.Rollback(0)
	if got == nil || got.ErrorCode != kafkaerr.CoordinatorNotAvailable.Code {
		t.Errorf("answer: %+v", got)
	}
	if n := len(f.shard.timers.queue); n != 1 || f.shard.lookup("g") != nil {
		t.Errorf("%d timers left, group %v", n, f.shard.lookup("g"))
	}
}
