package handlers

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// listOffsetsRequest asks for the same timestamp of each partition of "t".
func listOffsetsRequest(version int16, timestamp int64, partitions ...int32) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = version, -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = "t"
	for _, p := range partitions {
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp, part.CurrentLeaderEpoch = p, timestamp, -1
		topic.Partitions = append(topic.Partitions, part)
	}
	req.Topics = append(req.Topics, topic)
	return req
}

// answers is what was answered, one word per partition: partition=offset or !error.
func answers(resp *kmsg.ListOffsetsResponse) (s string) {
	for _, topic := range resp.Topics {
		s += topic.Topic + ":"
		for _, p := range topic.Partitions {
			if p.ErrorCode != 0 {
				s += fmt.Sprintf(" %d!%d", p.Partition, p.ErrorCode)
				continue
			}
			s += fmt.Sprintf(" %d=%d", p.Partition, p.Offset)
		}
		s += ";"
	}
	return s
}

func TestListOffsets(t *testing.T) {
	twoTopics := listOffsetsRequest(7, -1, 0)
	twoTopics.Topics = append(twoTopics.Topics, kmsg.ListOffsetsRequestTopic{Topic: "empty"}, listOffsetsRequest(7, -1, 1).Topics[0])
	isolation := listOffsetsRequest(7, -1, 0, 9)
	isolation.IsolationLevel = 7
	mirrored := listOffsetsRequest(7, -1, 0, 0)
	mirrored.IsolationLevel = -1
	mirrored.Topics = append(mirrored.Topics, kmsg.ListOffsetsRequestTopic{Topic: "empty"}, listOffsetsRequest(7, -1, 1).Topics[0])
	for _, c := range []struct {
		name string
		req  *kmsg.ListOffsetsRequest
		want string
	}{
		{"known", listOffsetsRequest(7, -1, 0, 1), "t: 0=42 1=42;"},
		{"unknown partition", listOffsetsRequest(7, -1, 0, 2, -1), "t: 0=42 2!3 -1!3;"},
		{"timestamp of a later version, before the partition is looked for", listOffsetsRequest(6, replica.MaxTimestamp, 0, 2), "t: 0!35 2!35;"},
		{"no such timestamp", listOffsetsRequest(11, -7, 0), "t: 0!35;"},
		{"named twice, before the timestamp", listOffsetsRequest(7, -7, 0, 1, 0, 0), "t: 0!42 1!35;"},
		{"a topic in two places, one without partitions", twoTopics, "t: 0=42 1=42;"},
		{"isolation level", isolation, "t: 0!-1 9!-1;"},
		{"isolation level, where it answers the request as it came", mirrored, "t: 0!-1 0!-1;empty:;t: 1!-1;"},
	} {
		f := newFixture(t)
		if got := answers(ask[*kmsg.ListOffsetsResponse](t, f, c.req)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestListOffsetsTellsTheEpochFromVersion4(t *testing.T) {
	for version := int16(1); version <= 11; version++ {
		f := newFixture(t)
		want := int32(-1)
		if version >= 4 {
			want = 5
		}
		p := ask[*kmsg.ListOffsetsResponse](t, f, listOffsetsRequest(version, -1, 0)).Topics[0].Partitions[0]
		if p.LeaderEpoch != want || p.Offset != 42 {
			t.Errorf("version %d: %+v", version, p)
		}
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	for version := int16(2); version <= 4; version++ {
		f := newFixture(t)
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.Version = version
		for _, name := range []string{"t", "unknown"} {
			topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
			topic.Topic = name
			topic.Partitions = append(topic.Partitions, kmsg.NewOffsetForLeaderEpochRequestTopicPartition())
			req.Topics = append(req.Topics, topic)
		}
		topics := ask[*kmsg.OffsetForLeaderEpochResponse](t, f, req).Topics
		known, unknown := topics[0].Partitions[0], topics[1].Partitions[0]
		if known.LeaderEpoch != 5 || known.EndOffset != 42 || known.ErrorCode != 0 {
			t.Errorf("version %d, known: %+v", version, known)
		}
		if unknown.LeaderEpoch != -1 || unknown.EndOffset != -1 || unknown.ErrorCode != kafkaerr.UnknownTopicOrPartition.Code {
			t.Errorf("version %d, unknown: %+v", version, unknown)
		}
	}
}
