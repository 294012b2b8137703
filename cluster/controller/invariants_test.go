package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// walk drives a world with random requests, as brokers, clients and time would make them.
type walk struct {
	*world
	rng          *rand.Rand
	incarnation  int
	incarnations map[int32]uuid.UUID
	dirs         map[int32][16]byte
	// leaders notes who led each partition in each leader epoch, and as which incarnation.
	leaders map[epochOf]string
}

type epochOf struct {
	topic     uuid.UUID
	partition int32
	epoch     int32
}

// Whatever brokers and time do, in any order: every decision fits the image, and the
// cluster keeps its promises.
func TestInvariantsHoldOnRandomWalks(t *testing.T) {
	for seed := range uint64(150) {
		w := &walk{
			world: newWorld(), rng: rand.New(rand.NewPCG(seed, 7)), incarnations: map[int32]uuid.UUID{},
			dirs: map[int32][16]byte{}, leaders: map[epochOf]string{},
		}
		durability := metadata.DurabilityFsync
		if seed%3 == 0 {
			durability = metadata.DurabilityReplicated
		}
		w.commit(decision{records: []metadata.Record{metadata.BootstrapRecord{
			ClusterID: "cluster", Durability: durability, Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: 1}},
		}}})
		for step := range 250 {
			before := w.image
			w.out.Reset()
			what := w.step()
			if err := w.check(before); err != nil {
				t.Fatalf("seed %d step %d, %s: %v\n%s", seed, step, what, err, w.out.String())
			}
		}
	}
}

func (w *walk) step() string {
	id := w.rng.Int32N(4) + 1
	b := w.image.Broker(id)
	switch n := w.rng.IntN(20); {
	case n < 2 || b == nil:
		return w.restart(id)
	case n < 10:
		return w.beat(b)
	case n < 13:
		w.tickBy(time.Duration(w.rng.IntN(2000)) * time.Millisecond)
		return "tick"
	case n < 15:
		w.commit(w.createTopics(w.now, Call{Request: w.newTopic(), Received: w.now}))
		return "create"
	case n < 18:
		return w.alter()
	case n < 19:
		if d, ok := w.fenceRefusing(id, b.Epoch, w.now); ok {
			w.commit(d)
		}
		return fmt.Sprintf("broker %d refuses", id)
	default:
		w.activate(w.now, metadata.NewDelta(w.image).Image(w.committed))
		return "new controller"
	}
}

// restart registers a new incarnation, sometimes with an empty disk or elsewhere.
func (w *walk) restart(id int32) string {
	w.incarnation++
	w.incarnations[id] = named(fmt.Sprintf("i%d", w.incarnation))
	if _, ok := w.dirs[id]; !ok || w.rng.IntN(6) == 0 {
		w.dirs[id] = named(fmt.Sprintf("d%d-%d", id, w.incarnation))
	}
	req := registration(id, text(w.incarnations[id]), fmt.Sprintf("host%d-%d", id, w.rng.IntN(2)))
	req.LogDirs = [][16]byte{w.dirs[id]}
	if b := w.image.Broker(id); b != nil && w.rng.IntN(2) == 0 {
		req.PreviousBrokerEpoch = b.Epoch
	}
	d, probe := w.registerBroker(w.now, Call{Request: req}, addressNotProbed)
	if probe != nil {
		d, _ = w.registerBroker(w.now, Call{Request: req}, addressKnowledge(w.rng.IntN(2)+1))
	}
	w.commit(d)
	return fmt.Sprintf("restart %d", id)
}

func (w *walk) beat(b *metadata.Broker) string {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 2, b.ID, b.Epoch
	req.CurrentMetadataOffset = int64(w.committed.Index)
	req.WantFence, req.WantShutdown = w.rng.IntN(15) == 0, w.rng.IntN(15) == 0
	if w.rng.IntN(20) == 0 && len(b.LogDirs) > 0 {
		req.OfflineLogDirs = append(req.OfflineLogDirs, b.LogDirs[0])
	}
	if p, ok := w.anyPartition(); ok && w.rng.IntN(10) == 0 {
		SetFailedReplicas(req, []FailedReplica{{p.topic.ID, p.partition.Index}})
	}
	w.commit(w.heartbeat(w.now, Call{Request: req}))
	return fmt.Sprintf("heartbeat %d fence=%v shutdown=%v", b.ID, req.WantFence, req.WantShutdown)
}

func (w *walk) newTopic() *kmsg.CreateTopicsRequest {
	req := createTopics(fmt.Sprintf("t%d", w.committed.Index))
	t := &req.Topics[0]
	t.NumPartitions, t.ReplicationFactor = w.rng.Int32N(3)+1, int16(w.rng.IntN(3)+1)
	minISR := fmt.Sprint(w.rng.IntN(3) + 1)
	t.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "min.insync.replicas", Value: &minISR}}
	if w.rng.IntN(8) == 0 {
		t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: "unclean.leader.election.enable", Value: metadata.Ptr("true")})
	}
	return req
}

func (w *walk) anyPartition() (topicPartition, bool) {
	var all []topicPartition
	for tp := range w.partitions(func(*metadata.Partition) bool { return true }) {
		all = append(all, tp)
	}
	if len(all) == 0 {
		return topicPartition{}, false
	}
	return all[w.rng.IntN(len(all))], true
}

// alter has a leader ask for some ISR, as often as not a possible one.
func (w *walk) alter() string {
	tp, ok := w.anyPartition()
	if !ok || tp.partition.Leader < 0 {
		return "nothing"
	}
	p := tp.partition
	var isr []kmsg.AlterPartitionRequestTopicPartitionNewEpochISR
	for _, r := range p.Replicas {
		if r != p.Leader && w.rng.IntN(3) == 0 {
			continue
		}
		isr = append(isr, kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: r, BrokerEpoch: -1})
	}
	w.commit(w.alterPartition(w.now, Call{Request: asksForISR(w.image, tp, isr)}))
	return "alter " + describePartition(tp.topic.Name, p)
}

// asksForISR is the request of a partition's leader that knows its state.
func asksForISR(image *metadata.Image, tp topicPartition, isr []kmsg.AlterPartitionRequestTopicPartitionNewEpochISR) *kmsg.AlterPartitionRequest {
	p := tp.partition
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 3, p.Leader, image.Broker(p.Leader).Epoch
	part := kmsg.NewAlterPartitionRequestTopicPartition()
	part.Partition, part.LeaderEpoch, part.PartitionEpoch, part.NewEpochISR = p.Index, p.LeaderEpoch, p.PartitionEpoch, isr
	topic := kmsg.NewAlterPartitionRequestTopic()
	topic.TopicID, topic.Partitions = tp.topic.ID, append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	return req
}

// check looks at every partition after a step.
func (w *walk) check(before *metadata.Image) error {
	for tp := range w.partitions(func(*metadata.Partition) bool { return true }) {
		p := tp.partition
		for _, c := range []struct {
			name string
			ok   bool
		}{
			{"ISRWithinAssignment", len(exclude(p.ISR, p.Replicas)) == 0 && len(exclude(p.ELR, p.Replicas)) == 0},
			{"the leader is in the ISR", p.Leader < 0 || slices.Contains(p.ISR, p.Leader)},
			{"ISR and ELR are disjoint", len(exclude(p.ISR, p.ELR)) == len(p.ISR)},
			{"epochs do not fall", !epochsFell(before.Partition(tp.topic.ID, p.Index), p)},
			{"OneLeaderPerEpoch", w.sameLeader(tp)},
			{"a leader has its directory", p.Leader < 0 || w.image.Broker(p.Leader).HasOnlineDir(directoryOf(p, p.Leader))},
			{"a fenced leader could not be replaced", !w.couldBeRelieved(tp)},
		} {
			if !c.ok {
				return fmt.Errorf("%s: %s after %s", c.name, describePartition(tp.topic.Name, p), describeBefore(before, tp))
			}
		}
	}
	return nil
}

func describeBefore(before *metadata.Image, tp topicPartition) string {
	if p := before.Partition(tp.topic.ID, tp.partition.Index); p != nil {
		return describePartition(tp.topic.Name, p)
	}
	return "nothing"
}

func epochsFell(old, p *metadata.Partition) bool {
	return old != nil && (p.LeaderEpoch < old.LeaderEpoch || p.PartitionEpoch < old.PartitionEpoch)
}

// sameLeader checks that one epoch has one leader, and that one incarnation only: two logs
// never carry the same epoch (D20).
func (w *walk) sameLeader(tp topicPartition) bool {
	p := tp.partition
	if p.Leader < 0 {
		return true
	}
	key := epochOf{tp.topic.ID, p.Index, p.LeaderEpoch}
	who := fmt.Sprintf("%d as %s", p.Leader, text(w.image.Broker(p.Leader).IncarnationID))
	if known, ok := w.leaders[key]; ok {
		return known == who
	}
	w.leaders[key] = who
	return true
}

// couldBeRelieved reports whether a fenced broker leads although another one, in service
// and heard, is in the ISR.
func (w *walk) couldBeRelieved(tp topicPartition) bool {
	p := tp.partition
	if p.Leader < 0 || !w.image.Broker(p.Leader).Fenced {
		return false
	}
	return slices.ContainsFunc(p.ISR, func(r int32) bool {
		return r != p.Leader && w.mayLead(tp, r) && w.isHeard(w.now, r)
	})
}
