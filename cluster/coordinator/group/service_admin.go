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
	var (
		mu     sync.Mutex
		groups []kmsg.ListGroupsResponseGroup
		failed error
		left   int
		known  bool
		done   = make(chan struct{})
	)
	// Shards may answer before ReadAll has told how many they are: left goes below zero.
	finish := func(n int) {
		if left += n; left == 0 && known {
			close(done)
		}
	}
	add := func(list []kmsg.ListGroupsResponseGroup, err error) {
		mu.Lock()
		defer mu.Unlock()
		groups = append(groups, list...)
		if err != nil && !errors.Is(err, kafkaerr.NotCoordinator) {
			failed = err
		}
		finish(-1)
	}
	n := s.Runtime.ReadAll(
		func(_ int32, shard *Shard) { add(shard.ListGroups(req.StatesFilter, req.TypesFilter), nil) },
		func(_ int32, err error) { add(nil, err) })
	mu.Lock()
	known = true
	finish(n)
	mu.Unlock()

	resp := kmsg.NewPtrListGroupsResponse()
	resp.Version = c.Version
	select {
	case <-done:
	case <-ctx.Done():
		resp.ErrorCode = kafkaerr.CoordinatorNotAvailable.Code
		return resp
	}
	if resp.ErrorCode = answerCode(failed); failed == nil {
		resp.Groups = groups
	}
	return resp
}
