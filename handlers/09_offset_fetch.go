package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// OffsetFetch (key 9), versions 1–10: how far groups have read.
//
//	v1   from the coordinator
//	v2   null topics ask for everything; an error of the group as a whole
//	v3   throttle time
//	v5   leader epoch
//	v6   flexible
//	v7   require_stable (KIP-447)
//	v8   several groups at once (KIP-709)
//	v9   member id and epoch of the consumer protocol
//	v10  topics by id (KIP-848)
//
// A topic that does not exist is asked for like any other: what was committed for it may
// outlive it for a moment. One that is asked for by an id that nobody has is refused here,
// and comes last in the answer.
func (h *Handlers) offsetFetch(ctx context.Context, c call, req *kmsg.OffsetFetchRequest) (kmsg.Response, error) {
	image := h.image()
	groups := fetchedGroups(req)
	refused := make([][]kmsg.OffsetFetchResponseGroupTopic, len(groups))
	for i := range groups {
		refused[i] = nameFetched(image, req.Version, &groups[i])
	}
	answers := h.groups.OffsetFetch(ctx, c.member(), groups, req.RequireStable)
	for i := range answers {
		a := &answers[i]
		if a.ErrorCode != 0 {
			continue
		}
		if req.Version >= 10 && groups[i].Topics == nil {
			a.Topics = identified(image, a.Topics)
		}
		a.Topics = append(a.Topics, refused[i]...)
	}
	return fetchedResponse(req, answers), nil
}

// fetchedGroups is the request in its newest form.
func fetchedGroups(req *kmsg.OffsetFetchRequest) []kmsg.OffsetFetchRequestGroup {
	if req.Version >= 8 {
		return req.Groups
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = req.Group
	if req.Topics != nil || req.Version < 2 {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range req.Topics {
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.Partitions = t.Topic, t.Partitions
		g.Topics = append(g.Topics, gt)
	}
	return []kmsg.OffsetFetchRequestGroup{g}
}

// nameFetched gives topics that are asked for by id their names, and takes those out that
// have none.
func nameFetched(image *metadata.Image, version int16, g *kmsg.OffsetFetchRequestGroup) (refused []kmsg.OffsetFetchResponseGroupTopic) {
	if version < 10 || g.Topics == nil {
		return nil
	}
	named := make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(g.Topics))
	for _, t := range g.Topics {
		if t.Topic = nameOf(image, t.TopicID); t.Topic != "" {
			named = append(named, t)
			continue
		}
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.TopicID = t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, -1, -1, new(string)
			rp.ErrorCode = kafkaerr.Code(kafkaerr.UnknownTopicID)
			rt.Partitions = append(rt.Partitions, rp)
		}
		refused = append(refused, rt)
	}
	g.Topics = named
	return refused
}

// identified gives topics their ids. One without cannot be put into an answer that has no
// names.
func identified(image *metadata.Image, topics []kmsg.OffsetFetchResponseGroupTopic) []kmsg.OffsetFetchResponseGroupTopic {
	known := topics[:0]
	for _, t := range topics {
		if topic := image.Topic(t.Topic); uuid.UUID(t.TopicID).IsZero() && topic != nil {
			t.TopicID = topic.ID
		}
		if !uuid.UUID(t.TopicID).IsZero() {
			known = append(known, t)
		}
	}
	return known
}

// fetchedResponse is the answer in the form of the request.
func fetchedResponse(req *kmsg.OffsetFetchRequest, groups []kmsg.OffsetFetchResponseGroup) *kmsg.OffsetFetchResponse {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	if req.Version >= 8 {
		resp.Groups = groups
		return resp
	}
	for _, g := range groups {
		resp.ErrorCode = g.ErrorCode
		for _, t := range g.Topics {
			rt := kmsg.NewOffsetFetchResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetFetchResponseTopicPartition()
				rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata, rp.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
	}
	return resp
}
