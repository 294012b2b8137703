package generate

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// groups without members, which only keep offsets.
var groupNames = []string{"g0", "g1"}

func drawOffsetCommit(d dice) Step {
	version, group, at := min(9, d.version(8)), pick(d, groupNames...), d.place()
	generation, member := int32(-1), ""
	if d.in(10) {
		generation = pick(d, int32(0), 1)
	}
	if d.in(10) {
		member = "m"
	}
	offset, metadata := pick(d, int64(0), 1, 5, math.MaxInt64, -1, -2), pick(d, "", "note")
	text := fmt.Sprintf("offset commit v%d %s generation %d member %q: %v is %d %q", version, group, generation, member, at, offset, metadata)
	return Step{Text: text, do: func(p *player, label string) {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation, req.MemberID = version, p.r.Name(group), generation, member
		p.r.OwnsGroup(group)
		p.groups[group] = true
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset, part.Metadata = at.partition, offset, &metadata
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic = p.r.Name(at.topic)
		topic.Partitions = append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
		p.r.Send(label, req)
	}}
}

func drawOffsetFetch(d dice) Step {
	version, group, at, all := min(9, d.version(9)), pick(d, groupNames...), d.place(), d.in(40)
	text := fmt.Sprintf("offset fetch v%d %s: %v, all %v", version, group, at, all)
	return Step{Text: text, do: func(p *player, label string) {
		p.r.Send(label, offsetFetch(p, version, group, []place{at}, all && version >= 2))
	}}
}

func offsetFetch(p *player, version int16, group string, of []place, all bool) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = version
	of8 := kmsg.NewOffsetFetchRequestGroup()
	req.Group, of8.Group = p.r.Name(group), p.r.Name(group)
	for _, at := range of {
		topic, topic8 := kmsg.NewOffsetFetchRequestTopic(), kmsg.NewOffsetFetchRequestGroupTopic()
		topic.Topic, topic8.Topic = p.r.Name(at.topic), p.r.Name(at.topic)
		topic.Partitions, topic8.Partitions = []int32{at.partition}, []int32{at.partition}
		req.Topics, of8.Topics = append(req.Topics, topic), append(of8.Topics, topic8)
	}
	if all {
		req.Topics, of8.Topics = nil, nil
	}
	req.Groups = append(req.Groups, of8)
	return req
}

func drawOffsetDelete(d dice) Step {
	group, at := pick(d, groupNames...), d.place()
	text := fmt.Sprintf("offset delete %s: %v", group, at)
	return Step{Text: text, do: func(p *player, label string) {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = p.r.Name(group)
		topic := kmsg.NewOffsetDeleteRequestTopic()
		topic.Topic = p.r.Name(at.topic)
		topic.Partitions = []kmsg.OffsetDeleteRequestTopicPartition{{Partition: at.partition}}
		req.Topics = append(req.Topics, topic)
		p.r.Send(label, req)
	}}
}
