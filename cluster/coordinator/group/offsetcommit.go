package group

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// noRetention is a retention time in a request that leaves it to the broker.
const noRetention int64 = -1

// OffsetCommit writes offsets of a group (OffsetMetadataManager.commitOffset). Each topic
// of the request bears its name and, if the broker knows it, its id, in every version.
// They come back in the answer, in the same order.
func (s *Shard) OffsetCommit(now time.Time, c Context, req *kmsg.OffsetCommitRequest, answer func(*kmsg.OffsetCommitResponse)) coordinator.Effects {
	return s.run(now, func(o *op) {
		resp := s.offsetCommit(o, c, req)
		o.reply(func(err error) {
			if err != nil {
				resp = commitError(c, req, err)
			}
			answer(resp)
		})
	})
}

func (s *Shard) offsetCommit(o *op, c Context, req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	if err := s.validateCommit(o, c, req); err != nil {
		return commitError(c, req, err)
	}
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Version = c.Version
	expires := noExpireTimestamp
	if req.RetentionTimeMillis != noRetention {
		expires = o.nowMs() + req.RetentionTimeMillis
	}
	for _, t := range req.Topics {
		rt := commitTopic(t)
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition = p.Partition
			if p.Metadata != nil && javaLength(*p.Metadata) > s.config.OffsetMetadataMaxBytes {
				rp.ErrorCode = kafkaerr.OffsetMetadataTooLarge.Code
			} else {
				o.record(offsetCommitRecord(req.Group, topicPartition{t.Topic, p.Partition}, fromRequest(o, t.TopicID, p, expires)))
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	s.metrics.committed(len(o.effects.Records))
	return resp
}

func fromRequest(o *op, topicID uuid.UUID, p kmsg.OffsetCommitRequestTopicPartition, expires int64) committedOffset {
	co := committedOffset{
		offset: p.Offset, leaderEpoch: p.LeaderEpoch,
		commitTimestamp: o.nowMs(), expireTimestamp: expires, topicID: topicID,
	}
	if p.Metadata != nil {
		co.metadata = strings.Clone(*p.Metadata)
	}
	return co
}

// validateCommit checks who commits (ClassicGroup.validateOffsetCommit):
//
//	A  no group            anybody without a generation: an administrator, or a consumer
//	                       that assigns partitions itself. A simple group is made.
//	B  an Empty group      the same
//	C  a group of members  members of the current generation, unless they wait for their
//	                       assignment: they commit what the former generation read
func (s *Shard) validateCommit(o *op, c Context, req *kmsg.OffsetCommitRequest) error {
	g := s.lookup(req.Group)
	switch {
	case g == nil && req.Generation < 0:
		return nil
	case g == nil && c.Version >= 9:
		return kafkaerr.GroupIDNotFound
	case g == nil:
		return kafkaerr.IllegalGeneration
	case req.Generation < 0 && g.state == Empty:
		return nil
	}
	if req.Generation < 0 && req.MemberID == "" && req.InstanceID == nil {
		return errUnknownMemberID
	}
	if err := g.validate(req.MemberID, req.InstanceID); err != nil {
		return err
	}
	switch {
	case req.Generation != g.generation:
		return kafkaerr.IllegalGeneration
	case g.state == CompletingRebalance:
		return errRebalanceInProgress
	}
	s.resetSession(o, g.byID[req.MemberID]) // a commit is as good as a heartbeat
	return nil
}

// commitError answers every partition with one error.
func commitError(c Context, req *kmsg.OffsetCommitRequest, err error) *kmsg.OffsetCommitResponse {
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Version = c.Version
	for _, t := range req.Topics {
		rt := commitTopic(t)
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, answerCode(err)
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func commitTopic(t kmsg.OffsetCommitRequestTopic) kmsg.OffsetCommitResponseTopic {
	rt := kmsg.NewOffsetCommitResponseTopic()
	rt.Topic, rt.TopicID = t.Topic, t.TopicID
	return rt
}
