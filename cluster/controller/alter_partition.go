package controller

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// alterPartition decides an AlterPartition request, versions 2 and 3: leaders ask for other
// ISRs (ReplicationControlManager.alterPartition). Partitions are decided one by one; a
// refused one does not affect the others.
func (s *state) alterPartition(_ time.Time, call Call) decision {
	req := call.Request.(*kmsg.AlterPartitionRequest)
	if _, err := s.checkBrokerEpoch(req.BrokerID, req.BrokerEpoch); err != nil {
		return decision{response: ErrorResponse(req, err)}
	}
	resp := req.ResponseKind().(*kmsg.AlterPartitionResponse)
	d := decision{response: resp}
	seen := map[partitionID]bool{}
	for i := range req.Topics {
		t := &req.Topics[i]
		answer := kmsg.NewAlterPartitionResponseTopic()
		answer.TopidID = t.TopicID // kmsg spells it so
		for j := range t.Partitions {
			want := &t.Partitions[j]
			id := partitionID{t.TopicID, want.Partition}
			record, part := s.alterOne(req, s.image.TopicByID(t.TopicID), want, seen[id])
			seen[id] = true
			d.records = append(d.records, record...)
			answer.Partitions = append(answer.Partitions, part)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return d
}

type partitionID struct {
	topic     uuid.UUID
	partition int32
}

// alterOne decides one partition. The records are none or one.
func (s *state) alterOne(req *kmsg.AlterPartitionRequest, t *metadata.Topic, want *kmsg.AlterPartitionRequestTopicPartition, again bool) ([]metadata.Record, kmsg.AlterPartitionResponseTopicPartition) {
	answer := kmsg.NewAlterPartitionResponseTopicPartition()
	answer.Partition = want.Partition
	isr := proposedISR(req.Version, want)
	err := s.checkISR(req, t, want, isr)
	if again {
		err = invalidISR("partition %d is in the request more than once", want.Partition)
	}
	if err != nil {
		s.opts.Logger.Debug("ISR change refused", "broker", req.BrokerID, "partition", want.Partition, "reason", err)
		answer.ErrorCode = kafkaerr.Code(err)
		return nil, answer
	}
	p := t.Partition(want.Partition)
	tp := topicPartition{t, p}
	c := s.change(tp, func(r int32) bool { return s.mayLead(tp, r) })
	c.isr = isr.brokers()
	c.recovery = metadata.RecoveryState(want.LeaderRecoveryState)
	next := c.build()
	var records []metadata.Record
	if r, changed := changeRecord(t.ID, p, next); changed {
		records = append(records, r)
	}
	if next.Leader != p.Leader {
		// The change is made, and the sender must read metadata to learn who leads now.
		answer.ErrorCode = kafkaerr.NewLeaderElected.Code
		return records, answer
	}
	answer.LeaderID, answer.LeaderEpoch = next.Leader, next.LeaderEpoch
	answer.ISR, answer.PartitionEpoch = next.ISR, next.PartitionEpoch
	answer.LeaderRecoveryState = int8(next.RecoveryState)
	return records, answer
}

// isrMember is a proposed member with the epoch of the broker that the leader heard of.
type isrMember struct {
	broker int32
	epoch  int64 // -1: not known
}

type proposed []isrMember

func (isr proposed) brokers() []int32 {
	ids := make([]int32, 0, len(isr))
	for _, m := range isr {
		ids = append(ids, m.broker)
	}
	return ids
}

// proposedISR reads the ISR of a request; before version 3 it had no broker epochs.
func proposedISR(version int16, want *kmsg.AlterPartitionRequestTopicPartition) proposed {
	var isr proposed
	if version < 3 {
		for _, id := range want.NewISR {
			isr = append(isr, isrMember{id, -1})
		}
		return isr
	}
	for _, m := range want.NewEpochISR {
		isr = append(isr, isrMember{m.BrokerID, m.BrokerEpoch})
	}
	return isr
}

// checkISR refuses a change that is computed from other metadata, or names members that
// cannot be in sync. NOT_CONTROLLER means that the sender knows more than this node.
func (s *state) checkISR(req *kmsg.AlterPartitionRequest, t *metadata.Topic, want *kmsg.AlterPartitionRequestTopicPartition, isr proposed) error {
	p := t.Partition(want.Partition)
	switch {
	case t == nil:
		return kafkaerr.UnknownTopicID
	case p == nil:
		return kafkaerr.UnknownTopicOrPartition
	case want.LeaderEpoch > p.LeaderEpoch || want.PartitionEpoch > p.PartitionEpoch:
		return kafkaerr.NotController
	case want.LeaderEpoch < p.LeaderEpoch:
		return kafkaerr.FencedLeaderEpoch
	case req.BrokerID != p.Leader:
		return invalidISR("broker %d does not lead", req.BrokerID)
	case want.PartitionEpoch < p.PartitionEpoch:
		return kafkaerr.InvalidUpdateVersion
	}
	ids := isr.brokers()
	for i, id := range ids {
		if !slices.Contains(p.Replicas, id) || slices.Contains(ids[:i], id) {
			return invalidISR("ISR %v of replicas %v", ids, p.Replicas)
		}
	}
	recovery := metadata.RecoveryState(want.LeaderRecoveryState)
	switch {
	case !slices.Contains(ids, p.Leader):
		return invalidISR("ISR %v without the leader", ids)
	case recovery != metadata.Recovered && recovery != metadata.Recovering:
		return invalidISR("recovery state %d", recovery)
	case recovery == metadata.Recovering && len(ids) > 1:
		return invalidISR("ISR %v of a leader that recovers", ids)
	case recovery == metadata.Recovering && p.RecoveryState == metadata.Recovered:
		return invalidISR("a leader that has recovered cannot recover again")
	}
	return s.checkMembers(isr)
}

func invalidISR(format string, args ...any) error {
	return kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf(format, args...))
}

// checkMembers refuses members that are not in service, or were restarted since the leader
// heard of them: such a one may have lost what it had (KIP-903).
func (s *state) checkMembers(isr proposed) error {
	for _, m := range isr {
		b := s.image.Broker(m.broker)
		switch {
		case b == nil || b.Fenced || b.InControlledShutdown:
			return kafkaerr.New(kafkaerr.IneligibleReplica, fmt.Sprintf("broker %d is not in service", m.broker))
		case m.epoch != -1 && m.epoch != b.Epoch:
			return kafkaerr.New(kafkaerr.IneligibleReplica, fmt.Sprintf("broker %d has epoch %d, not %d", m.broker, b.Epoch, m.epoch))
		}
	}
	return nil
}
