package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// AlterReplicaLogDirs (key 34), versions 1 and 2: moves replicas of this broker to other log
// directories (KIP-113). It is answered when the moves have begun; DescribeLogDirs shows how
// far they are. Of a partition that is named for several directories the last one counts.
//
//	v2  flexible
func (h *Handlers) alterReplicaLogDirs(_ context.Context, _ call, req *kmsg.AlterReplicaLogDirsRequest) (kmsg.Response, error) {
	var wanted []replica.ReplicaDir
	at := map[topicPartition]int{}
	for i := range req.Dirs {
		for j := range req.Dirs[i].Topics {
			t := &req.Dirs[i].Topics[j]
			for _, index := range t.Partitions {
				id := topicPartition{t.Topic, index}
				if _, named := at[id]; !named {
					at[id] = len(wanted)
					wanted = append(wanted, replica.ReplicaDir{Topic: t.Topic, Partition: index})
				}
				wanted[at[id]].Dir = req.Dirs[i].Dir
			}
		}
	}
	h.replicas.AlterReplicaLogDirs(wanted)
	resp := req.ResponseKind().(*kmsg.AlterReplicaLogDirsResponse)
	place := map[string]int{}
	for i := range wanted {
		w := &wanted[i]
		if _, known := place[w.Topic]; !known {
			place[w.Topic] = len(resp.Topics)
			topic := kmsg.NewAlterReplicaLogDirsResponseTopic()
			topic.Topic = w.Topic
			resp.Topics = append(resp.Topics, topic)
		}
		p := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
		p.Partition, p.ErrorCode = w.Partition, kafkaerr.Code(w.Err)
		topic := &resp.Topics[place[w.Topic]]
		topic.Partitions = append(topic.Partitions, p)
	}
	return resp, nil
}
