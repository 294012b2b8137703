package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func createPartitions() []conform.Scenario {
	return []conform.Scenario{
		{Name: "createpartitions/grow", Key: 37, Run: growTopics},
		{Name: "createpartitions/refused", Key: 37, Run: growRefused},
		{Name: "createpartitions/assignments", Key: 37, Run: growAssignments},
		{Name: "createpartitions/internal", Key: 37, Needs: []int16{10}, Run: growInternal},
		{Name: "createpartitions/several", Key: 37, Run: growSeveral},
	}
}

// grown is a topic to have count partitions, the new ones on these nodes.
func grown(r *conform.R, name string, count int32, assignment ...[]int32) kmsg.CreatePartitionsRequestTopic {
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = r.Name(name), count
	for _, nodes := range assignment {
		a := kmsg.NewCreatePartitionsRequestTopicAssignment()
		a.Replicas = nodes
		t.Assignment = append(t.Assignment, a)
	}
	return t
}

func grow(version int16, topics ...kmsg.CreatePartitionsRequestTopic) *kmsg.CreatePartitionsRequest {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.TimeoutMillis, req.Topics = version, 20_000, topics
	return req
}

func growOnlyAsk(version int16, topics ...kmsg.CreatePartitionsRequestTopic) *kmsg.CreatePartitionsRequest {
	req := grow(version, topics...)
	req.ValidateOnly = true
	return req
}

func growTopics(r *conform.R) {
	r.CreateTopic("t", 1)
	for i, v := range conform.Versions(37) {
		next := int32(2 + 2*i)
		r.Send(label(v, "only validated"), growOnlyAsk(v, grown(r, "t", next)))
		r.Send(label(v, "one more"), grow(v, grown(r, "t", next)))
		r.Send(label(v, "the same count"), grow(v, grown(r, "t", next)))
		r.Send(label(v, "one more with its place"), grow(v, grown(r, "t", next+1, []int32{r.Node(0)})))
		r.AwaitTopic("t", next+1)
		r.Send(label(v, "what is there"), metadataFor(r, "t"))
	}
	r.Produce("t", 4, "x")
	r.Send("a new partition works", r.FetchFrom(12, "t", 4, 0))
}

func growRefused(r *conform.R) {
	r.CreateTopic("t", 3)
	for _, v := range conform.Versions(37) {
		for _, c := range []struct {
			title string
			topic kmsg.CreatePartitionsRequestTopic
		}{
			{"fewer", grown(r, "t", 2)},
			{"as many", grown(r, "t", 3)},
			{"0", grown(r, "t", 0)},
			{"-1", grown(r, "t", -1)},
			{"least", grown(r, "t", minInt32)},
			{"too many", grown(r, "t", 10_010)},
			{"most", grown(r, "t", maxInt32)},
			{"unknown topic", grown(r, "nope", 4)},
			{"empty name", grown(r, "=", 4)},
			{"bad name", grown(r, "=a b", 4)},
			{"long name", grown(r, "="+longName+"y", 4)},
			{"cluster's own log", grown(r, "=__cluster_metadata", 4)},
		} {
			r.Send(label(v, "%s", c.title), growOnlyAsk(v, c.topic))
		}
		r.Send(label(v, "none"), grow(v))
		at0 := growOnlyAsk(v, grown(r, "t", 4))
		at0.TimeoutMillis = 0
		r.Send(label(v, "timeout 0"), at0)
		below := growOnlyAsk(v, grown(r, "t", 4))
		below.TimeoutMillis = -1
		r.Send(label(v, "timeout -1"), below)
		if v >= 2 {
			tagged := growOnlyAsk(v, grown(r, "t", 4, []int32{r.Node(0)}))
			unknownTags(&tagged.UnknownTags)
			unknownTags(&tagged.Topics[0].UnknownTags)
			unknownTags(&tagged.Topics[0].Assignment[0].UnknownTags)
			r.Send(label(v, "unknown tags"), tagged)
		}
	}
}

func growAssignments(r *conform.R) {
	r.CreateTopic("t", 1)
	here, nowhere := r.Node(0), r.Node(0)+1000
	for _, v := range conform.Versions(37) {
		for _, c := range []struct {
			title string
			topic kmsg.CreatePartitionsRequestTopic
		}{
			{"of each", grown(r, "t", 3, []int32{here}, []int32{here})},
			{"of too few", grown(r, "t", 3, []int32{here})},
			{"of too many", grown(r, "t", 2, []int32{here}, []int32{here})},
			{"without replicas", grown(r, "t", 2, nil)},
			{"unknown node", grown(r, "t", 2, []int32{nowhere})},
			{"negative node", grown(r, "t", 2, []int32{-1})},
			{"a node twice", grown(r, "t", 2, []int32{here, here})},
			{"more replicas than the others", grown(r, "t", 2, []int32{here, nowhere})},
			{"with fewer partitions", grown(r, "t", 1, []int32{here})},
			{"of an unknown topic", grown(r, "nope", 2, []int32{here})},
		} {
			r.Send(label(v, "%s", c.title), growOnlyAsk(v, c.topic))
		}
		empty := growOnlyAsk(v, grown(r, "t", 2))
		empty.Topics[0].Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{}
		r.Send(label(v, "empty"), empty)
	}
}

// growInternal asks for more partitions of a topic that brokers keep for themselves.
func growInternal(r *conform.R) {
	awaitCoordinator(r, "g")
	for _, v := range conform.Versions(37) {
		for _, count := range []int32{1, 9_999} {
			r.Send(label(v, "%d partitions", count), growOnlyAsk(v, grown(r, "=__consumer_offsets", count)))
		}
	}
}

func growSeveral(r *conform.R) {
	r.CreateTopic("a", 1)
	r.CreateTopic("b", 1)
	for i, v := range conform.Versions(37) {
		next := int32(2 + i)
		r.Send(label(v, "good, unknown and bad"), grow(v, grown(r, "a", next), grown(r, "nope", 9), grown(r, "b", 1)))
		r.Send(label(v, "twice"), growOnlyAsk(v, grown(r, "b", 5), grown(r, "b", 6)))
		r.Send(label(v, "twice the same beside another"), growOnlyAsk(v, grown(r, "b", 5), grown(r, "a", 50), grown(r, "b", 5)))
		r.Send(label(v, "three times"), growOnlyAsk(v, grown(r, "b", 5), grown(r, "b", 5), grown(r, "b", 5)))
		r.Send(label(v, "too many together"), growOnlyAsk(v, grown(r, "a", 6000), grown(r, "b", 6000)))
		r.AwaitTopic("a", next)
	}
}
