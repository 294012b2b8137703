package scenarios

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func deleteTopics() []conform.Scenario {
	return []conform.Scenario{
		{Name: "deletetopics/by-name", Key: 20, Run: deleteByName},
		{Name: "deletetopics/refused", Key: 20, Run: deleteRefused},
		{Name: "deletetopics/by-id", Key: 20, Run: deleteByID},
		{Name: "deletetopics/names-and-ids", Key: 20, Run: deleteNamesAndIDs},
		{Name: "deletetopics/timeouts", Key: 20, Run: deleteTimeouts},
		{Name: "deletetopics/again-and-again", Key: 20, Run: deleteAndCreate},
	}
}

// deleteNamed is a DeleteTopics by name in either form.
func deleteNamed(r *conform.R, version int16, names ...string) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = version, 20_000
	for _, name := range names {
		req.TopicNames = append(req.TopicNames, r.Name(name))
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = of(r.Name(name))
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// deleteIDs is a DeleteTopics by id, of the latest version.
func deleteIDs(ids ...[16]byte) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 6, 20_000
	for _, id := range ids {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.TopicID = id
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func deleteByName(r *conform.R) {
	for _, v := range conform.Versions(20) {
		for _, name := range []string{"a", "b", "c"} {
			r.CreateTopic(name, 1)
		}
		r.Send(label(v, "one"), deleteNamed(r, v, "a"))
		r.Send(label(v, "deleted one"), deleteNamed(r, v, "a"))
		r.Send(label(v, "known and unknown ones"), deleteNamed(r, v, "nope", "b", "c", "=", "=a b", "="+longName+"y"))
		r.Send(label(v, "all gone"), deleteNamed(r, v, "a", "b", "c"))
		left := metadataFor(r, "a", "b", "c")
		left.Version = 9
		r.Until("topics gone", func() kmsg.Request { return left }, noneIsThere)
		r.Send(label(v, "what is left"), left)
	}
}

func noneIsThere(resp kmsg.Response) bool {
	return !slices.ContainsFunc(resp.(*kmsg.MetadataResponse).Topics, func(t kmsg.MetadataResponseTopic) bool { return t.ErrorCode == 0 })
}

func deleteRefused(r *conform.R) {
	r.CreateTopic("a", 1)
	r.CreateTopic("b", 1)
	for _, v := range conform.Versions(20) {
		r.Send(label(v, "none"), deleteNamed(r, v))
		r.Send(label(v, "unknown"), deleteNamed(r, v, "nope"))
		r.Send(label(v, "unknown twice"), deleteNamed(r, v, "nope", "nope"))
		r.Send(label(v, "empty"), deleteNamed(r, v, "="))
		r.Send(label(v, "bad names"), deleteNamed(r, v, "=.", "=..", "=a b", "=ä", "="+longName+"y"))
		r.Send(label(v, "twice"), deleteNamed(r, v, "a", "a"))
		r.Send(label(v, "three times beside an unknown one"), deleteNamed(r, v, "a", "nope", "a", "a"))
		r.Send(label(v, "the cluster's own log"), deleteNamed(r, v, "=__cluster_metadata"))
		if v >= 4 {
			req := deleteNamed(r, v, "nope")
			unknownTags(&req.UnknownTags)
			for i := range req.Topics {
				unknownTags(&req.Topics[i].UnknownTags)
			}
			r.Send(label(v, "unknown tags"), req)
		}
	}
	r.Send("both are still there", metadataFor(r, "a", "b"))
}

func deleteByID(r *conform.R) {
	for _, name := range []string{"a", "b", "c", "d"} {
		r.CreateTopic(name, 1)
	}
	a, b, c, d := r.TopicID("a"), r.TopicID("b"), r.TopicID("c"), r.TopicID("d")
	nobody := r.TopicID("nobody")
	r.Send("one", deleteIDs(a))
	r.Send("deleted one", deleteIDs(a))
	r.Send("unknown", deleteIDs(nobody))
	r.Send("unknown twice", deleteIDs(nobody, nobody))
	r.Send("zero", deleteIDs([16]byte{}))
	r.Send("zero twice", deleteIDs([16]byte{}, [16]byte{}))
	r.Send("zero and one", deleteIDs([16]byte{}, b))
	r.Send("twice", deleteIDs(c, c))
	r.Send("twice beside others", deleteIDs(c, d, nobody, c))
	r.Send("the cluster's own log", deleteIDs([16]byte{15: 1}))
	left := metadataFor(r, "a", "b", "c", "d")
	r.Until("topic d gone", func() kmsg.Request { return metadataFor(r, "d") }, noneIsThere)
	r.Send("what is left", left)
}

func deleteNamesAndIDs(r *conform.R) {
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		r.CreateTopic(name, 1)
	}
	both := func(name string, id [16]byte) *kmsg.DeleteTopicsRequest {
		req := deleteNamed(r, 6, name)
		req.Topics[0].TopicID = id
		return req
	}
	join := func(reqs ...*kmsg.DeleteTopicsRequest) *kmsg.DeleteTopicsRequest {
		for _, other := range reqs[1:] {
			reqs[0].Topics = append(reqs[0].Topics, other.Topics...)
		}
		return reqs[0]
	}
	a, nobody := r.TopicID("a"), r.TopicID("nobody")
	r.Send("name and id of one topic", both("a", a))
	r.Send("name and another id", both("b", a))
	r.Send("name and an unknown id", both("b", nobody))
	r.Send("unknown name and id", both("nope", a))
	r.Send("empty name and id", both("=", a))
	r.Send("a name, and the same topic by id", join(deleteNamed(r, 6, "b"), deleteIDs(r.TopicID("b"))))
	r.Send("an id, and the same topic by name", join(deleteIDs(r.TopicID("c")), deleteNamed(r, 6, "c")))
	r.Send("both of one, and the name again", join(both("d", r.TopicID("d")), deleteNamed(r, 6, "d")))
	r.Send("both of one, and the id again", join(both("d", r.TopicID("d")), deleteIDs(r.TopicID("d"))))
	r.Send("different topics by name and id", join(deleteNamed(r, 6, "a"), deleteIDs(r.TopicID("e")), deleteNamed(r, 6, "nope"), deleteIDs(nobody)))
	r.Until("topic e gone", func() kmsg.Request { return metadataFor(r, "e") }, noneIsThere)
	r.Send("what is left", metadataFor(r, "a", "b", "c", "d", "e"))
}

func deleteTimeouts(r *conform.R) {
	for _, v := range conform.Versions(20) {
		r.CreateTopic("a", 1)
		none := deleteNamed(r, v, "nope")
		none.TimeoutMillis = 0
		r.Send(label(v, "unknown, timeout 0"), none)
		negative := deleteNamed(r, v, "nope")
		negative.TimeoutMillis = -1
		r.Send(label(v, "unknown, timeout -1"), negative)
		least := deleteNamed(r, v, "nope")
		least.TimeoutMillis = minInt32
		r.Send(label(v, "unknown, least timeout"), least)
		longest := deleteNamed(r, v, "a")
		longest.TimeoutMillis = maxInt32
		r.Send(label(v, "longest timeout"), longest)
	}
}

// deleteAndCreate gives one name to several topics in turn.
func deleteAndCreate(r *conform.R) {
	for _, v := range conform.Versions(20) {
		r.CreateTopic("a", 2)
		r.Produce("a", 0, "x", "y")
		r.Send(label(v, "delete"), deleteNamed(r, v, "a"))
		r.Until("topic a gone", func() kmsg.Request { return metadataFor(r, "a") }, noneIsThere)
		r.CreateTopic("a", 1)
		r.Send(label(v, "the new one is empty"), r.FetchFrom(12, "a", 0, 0))
		r.DeleteTopic("a")
	}
}
