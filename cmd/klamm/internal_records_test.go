package main

import (
	"encoding/base64"
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/logstore/dump"
)

// keyOf is a key of the newer groups: a type, then strings.
func keyOf(kind int16, parts ...string) []byte {
	key := binary.BigEndian.AppendUint16(nil, uint16(kind))
	for _, s := range parts {
		key = append(binary.BigEndian.AppendUint16(key, uint16(len(s))), s...)
	}
	return key
}

func TestDecodeInternal(t *testing.T) {
	offsetKey := (&kmsg.OffsetCommitKey{Version: 1, Group: "g", Topic: "t", Partition: 3}).AppendTo(nil)
	leader := "m"
	group := kmsg.GroupMetadataValue{
		Version: 3, ProtocolType: "connect", Generation: 4, Leader: &leader, CurrentStateTimestamp: 9,
		Members: []kmsg.GroupMetadataValueMember{{MemberID: "m", ClientID: "c", ClientHost: "/h", Subscription: []byte{0xff}}},
	}
	txn := kmsg.TxnMetadataValue{
		ProducerID: 7, ProducerEpoch: 2, TimeoutMillis: 60000, State: kmsg.TransactionStateOngoing,
		Topics: []kmsg.TxnMetadataValueTopic{{Topic: "t", Partitions: []int32{0, 2}}}, LastUpdateTimestamp: 5, StartTimestamp: 4,
	}
	const offsets, transactions = "__consumer_offsets", "__transaction_state"
	tests := []struct {
		name, topic string
		key, value  []byte
		want        string // "" for bytes that are shown as they are
	}{
		{
			"offset", offsets, offsetKey, (&kmsg.OffsetCommitValue{Version: 1, Offset: 5, Metadata: "a b", CommitTimestamp: 6, ExpireTimestamp: 7}).AppendTo(nil),
			`x type=offset group=g topic=t partition=3 version=1 committed=5 metadata="a b" commit_timestamp=6 expire_timestamp=7`,
		},
		{"offset gone", offsets, offsetKey, nil, `x type=offset group=g topic=t partition=3 deleted=true`},
		{"offset cut", offsets, offsetKey, []byte{0, 3, 1}, ``},
		{"key cut", offsets, offsetKey[:4], nil, ``},
		{
			"group", offsets, keyOf(2, "g"), group.AppendTo(nil),
			`x type=group group=g version=3 protocol_type=connect generation=4 protocol=null leader=m state_timestamp=9 ` +
				`members=[{member=m instance=null client=c host=/h rebalance_timeout_ms=0 session_timeout_ms=0 subscription=base64:/w== assignment=""}]`,
		},
		{"group gone", offsets, keyOf(2, "g"), nil, `x type=group group=g deleted=true`},
		{"consumer group", offsets, keyOf(3, "g"), []byte{0, 0}, `x type=consumer-group group=g value="\x00\x00"`},
		{"its member", offsets, keyOf(5, "g", "m"), nil, `x type=consumer-group-member group=g member=m deleted=true`},
		{"its expression", offsets, keyOf(16, "g", "a.*"), nil, `x type=consumer-group-regular-expression group=g expression=a.* deleted=true`},
		{"its member cut", offsets, keyOf(5, "g"), nil, ``},
		{"a type to come", offsets, keyOf(99, "g"), nil, ``},
		{
			"transaction", transactions, keyOf(0, "tx"), txn.AppendTo(nil),
			`x type=transaction transactional_id=tx version=0 producer_id=7 producer_epoch=2 timeout_ms=60000 state=Ongoing partitions=[t:0,2] ` +
				`last_update_timestamp=5 start_timestamp=4`,
		},
		{"transaction gone", transactions, keyOf(0, "tx"), nil, `x type=transaction transactional_id=tx deleted=true`},
		{"another topic", "orders", offsetKey, nil, ``},
		{"no key", offsets, nil, nil, ``},
	}
	for _, test := range tests {
		got := ""
		if fields := decodeInternal(test.topic, test.key, test.value); fields != nil {
			got = dump.Entry{Kind: "x", Fields: fields}.Text()
		}
		if got != test.want {
			t.Errorf("%s (%s):\n%s\nwant\n%s", test.name, base64.StdEncoding.EncodeToString(test.key), got, test.want)
		}
	}
}
