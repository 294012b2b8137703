package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// administered is a walk during which operators move, add and delete partitions, forget brokers
// and ask for elections. It knows which replicas have every acknowledged record.
type administered struct {
	walk
	// complete are these replicas, by partition; lost tells that an election was allowed to
	// lose some.
	complete map[partitionID][]int32
}

// Whatever operators do meanwhile: nobody leads who lacks what was acknowledged, unless that was
// allowed, nothing is left of a reassignment that nobody can end, and when all brokers are back
// each partition has a leader and each reassignment ends.
func TestInvariantsHoldWhileAdministered(t *testing.T) {
	for seed := range uint64(administeredWalks) {
		a := &administered{complete: map[partitionID][]int32{}, walk: walk{
			world: newWorld(), rng: rand.New(rand.NewPCG(seed, 11)), incarnations: map[int32]uuid.UUID{},
			dirs: map[int32][16]byte{}, leaders: map[epochOf]string{},
		}}
		a.commit(decision{records: []metadata.Record{metadata.BootstrapRecord{
			ClusterID: "cluster", Durability: metadata.DurabilityFsync, Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: 1}},
		}}})
		for step := range 300 {
			before := a.image
			a.out.Reset()
			what := a.step()
			if strings.HasPrefix(what, "alter ") {
				a.joined(before)
			}
			if err := a.check(before); err != nil {
				t.Fatalf("seed %d step %d, %s: %v\n%s", seed, step, what, err, a.out.String())
			}
		}
		if err := a.heal(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, a.out.String())
		}
	}
}

const administeredWalks = 100

func (a *administered) step() string {
	id := a.rng.Int32N(4) + 1
	switch n := a.rng.IntN(10); {
	case n < 5:
		disks := map[int32][16]byte{}
		for id, d := range a.dirs {
			disks[id] = d
		}
		what := a.walk.step()
		for id, d := range a.dirs {
			switch old, ok := disks[id]; {
			case !ok || old == d:
			case a.intact(id):
				a.wiped(id)
			default: // refused, since the old process may be alive: then it is
				a.dirs[id] = old
			}
		}
		return what
	case n < 8:
		return a.reassign()
	case n < 9:
		return a.elect()
	}
	switch a.rng.IntN(3) {
	case 0:
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = id
		a.commit(a.unregisterBroker(Call{Request: req}))
		return fmt.Sprintf("unregister %d", id)
	case 1:
		return a.grow()
	default:
		return a.delete()
	}
}

// wiped notes that a broker came back with an empty disk.
func (a *administered) wiped(id int32) {
	for p, have := range a.complete {
		a.complete[p] = exclude(have, []int32{id})
	}
}

// joined notes that whoever a leader has let into the ISR has what it has.
func (a *administered) joined(before *metadata.Image) {
	for tp := range a.partitions(func(*metadata.Partition) bool { return true }) {
		id := partitionID{tp.topic.ID, tp.partition.Index}
		old := before.Partition(id.topic, id.partition)
		if old != nil && old.PartitionEpoch != tp.partition.PartitionEpoch && slices.Contains(a.complete[id], old.Leader) {
			a.complete[id] = append(exclude(a.complete[id], tp.partition.ISR), tp.partition.ISR...)
		}
	}
}

func (a *administered) reassign() string {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version, req.TimeoutMillis, req.AllowReplicationFactorChange = 1, 5000, true
	for range a.rng.IntN(2) + 1 {
		tp, ok := a.anyPartition()
		if !ok {
			return "nothing"
		}
		part := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		part.Partition = tp.partition.Index
		if a.rng.IntN(4) > 0 {
			for _, id := range a.rng.Perm(4)[:a.rng.IntN(3)+1] {
				part.Replicas = append(part.Replicas, int32(id)+1)
			}
		}
		topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		topic.Topic, topic.Partitions = tp.topic.Name, append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
	}
	a.commit(a.alterReassignments(a.now, Call{Request: req, Received: a.now}))
	return fmt.Sprintf("reassign %+v", req.Topics)
}

func (a *administered) elect() string {
	tp, ok := a.anyPartition()
	if !ok {
		return "nothing"
	}
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.TimeoutMillis = 2, 5000
	req.ElectionType = int8(a.rng.IntN(8) / 7)
	topic := kmsg.NewElectLeadersRequestTopic()
	topic.Topic, topic.Partitions = tp.topic.Name, []int32{tp.partition.Index}
	req.Topics = append(req.Topics, topic)
	a.commit(a.electLeaders(a.now, Call{Request: req, Received: a.now}))
	return fmt.Sprintf("elect %d", req.ElectionType)
}

func (a *administered) grow() string {
	tp, ok := a.anyPartition()
	if !ok || len(tp.topic.Partitions) > 5 {
		return "nothing"
	}
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.TimeoutMillis = 3, 5000
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = tp.topic.Name, int32(len(tp.topic.Partitions)+1)
	req.Topics = append(req.Topics, topic)
	a.commit(a.createPartitions(a.now, Call{Request: req, Received: a.now}))
	return "grow " + tp.topic.Name
}

func (a *administered) delete() string {
	tp, ok := a.anyPartition()
	if !ok {
		return "nothing"
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 6, 5000
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.TopicID = tp.topic.ID
	req.Topics = append(req.Topics, topic)
	a.commit(a.deleteTopics(a.now, Call{Request: req, Received: a.now}))
	return "delete " + tp.topic.Name
}

func (a *administered) check(before *metadata.Image) error {
	if err := a.walk.check(before); err != nil {
		return err
	}
	for tp := range a.partitions(func(*metadata.Partition) bool { return true }) {
		p, old := tp.partition, before.Partition(tp.topic.ID, tp.partition.Index)
		for _, c := range []struct {
			name string
			ok   bool
		}{
			{"what a reassignment adds is assigned", len(exclude(p.AddingReplicas, p.Replicas)) == 0},
			{"what a reassignment takes away is assigned", len(exclude(p.RemovingReplicas, p.Replicas)) == 0},
			{"nothing is both added and taken away", len(exclude(p.AddingReplicas, p.RemovingReplicas)) == len(p.AddingReplicas)},
			{"something stays", len(exclude(p.Replicas, p.RemovingReplicas)) > 0},
			{"the last leader is assigned", len(exclude(p.LastKnownELR, p.Replicas)) == 0},
			{"each broker once", len(slices.Compact(slices.Sorted(slices.Values(p.Replicas)))) == len(p.Replicas)},
			{"who leads has everything", a.mayLose(tp, old) || p.Leader < 0 || !a.intact(p.Leader) || slices.Contains(a.complete[partitionID{tp.topic.ID, p.Index}], p.Leader)},
		} {
			if !c.ok {
				return fmt.Errorf("%s: %s after %s; complete %v", c.name, describePartition(tp.topic.Name, p), describeBefore(before, tp), a.complete[partitionID{tp.topic.ID, p.Index}])
			}
		}
		a.acknowledge(tp)
	}
	return nil
}

// mayLose tells that the leader need not have everything: the partition is new, records were
// given up, or the leader was given the replica when it had no disk, which it does not survive.
func (a *administered) mayLose(tp topicPartition, old *metadata.Partition) bool {
	return old == nil || !isAssigned(directoryOf(tp.partition, tp.partition.Leader)) || tp.partition.RecoveryState == metadata.Recovering || a.elections(tp.topic.Name).UncleanElection
}

// acknowledge has a leader acknowledge a record, if it may, when its in-sync replicas have
// everything that it has.
func (a *administered) acknowledge(tp topicPartition) {
	p, id := tp.partition, partitionID{tp.topic.ID, tp.partition.Index}
	have := exclude(a.complete[id], exclude(a.complete[id], p.Replicas))
	inSync := slices.DeleteFunc(slices.Clone(p.ISR), func(r int32) bool { return !slices.Contains(have, r) && !a.intact(r) })
	switch {
	case p.Leader < 0 || !a.intact(p.Leader):
	case int32(len(p.ISR)) >= a.effectiveMinISR(tp) && a.isActive(p.Leader):
		have = inSync
	case p.RecoveryState == metadata.Recovering:
		have = []int32{p.Leader}
	default:
		have = append(exclude(have, inSync), inSync...)
	}
	a.complete[id] = have
}

// intact tells that a broker has the disk that it has registered.
func (a *administered) intact(id int32) bool {
	b := a.image.Broker(id)
	return b != nil && b.HasOnlineDir(a.dirs[id])
}

// heal has all brokers in service, and leaders take everybody into the ISR.
func (a *administered) heal() error {
	a.out.Reset()
	for id := range int32(4) {
		a.now = a.now.Add(time.Minute)
		if _, ok := a.dirs[id+1]; !ok {
			a.dirs[id+1] = named(fmt.Sprintf("d%d", id+1))
		}
		req := registration(id+1, fmt.Sprintf("healed%d", id), fmt.Sprintf("host%d", id+1))
		req.LogDirs = [][16]byte{a.dirs[id+1]}
		d, _ := a.registerBroker(a.now, Call{Request: req}, addressRefuses)
		a.commit(d)
	}
	for range 3 {
		for id := range int32(4) {
			req := kmsg.NewPtrBrokerHeartbeatRequest()
			req.Version, req.BrokerID, req.BrokerEpoch = 2, id+1, a.image.Broker(id+1).Epoch
			req.CurrentMetadataOffset = int64(a.committed.Index)
			a.commit(a.heartbeat(a.now, Call{Request: req}))
		}
		for tp := range a.partitions(func(p *metadata.Partition) bool { return p.Leader >= 0 }) {
			a.inSync(tp)
		}
		for tp := range a.partitions(func(p *metadata.Partition) bool { return p.Leader >= 0 }) {
			a.place(tp)
		}
	}
	for tp := range a.partitions(func(*metadata.Partition) bool { return true }) {
		p := tp.partition
		candidates := slices.Concat(p.ISR, p.ELR)
		if len(candidates) == 0 {
			candidates = p.LastKnownELR
		}
		eligible := slices.ContainsFunc(candidates, func(r int32) bool { return a.mayLead(tp, r) })
		if p.Leader < 0 && eligible || p.Leader >= 0 && reassigned(p) {
			return fmt.Errorf("when all are back: %s; complete %v", describePartition(tp.topic.Name, p), a.complete[partitionID{tp.topic.ID, p.Index}])
		}
	}
	return nil
}

// place has brokers say where replicas are that they have begun anew, or chosen a place for.
func (a *administered) place(tp topicPartition) {
	for i, id := range tp.partition.Replicas {
		dir := tp.partition.Directories[i]
		if isAssigned(dir) && a.image.Broker(id).HasOnlineDir(dir) {
			continue
		}
		req := kmsg.NewPtrAssignReplicasToDirsRequest()
		req.BrokerID, req.BrokerEpoch = id, a.image.Broker(id).Epoch
		part := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
		part.Partition = tp.partition.Index
		topic := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
		topic.TopicID, topic.Partitions = tp.topic.ID, append(topic.Partitions, part)
		at := kmsg.NewAssignReplicasToDirsRequestDirectory()
		at.ID, at.Topics = a.dirs[id], append(at.Topics, topic)
		req.Directories = append(req.Directories, at)
		a.commit(a.assignReplicas(Call{Request: req}))
	}
}

func (a *administered) inSync(tp topicPartition) {
	p := tp.partition
	var isr []kmsg.AlterPartitionRequestTopicPartitionNewEpochISR
	for _, r := range p.Replicas {
		if a.mayLead(tp, r) || r == p.Leader {
			isr = append(isr, kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: r, BrokerEpoch: a.image.Broker(r).Epoch})
		}
	}
	a.commit(a.alterPartition(a.now, Call{Request: asksForISR(a.image, tp, isr)}))
}
