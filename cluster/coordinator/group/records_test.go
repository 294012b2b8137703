package group

import (
	"bytes"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// The bytes of these tests were written by Kafka 4.4's own serializers
// (GroupCoordinatorRecordSerde).
const (
	kafkaOffsetKey = "00010001670005746f70696300000007"
	kafkaGroupKey  = "000200066772c3b87570"
)

var kafkaOffsetValues = []string{
	"00000000011f71fb04cb00056dc3ab74610000018bcfe56800",
	"00010000011f71fb04cb00056dc3ab74610000018bcfe568000000018bcfe57b88",
	"00020000011f71fb04cb00056dc3ab74610000018bcfe56800",
	"00030000011f71fb04cb0000000500056dc3ab74610000018bcfe56800",
	"00040000011f71fb04cb00000005066dc3ab74610000018bcfe568000100100102030405060708090a0b0c0d0e0f10",
}

var kafkaGroupValues = []string{
	"00000008636f6e73756d657200000003000572616e676500036d2d310000000200036d2d31000163000a2f3132372e302e302e310000afc80000000a000100000000ffffffff00000002010200036d2d32000000042f3a3a310000afc80000000000000000",
	"00010008636f6e73756d657200000003000572616e676500036d2d310000000200036d2d31000163000a2f3132372e302e302e310000ea600000afc80000000a000100000000ffffffff00000002010200036d2d32000000042f3a3a310000ea600000afc80000000000000000",
	"00020008636f6e73756d657200000003000572616e676500036d2d310000018bcfe568000000000200036d2d31000163000a2f3132372e302e302e310000ea600000afc80000000a000100000000ffffffff00000002010200036d2d32000000042f3a3a310000ea600000afc80000000000000000",
	"00030008636f6e73756d657200000003000572616e676500036d2d310000018bcfe568000000000200036d2d31000149000163000a2f3132372e302e302e310000ea600000afc80000000a000100000000ffffffff00000002010200036d2d32ffff000000042f3a3a310000ea600000afc80000000000000000",
	"000409636f6e73756d6572000000030672616e6765046d2d310000018bcfe5680003046d2d31024902630b2f3132372e302e302e310000ea600000afc80b000100000000ffffffff03010200046d2d320001052f3a3a310000ea600000afc801010000",
}

// kafkaEmptyGroup is the record of a group that was just made.
const kafkaEmptyGroup = "0003000000000000ffffffff0000018bcfe5680000000000"

var topicUUID = uuid.UUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOffsetRecordsOfKafka(t *testing.T) {
	for version, value := range kafkaOffsetValues {
		want := committedOffset{
			offset: 1234567890123, leaderEpoch: -1, metadata: "mëta",
			commitTimestamp: 1700000000000, expireTimestamp: noExpireTimestamp,
		}
		switch {
		case version >= 4:
			want.topicID = topicUUID
			fallthrough
		case version >= 3:
			want.leaderEpoch = 5
		case version == 1:
			want.expireTimestamp = 1700000005000
		}
		r := coordinator.Record{Key: unhex(t, kafkaOffsetKey), Value: unhex(t, value)}
		group, at, o, ok, err := decodeOffsetCommit(r)
		if err != nil || !ok || group != "g" || at != (topicPartition{"topic", 7}) || o != want {
			t.Errorf("version %d: %q %v %+v %v %v, want %+v", version, group, at, o, ok, err, want)
		}
		if version != int(offsetCommitValueVersion) && version != int(offsetCommitExpiringValueVersion) {
			continue
		}
		if d := cmp.Diff(r, offsetCommitRecord(group, at, o)); d != "" {
			t.Errorf("version %d, written again: %s", version, d)
		}
	}
	tombstone := offsetTombstone("g", topicPartition{"topic", 7})
	if !bytes.Equal(tombstone.Key, unhex(t, kafkaOffsetKey)) || tombstone.Value != nil {
		t.Errorf("tombstone %+v", tombstone)
	}
	if _, _, _, ok, err := decodeOffsetCommit(tombstone); ok || err != nil {
		t.Errorf("tombstone read as a value: %v, %v", ok, err)
	}
}

func TestGroupRecordsOfKafka(t *testing.T) {
	for version, value := range kafkaGroupValues {
		s := newTestShard()
		r := coordinator.Record{Key: unhex(t, kafkaGroupKey), Value: unhex(t, value)}
		s.Committed(1)
		if err := s.Replay(0, r); err != nil {
			t.Errorf("version %d: %v", version, err)
			continue
		}
		g := s.lookup("grøup")
		if g.state != Stable || g.generation != 3 || *g.protocol != "range" || g.leader != "m-1" || len(g.members) != 2 {
			t.Errorf("version %d: %+v", version, g)
		}
		m := g.byID["m-1"]
		wantRebalance, wantSince := int32(60000), int64(1700000000000)
		if version < 1 {
			wantRebalance = 45000 // the session timeout stands for it
		}
		if version < 2 {
			wantSince = -1
		}
		if m.rebalanceTimeoutMs != wantRebalance || m.sessionTimeoutMs != 45000 || g.stateSince != wantSince || m.isStatic() != (version >= 3) || !bytes.Equal(m.assignment, []byte{1, 2}) {
			t.Errorf("version %d: %+v since %d", version, m, g.stateSince)
		}
		if version == int(groupMetadataValueVersion) {
			again := groupRecord(g.id, g.recordOf(func(m *member) []byte { return m.assignment }))
			if d := cmp.Diff(r, again); d != "" {
				t.Errorf("written again: %s", d)
			}
		}
	}
}

func TestRecordOfANewGroupIsKafkas(t *testing.T) {
	f := newFixture(t, 1)
	var written []coordinator.Record
	f.onRecord = func(r coordinator.Record) { written = append(written, r) }
	f.carryOut(f.shard.JoinGroup(f.now, Context{Version: 9, ClientID: "c"}, testJoin("grøup"), func(*kmsg.JoinGroupResponse) {}))
	want := []coordinator.Record{{Key: unhex(t, kafkaGroupKey), Value: unhex(t, kafkaEmptyGroup)}}
	if d := cmp.Diff(want, written); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(coordinator.Record{Key: want[0].Key}, groupTombstone("grøup")); d != "" {
		t.Error(d)
	}
}

func testJoin(group string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = group, 10_000, 60_000, "consumer"
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription([]string{"t"})}}
	return req
}

func newTestShard() *Shard {
	return NewShard(ShardOptions{Config: DefaultConfig(), Logger: slog.New(slog.DiscardHandler)})
}

// A topic that Kafka wrote also has groups of other protocols.
func TestRecordsOfOtherGroupsAreSkippedWithOneWarning(t *testing.T) {
	var out strings.Builder
	s := NewShard(ShardOptions{Config: DefaultConfig(), Logger: slog.New(slog.NewTextHandler(&out, nil))})
	for i := range 6 {
		key := []byte{0, byte(3 + i/3), 0, 1, 'g'}
		if err := s.Replay(int64(i), coordinator.Record{Key: key, Value: []byte{0, 0}}); err != nil {
			t.Errorf("record %d: %v", i, err)
		}
	}
	if n := strings.Count(out.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings for two types of records:\n%s", n, out.String())
	}
	if s.groups.Len() != 0 {
		t.Errorf("%d groups", s.groups.Len())
	}
}

func TestMalformedRecordsAreErrors(t *testing.T) {
	offsetKey, groupKey := unhex(t, kafkaOffsetKey), unhex(t, kafkaGroupKey)
	for name, r := range map[string]coordinator.Record{
		"no key":                  {},
		"short key":               {Key: []byte{0}},
		"type of the future":      {Key: []byte{0, 99, 0, 0}},
		"negative type":           {Key: []byte{0xff, 0xff}},
		"cut offset key":          {Key: offsetKey[:6]},
		"cut group key":           {Key: groupKey[:3]},
		"empty offset value":      {Key: offsetKey, Value: []byte{}},
		"offset of the future":    {Key: offsetKey, Value: []byte{0, 5}},
		"group of the future":     {Key: groupKey, Value: []byte{0, 5}},
		"cut offset value":        {Key: offsetKey, Value: unhex(t, kafkaOffsetValues[4])[:20]},
		"cut group value":         {Key: groupKey, Value: unhex(t, kafkaGroupValues[3])[:60]},
		"same member twice":       {Key: groupKey, Value: unhex(t, strings.Replace(kafkaGroupValues[0], "6d2d32", "6d2d31", 1))},
		"same member id and more": {Key: groupKey, Value: append(unhex(t, kafkaGroupValues[0]), 1)},
	} {
		s := newTestShard()
		if err := s.Replay(0, r); name != "same member id and more" && !errors.Is(err, errMalformedRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzReplay: no record, whatever is in it, stops the process, and what is understood is
// kept as it was written.
func FuzzReplay(f *testing.F) {
	for _, v := range kafkaOffsetValues {
		f.Add(unhex(f, kafkaOffsetKey), unhex(f, v), false)
	}
	for _, v := range kafkaGroupValues {
		f.Add(unhex(f, kafkaGroupKey), unhex(f, v), true)
	}
	f.Add(unhex(f, kafkaGroupKey), []byte(nil), false)
	f.Fuzz(func(t *testing.T, key, value []byte, tombstone bool) {
		s := newTestShard()
		r := coordinator.Record{Key: key, Value: value}
		if s.Replay(0, r) != nil {
			return
		}
		if tombstone {
			_ = s.Replay(1, coordinator.Record{Key: key})
		}
		s.Committed(2)
		s.Loaded(epoch)
		for _, l := range s.ListGroups(nil, nil) {
			s.DescribeGroup(Context{Version: 6}, l.Group)
		}
		defer s.Unload(kafkaerr.NotCoordinator)
		for _, g := range s.newestGroups() {
			if g.state != Stable {
				continue
			}
			again := newTestShard()
			if err := again.Replay(0, groupRecord(g.id, g.recordOf(func(m *member) []byte { return m.assignment }))); err != nil {
				t.Fatalf("not read back: %v", err)
			}
		}
	})
}
