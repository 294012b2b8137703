package group

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// OffsetCommit commits offsets. The caller has resolved and authorized the topics and left
// out what does not exist: each bears its name and its id, whatever the version, and so do
// those of the answer.
func (s *Service) OffsetCommit(ctx context.Context, c Context, req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	return write(ctx, s, req.Group, func(now time.Time, shard *Shard, answer func(*kmsg.OffsetCommitResponse)) coordinator.Effects {
		return shard.OffsetCommit(now, c, req, answer)
	}, func(err error) *kmsg.OffsetCommitResponse { return commitError(c, req, err) })
}

// OffsetFetch reads committed offsets, of any number of groups; answers come in the order
// of the groups. Null topics ask for all. The topics bear names, and ids where the client
// asks by id. With requireStable the answers wait for what is being committed.
func (s *Service) OffsetFetch(ctx context.Context, c Context, groups []kmsg.OffsetFetchRequestGroup, requireStable bool) []kmsg.OffsetFetchResponseGroup {
	answers := gather(len(groups), func(i int, answer func(kmsg.OffsetFetchResponseGroup)) {
		s.offsetFetch(c, &groups[i], requireStable, answer)
	})
	responses := make([]kmsg.OffsetFetchResponseGroup, len(groups))
	for i := range groups {
		responses[i] = answers[i].wait(ctx, func(err error) kmsg.OffsetFetchResponseGroup { return fetchError(c, &groups[i], err) })
	}
	return responses
}

func (s *Service) offsetFetch(c Context, req *kmsg.OffsetFetchRequestGroup, requireStable bool, answer func(kmsg.OffsetFetchResponseGroup)) {
	failed := func(err error) { answer(fetchError(c, req, err)) }
	partition := s.partitionFor(req.Group)
	if requireStable {
		s.Runtime.Write(partition, func(now time.Time, shard *Shard) coordinator.Effects {
			return shard.OffsetFetchStable(now, c, s.topicIDs(), req, answer)
		}, failed)
		return
	}
	s.Runtime.Read(partition, func(shard *Shard) { answer(shard.OffsetFetch(s.topicIDs(), req)) }, failed)
}

// topicIDs are those of now: at least as new as any that the shard's offsets were committed
// for.
func (s *Service) topicIDs() TopicIDs {
	image := s.Image()
	return func(name string) uuid.UUID {
		if t := image.Topic(name); t != nil {
			return t.ID
		}
		return uuid.Zero
	}
}

// fetchErrorCode is the error of a fetch: consumers before 3.9 do not know
// COORDINATOR_NOT_AVAILABLE here, and look for the coordinator again when they see
// NOT_COORDINATOR (GroupCoordinatorService.handleOffsetFetchException).
func fetchErrorCode(err error) int16 {
	code := answerCode(err)
	if code == kafkaerr.CoordinatorNotAvailable.Code {
		return kafkaerr.NotCoordinator.Code
	}
	return code
}

// OffsetDelete removes committed offsets. The caller has left out topics and partitions
// that do not exist.
func (s *Service) OffsetDelete(ctx context.Context, c Context, req *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	failed := func(err error) *kmsg.OffsetDeleteResponse { return offsetDeleteError(c, err) }
	if req.Group == "" {
		return failed(kafkaerr.InvalidGroupID)
	}
	return write(ctx, s, req.Group, func(now time.Time, shard *Shard, answer func(*kmsg.OffsetDeleteResponse)) coordinator.Effects {
		return shard.OffsetDelete(now, c, req, answer)
	}, failed)
}

// pending is one of several answers that are awaited.
type pending[T any] chan T

// gather asks n questions, without waiting for the answers.
func gather[T any](n int, ask func(i int, answer func(T))) []pending[T] {
	all := make([]pending[T], n)
	for i := range all {
		p := make(pending[T], 1)
		all[i] = p
		ask(i, func(v T) { p <- v })
	}
	return all
}

func (p pending[T]) wait(ctx context.Context, gone func(error) T) T {
	select {
	case v := <-p:
		return v
	case <-ctx.Done():
		return gone(kafkaerr.CoordinatorNotAvailable)
	}
}
