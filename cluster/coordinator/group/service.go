package group

import (
	"bytes"
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Topic is where groups are kept.
const Topic = "__consumer_offsets"

// Runtime runs the shards (*coordinator.Runtime[*Shard]).
type Runtime interface {
	Write(partition int32, op func(now time.Time, s *Shard) coordinator.Effects, failed func(error))
	Read(partition int32, op func(s *Shard), failed func(error))
	ReadAll(op func(partition int32, s *Shard), failed func(partition int32, err error)) int
}

// ServiceOptions are what a Service needs.
type ServiceOptions struct {
	Config  Config
	Runtime Runtime
	Image   func() *metadata.Image
	// CreateTopic asks for __consumer_offsets to be created and may return before it is.
	// Many calls at a time are one.
	CreateTopic func()
	// Partitions is how many partitions the topic gets, offsets.topic.num.partitions.
	Partitions int32
}

// Service answers the requests about groups: it checks what needs no group
// (GroupCoordinatorService), finds the shard, and waits for its answer. Its methods are
// safe for concurrent use. They return early, with an answer that nobody gets, when ctx
// ends. Requests may be changed by them, and the answers are the caller's.
type Service struct {
	ServiceOptions
}

// NewService makes a Service.
func NewService(o ServiceOptions) *Service { return &Service{o} }

// partitionFor is the partition that keeps a group. Until the topic exists it is not
// needed for more than an error.
func (s *Service) partitionFor(groupID string) int32 {
	if t := s.Image().Topic(Topic); t != nil {
		return PartitionFor(groupID, int32(len(t.Partitions)))
	}
	return PartitionFor(groupID, s.Partitions)
}

// Coordinator finds the broker that a group's members talk to. While there is none, the
// topic may have to be created, which this asks for: COORDINATOR_NOT_AVAILABLE.
func (s *Service) Coordinator(groupID string) (broker int32, err error) {
	image := s.Image()
	t := image.Topic(Topic)
	if t == nil {
		s.CreateTopic()
		return -1, kafkaerr.CoordinatorNotAvailable
	}
	p := t.Partition(PartitionFor(groupID, int32(len(t.Partitions))))
	if p == nil || p.Leader < 0 || !isAlive(image.Broker(p.Leader)) {
		return -1, kafkaerr.CoordinatorNotAvailable
	}
	return p.Leader, nil
}

// isAlive tells that clients can be sent to a broker.
func isAlive(b *metadata.Broker) bool { return b != nil && !b.Fenced }

// wait passes an answer from the shard's goroutine to the handler's.
func wait[T any](ctx context.Context, send func(answer func(T)), gone func(error) T) T {
	answered := make(chan T, 1)
	send(func(v T) { answered <- v })
	select {
	case v := <-answered:
		return v
	case <-ctx.Done():
		return gone(kafkaerr.CoordinatorNotAvailable)
	}
}

// write runs one operation of a group and waits for its answer; failed makes an answer of
// an error.
func write[T any](ctx context.Context, s *Service, groupID string,
	op func(now time.Time, shard *Shard, answer func(T)) coordinator.Effects, failed func(error) T,
) T {
	return wait(ctx, func(answer func(T)) {
		s.Runtime.Write(s.partitionFor(groupID),
			func(now time.Time, shard *Shard) coordinator.Effects { return op(now, shard, answer) },
			func(err error) { answer(failed(err)) })
	}, failed)
}

// JoinGroup returns when the join phase ends, or at once with an error.
func (s *Service) JoinGroup(ctx context.Context, c Context, req *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	refuse := func(memberID string, err error) *kmsg.JoinGroupResponse {
		return shapeJoin(c.Version, joinError(memberID, err))
	}
	session := millis(req.SessionTimeoutMillis)
	switch {
	case req.Group == "":
		return refuse(req.MemberID, kafkaerr.InvalidGroupID)
	case session < s.Config.MinSessionTimeout || session > s.Config.MaxSessionTimeout:
		return refuse(req.MemberID, kafkaerr.InvalidSessionTimeout)
	}
	for i := range req.Protocols { // a member keeps them; they belong to the frame
		req.Protocols[i].Metadata = bytes.Clone(req.Protocols[i].Metadata)
	}
	return write(ctx, s, req.Group, func(now time.Time, shard *Shard, answer func(*kmsg.JoinGroupResponse)) coordinator.Effects {
		return shard.JoinGroup(now, c, req, answer)
	}, func(err error) *kmsg.JoinGroupResponse { return refuse("", err) })
}

// SyncGroup returns when the assignments of the generation are committed, or at once with
// an error.
func (s *Service) SyncGroup(ctx context.Context, c Context, req *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	refuse := func(err error) *kmsg.SyncGroupResponse {
		resp := syncError(err)
		resp.Version = c.Version
		return resp
	}
	switch {
	case c.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil):
		return refuse(kafkaerr.InconsistentGroupProtocol)
	case req.Group == "":
		return refuse(kafkaerr.InvalidGroupID)
	}
	for i := range req.GroupAssignment { // members keep them; they belong to the frame
		req.GroupAssignment[i].MemberAssignment = bytes.Clone(req.GroupAssignment[i].MemberAssignment)
	}
	return write(ctx, s, req.Group, func(now time.Time, shard *Shard, answer func(*kmsg.SyncGroupResponse)) coordinator.Effects {
		return shard.SyncGroup(now, c, req, answer)
	}, refuse)
}

// Heartbeat keeps a member alive. While the group is being loaded any heartbeat is good.
func (s *Service) Heartbeat(ctx context.Context, c Context, req *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	if req.Group == "" {
		return heartbeatResponse(c, kafkaerr.InvalidGroupID)
	}
	return write(ctx, s, req.Group, func(now time.Time, shard *Shard, answer func(*kmsg.HeartbeatResponse)) coordinator.Effects {
		return shard.Heartbeat(now, c, req, answer)
	}, func(err error) *kmsg.HeartbeatResponse {
		if kafkaerr.Code(err) == kafkaerr.CoordinatorLoadInProgress.Code {
			err = nil
		}
		return heartbeatResponse(c, err)
	})
}

// LeaveGroup removes members.
func (s *Service) LeaveGroup(ctx context.Context, c Context, req *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	if req.Group == "" {
		return leaveResponse(c, nil, kafkaerr.InvalidGroupID)
	}
	return write(ctx, s, req.Group, func(now time.Time, shard *Shard, answer func(*kmsg.LeaveGroupResponse)) coordinator.Effects {
		return shard.LeaveGroup(now, c, req, answer)
	}, func(err error) *kmsg.LeaveGroupResponse { return leaveResponse(c, nil, err) })
}
