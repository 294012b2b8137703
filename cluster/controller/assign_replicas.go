package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// assignReplicas decides an AssignReplicasToDirs request, version 0: a broker says in which
// of its directories replicas are, because they have moved or are not where the controller
// had placed them (ReplicationControlManager.handleAssignReplicasToDirs).
func (s *state) assignReplicas(call Call) decision {
	req := call.Request.(*kmsg.AssignReplicasToDirsRequest)
	b, err := s.checkBrokerEpoch(req.BrokerID, req.BrokerEpoch)
	if err != nil {
		return decision{response: ErrorResponse(req, err)}
	}
	resp := req.ResponseKind().(*kmsg.AssignReplicasToDirsResponse)
	d := decision{response: resp}
	seen := map[partitionID]bool{}
	for i := range req.Directories {
		dir := &req.Directories[i]
		answered := kmsg.NewAssignReplicasToDirsResponseDirectory()
		answered.ID = dir.ID
		for j := range dir.Topics {
			topic := kmsg.NewAssignReplicasToDirsResponseDirectoryTopic()
			topic.TopicID = dir.Topics[j].TopicID
			for _, p := range dir.Topics[j].Partitions {
				id := partitionID{topic.TopicID, p.Partition}
				record, err := s.assignReplica(b, id, dir.ID, seen[id])
				seen[id] = true
				d.records = append(d.records, record...)
				part := kmsg.NewAssignReplicasToDirsResponseDirectoryTopicPartition()
				part.Partition, part.ErrorCode = p.Partition, kafkaerr.Code(err)
				topic.Partitions = append(topic.Partitions, part)
			}
			answered.Topics = append(answered.Topics, topic)
		}
		resp.Directories = append(resp.Directories, answered)
	}
	return d
}

// assignReplica decides about one replica. In a directory that is offline it can neither
// lead nor be in sync; in one that is online it may lead again.
func (s *state) assignReplica(b *metadata.Broker, id partitionID, dir uuid.UUID, again bool) ([]metadata.Record, error) {
	t := s.image.TopicByID(id.topic)
	p := t.Partition(id.partition)
	switch {
	case t == nil:
		return nil, kafkaerr.UnknownTopicID
	case p == nil:
		return nil, kafkaerr.UnknownTopicOrPartition
	case again:
		return nil, kafkaerr.InvalidRequest
	}
	i := slices.Index(p.Replicas, b.ID)
	if i < 0 {
		return nil, kafkaerr.NotLeaderOrFollower
	}
	online := b.HasOnlineDir(dir)
	tp := topicPartition{t, p}
	c := s.change(tp, func(r int32) bool {
		return r != b.ID && s.mayLead(tp, r) || r == b.ID && online && s.isActive(r) && !s.hasFailed(tp, r)
	})
	c.dirs = slices.Clone(c.dirs)
	c.dirs[i] = dir
	if !online {
		c.without(b.ID)
	}
	record, changed := changeRecord(t.ID, p, c.build())
	if !changed {
		return nil, nil
	}
	s.opts.Logger.Info("replica is in another directory", "topic", t.Name, "partition", p.Index, "broker", b.ID, "dir", dir, "online", online)
	return []metadata.Record{record}, nil
}
