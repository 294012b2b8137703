package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// runForPartitions plays the commands about partitions; false if it knows the command not.
// assignRequest has a directory of its own for each line.
func (w *world) assignRequest(t *testing.T, td *datadriven.TestData, id int32) *kmsg.AssignReplicasToDirsRequest {
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	req.BrokerID, req.BrokerEpoch = id, w.image.Broker(id).Epoch
	if e := arg(td, "epoch"); e != "" {
		req.BrokerEpoch = number[int64](t, e)
	}
	for line := range strings.Lines(td.Input) {
		replica, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, index, _ := strings.Cut(replica, ":")
		topic := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
		if known := w.image.Topic(name); known != nil {
			topic.TopicID = known.ID
		}
		topic.Partitions = []kmsg.AssignReplicasToDirsRequestDirectoryTopicPartition{{Partition: number[int32](t, index)}}
		d := kmsg.NewAssignReplicasToDirsRequestDirectory()
		d.ID, d.Topics = named(dir), append(d.Topics, topic)
		req.Directories = append(req.Directories, d)
	}
	return req
}

func (w *world) runForPartitions(t *testing.T, td *datadriven.TestData) bool {
	switch td.Cmd {
	case "grow":
		w.commit(w.createPartitions(w.now, Call{Request: growRequest(t, td), Received: w.now}))
	case "elect":
		w.commit(w.electLeaders(w.now, Call{Request: electRequest(t, td), Received: w.now}))
	case "reassign":
		w.commit(w.alterReassignments(w.now, Call{Request: reassignRequest(t, td), Received: w.now}))
	case "reassignments":
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		req.Topics = nil
		for line := range strings.Lines(td.Input) {
			topic := kmsg.NewListPartitionReassignmentsRequestTopic()
			var indexes string
			topic.Topic, indexes, _ = strings.Cut(strings.TrimSpace(line), ":")
			for _, i := range list(indexes) {
				topic.Partitions = append(topic.Partitions, number[int32](t, i))
			}
			req.Topics = append(req.Topics, topic)
		}
		w.commit(w.listReassignments(Call{Request: req}))
	default:
		return false
	}
	return true
}

func growRequest(t *testing.T, td *datadriven.TestData) *kmsg.CreatePartitionsRequest {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.ValidateOnly = 3, td.HasArg("validate")
	req.TimeoutMillis = number[int32](t, argOr(td, "timeout", "5000"))
	for line := range strings.Lines(td.Input) {
		fields := strings.Fields(line)
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = fields[0], number[int32](t, fields[1])
		for _, f := range fields[2:] {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			for _, b := range list(f) {
				a.Replicas = append(a.Replicas, number[int32](t, b))
			}
			topic.Assignment = append(topic.Assignment, a)
		}
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// partitionLine reads TOPIC:PARTITION and what follows.
func partitionLine(t *testing.T, line string) (topic string, partition int32, rest string) {
	place, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	topic, index, _ := strings.Cut(place, ":")
	return topic, number[int32](t, index), rest
}

func electRequest(t *testing.T, td *datadriven.TestData) *kmsg.ElectLeadersRequest {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.TimeoutMillis = 2, number[int32](t, argOr(td, "timeout", "5000"))
	if td.HasArg("unclean") {
		req.ElectionType = uncleanElection
	}
	if !td.HasArg("all") {
		req.Topics = []kmsg.ElectLeadersRequestTopic{}
	}
	for line := range strings.Lines(td.Input) {
		topic := kmsg.NewElectLeadersRequestTopic()
		topic.Partitions = []int32{0}
		topic.Topic, topic.Partitions[0], _ = partitionLine(t, line)
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func reassignRequest(t *testing.T, td *datadriven.TestData) *kmsg.AlterPartitionAssignmentsRequest {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version, req.TimeoutMillis = 1, number[int32](t, argOr(td, "timeout", "5000"))
	req.AllowReplicationFactorChange = !td.HasArg("same-factor")
	for line := range strings.Lines(td.Input) {
		topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		var to string
		topic.Topic, p.Partition, to = partitionLine(t, line)
		if to != "cancel" {
			p.Replicas = []int32{}
		}
		for _, b := range list(strings.TrimPrefix(to, "cancel")) {
			p.Replicas = append(p.Replicas, number[int32](t, b))
		}
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// partitionsResponse prints the answers to the commands above.
func partitionsResponse(b *strings.Builder, resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.CreatePartitionsResponse:
		for _, t := range r.Topics {
			fmt.Fprintf(b, "-> %s %s%s\n", t.Topic, code(t.ErrorCode), message(t.ErrorMessage))
		}
	case *kmsg.ElectLeadersResponse:
		fmt.Fprintf(b, "-> %s\n", code(r.ErrorCode))
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(b, "-> %s:%d %s\n", t.Topic, p.Partition, code(p.ErrorCode))
			}
		}
	case *kmsg.AlterPartitionAssignmentsResponse:
		fmt.Fprintf(b, "-> %s\n", code(r.ErrorCode))
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(b, "-> %s:%d %s%s\n", t.Topic, p.Partition, code(p.ErrorCode), message(p.ErrorMessage))
			}
		}
	case *kmsg.ListPartitionReassignmentsResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(b, "-> %s:%d replicas=%v adding=%v removing=%v\n", t.Topic, p.Partition, p.Replicas, p.AddingReplicas, p.RemovingReplicas)
			}
		}
	}
}

// assignmentChange prints what a record changes of the assignment.
func assignmentChange(r *metadata.PartitionChangeRecord) (s string) {
	for _, l := range []struct {
		name string
		ids  []int32
	}{{"replicas", r.Replicas}, {"adding", r.AddingReplicas}, {"removing", r.RemovingReplicas}} {
		if l.ids != nil {
			s += fmt.Sprintf(" %s=%v", l.name, l.ids)
		}
	}
	if r.Directories != nil {
		s += " dirs=" + names(r.Directories)
	}
	return s
}
