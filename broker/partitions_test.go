package broker_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/batch"
)

// A topic grows, and whoever has the answer can use the new partitions at once.
func TestGrownTopicIsReady(t *testing.T) {
	v := newVictim(t)
	for count := int32(2); count <= 8; count++ {
		grow := kmsg.NewPtrCreatePartitionsRequest()
		grow.Version, grow.TimeoutMillis = 3, 10_000
		grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: aliveTopic, Count: count}}
		if grown := ask[*kmsg.CreatePartitionsResponse](t, v, grow).Topics[0]; grown.ErrorCode != 0 {
			t.Fatalf("to %d partitions: error %d", count, grown.ErrorCode)
		}
		produce := kmsg.NewPtrProduceRequest()
		produce.Version, produce.Acks, produce.TimeoutMillis = 9, -1, 10_000
		produce.Topics = []kmsg.ProduceRequestTopic{{Topic: aliveTopic, Partitions: []kmsg.ProduceRequestTopicPartition{{
			Partition: count - 1,
			Records:   batch.New(batch.BuilderOptions{}, batch.NewRecord{TimestampMs: time.Now().UnixMilli(), Value: []byte("v")}),
		}}}}
		if p := ask[*kmsg.ProduceResponse](t, v, produce).Topics[0].Partitions[0]; p.ErrorCode != 0 {
			t.Errorf("produce to partition %d: error %d", count-1, p.ErrorCode)
		}
		gone := kmsg.NewPtrDeleteRecordsRequest()
		gone.Version, gone.TimeoutMillis = 2, 10_000
		gone.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: aliveTopic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: count - 1, Offset: -1}}}}
		if p := ask[*kmsg.DeleteRecordsResponse](t, v, gone).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.LowWatermark != 1 {
			t.Errorf("delete records of partition %d: %+v", count-1, p)
		}
	}
	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	dirs.Version = 4
	described := ask[*kmsg.DescribeLogDirsResponse](t, v, dirs).Dirs
	if len(described) != 1 || described[0].ErrorCode != 0 || described[0].TotalBytes <= 0 || len(described[0].Topics[0].Partitions) != 8 {
		t.Errorf("described %+v", described)
	}
}
