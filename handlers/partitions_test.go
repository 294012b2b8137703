package handlers

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// A partition that is named again is one partition: the last offset counts.
func TestDeleteRecordsOfOnePartitionTwice(t *testing.T) {
	f := newFixture(t)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, 7
	for _, name := range []string{"t", "nope", metadata.GroupMetadataTopic, "t"} {
		topic := kmsg.NewDeleteRecordsRequestTopic()
		topic.Topic = name
		for i := range int64(2) {
			p := kmsg.NewDeleteRecordsRequestTopicPartition()
			p.Offset = 10*int64(len(req.Topics)) + i
			topic.Partitions = append(topic.Partitions, p)
		}
		req.Topics = append(req.Topics, topic)
	}
	resp := ask[*kmsg.DeleteRecordsResponse](t, f, req)
	asked := f.replicas.deleted
	if asked.Timeout != 7*time.Millisecond || len(asked.Partitions) != 3 || asked.Partitions[0].Offset != 31 || asked.Partitions[0].TopicID != topicID {
		t.Errorf("asked %+v", asked)
	}
	got := ""
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			got += fmt.Sprintln(topic.Topic, p.Partition, p.ErrorCode, p.LowWatermark)
		}
	}
	if want := "t 0 0 0\nnope 0 3 -1\n__consumer_offsets 0 3 -1\n"; got != want {
		t.Errorf("answered:\n%swant:\n%s", got, want)
	}
}

func describe(names ...string) *kmsg.DescribeTopicPartitionsRequest {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	for _, name := range names {
		topic := kmsg.NewDescribeTopicPartitionsRequestTopic()
		topic.Topic = name
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func page(resp *kmsg.DescribeTopicPartitionsResponse) (s string) {
	for _, topic := range resp.Topics {
		s += fmt.Sprintf("%s error=%d", *topic.Topic, topic.ErrorCode)
		for _, p := range topic.Partitions {
			s += fmt.Sprintf(" %d:leader=%d@%d,replicas=%v,offline=%v", p.Partition, p.LeaderID, p.LeaderEpoch, p.Replicas, p.OfflineReplicas)
		}
		s += "\n"
	}
	if c := resp.NextCursor; c != nil {
		s += fmt.Sprintf("next %s:%d\n", c.Topic, c.Partition)
	}
	return s
}

func TestDescribeTopicPartitions(t *testing.T) {
	const first, second = " 0:leader=1@5,replicas=[1 2],offline=[2]", " 1:leader=-1@7,replicas=[2],offline=[2]"
	from := func(topic string, partition int32, req *kmsg.DescribeTopicPartitionsRequest) *kmsg.DescribeTopicPartitionsRequest {
		c := kmsg.NewDescribeTopicPartitionsRequestCursor()
		c.Topic, c.Partition = topic, partition
		req.Cursor = &c
		return req
	}
	limited := func(limit int32, req *kmsg.DescribeTopicPartitionsRequest) *kmsg.DescribeTopicPartitionsRequest {
		req.ResponsePartitionLimit = limit
		return req
	}
	for _, c := range []struct {
		name string
		req  *kmsg.DescribeTopicPartitionsRequest
		want string
	}{
		{"all", describe(), "t error=0" + first + second + "\n"},
		{"sorted, each once", describe("u", "t", "u"), "t error=0" + first + second + "\nnext u:0\n"},
		{"a full page", limited(1, describe("t", "u")), "t error=0" + first + "\nnext t:1\n"},
		{"the next one", from("t", 1, limited(1, describe("t", "u"))), "t error=0" + second + "\nnext u:0\n"},
		{"the last one", from("u", 0, limited(1, describe("t", "u"))), "u error=3\n"},
		{"more than the broker shows", limited(1000, describe("t", "u")), "t error=0" + first + second + "\nnext u:0\n"},
		{"behind the last partition", from("t", 9, describe()), "t error=0\n"},
		{"a cursor that is not asked for", from("s", 0, describe("t")), "t error=42\n"},
		{"a negative cursor", from("t", -1, describe("t")), "t error=42\n"},
		{"no name", describe("t", ""), "t error=-1\n error=-1\n"},
		{"no name, where the cursor is", from("", 0, describe("t", "")), " error=17\nt error=0" + first + second + "\n"},
		{"no name, before the cursor", from("t", 1, describe("t", "")), "t error=0" + second + "\n"},
	} {
		f := newFixture(t)
		f.h.config.MaxPartitionsShown = 2
		if got := page(ask[*kmsg.DescribeTopicPartitionsResponse](t, f, c.req)); got != c.want {
			t.Errorf("%s:\n%swant:\n%s", c.name, got, c.want)
		}
	}
}

func TestDescribeProducers(t *testing.T) {
	f := newFixture(t)
	f.replicas.producers = []replica.ProducerInfo{{ProducerID: 5, Epoch: 2, LastSequence: 9, LastTimestampMs: 1000, CoordinatorEpoch: -1, TxnFirstOffset: -1}}
	req := kmsg.NewPtrDescribeProducersRequest()
	for _, name := range []string{"t", "nope", "no name"} {
		topic := kmsg.NewDescribeProducersRequestTopic()
		topic.Topic, topic.Partitions = name, []int32{0, 9}
		req.Topics = append(req.Topics, topic)
	}
	got := ""
	for _, topic := range ask[*kmsg.DescribeProducersResponse](t, f, req).Topics {
		for _, p := range topic.Partitions {
			got += fmt.Sprintln(topic.Topic, p.Partition, p.ErrorCode, p.ErrorMessage != nil, len(p.ActiveProducers))
		}
	}
	const want = "t 0 0 false 1\nt 9 3 false 0\nnope 0 3 true 0\nnope 9 3 true 0\nno name 0 17 true 0\nno name 9 17 true 0\n"
	if got != want {
		t.Errorf("answered:\n%swant:\n%s", got, want)
	}
}

func TestDescribeLogDirs(t *testing.T) {
	f := newFixture(t)
	f.replicas.dirs = []replica.LogDirInfo{
		{Path: "/d1", TotalBytes: 100, UsableBytes: 40, Logs: []replica.LogInfo{
			{Topic: "t", Partition: 1, Size: 7}, {Topic: "t", Partition: 0, Size: 5}, {Topic: "s", Partition: 0, OffsetLag: 3, Future: true},
		}},
		{Path: "/d2", Err: kafkaerr.KafkaStorageError},
	}
	show := func(topics []kmsg.DescribeLogDirsRequestTopic) (s string) {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Version, req.Topics = 5, topics
		for _, dir := range ask[*kmsg.DescribeLogDirsResponse](t, f, req).Dirs {
			s += fmt.Sprintf("%s error=%d %d of %d", dir.Dir, dir.ErrorCode, dir.UsableBytes, dir.TotalBytes)
			for _, topic := range dir.Topics {
				for _, p := range topic.Partitions {
					s += fmt.Sprintf(" %s-%d:%d,%d,%v", topic.Topic, p.Partition, p.Size, p.OffsetLag, p.IsFuture)
				}
			}
			s += "\n"
		}
		return s
	}
	const offline = "/d2 error=56 -1 of -1\n"
	if got := show(nil); got != "/d1 error=0 40 of 100 s-0:0,3,true t-0:5,0,false t-1:7,0,false\n"+offline {
		t.Errorf("all:\n%s", got)
	}
	topic := kmsg.NewDescribeLogDirsRequestTopic()
	topic.Topic, topic.Partitions = "t", []int32{1, 9}
	if got := show([]kmsg.DescribeLogDirsRequestTopic{topic}); got != "/d1 error=0 40 of 100 t-1:7,0,false\n"+offline {
		t.Errorf("one:\n%s", got)
	}
	if got := show([]kmsg.DescribeLogDirsRequestTopic{}); got != "/d1 error=0 40 of 100\n"+offline {
		t.Errorf("none:\n%s", got)
	}
}

// AlterReplicaLogDirs asks about each partition once, for the directory that is named last,
// and answers by topic.
func TestAlterReplicaLogDirs(t *testing.T) {
	f := newFixture(t)
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	req.Version = 2
	for _, dir := range []struct {
		path       string
		topic      string
		partitions []int32
	}{{"/d1", "t", []int32{0, 1}}, {"/nowhere", "s", []int32{4}}, {"/d2", "t", []int32{1, 1}}} {
		d := kmsg.NewAlterReplicaLogDirsRequestDir()
		d.Dir = dir.path
		d.Topics = []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: dir.topic, Partitions: dir.partitions}}
		req.Dirs = append(req.Dirs, d)
	}
	resp := ask[*kmsg.AlterReplicaLogDirsResponse](t, f, req)
	var asked, got string
	for _, w := range f.replicas.moved {
		asked += fmt.Sprintf("%s-%d:%s ", w.Topic, w.Partition, w.Dir)
	}
	for _, topic := range resp.Topics {
		got += topic.Topic
		for _, p := range topic.Partitions {
			got += fmt.Sprintf(" %d:%d", p.Partition, p.ErrorCode)
		}
		got += "; "
	}
	if want := "t-0:/d1 t-1:/d2 s-4:/nowhere "; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
	if want := "t 0:0 1:0; s 4:57; "; got != want {
		t.Errorf("answered %s, want %s", got, want)
	}
}

// A controller that does not answer fails everything in the request.
func TestPartitionRequestsWithoutController(t *testing.T) {
	f := newFixture(t)
	f.node.err = kafkaerr.NotController
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Version, grow.Topics = 3, []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 3}}
	if got := ask[*kmsg.CreatePartitionsResponse](t, f, grow).Topics; len(got) != 1 || got[0].ErrorCode != 41 {
		t.Errorf("CreatePartitions: %+v", got)
	}
	move := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	move.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "t", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: 1}}}}
	if got := ask[*kmsg.AlterPartitionAssignmentsResponse](t, f, move); got.ErrorCode != 41 || got.Topics[0].Partitions[0].ErrorCode != 41 {
		t.Errorf("AlterPartitionReassignments: %+v", got)
	}
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Version, elect.Topics = 2, []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	if got := ask[*kmsg.ElectLeadersResponse](t, f, elect); got.ErrorCode != 41 || got.Topics[0].Partitions[0].ErrorCode != 41 {
		t.Errorf("ElectLeaders: %+v", got)
	}
	list := kmsg.NewPtrListPartitionReassignmentsRequest()
	list.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	if got := ask[*kmsg.ListPartitionReassignmentsResponse](t, f, list); got.ErrorCode != 41 || len(got.Topics) != 1 {
		t.Errorf("ListPartitionReassignments: %+v", got)
	}
}
