package handlers

import (
	"cmp"
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// DescribeLogDirs (key 35), versions 1–5: the log directories of this broker and the size of
// what is in them. Null topics are all; partitions that are not here are left out.
//
//	v2  flexible
//	v3  an error of the whole request
//	v4  total and usable bytes of the file system (KIP-827)
//	v5  cordoned directories (KIP-1066); here there are none
func (h *Handlers) describeLogDirs(_ context.Context, _ call, req *kmsg.DescribeLogDirsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	asked := make(map[topicPartition]bool)
	for i := range req.Topics {
		for _, index := range req.Topics[i].Partitions {
			asked[topicPartition{req.Topics[i].Topic, index}] = true
		}
	}
	for _, dir := range h.replicas.DescribeLogDirs() {
		d := kmsg.NewDescribeLogDirsResponseDir()
		d.Dir, d.ErrorCode = dir.Path, kafkaerr.Code(dir.Err)
		if dir.Err == nil {
			d.TotalBytes, d.UsableBytes = dir.TotalBytes, dir.UsableBytes
		}
		d.Topics = describedLogs(dir.Logs, func(l *replica.LogInfo) bool {
			return req.Topics == nil || asked[topicPartition{l.Topic, l.Partition}]
		})
		resp.Dirs = append(resp.Dirs, d)
	}
	return resp, nil
}

// describedLogs lists the logs of a directory that are wanted, by topic.
func describedLogs(logs []replica.LogInfo, wanted func(*replica.LogInfo) bool) (topics []kmsg.DescribeLogDirsResponseDirTopic) {
	slices.SortStableFunc(logs, func(a, b replica.LogInfo) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	for i := range logs {
		l := &logs[i]
		if !wanted(l) {
			continue
		}
		if n := len(topics); n == 0 || topics[n-1].Topic != l.Topic {
			topic := kmsg.NewDescribeLogDirsResponseDirTopic()
			topic.Topic = l.Topic
			topics = append(topics, topic)
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size, p.OffsetLag, p.IsFuture = l.Partition, l.Size, l.OffsetLag, l.Future
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, p)
	}
	return topics
}
