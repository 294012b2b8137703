package controller

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// alterReassignments decides an AlterPartitionReassignments request, versions 0 and 1
// (ReplicationControlManager.alterPartitionReassignments). Partitions are decided one by
// one; a refused one does not affect the others. A reassignment ends by itself when the
// replicas that it adds are in sync (see partitionChange.completeReassignment).
func (s *state) alterReassignments(now time.Time, call Call) decision {
	req := call.Request.(*kmsg.AlterPartitionAssignmentsRequest)
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	if len(req.Topics) == 0 {
		resp.ErrorMessage = new(string) // not null, as in Kafka
		return decision{response: resp}
	}
	if call.timedOut(now, req.TimeoutMillis) {
		return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.RequestTimedOut, ""))}
	}
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	r := reassignment{
		state: s, dirs: &directories{state: s}, sameFactor: req.Version >= 1 && !req.AllowReplicationFactorChange,
		changed: map[partitionID]*metadata.Partition{},
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		answer := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		answer.Topic = t.Topic
		for j := range t.Partitions {
			p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			err := r.alter(s.image.Topic(t.Topic), &t.Partitions[j])
			p.Partition, p.ErrorCode, p.ErrorMessage = t.Partitions[j].Partition, kafkaerr.Code(err), answerMessage(err)
			answer.Partitions = append(answer.Partitions, p)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	if len(r.records) > maxRecordsPerRequest {
		return decision{response: ErrorResponse(req, errTooManyRecords)}
	}
	return decision{records: r.records, atomic: true, response: resp}
}

// reassignment is an AlterPartitionReassignments request on its way.
type reassignment struct {
	state      *state
	dirs       *directories
	sameFactor bool // the number of replicas must stay
	records    []metadata.Record
	changed    map[partitionID]*metadata.Partition // what records make of them
}

// alter decides one partition; null replicas cancel. If the request names it again, what it says
// last counts: records tell what differs, and those of two decisions that are both made from what
// was before come to a third thing, which nobody has asked for.
func (r *reassignment) alter(t *metadata.Topic, want *kmsg.AlterPartitionAssignmentsRequestTopicPartition) error {
	p := t.Partition(want.Partition)
	if p == nil {
		return kafkaerr.New(kafkaerr.UnknownTopicOrPartition, fmt.Sprintf("there is no such partition %d", want.Partition))
	}
	id := partitionID{t.ID, p.Index}
	if before := r.changed[id]; before != nil {
		p = before
	}
	c := newPartitionChange(p, r.state.elections(t.Name).MinISR, func(id int32) bool { return r.state.mayLead(topicPartition{t, p}, id) })
	var err error
	if want.Replicas == nil {
		err = r.cancel(c, r.state.elections(t.Name).UncleanElection)
	} else {
		err = r.begin(c, want.Replicas)
	}
	if err != nil {
		return err
	}
	next := c.build()
	if record, changed := changeRecord(t.ID, p, next); changed {
		r.records = append(r.records, record)
		r.changed[id] = next
	}
	return nil
}

// begin aims at other replicas: those that are to go stay until the new ones are in sync.
// One that is under way already gives way to it. Nothing of it is left but those it adds that
// are still wanted: Kafka keeps all that it adds, or takes away, where the new one does not,
// and so waits for ever for a replica that is to go, or lets one go that is to stay.
func (r *reassignment) begin(c *partitionChange, target []int32) error {
	if err := r.state.checkAssignment(target); err != nil {
		return err
	}
	if before := len(exclude(c.old.Replicas, c.old.RemovingReplicas)); r.sameFactor && before != len(target) {
		return kafkaerr.New(kafkaerr.InvalidReplicationFactor, fmt.Sprintf("%d replica(s) would become %d", before, len(target)))
	}
	removing, adding := exclude(c.old.Replicas, target), exclude(target, c.old.Replicas)
	slices.Sort(removing)
	slices.Sort(adding)
	replicas := append(slices.Clone(target), removing...)
	if len(adding) == 0 {
		adding = exclude(c.old.AddingReplicas, removing)
	}
	c.assign(replicas, r.state.directoriesFor(c.old, replicas, r.dirs), adding, removing)
	return nil
}

// cancel goes back to the replicas from before.
func (r *reassignment) cancel(c *partitionChange, unclean bool) error {
	old := c.old
	if !reassigned(old) {
		return kafkaerr.New(kafkaerr.NoReassignmentInProgress, "")
	}
	replicas, isr := exclude(old.Replicas, old.AddingReplicas), exclude(old.ISR, old.AddingReplicas)
	if len(replicas) == 0 {
		return assignmentError("every replica of partition %d is a new one", old.Index)
	}
	if len(isr) == 0 {
		if !unclean || old.Undecided() { // those that it adds may have the most in their logs
			return assignmentError("partition %d could go back only with an unclean election", old.Index)
		}
		if len(exclude(old.ELR, old.AddingReplicas)) == 0 { // else one of them leads, with everything
			isr = replicas[:1]
		}
	}
	if unclean {
		c.election = electUnclean
	}
	c.isr = isr
	c.assign(replicas, r.state.directoriesFor(old, replicas, r.dirs), nil, nil)
	return nil
}

// directoriesFor gives the directories of an assignment: those that replicas have already,
// and new ones for the rest.
func (s *state) directoriesFor(p *metadata.Partition, replicas []int32, dirs *directories) []uuid.UUID {
	chosen := make([]uuid.UUID, len(replicas))
	for i, id := range replicas {
		if slices.Contains(p.Replicas, id) {
			chosen[i] = directoryOf(p, id)
		} else {
			chosen[i] = dirs.choose(s.image.Broker(id))
		}
	}
	return chosen
}

// reassigned tells whether a reassignment is under way.
func reassigned(p *metadata.Partition) bool {
	return len(p.AddingReplicas) > 0 || len(p.RemovingReplicas) > 0
}

// assign sets the target assignment.
func (c *partitionChange) assign(replicas []int32, dirs []uuid.UUID, adding, removing []int32) {
	c.replicas, c.dirs, c.adding, c.removing = replicas, dirs, adding, removing
}

// completeReassignment ends one that is under way when the replicas it adds are all in
// sync. If it takes more away than it adds, all that stay must be: the ISR would shrink
// else (PartitionReassignmentReplicas.maybeCompleteReassignment).
func (c *partitionChange) completeReassignment() {
	if len(c.adding) == 0 && len(c.removing) == 0 {
		return
	}
	isr, replicas := exclude(c.isr, c.removing), exclude(c.replicas, c.removing)
	switch {
	case len(isr) == 0 || len(replicas) == 0 || len(exclude(c.adding, isr)) > 0:
		return
	case len(c.adding) < len(c.removing) && len(exclude(replicas, isr)) > 0:
		return
	}
	var dirs []uuid.UUID
	for i, id := range c.replicas {
		if !slices.Contains(c.removing, id) {
			dirs = append(dirs, c.dirs[i])
		}
	}
	c.isr = isr
	c.assign(replicas, dirs, nil, nil)
}

// listReassignments answers ListPartitionReassignments, version 0: what is under way, of
// some partitions or of all.
func (s *state) listReassignments(call Call) decision {
	req := call.Request.(*kmsg.ListPartitionReassignmentsRequest)
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	add := func(name string, parts []*metadata.Partition) {
		topic := kmsg.NewListPartitionReassignmentsResponseTopic()
		topic.Topic = name
		for _, p := range parts {
			if p == nil || !reassigned(p) {
				continue
			}
			answer := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
			answer.Partition, answer.Replicas = p.Index, p.Replicas
			answer.AddingReplicas, answer.RemovingReplicas = p.AddingReplicas, p.RemovingReplicas
			topic.Partitions = append(topic.Partitions, answer)
		}
		if len(topic.Partitions) > 0 {
			resp.Topics = append(resp.Topics, topic)
		}
	}
	if req.Topics == nil {
		for t := range s.image.Topics() {
			add(t.Name, t.Partitions)
		}
	}
	for _, asked := range req.Topics {
		t := s.image.Topic(asked.Topic)
		parts := make([]*metadata.Partition, 0, len(asked.Partitions))
		for _, index := range asked.Partitions {
			parts = append(parts, t.Partition(index))
		}
		add(asked.Topic, parts)
	}
	return decision{response: resp}
}

// alterReassignmentsError answers the request as a whole and each partition named.
func alterReassignmentsError(req *kmsg.AlterPartitionAssignmentsRequest, resp *kmsg.AlterPartitionAssignmentsResponse, err error) {
	resp.ErrorCode, resp.ErrorMessage = kafkaerr.Code(err), answerMessage(err)
	for _, t := range req.Topics {
		answer := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		answer.Topic = t.Topic
		for _, want := range t.Partitions {
			p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = want.Partition, kafkaerr.Code(err), answerMessage(err)
			answer.Partitions = append(answer.Partitions, p)
		}
		resp.Topics = append(resp.Topics, answer)
	}
}

// listReassignmentsError is the same for ListPartitionReassignments.
func listReassignmentsError(req *kmsg.ListPartitionReassignmentsRequest, resp *kmsg.ListPartitionReassignmentsResponse, err error) {
	resp.ErrorCode, resp.ErrorMessage = kafkaerr.Code(err), answerMessage(err)
	for _, t := range req.Topics {
		answer := kmsg.NewListPartitionReassignmentsResponseTopic()
		answer.Topic = t.Topic
		for _, index := range t.Partitions {
			p := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
			p.Partition = index
			answer.Partitions = append(answer.Partitions, p)
		}
		resp.Topics = append(resp.Topics, answer)
	}
}
