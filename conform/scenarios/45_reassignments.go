package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func reassignments() []conform.Scenario {
	return []conform.Scenario{
		{Name: "reassignments/alter", Key: 45, Needs: []int16{46}, Run: reassign},
		{Name: "reassignments/list", Key: 46, Run: listReassignments},
	}
}

// target is where a partition shall be; nil nodes cancel.
type target struct {
	topic     string
	partition int32
	nodes     []int32
}

func reassignTo(r *conform.R, version int16, targets ...target) *kmsg.AlterPartitionAssignmentsRequest {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version, req.TimeoutMillis = version, 20_000
	for _, to := range targets {
		t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		t.Topic = r.Name(to.topic)
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition, p.Replicas = to.partition, to.nodes
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// reassign moves partitions to where they are, and to where they cannot be.
func reassign(r *conform.R) {
	r.CreateTopic("t", 2)
	here, nowhere := r.Node(0), r.Node(0)+1000
	for _, v := range conform.Versions(45) {
		for _, c := range []struct {
			title   string
			targets []target
		}{
			{"to where it is", []target{{"t", 0, []int32{here}}}},
			{"both to where they are", []target{{"t", 0, []int32{here}}, {"t", 1, []int32{here}}}},
			{"cancel without one", []target{{"t", 0, nil}}},
			{"to no node", []target{{"t", 0, []int32{}}}},
			{"to an unknown node", []target{{"t", 0, []int32{nowhere}}}},
			{"to a negative node", []target{{"t", 0, []int32{-1}}}},
			{"to a node twice", []target{{"t", 0, []int32{here, here}}}},
			{"to a known and an unknown node", []target{{"t", 0, []int32{here, nowhere}}}},
			{"unknown partition", []target{{"t", 9, []int32{here}}}},
			{"negative partition", []target{{"t", -1, []int32{here}}}},
			{"unknown topic", []target{{"nope", 0, []int32{here}}}},
			{"cancel of an unknown topic", []target{{"nope", 0, nil}}},
			{"empty name", []target{{"=", 0, []int32{here}}}},
			{"good and bad", []target{{"t", 0, []int32{here}}, {"nope", 0, nil}, {"t", 1, []int32{nowhere}}}},
			{"a partition twice", []target{{"t", 0, []int32{here}}, {"t", 0, []int32{here}}}},
			{"none", nil},
		} {
			r.Send(label(v, "%s", c.title), reassignTo(r, v, c.targets...))
		}
		fixed := reassignTo(r, v, target{"t", 0, []int32{here, nowhere}}, target{"t", 1, []int32{here}})
		fixed.AllowReplicationFactorChange = false
		r.Send(label(v, "other count of replicas is not allowed"), fixed)
		at0 := reassignTo(r, v, target{"t", 0, []int32{here}})
		at0.TimeoutMillis = 0
		r.Send(label(v, "timeout 0"), at0)
		tagged := reassignTo(r, v, target{"t", 0, []int32{here}})
		unknownTags(&tagged.UnknownTags)
		unknownTags(&tagged.Topics[0].UnknownTags)
		unknownTags(&tagged.Topics[0].Partitions[0].UnknownTags)
		r.Send(label(v, "unknown tags"), tagged)
		r.Send(label(v, "what is there"), metadataFor(r, "t"))
	}
}

func listReassignments(r *conform.R) {
	r.CreateTopic("t", 2)
	ask := func(name string, partitions ...int32) *kmsg.ListPartitionReassignmentsRequest {
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		req.TimeoutMillis = 20_000
		t := kmsg.NewListPartitionReassignmentsRequestTopic()
		t.Topic, t.Partitions = r.Name(name), partitions
		req.Topics = append(req.Topics, t)
		return req
	}
	r.Send("of a topic", ask("t", 0, 1))
	r.Send("of no partitions", ask("t"))
	r.Send("of an unknown partition", ask("t", 9, -1))
	r.Send("of an unknown topic", ask("nope", 0))
	r.Send("of an empty name", ask("=", 0))
	twice := ask("t", 0, 0)
	twice.Topics = append(twice.Topics, twice.Topics[0])
	r.Send("twice", twice)
	all := ask("t")
	all.Topics = nil
	r.Send("all", all)
	none := ask("t")
	none.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{}
	r.Send("none", none)
	at0 := ask("t", 0)
	at0.TimeoutMillis = 0
	r.Send("timeout 0", at0)
	tagged := ask("t", 0)
	unknownTags(&tagged.UnknownTags)
	unknownTags(&tagged.Topics[0].UnknownTags)
	r.Send("unknown tags", tagged)
}
