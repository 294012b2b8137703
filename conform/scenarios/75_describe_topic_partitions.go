package scenarios

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func describeTopicPartitions() []conform.Scenario {
	return []conform.Scenario{
		{Name: "topicpartitions/topics", Key: 75, Run: topicPartitionsOfTopics},
		{Name: "topicpartitions/limits", Key: 75, Run: topicPartitionsLimits},
		{Name: "topicpartitions/cursors", Key: 75, Run: topicPartitionsCursors},
		{Name: "topicpartitions/internal", Key: 75, Needs: []int16{10}, Run: topicPartitionsInternal},
		{Name: "topicpartitions/page-by-page", Key: 75, Run: topicPartitionsPages},
	}
}

func partitionsOf(r *conform.R, names ...string) *kmsg.DescribeTopicPartitionsRequest {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	for _, name := range names {
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = r.Name(name)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// cursorAt makes req begin at a partition of a topic.
func cursorAt(r *conform.R, req *kmsg.DescribeTopicPartitionsRequest, name string, partition int32) *kmsg.DescribeTopicPartitionsRequest {
	c := kmsg.NewDescribeTopicPartitionsRequestCursor()
	c.Topic, c.Partition = r.Name(name), partition
	req.Cursor = &c
	return req
}

func topicPartitionsOfTopics(r *conform.R) {
	r.CreateTopic("b", 3)
	r.CreateTopic("a", 1)
	for _, c := range []struct {
		title string
		names []string
	}{
		{"one", []string{"b"}},
		{"two", []string{"a", "b"}},
		{"not sorted", []string{"b", "a"}},
		{"twice", []string{"b", "a", "b"}},
		{"unknown", []string{"nope"}},
		{"known and unknown", []string{"nope", "b", "c", "a"}},
		{"empty name", []string{"="}},
		{"bad names", []string{"=a b", "=..", "=" + longName + "y"}},
		{"cluster's own log", []string{"=__cluster_metadata"}},
	} {
		r.Send(c.title, partitionsOf(r, c.names...))
	}
	tagged := cursorAt(r, partitionsOf(r, "a"), "a", 0)
	unknownTags(&tagged.UnknownTags)
	unknownTags(&tagged.Topics[0].UnknownTags)
	unknownTags(&tagged.Cursor.UnknownTags)
	r.Send("unknown tags", tagged)
}

func topicPartitionsLimits(r *conform.R) {
	r.CreateTopic("a", 2)
	r.CreateTopic("b", 3)
	for _, limit := range []int32{1, 2, 3, 4, 5, 6, 2000, 2001, maxInt32, 0, -1, minInt32} {
		req := partitionsOf(r, "b", "a", "nope")
		req.ResponsePartitionLimit = limit
		r.Send(fmt.Sprintf("limit %d", limit), req)
	}
}

func topicPartitionsCursors(r *conform.R) {
	r.CreateTopic("a", 2)
	r.CreateTopic("b", 3)
	for _, c := range []struct {
		title     string
		topic     string
		partition int32
	}{
		{"the very first", "a", 0},
		{"second partition", "a", 1},
		{"behind the last", "a", 2},
		{"far behind", "a", 1000},
		{"second topic", "b", 1},
		{"last of all", "b", 2},
		{"behind all", "b", 3},
		{"negative", "a", -1},
		{"not asked for, before", "0", 0},
		{"not asked for, between", "ab", 0},
		{"not asked for, behind", "c", 0},
		{"empty name", "=", 0},
	} {
		r.Send(c.title, cursorAt(r, partitionsOf(r, "b", "a"), c.topic, c.partition))
		limited := cursorAt(r, partitionsOf(r, "b", "a"), c.topic, c.partition)
		limited.ResponsePartitionLimit = 1
		r.Send(c.title+", limit 1", limited)
	}
	all := cursorAt(r, partitionsOf(r), "a", 1)
	all.ResponsePartitionLimit = 1
	r.Send("of all topics, from the second partition on", all)
	all = cursorAt(r, partitionsOf(r), "a", 0)
	all.ResponsePartitionLimit = 1
	r.Send("of all topics, from the first partition on", all)
	r.Send("at an unknown topic that is asked for", cursorAt(r, partitionsOf(r, "a", "aa", "b"), "aa", 0))
	r.Send("at an empty name that is asked for", cursorAt(r, partitionsOf(r, "a", "="), "=", 0))
	r.Send("behind an empty name that is asked for", cursorAt(r, partitionsOf(r, "a", "="), "a", 1))
}

// topicPartitionsInternal describes a topic that brokers keep for themselves.
func topicPartitionsInternal(r *conform.R) {
	r.Ignore("Topics.Partitions.LeaderEpoch") // it rises with each start of a broker
	awaitCoordinator(r, "g")
	req := partitionsOf(r, "=__consumer_offsets", "=__transaction_state_", "=__share_group_state_")
	req.ResponsePartitionLimit = 1
	r.Send("one partition of it", req)
}

// topicPartitionsPages follows the cursors through three topics.
func topicPartitionsPages(r *conform.R) {
	r.CreateTopic("a", 3)
	r.CreateTopic("b", 1)
	r.CreateTopic("c", 3)
	var next *kmsg.DescribeTopicPartitionsResponseNextCursor
	for page := range 5 {
		req := partitionsOf(r, "c", "b", "a")
		req.ResponsePartitionLimit = 2
		if next != nil {
			c := kmsg.NewDescribeTopicPartitionsRequestCursor()
			c.Topic, c.Partition = next.Topic, next.Partition
			req.Cursor = &c
		}
		if resp, ok := r.Send(fmt.Sprintf("page %d", page+1), req).(*kmsg.DescribeTopicPartitionsResponse); ok {
			next = resp.NextCursor
		}
	}
}
