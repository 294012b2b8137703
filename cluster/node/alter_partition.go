package node

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

const (
	alterPartitionVersion = 3
	// maxISRChanges bounds the partitions of one request; the others follow with the next.
	maxISRChanges = 1000
)

// isrChanges are the changes of ISRs that wait for the controller: at most one for each
// partition that is led here. One request is on its way at a time, with all that have come
// meanwhile (Kafka's DefaultAlterPartitionManager).
type isrChanges struct {
	wake chan struct{} // room for one

	mu      sync.Mutex
	waiting map[replica.TopicIDPartition]isrChange
}

type isrChange struct {
	*replica.ISRChange
	done func(replica.ISRResult)
}

func (c *isrChanges) init() {
	c.wake = make(chan struct{}, 1)
	c.waiting = make(map[replica.TopicIDPartition]isrChange)
}

// AlterPartition implements replica.AlterPartitionSender. Of two changes of the same
// partition the later one is sent and answered: who made the other one has forgotten it. The
// earlier one may come last, when it is asked for again while metadata brings what the
// later one is based on. None is answered after Close.
func (n *Node) AlterPartition(change *replica.ISRChange, done func(replica.ISRResult)) {
	n.isr.add(isrChange{change, done})
	select {
	case n.isr.wake <- struct{}{}:
	default:
	}
}

func (c *isrChanges) add(change isrChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other, ok := c.waiting[change.ID]; !ok || !change.before(other) {
		c.waiting[change.ID] = change
	}
}

// before tells whether a change is based on older metadata than another one.
func (c isrChange) before(other isrChange) bool {
	return cmp.Or(cmp.Compare(c.LeaderEpoch, other.LeaderEpoch), cmp.Compare(c.PartitionEpoch, other.PartitionEpoch)) < 0
}

// take removes the changes for one request, ordered by topic and partition.
func (c *isrChanges) take() []isrChange {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := make([]isrChange, 0, min(len(c.waiting), maxISRChanges))
	for id, change := range c.waiting {
		if len(taken) == maxISRChanges {
			break
		}
		taken = append(taken, change)
		delete(c.waiting, id)
	}
	slices.SortFunc(taken, func(a, b isrChange) int {
		return cmp.Or(bytes.Compare(a.ID.TopicID[:], b.ID.TopicID[:]), cmp.Compare(a.ID.Partition, b.ID.Partition))
	})
	return taken
}

// sendISRChanges is the goroutine that sends them. After a request that failed, or a
// refusal that passes, it pauses: what failed is waiting again by then.
func (n *Node) sendISRChanges(ctx context.Context) {
	for {
		select {
		case <-n.isr.wake:
		case <-ctx.Done():
			return
		}
		for changes := n.isr.take(); len(changes) > 0 && ctx.Err() == nil; changes = n.isr.take() {
			if again := n.alterPartitions(ctx, changes); again {
				pause(ctx, retryPause)
			}
		}
	}
}

// alterPartitions sends one request and hands out the answers.
func (n *Node) alterPartitions(ctx context.Context, changes []isrChange) (again bool) {
	ctx, cancel := context.WithTimeout(ctx, n.opts.RequestTimeout)
	defer cancel()
	proposed := make([]*replica.ISRChange, len(changes))
	for i := range changes {
		proposed[i] = changes[i].ISRChange
	}
	req := AlterPartitionRequest(n.opts.NodeID, n.BrokerEpoch(), proposed)
	reply, _, err := n.opts.Channel.Handle(ctx, controller.Call{Request: req})
	if n.life.Err() != nil {
		return false
	}
	if err != nil {
		n.opts.Logger.Debug("ISR changes were not answered", "changes", len(changes), "err", err)
	}
	for i, r := range ISRResults(proposed, reply, err) {
		again = again || r.Err != nil
		changes[i].done(r)
	}
	return again
}

// AlterPartitionRequest asks for changes, which are ordered by topic.
func AlterPartitionRequest(broker int32, epoch int64, changes []*replica.ISRChange) *kmsg.AlterPartitionRequest {
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version = alterPartitionVersion
	req.BrokerID, req.BrokerEpoch = broker, epoch
	for _, c := range changes {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].TopicID != c.ID.TopicID {
			t := kmsg.NewAlterPartitionRequestTopic()
			t.TopicID = c.ID.TopicID
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewAlterPartitionRequestTopicPartition()
		p.Partition, p.LeaderEpoch, p.PartitionEpoch = c.ID.Partition, c.LeaderEpoch, c.PartitionEpoch
		for _, m := range c.ISR {
			member := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
			member.BrokerID, member.BrokerEpoch = m.ID, m.BrokerEpoch
			p.NewEpochISR = append(p.NewEpochISR, member)
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

// ISRResults gives the answer to each of changes, in their order. An error of the whole
// request is that of each; a partition that is missing was not attempted as far as anybody
// can tell, and is asked for again.
func ISRResults(changes []*replica.ISRChange, reply kmsg.Response, err error) []replica.ISRResult {
	results := make([]replica.ISRResult, len(changes))
	resp, ok := reply.(*kmsg.AlterPartitionResponse)
	switch {
	case err != nil:
	case !ok:
		err = fmt.Errorf("AlterPartition answered with %T", reply)
	case resp.ErrorCode != 0:
		err = fmt.Errorf("AlterPartition: %w", kerr.ErrorForCode(resp.ErrorCode))
	default:
		err = errNoISRAnswer
	}
	for i := range results {
		results[i].Err = err
	}
	if ok && resp.ErrorCode == 0 {
		fillISRResults(changes, resp, results)
	}
	return results
}

var errNoISRAnswer = fmt.Errorf("AlterPartition was not answered for the partition: %w", kafkaerr.UnknownServerError)

func fillISRResults(changes []*replica.ISRChange, resp *kmsg.AlterPartitionResponse, results []replica.ISRResult) {
	at := make(map[replica.TopicIDPartition]int, len(changes))
	for i, c := range changes {
		at[c.ID] = i
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			i, asked := at[replica.TopicIDPartition{TopicID: t.TopidID, Partition: p.Partition}]
			switch {
			case !asked:
			case p.ErrorCode != 0:
				results[i] = replica.ISRResult{Err: kerr.ErrorForCode(p.ErrorCode)}
			default:
				results[i] = replica.ISRResult{LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, ISR: p.ISR}
			}
		}
	}
}
