package scenarios

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// manyTopics are requests for topics of unusual size or order.
func manyTopics() []conform.Scenario {
	return []conform.Scenario{
		{Name: "createtopics/a-thousand", Key: 19, Run: aThousandTopics},
		{Name: "createtopics/pipelined", Key: 19, Run: pipelinedTopics},
		{Name: "metadata/a-thousand", Key: 3, Run: aThousandNames},
		{Name: "deletetopics/a-thousand", Key: 20, Run: aThousandDeleted},
		{Name: "metadata/internal", Key: 3, Needs: []int16{10}, Run: metadataInternal},
	}
}

// tally is how often each error code occurs, "900 of 0, 100 of 37".
func tally(codes []int16) string {
	slices.Sort(codes)
	var parts []string
	for len(codes) > 0 {
		same := slices.IndexFunc(codes, func(c int16) bool { return c != codes[0] })
		if same < 0 {
			same = len(codes)
		}
		parts = append(parts, fmt.Sprintf("%d of %d", same, codes[0]))
		codes = codes[same:]
	}
	return strings.Join(parts, ", ")
}

// aThousandTopics only validates, since each of them is work.
func aThousandTopics(r *conform.R) {
	for _, v := range conform.Versions(19) {
		var topics []createTopic
		for i := range 1000 {
			partitions := int32(1)
			if i%10 == 9 {
				partitions = 0
			}
			topics = append(topics, newTopic(r, fmt.Sprint(i), partitions, 1))
		}
		noteCreated(r, label(v, "a tenth without partitions"), validate(v, topics...))
		noteCreated(r, label(v, "each twice"), validate(v, append(topics, topics...)...))
	}
	repeated := newTopic(r, "t", 1, 1)
	for i := range 1000 {
		repeated.Configs = append(repeated.Configs, newTopic(r, "", 1, 1, "flush.ms", fmt.Sprint(i)).Configs...)
	}
	r.OnlyConfigs("flush.ms")
	r.Send("one key a thousand times", validate(7, repeated))
	r.Send("10000 partitions of one topic", validate(7, newTopic(r, "t", 10_000, 1)))
	full := newTopic(r, "t", -1, -1)
	for i := range int32(1000) {
		full.ReplicaAssignment = append(full.ReplicaAssignment, replicasOf(i, r.Node(0)))
	}
	r.Send("a thousand assignments", validate(7, full))
	full.ReplicaAssignment[500].Partition = 1000
	r.Send("a thousand assignments with a gap", validate(7, full))
}

func noteCreated(r *conform.R, label string, req *kmsg.CreateTopicsRequest) {
	var codes []int16
	for _, t := range r.Quiet(req).(*kmsg.CreateTopicsResponse).Topics {
		codes = append(codes, t.ErrorCode)
	}
	r.Note(label, "%s", tally(codes))
}

// pipelinedTopics sends requests that depend on each other without waiting for answers.
func pipelinedTopics(r *conform.R) {
	for _, v := range []int16{2, 4, 5, 7} {
		name := fmt.Sprintf("p%d", v)
		r.Owns(name)
		topic := newTopic(r, name, 2, 1)
		var pending []*conform.Pending
		start := func(title string, req kmsg.Request) {
			pending = append(pending, r.Start("pipeline", label(v, "%s", title), req))
		}
		r.OnlyConfigs("flush.ms")
		start("validate", validate(v, topic))
		start("create", create(v, topic))
		start("create again", create(v, topic))
		start("delete", deleteNamed(r, 5, name))
		start("delete again", deleteNamed(r, 5, name))
		start("validate after delete", validate(v, topic))
		start("create after delete", create(v, topic))
		start("collides", create(v, newTopic(r, name, 1, 1), newTopic(r, "=a b", 1, 1)))
		for _, p := range pending {
			p.Wait()
		}
		r.CreateTopic(fmt.Sprintf("last%d", v), 1) // when it is there, all before has happened
		r.AwaitTopic(name, 2)
		r.Send(label(v, "what is there"), metadataFor(r, name))
	}
}

func aThousandNames(r *conform.R) {
	r.CreateTopic("500", 1)
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprint(i))
	}
	for _, v := range conform.Versions(3) {
		if v < 4 {
			continue // which create them
		}
		req := metadataFor(r, append(names, names...)...)
		req.Version = v
		var codes []int16
		for _, t := range r.Quiet(req).(*kmsg.MetadataResponse).Topics {
			codes = append(codes, t.ErrorCode)
		}
		r.Note(label(v, "each twice, one of them there"), "%s", tally(codes))
	}
}

func aThousandDeleted(r *conform.R) {
	r.CreateTopic("500", 1)
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprint(i))
	}
	for _, v := range conform.Versions(20) {
		noteDeleted(r, label(v, "each twice"), deleteNamed(r, v, append(names, names...)...))
	}
	noteDeleted(r, "each once", deleteNamed(r, 6, names...))
	noteDeleted(r, "each once again", deleteNamed(r, 6, names...))
}

func noteDeleted(r *conform.R, label string, req *kmsg.DeleteTopicsRequest) {
	var codes []int16
	for _, t := range r.Quiet(req).(*kmsg.DeleteTopicsResponse).Topics {
		codes = append(codes, t.ErrorCode)
	}
	r.Note(label, "%s", tally(codes))
}

// metadataInternal looks at the topic of consumer offsets, which the search for a
// coordinator makes.
func metadataInternal(r *conform.R) {
	const offsets = "=__consumer_offsets"
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, []string{r.Name("g")}
	r.Until("a coordinator", func() kmsg.Request { return find }, func(resp kmsg.Response) bool {
		return resp.(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode == 0
	})
	r.AwaitTopic(offsets, 1)
	r.Send("create", validate(7, newTopic(r, offsets, 1, 1)))
	r.Send("a name that collides with it", validate(7, newTopic(r, "=__consumer.offsets", 1, 1)))
	r.Ignore("Topics.Partitions")
	sendMetadata(r, 0, "by name", func() metadataRequest { return metadataFor(r, offsets) })
	sendMetadata(r, 8, "by name, with operations", func() metadataRequest {
		req := metadataFor(r, offsets)
		req.IncludeTopicAuthorizedOperations = true
		return req
	})
}
