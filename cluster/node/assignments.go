package node

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// maxAssignments bounds the replicas of one request; the others follow with the next.
const maxAssignments = 1000

// assignments are the replicas whose directories the controller does not know yet, at most
// one entry for each replica here (Kafka's AssignmentsManager). They are sent again until the
// controller has answered for each.
type assignments struct {
	wake chan struct{} // room for one

	mu      sync.Mutex
	waiting map[replica.TopicIDPartition]uuid.UUID
}

func (a *assignments) init() {
	a.wake = make(chan struct{}, 1)
	a.waiting = make(map[replica.TopicIDPartition]uuid.UUID)
}

// AssignDirectory tells the controller, as soon as there is one and it knows this broker,
// that a replica of this broker is in that directory. Metadata shows when it knows.
func (n *Node) AssignDirectory(id replica.TopicIDPartition, dir uuid.UUID) {
	a := &n.assignments
	a.mu.Lock()
	a.waiting[id] = dir
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// some gives the assignments for one request.
func (a *assignments) some() map[replica.TopicIDPartition]uuid.UUID {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := make(map[replica.TopicIDPartition]uuid.UUID, min(len(a.waiting), maxAssignments))
	for id, dir := range a.waiting {
		if len(taken) == maxAssignments {
			break
		}
		taken[id] = dir
	}
	return taken
}

// settled takes off the list what was answered, unless the replica has moved on meanwhile.
func (a *assignments) settled(id replica.TopicIDPartition, dir uuid.UUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting[id] == dir {
		delete(a.waiting, id)
	}
}

// sendAssignments is the goroutine that sends them.
func (n *Node) sendAssignments(ctx context.Context) {
	for {
		select {
		case <-n.assignments.wake:
		case <-ctx.Done():
			return
		}
		for ctx.Err() == nil {
			some := n.assignments.some()
			if len(some) == 0 {
				break
			}
			if err := n.assign(ctx, some); err != nil {
				n.opts.Logger.Debug("directories of replicas were not assigned", "replicas", len(some), "err", err)
				pause(ctx, n.opts.HeartbeatInterval)
			}
		}
	}
}

// assign sends one request. What the controller refuses for good is settled as well: such a
// replica is not here any more, or not known.
func (n *Node) assign(ctx context.Context, some map[replica.TopicIDPartition]uuid.UUID) error {
	ctx, cancel := context.WithTimeout(ctx, n.opts.RequestTimeout)
	defer cancel()
	if err := n.await(ctx, func() (bool, error) { return n.state != Starting, nil }); err != nil {
		return err
	}
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	req.BrokerID, req.BrokerEpoch = n.opts.NodeID, n.BrokerEpoch()
	req.Directories = byDirectory(some)
	reply, _, err := n.opts.Channel.Handle(ctx, controller.Call{Request: req})
	if err != nil {
		return err
	}
	resp, ok := reply.(*kmsg.AssignReplicasToDirsResponse)
	if !ok {
		return fmt.Errorf("AssignReplicasToDirs answered with %T", reply)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	n.takeAssigned(resp)
	return nil
}

func (n *Node) takeAssigned(resp *kmsg.AssignReplicasToDirsResponse) {
	for _, d := range resp.Directories {
		for _, t := range d.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					n.opts.Logger.Warn("directory of a replica was refused", "topicId", uuid.UUID(t.TopicID), "partition", p.Partition, "err", kerr.ErrorForCode(p.ErrorCode))
				}
				n.assignments.settled(replica.TopicIDPartition{TopicID: t.TopicID, Partition: p.Partition}, d.ID)
			}
		}
	}
}

// byDirectory gives assignments the form of the request, in a fixed order.
func byDirectory(some map[replica.TopicIDPartition]uuid.UUID) (dirs []kmsg.AssignReplicasToDirsRequestDirectory) {
	ids := slices.SortedFunc(maps.Keys(some), func(x, y replica.TopicIDPartition) int {
		dx, dy := some[x], some[y]
		return cmp.Or(bytes.Compare(dx[:], dy[:]), bytes.Compare(x.TopicID[:], y.TopicID[:]), cmp.Compare(x.Partition, y.Partition))
	})
	for _, id := range ids {
		if n := len(dirs); n == 0 || dirs[n-1].ID != some[id] {
			dir := kmsg.NewAssignReplicasToDirsRequestDirectory()
			dir.ID = some[id]
			dirs = append(dirs, dir)
		}
		dir := &dirs[len(dirs)-1]
		if n := len(dir.Topics); n == 0 || dir.Topics[n-1].TopicID != id.TopicID {
			topic := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
			topic.TopicID = id.TopicID
			dir.Topics = append(dir.Topics, topic)
		}
		topic := &dir.Topics[len(dir.Topics)-1]
		part := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
		part.Partition = id.Partition
		topic.Partitions = append(topic.Partitions, part)
	}
	return dirs
}
