package scenarios

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func metadata() []conform.Scenario {
	return []conform.Scenario{
		{Name: "metadata/by-name", Key: 3, Run: metadataByName},
		{Name: "metadata/bad-names", Key: 3, Run: metadataBadNames},
		{Name: "metadata/by-id", Key: 3, Run: metadataByID},
		{Name: "metadata/names-and-ids", Key: 3, Run: metadataNamesAndIDs},
		{Name: "metadata/operations", Key: 3, Run: metadataOperations},
		{Name: "metadata/all-none-null", Key: 3, Run: metadataAll},
		{Name: "metadata/auto-create", Key: 3, Run: metadataAutoCreate},
		{Name: "metadata/auto-create-forbidden", Key: 3, Run: metadataAutoCreateForbidden},
		{Name: "metadata/after-delete", Key: 3, Run: metadataAfterDelete},
		{Name: "metadata/partitions", Key: 3, Run: metadataPartitions},
	}
}

type metadataRequest = *kmsg.MetadataRequest

// metadataFor asks for topics by name, without creating any (where a version can say so).
func metadataFor(r *conform.R, names ...string) metadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = of(r.Name(name))
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// metadataForIDs asks for topics by id.
func metadataForIDs(ids ...[16]byte) metadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, id := range ids {
		topic := kmsg.NewMetadataRequestTopic()
		topic.TopicID = id
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// addNames appends names to what is asked for.
func addNames(r *conform.R, req metadataRequest, names ...string) metadataRequest {
	req.Topics = append(req.Topics, metadataFor(r, names...).Topics...)
	return req
}

// sendMetadata sends what mk makes in each version from min on. Versions below 4 create
// topics whatever the request says, so that unknown names belong into later ones.
func sendMetadata(r *conform.R, min int16, name string, mk func() metadataRequest) {
	sendVariants(r, mk, []variant[metadataRequest]{{name: name, min: min, edit: func(metadataRequest) {}}})
}

func metadataByName(r *conform.R) {
	r.CreateTopic("q", 2)
	r.CreateTopic("r.x", 1)
	sendMetadata(r, 0, "one", func() metadataRequest { return metadataFor(r, "q") })
	sendMetadata(r, 0, "two", func() metadataRequest { return metadataFor(r, "r.x", "q") })
	sendMetadata(r, 0, "twice", func() metadataRequest { return metadataFor(r, "q", "r.x", "q") })
	sendMetadata(r, 4, "unknown", func() metadataRequest { return metadataFor(r, "zz") })
	sendMetadata(r, 4, "unknown twice between known ones", func() metadataRequest { return metadataFor(r, "q", "zz", "r.x", "zz") })
	sendMetadata(r, 4, "collides with another", func() metadataRequest { return metadataFor(r, "r_x") })
	sendMetadata(r, 9, "unknown tags", func() metadataRequest {
		req := metadataFor(r, "q")
		unknownTags(&req.UnknownTags)
		unknownTags(&req.Topics[0].UnknownTags)
		return req
	})
}

func metadataBadNames(r *conform.R) {
	for _, c := range []struct {
		title string
		names []string
	}{
		{"empty", []string{"="}},
		{"dot", []string{"=."}},
		{"two dots", []string{"=.."}},
		{"slash", []string{"=a/b"}},
		{"space", []string{"=a b"}},
		{"not ASCII", []string{"=ä"}},
		{"zero byte", []string{"=a\x00b"}},
		{"250 characters", []string{"=" + longName + "y"}},
		{"several", []string{"=", "=..", "=a b", "=" + longName + "y"}},
		{"with an unknown one", []string{"=a b", "unknown"}},
		{"cluster's own log", []string{"=__cluster_metadata"}},
	} {
		sendMetadata(r, 4, c.title, func() metadataRequest { return metadataFor(r, c.names...) })
	}
	for _, name := range []string{"=", "=..", "=a b", "=" + longName + "y"} {
		sendVariants(r, func() metadataRequest { return metadataFor(r, name) }, []variant[metadataRequest]{
			{name: "would be created, " + shorten(name), edit: func(req metadataRequest) { req.AllowAutoTopicCreation = true }},
		})
	}
}

func shorten(name string) string { return name[:min(len(name), 10)] }

func metadataByID(r *conform.R) {
	r.CreateTopic("q", 2)
	r.CreateTopic("r.x", 1)
	q, x, nobody := r.TopicID("q"), r.TopicID("r.x"), r.TopicID("nobody")
	sendMetadata(r, 10, "one", func() metadataRequest { return metadataForIDs(q) })
	sendMetadata(r, 10, "two", func() metadataRequest { return metadataForIDs(x, q) })
	sendMetadata(r, 10, "twice", func() metadataRequest { return metadataForIDs(q, x, q) })
	sendMetadata(r, 10, "unknown", func() metadataRequest { return metadataForIDs(nobody) })
	sendMetadata(r, 10, "unknown, twice", func() metadataRequest { return metadataForIDs(nobody, q, nobody) })
	sendMetadata(r, 10, "zero", func() metadataRequest { return metadataForIDs([16]byte{}) })
	sendMetadata(r, 10, "zero and one", func() metadataRequest { return metadataForIDs([16]byte{}, q) })
	sendMetadata(r, 10, "one and zero", func() metadataRequest { return metadataForIDs(q, [16]byte{}) })
	sendMetadata(r, 10, "reserved", func() metadataRequest { return metadataForIDs([16]byte{15: 1}) })
	sendMetadata(r, 10, "with operations", func() metadataRequest {
		req := metadataForIDs(q, nobody)
		req.IncludeTopicAuthorizedOperations = true
		return req
	})
	sendMetadata(r, 10, "creation allowed", func() metadataRequest {
		req := metadataForIDs(nobody)
		req.AllowAutoTopicCreation = true
		return req
	})
}

// metadataNamesAndIDs asks by both; versions 10 and 11 have the field for ids, but may
// not use it.
func metadataNamesAndIDs(r *conform.R) {
	r.CreateTopic("q", 1)
	r.CreateTopic("r", 1)
	q, nobody := r.TopicID("q"), r.TopicID("nobody")
	both := func(name string, id [16]byte) metadataRequest {
		req := metadataFor(r, name)
		req.Topics[0].TopicID = id
		return req
	}
	sendMetadata(r, 10, "both of one topic", func() metadataRequest { return both("q", q) })
	sendMetadata(r, 10, "name of another", func() metadataRequest { return both("r", q) })
	sendMetadata(r, 10, "unknown name", func() metadataRequest { return both("zz", q) })
	sendMetadata(r, 10, "unknown id", func() metadataRequest { return both("q", nobody) })
	sendMetadata(r, 10, "bad name", func() metadataRequest { return both("=a b", q) })
	sendMetadata(r, 10, "an id, then a name", func() metadataRequest { return addNames(r, metadataForIDs(q), "r") })
	sendMetadata(r, 10, "a name, then an id", func() metadataRequest {
		req := metadataFor(r, "r")
		req.Topics = append(req.Topics, metadataForIDs(q).Topics...)
		return req
	})
	sendMetadata(r, 10, "neither, then a name", func() metadataRequest { return addNames(r, metadataForIDs([16]byte{}), "r") })
	sendMetadata(r, 10, "a name, then neither", func() metadataRequest {
		req := metadataFor(r, "r")
		req.Topics = append(req.Topics, metadataForIDs([16]byte{}).Topics...)
		return req
	})
}

func metadataOperations(r *conform.R) {
	r.CreateTopic("q", 1)
	ask := func(topics, cluster bool, names ...string) func() metadataRequest {
		return func() metadataRequest {
			req := metadataFor(r, names...)
			req.IncludeTopicAuthorizedOperations, req.IncludeClusterAuthorizedOperations = topics, cluster
			return req
		}
	}
	sendMetadata(r, 1, "cluster only", ask(false, true))
	sendMetadata(r, 1, "topic's", ask(true, false, "q"))
	sendMetadata(r, 1, "both", ask(true, true, "q"))
	sendMetadata(r, 4, "of an unknown topic", ask(true, true, "zz", "q"))
	sendMetadata(r, 4, "of a bad name", ask(true, false, "=a b"))
}

// metadataAll notes what a request for all topics says of those of the run.
func metadataAll(r *conform.R) {
	r.CreateTopic("q", 2)
	r.CreateTopic("r", 1)
	for _, v := range conform.Versions(3) {
		null := metadataFor(r)
		null.Version, null.Topics = v, nil
		noteOwn(r, label(v, "null"), null, "q", "r")
		empty := metadataFor(r)
		empty.Version = v
		if v > 0 {
			r.Send(label(v, "none"), empty)
		} else {
			noteOwn(r, label(v, "none means all"), empty, "q", "r")
		}
		null.IncludeTopicAuthorizedOperations, null.AllowAutoTopicCreation = true, true
		noteOwn(r, label(v, "null with operations"), null, "q", "r")
	}
}

// noteOwn notes which of the run's topics an answer has, and whether any of its other
// topics has an error.
func noteOwn(r *conform.R, label string, req metadataRequest, names ...string) {
	resp := r.Quiet(req).(*kmsg.MetadataResponse)
	var real []string
	for _, name := range names {
		real = append(real, r.Name(name))
	}
	own, operations := 0, map[int32]bool{}
	for _, t := range resp.Topics {
		if t.Topic != nil && slices.Contains(real, *t.Topic) && t.ErrorCode == 0 && len(t.Partitions) > 0 {
			own++
			operations[t.AuthorizedOperations] = true
		}
	}
	r.Note(label, "%d of %d, operations %v, error %d, cluster's %d", own, len(names), operations, resp.ErrorCode, resp.AuthorizedOperations)
}

// metadataAutoCreate asks for topics that do not exist, waits, and asks again.
func metadataAutoCreate(r *conform.R) {
	for _, v := range conform.Versions(3) {
		a, b := label(v, "a"), label(v, "b")
		a, b = strings.ReplaceAll(a, " ", "-"), strings.ReplaceAll(b, " ", "-")
		req := metadataFor(r, a, b, a)
		req.Version, req.AllowAutoTopicCreation = v, true
		req.IncludeTopicAuthorizedOperations = true
		r.Owns(a)
		r.Owns(b)
		r.Send(label(v, "unknown ones"), req)
		r.AwaitTopic(a, 1)
		r.AwaitTopic(b, 1)
		r.Send(label(v, "created"), req)
	}
}

// metadataAutoCreateForbidden asks for unknown topics without wanting them.
func metadataAutoCreateForbidden(r *conform.R) {
	r.CreateTopic("d.e", 1)
	for _, v := range conform.Versions(3) {
		if v < 4 {
			continue
		}
		req := metadataFor(r, "never")
		req.Version = v
		r.Send(label(v, "not allowed"), req)
		r.Send(label(v, "not allowed, again"), req)
	}
	for _, v := range conform.Versions(3) {
		req := metadataFor(r, "d_e", "d.e")
		req.Version, req.AllowAutoTopicCreation = v, true
		r.Owns("d_e")
		r.Send(label(v, "allowed, but it collides"), req)
	}
}

func metadataAfterDelete(r *conform.R) {
	r.CreateTopic("gone", 1)
	id := r.TopicID("gone")
	r.DeleteTopic("gone")
	sendMetadata(r, 4, "by name", func() metadataRequest { return metadataFor(r, "gone") })
	sendMetadata(r, 12, "by id", func() metadataRequest { return metadataForIDs(id) })
	r.CreateTopic("gone", 2)
	sendMetadata(r, 0, "made again, by name", func() metadataRequest { return metadataFor(r, "gone") })
	sendMetadata(r, 12, "made again, by its old id", func() metadataRequest { return metadataForIDs(id) })
	sendMetadata(r, 12, "made again, by its new id", func() metadataRequest { return metadataForIDs(r.TopicID("gone")) })
}

func metadataPartitions(r *conform.R) {
	r.CreateTopic("many", 30)
	r.CreateTopic(strings.Repeat("n", 249-len(r.Name(""))), 1)
	sendMetadata(r, 0, "thirty partitions", func() metadataRequest { return metadataFor(r, "many") })
	sendMetadata(r, 0, "longest name", func() metadataRequest {
		return metadataFor(r, strings.Repeat("n", 249-len(r.Name(""))))
	})
}
