package scenarios

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func createTopics() []conform.Scenario {
	return []conform.Scenario{
		{Name: "createtopics/create", Key: 19, Run: createOne},
		{Name: "createtopics/names", Key: 19, Run: createNames},
		{Name: "createtopics/counts", Key: 19, Run: createCounts},
		{Name: "createtopics/assignments", Key: 19, Run: createAssignments},
		{Name: "createtopics/many-in-one", Key: 19, Run: createMany},
		{Name: "createtopics/order-of-checks", Key: 19, Run: createOrderOfChecks},
		{Name: "createtopics/timeouts", Key: 19, Run: createTimeouts},
		{Name: "createtopics/config-answers", Key: 19, Run: createConfigAnswers},
		{Name: "createtopics/config-combinations", Key: 19, Run: createConfigCombinations},
	}
}

type createTopic = kmsg.CreateTopicsRequestTopic

// newTopic is a topic to create; configs are names and values in turn.
func newTopic(r *conform.R, name string, partitions int32, replicas int16, configs ...string) createTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = r.Name(name), partitions, replicas
	for i := 0; i+1 < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], of(configs[i+1])
		t.Configs = append(t.Configs, c)
	}
	return t
}

// assigned is a topic to create with replicas of its own choice: partitions and their
// replicas, each an index of a node.
func assigned(r *conform.R, name string, partitions int32, replicas int16, assignment ...[]int32) createTopic {
	t := newTopic(r, name, partitions, replicas)
	for i, nodes := range assignment {
		t.ReplicaAssignment = append(t.ReplicaAssignment, replicasOf(int32(i), nodes...))
	}
	return t
}

func replicasOf(partition int32, nodes ...int32) kmsg.CreateTopicsRequestTopicReplicaAssignment {
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Partition, a.Replicas = partition, nodes
	return a
}

func create(version int16, topics ...createTopic) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis, req.Topics = version, 20_000, topics
	return req
}

func validate(version int16, topics ...createTopic) *kmsg.CreateTopicsRequest {
	req := create(version, topics...)
	req.ValidateOnly = true
	return req
}

// owned notes that topics of these names may come to be.
func owned(r *conform.R, topics ...createTopic) []createTopic {
	for _, t := range topics {
		r.Owns("=" + t.Topic)
	}
	return topics
}

func createOne(r *conform.R) {
	r.OnlyConfigs("retention.ms")
	for _, v := range conform.Versions(19) {
		name := fmt.Sprintf("t%d", v)
		r.Owns(name)
		topic := newTopic(r, name, 2, 1)
		r.Send(label(v, "none"), create(v))
		r.Send(label(v, "none, only validated"), validate(v))
		r.Send(label(v, "only validated"), validate(v, topic))
		r.Send(label(v, "create"), create(v, topic))
		r.Send(label(v, "exists"), create(v, topic))
		r.Send(label(v, "exists, only validated"), validate(v, topic))
		r.Send(label(v, "exists, with other counts"), create(v, newTopic(r, name, 5, 1)))
		r.Owns(name + "d")
		r.Send(label(v, "default counts"), create(v, newTopic(r, name+"d", -1, -1)))
		r.Owns(name + "p")
		r.Send(label(v, "default partitions"), create(v, newTopic(r, name+"p", -1, 1)))
		r.Owns(name + "r")
		r.Send(label(v, "default replicas"), create(v, newTopic(r, name+"r", 3, -1)))
		r.AwaitTopic(name, 2)
		r.AwaitTopic(name+"r", 3)
		if v >= 5 {
			r.Send(label(v, "unknown tags"), withTags(validate(v, newTopic(r, "tags", 1, 1, "retention.ms", "5"), assigned(r, "tags2", -1, -1, []int32{r.Node(0)}))))
		}
		r.Send(label(v, "what is there"), metadataFor(r, name, name+"r"))
	}
}

func withTags(req *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsRequest {
	unknownTags(&req.UnknownTags)
	for i := range req.Topics {
		unknownTags(&req.Topics[i].UnknownTags)
		for j := range req.Topics[i].Configs {
			unknownTags(&req.Topics[i].Configs[j].UnknownTags)
		}
		for j := range req.Topics[i].ReplicaAssignment {
			unknownTags(&req.Topics[i].ReplicaAssignment[j].UnknownTags)
		}
	}
	return req
}

func createNames(r *conform.R) {
	r.OnlyConfigs("retention.ms")
	r.CreateTopic("col.li_de", 1)
	for _, v := range conform.Versions(19) {
		for _, c := range []struct{ title, name string }{
			{"empty", "="},
			{"dot", "=."},
			{"two dots", "=.."},
			{"three dots", "=..."},
			{"slash", "=a/b"},
			{"space", "=a b"},
			{"not ASCII", "=ä"},
			{"zero byte", "=a\x00b"},
			{"colon", "=a:b"},
			{"hyphen", "=-"},
			{"249 characters", "=" + longName},
			{"250 characters", "=" + longName + "y"},
			{"every kind of character", "=AZaz09._-conform"},
			{"the cluster's own log", "=__cluster_metadata"},
			{"two underscores", "__conform"},
			{"collides", "col.li.de"},
			{"collides otherwise", "col_li_de"},
			{"collides in both", "col_li.de"},
			{"exists", "col.li_de"},
		} {
			r.Send(label(v, "%s", c.title), validate(v, newTopic(r, c.name, 1, 1)))
		}
	}
}

func createCounts(r *conform.R) {
	r.OnlyConfigs("retention.ms")
	for _, v := range conform.Versions(19) {
		for _, partitions := range []int32{0, -1, -2, minInt32, 1, 10_000} {
			r.Send(label(v, "%d partitions", partitions), validate(v, newTopic(r, "p", partitions, 1)))
		}
		for _, replicas := range []int16{0, -1, -2, -32768, 1, 100, 32767} {
			r.Send(label(v, "%d replicas", replicas), validate(v, newTopic(r, "p", 1, replicas)))
		}
		for _, partitions := range []int32{10_001, 1_000_000, maxInt32} {
			r.Send(label(v, "%d partitions are too many", partitions), validate(v, newTopic(r, "p", partitions, 1)))
		}
		r.Send(label(v, "too many together"), validate(v, newTopic(r, "p", 5001, 1), newTopic(r, "q", 5000, 1)))
		r.Send(label(v, "too many beside a bad name"), validate(v, newTopic(r, "p", 10_001, 1), newTopic(r, "=a b", 1, 1)))
	}
}

func createAssignments(r *conform.R) {
	r.OnlyConfigs("retention.ms")
	here := []int32{r.Node(0)}
	nowhere := r.Node(0) + 1000
	withPartitions := func(partitions ...int32) createTopic {
		t := newTopic(r, "x", -1, -1)
		for _, p := range partitions {
			t.ReplicaAssignment = append(t.ReplicaAssignment, replicasOf(p, here...))
		}
		return t
	}
	for _, v := range conform.Versions(19) {
		for _, c := range []struct {
			title string
			topic createTopic
		}{
			{"one partition", assigned(r, "x", -1, -1, here)},
			{"two partitions", assigned(r, "x", -1, -1, here, here)},
			{"descending", withPartitions(1, 0)},
			{"a gap", withPartitions(0, 2)},
			{"from 1", withPartitions(1)},
			{"a partition twice", withPartitions(0, 0)},
			{"a negative partition", withPartitions(-1)},
			{"negative after 0", withPartitions(0, -1)},
			{"no replicas", assigned(r, "x", -1, -1, nil)},
			{"no replicas of the second", assigned(r, "x", -1, -1, here, nil)},
			{"a replica twice", assigned(r, "x", -1, -1, []int32{r.Node(0), r.Node(0)})},
			{"unknown node", assigned(r, "x", -1, -1, []int32{nowhere})},
			{"negative node", assigned(r, "x", -1, -1, []int32{-1})},
			{"known and unknown node", assigned(r, "x", -1, -1, []int32{r.Node(0), nowhere})},
			{"different sizes", assigned(r, "x", -1, -1, here, []int32{r.Node(0), nowhere})},
			{"and partitions", assigned(r, "x", 1, -1, here)},
			{"and replicas", assigned(r, "x", -1, 1, here)},
			{"and both", assigned(r, "x", 1, 1, here)},
			{"and 0 of both", assigned(r, "x", 0, 0, here)},
			{"and -2 partitions", assigned(r, "x", -2, -1, here)},
		} {
			r.Send(label(v, "%s", c.title), validate(v, c.topic))
		}
	}
	r.Owns("made")
	r.Send("create", create(7, assigned(r, "made", -1, -1, here, here, here)))
	r.AwaitTopic("made", 3)
	r.Send("what is there", metadataFor(r, "made"))
}

func createMany(r *conform.R) {
	r.OnlyConfigs("retention.ms")
	for _, v := range conform.Versions(19) {
		n := func(name string) string { return fmt.Sprintf("%s%d", name, v) }
		topics := owned(r, newTopic(r, n("a"), 2, 1), newTopic(r, n("b"), 0, 1), newTopic(r, n("c"), 1, 5),
			newTopic(r, n("d"), 1, 1), newTopic(r, n("e.f"), 1, 1), newTopic(r, n("e_f"), 1, 1))
		r.Send(label(v, "good and bad ones"), create(v, append(topics, newTopic(r, "=bad name", 1, 1))...))
		r.Send(label(v, "collide with existing ones"), create(v, newTopic(r, n("e_f"), 1, 1), newTopic(r, n("e.f"), 1, 1)))
		twice := owned(r, newTopic(r, n("t"), 1, 1), newTopic(r, n("u"), 1, 1), newTopic(r, n("t"), 2, 1))
		r.Send(label(v, "twice"), create(v, twice...))
		r.Send(label(v, "three times"), validate(v, newTopic(r, "w", 1, 1), newTopic(r, "w", 1, 1), newTopic(r, "w", 1, 1)))
		r.Send(label(v, "twice, existing"), validate(v, newTopic(r, n("a"), 1, 1), newTopic(r, n("a"), 1, 1)))
		r.Send(label(v, "twice, bad name"), validate(v, newTopic(r, "=a b", 1, 1), newTopic(r, "=a b", 1, 1)))
		r.AwaitTopic(n("a"), 2)
		r.AwaitTopic(n("u"), 1)
		r.Send(label(v, "what is there"), metadataFor(r, n("a"), n("b"), n("c"), n("d"), n("e.f"), n("e_f"), n("t"), n("u")))
	}
}

func createOrderOfChecks(r *conform.R) {
	r.OnlyConfigs("retention.ms")
	r.CreateTopic("a", 1)
	here, bad := []int32{r.Node(0)}, "no.such"
	for _, v := range conform.Versions(19) {
		for _, c := range []struct {
			title string
			topic createTopic
		}{
			{"existing, bad counts and config", newTopic(r, "a", 0, 9, bad, "x")},
			{"bad name, counts and config", newTopic(r, "=..", 0, 9, bad, "x")},
			{"bad counts and config", newTopic(r, "z", 0, 9, bad, "x")},
			{"bad replicas and config", newTopic(r, "z", 1, 9, bad, "x")},
			{"bad config", newTopic(r, "z", 1, 1, bad, "x")},
			{"bad partitions and replicas", newTopic(r, "z", 0, 0)},
			{"bad partitions and good replicas", newTopic(r, "z", 0, 1)},
			{"bad replicas and good partitions", newTopic(r, "z", 1, 0)},
			{"existing, with assignment and counts", assigned(r, "a", 1, 1, here)},
			{"existing, with bad assignment", assigned(r, "a", -1, -1, []int32{99})},
			{"bad name, with assignment and counts", assigned(r, "=a b", 1, 1, here)},
		} {
			r.Send(label(v, "%s", c.title), validate(v, c.topic))
		}
		both := assigned(r, "z", 1, -1, here)
		both.Configs = newTopic(r, "z", 1, 1, bad, "x").Configs
		r.Send(label(v, "assignment, counts and bad config"), validate(v, both))
	}
}

func createTimeouts(r *conform.R) {
	r.OnlyConfigs("retention.ms")
	for _, v := range conform.Versions(19) {
		for _, timeout := range []int32{0, -1, minInt32, maxInt32, 60_000} {
			req := validate(v, newTopic(r, "t", 1, 1))
			req.TimeoutMillis = timeout
			r.Send(label(v, "timeout %d", timeout), req)
		}
		none := create(v)
		none.TimeoutMillis = 0
		r.Send(label(v, "no topics, timeout 0"), none)
		bad := create(v, newTopic(r, "=a b", 1, 1))
		bad.TimeoutMillis = 0
		r.Send(label(v, "bad name, timeout 0"), bad)
	}
}

// createConfigAnswers looks at the whole table of keys that versions 5 to 7 answer.
func createConfigAnswers(r *conform.R) {
	for _, v := range conform.Versions(19) {
		r.Send(label(v, "defaults"), validate(v, newTopic(r, "t", 1, 1)))
		r.Send(label(v, "three keys set"), validate(v, newTopic(r, "t", 1, 1,
			"retention.ms", "5", "cleanup.policy", "compact", "min.insync.replicas", "1")))
	}
	for _, v := range []int16{5, 6, 7} {
		resp := r.Quiet(validate(v, newTopic(r, "t", 1, 1, "segment.ms", "5"))).(*kmsg.CreateTopicsResponse)
		var names []string
		for _, c := range resp.Topics[0].Configs {
			if c.Name != "durability" { // of Klamm's own
				names = append(names, c.Name)
			}
		}
		r.Note(label(v, "keys are sorted"), "%v", slices.IsSorted(names))
	}
}

func createConfigCombinations(r *conform.R) {
	for _, configs := range [][]string{
		{"retention.ms", "1000", "local.retention.ms", "2000"},
		{"retention.ms", "1000", "local.retention.ms", "1000"},
		{"retention.ms", "1000", "local.retention.ms", "-1"},
		{"retention.ms", "-1", "local.retention.ms", "5"},
		{"retention.bytes", "1000", "local.retention.bytes", "2000"},
		{"retention.bytes", "1000", "local.retention.bytes", "-1"},
		{"min.compaction.lag.ms", "100", "max.compaction.lag.ms", "50"},
		{"min.compaction.lag.ms", "100", "max.compaction.lag.ms", "100"},
		{"remote.log.copy.disable", "true"},
		{"remote.log.delete.on.disable", "true"},
		{"retention.ms", "1", "retention.ms", "2"},
		{"retention.ms", "x", "retention.ms", "2"},
		{"retention.ms", "2", "retention.ms", "x"},
		{"cleanup.policy", "compact", "min.compaction.lag.ms", "9223372036854775807"},
		{"segment.bytes", "1048576", "max.message.bytes", "2000000"},
		{"min.insync.replicas", "5"},
		{"segment.ms", "10", "segment.jitter.ms", "20"},
		{"no.such", "1", "retention.ms", "x"},
		{"retention.ms", "x", "no.such", "1"},
		{"remote.copy.lag.ms", "5", "local.retention.ms", "1"},
		{"remote.copy.lag.bytes", "5", "local.retention.bytes", "1"},
		{"compression.type", "zstd", "compression.zstd.level", "22"},
		{"compression.type", "gzip", "compression.zstd.level", "23"},
		{"", "1"},
		{" retention.ms", "1"},
		{"RETENTION.MS", "1"},
	} {
		req := validate(7, newTopic(r, "t", 1, 1, configs...))
		r.OnlyConfigs(configs[0], configs[len(configs)-2])
		r.Send(fmt.Sprint(configs), req)
	}
	null := newTopic(r, "t", 1, 1, "retention.ms", "1", "segment.ms", "1")
	null.Configs[0].Value = nil
	r.Send("a null value", validate(7, null))
	null.Configs[0].Name = "no.such"
	r.Send("a null value of an unknown key", validate(7, null))
}
