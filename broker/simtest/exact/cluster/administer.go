package cluster

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// What administrators ask of the controller while faults go on. They do not care for the
// answer: what comes of it shows in metadata.

// administer sends a request to whoever is the controller.
func (w *world) administer(req kmsg.Request) {
	w.quorum.handle(w.quorum.leader, req, func(kmsg.Response, metadata.Position) {})
}

// onePartition draws one that is in use; false if there is none.
func (w *world) onePartition() (t *metadata.Topic, p *metadata.Partition, ok bool) {
	if w.quorum.core == nil || len(w.consumers) == 0 {
		return nil, nil, false
	}
	id := w.consumers[w.rand.IntN(len(w.consumers))].part.id
	t = w.quorum.image().TopicByID(id.TopicID)
	return t, t.Partition(id.Partition), true
}

// reassign gives a partition other replicas, or goes back to those from before.
func (w *world) reassign() {
	t, p, ok := w.onePartition()
	if !ok {
		return
	}
	var to []int32
	if len(p.AddingReplicas)+len(p.RemovingReplicas) == 0 || w.rand.IntN(4) > 0 {
		for _, i := range w.rand.Perm(len(w.nodes))[:2+w.rand.IntN(min(len(w.nodes), 4)-1)] {
			to = append(to, w.nodes[i].id)
		}
	}
	w.assign(t, p, to)
}

// cancelReassignment goes back in all partitions that are on their way to other replicas.
func (w *world) cancelReassignment() {
	for t := range w.quorum.image().Topics() {
		for _, p := range t.Partitions {
			if len(p.AddingReplicas)+len(p.RemovingReplicas) > 0 {
				w.assign(t, p, nil)
			}
		}
	}
}

// assign gives a partition these replicas, with none those from before.
func (w *world) assign(t *metadata.Topic, p *metadata.Partition, replicas []int32) {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version, req.TimeoutMillis = 1, 60_000
	topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	topic.Topic = t.Name
	want := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	want.Partition, want.Replicas = p.Index, replicas
	w.tracef("%s-%d is to be on %v", t.Name, p.Index, replicas)
	topic.Partitions = append(topic.Partitions, want)
	req.Topics = append(req.Topics, topic)
	w.administer(req)
}

// electLeaders has partitions led by their first replicas.
func (w *world) electLeaders() {
	if w.quorum.core == nil {
		return
	}
	w.tracef("first replicas are to lead")
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.TimeoutMillis = 2, 60_000
	w.administer(req)
}

// moved counts what has got other replicas.
func moved(before, now *metadata.Partition) bool {
	done := len(before.AddingReplicas)+len(before.RemovingReplicas) > 0 && len(now.AddingReplicas)+len(now.RemovingReplicas) == 0
	return done && !slices.Equal(before.Replicas, now.Replicas)
}
