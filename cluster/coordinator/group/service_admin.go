package group

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// DescribeGroups describes groups of this coordinator. Answers come in the order asked.
func (s *Service) DescribeGroups(ctx context.Context, c Context, ids []string) []kmsg.DescribeGroupsResponseGroup {
	answers := gather(len(ids), func(i int, answer func(kmsg.DescribeGroupsResponseGroup)) {
		s.Runtime.Read(s.partitionFor(ids[i]),
			func(shard *Shard) { answer(shard.DescribeGroup(c, ids[i])) },
			func(err error) { answer(describeError(ids[i], err)) })
	})
	responses := make([]kmsg.DescribeGroupsResponseGroup, len(ids))
	for i := range ids {
		responses[i] = answers[i].wait(ctx, func(err error) kmsg.DescribeGroupsResponseGroup { return describeError(ids[i], err) })
	}
	return responses
}

func describeError(id string, err error) kmsg.DescribeGroupsResponseGroup {
	resp := kmsg.NewDescribeGroupsResponseGroup()
	resp.Group, resp.ErrorCode = id, answerCode(err)
	return resp
}

// DeleteGroups deletes groups without members. Those of one shard go together; answers
// come in the order asked.
func (s *Service) DeleteGroups(ctx context.Context, c Context, ids []string) []kmsg.DeleteGroupsResponseGroup {
	byPartition := make(map[int32][]string)
	var partitions []int32
	for _, id := range ids {
		p := s.partitionFor(id)
		if byPartition[p] == nil {
			partitions = append(partitions, p)
		}
		byPartition[p] = append(byPartition[p], id)
	}
	answers := gather(len(partitions), func(i int, answer func([]kmsg.DeleteGroupsResponseGroup)) {
		mine := byPartition[partitions[i]]
		s.Runtime.Write(partitions[i], func(now time.Time, shard *Shard) coordinator.Effects {
			return shard.DeleteGroups(now, c, mine, answer)
		}, func(err error) { answer(deleteErrors(mine, err)) })
	})
	results := make(map[string]kmsg.DeleteGroupsResponseGroup, len(ids))
	for i, p := range partitions {
		for _, r := range answers[i].wait(ctx, func(err error) []kmsg.DeleteGroupsResponseGroup { return deleteErrors(byPartition[p], err) }) {
			results[r.Group] = r
		}
	}
	ordered := make([]kmsg.DeleteGroupsResponseGroup, len(ids))
	for i, id := range ids {
		ordered[i] = results[id]
	}
	return ordered
}

// ListGroups lists the groups of all shards that are led here. A shard that has just been
// given up has none; one that is being loaded makes the list an error, since it would be
// incomplete.
func (s *Service) ListGroups(ctx context.Context, c Context, req *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	groups, err := fromAll(ctx, s, func(shard *Shard) []kmsg.ListGroupsResponseGroup {
		return shard.ListGroups(req.StatesFilter, req.TypesFilter)
	})
	resp := kmsg.NewPtrListGroupsResponse()
	resp.Version, resp.ErrorCode = c.Version, answerCode(err)
	if err == nil {
		resp.Groups = groups
	}
	return resp
}

// fromAll gathers what the shards here have to say. The error is of one that could not, but
// not because it is not here any more.
func fromAll[T any](ctx context.Context, s *Service, read func(*Shard) []T) ([]T, error) {
	g := &gathering[T]{heard: make(chan struct{}, 1)}
	n := s.Runtime.ReadAll(
		func(_ int32, shard *Shard) { g.add(read(shard), nil) },
		func(_ int32, err error) { g.add(nil, err) })
	for {
		all, parts, err := g.so()
		if parts == n {
			return all, err
		}
		select {
		case <-g.heard:
		case <-ctx.Done():
			return all, kafkaerr.CoordinatorNotAvailable
		}
	}
}

// gathering is what was heard so far. Shards hand in their part without waiting.
type gathering[T any] struct {
	heard chan struct{}

	mu    sync.Mutex
	all   []T
	parts int
	err   error
}

func (g *gathering[T]) add(list []T, err error) {
	g.mu.Lock()
	g.all = append(g.all, list...)
	g.parts++
	if err != nil && !errors.Is(err, kafkaerr.NotCoordinator) {
		g.err = err
	}
	g.mu.Unlock()
	select {
	case g.heard <- struct{}{}:
	default:
	}
}

func (g *gathering[T]) so() ([]T, int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all, g.parts, g.err
}
