package node

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// TestISRChangesShareARequest: those that come while one is on its way go with the next,
// and each hears its own answer.
func TestISRChangesShareARequest(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		if err := r.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		r.c.script(func(req kmsg.Request) (kmsg.Response, metadata.Position, error) {
			alter, ok := req.(*kmsg.AlterPartitionRequest)
			if !ok {
				return obliging(req)
			}
			time.Sleep(10 * time.Millisecond)
			return alterAll(alter), metadata.Position{}, nil
		})
		r.c.take()
		results := map[int32]replica.ISRResult{}
		heard := make(chan struct{}, 10)
		for i := range int32(3) {
			r.AlterPartition(isrChangeOf(i), func(res replica.ISRResult) {
				results[i] = res
				heard <- struct{}{}
			})
			if i == 0 {
				synctest.Wait() // it is on its way
			}
		}
		for range 3 {
			<-heard
		}
		var sizes []int
		requests, _ := r.c.take()
		for _, req := range requests {
			if alter, ok := req.(*kmsg.AlterPartitionRequest); ok {
				sizes = append(sizes, len(alter.Topics[0].Partitions))
				if alter.BrokerEpoch != 7 || alter.Version != 3 {
					t.Errorf("epoch %d, version %d", alter.BrokerEpoch, alter.Version)
				}
			}
		}
		if len(sizes) != 2 || sizes[0] != 1 || sizes[1] != 2 {
			t.Errorf("partitions by request: %v, want 1 and 2", sizes)
		}
		if !errors.Is(results[1].Err, kafkaerr.IneligibleReplica) || results[2].Err != nil || results[2].PartitionEpoch != 6 {
			t.Errorf("answers %+v", results)
		}
	})
}

// TestManyISRChangesTakeSeveralRequests: a broker that many partitions' followers have left
// proposes that for all of them at once, and each hears of its own.
func TestManyISRChangesTakeSeveralRequests(t *testing.T) {
	const partitions = 10 * maxISRChanges
	bubble(t, func(t *testing.T, r rig) {
		if err := r.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		sent := []int{0}
		r.c.script(func(req kmsg.Request) (kmsg.Response, metadata.Position, error) {
			alter, ok := req.(*kmsg.AlterPartitionRequest)
			if !ok {
				return obliging(req)
			}
			time.Sleep(10 * time.Millisecond)
			n := 0
			for _, topic := range alter.Topics {
				n += len(topic.Partitions)
			}
			sent = append(sent, n)
			return alterAll(alter), metadata.Position{}, nil
		})
		heard := make(chan int32, partitions)
		changes := manyISRChanges(partitions)
		for _, change := range changes {
			r.AlterPartition(change, func(res replica.ISRResult) {
				if res.PartitionEpoch == change.PartitionEpoch+1 || change.ID.Partition == 1 && errors.Is(res.Err, kafkaerr.IneligibleReplica) {
					heard <- change.ID.Partition
				}
			})
		}
		for range partitions {
			<-heard
		}
		if most := slices.Max(sent); most > maxISRChanges || len(sent) < 10 || len(sent) > 13 {
			t.Errorf("partitions by request: %v", sent)
		}
	})
}

// manyISRChanges are of a hundred partitions a topic, in the order in which they are sent.
func manyISRChanges(n int) []*replica.ISRChange {
	changes := make([]*replica.ISRChange, n)
	for i := range changes {
		changes[i] = isrChangeOf(int32(i % 100))
		changes[i].ID.TopicID = uuid.UUID{byte(i / 100)}
	}
	return changes
}

// BenchmarkISRResults hands out the answers of full requests: twice the partitions are to take
// twice the time.
func BenchmarkISRResults(b *testing.B) {
	for _, n := range []int{maxISRChanges, 2 * maxISRChanges} {
		changes := manyISRChanges(n)
		resp := alterAll(AlterPartitionRequest(1, 7, changes))
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				ISRResults(changes, resp, nil)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/partition")
		})
	}
}

// A change that is asked for again may come after the one that metadata has replaced it by.
func TestISRChangeIsNotReplacedByAnEarlierOne(t *testing.T) {
	earlier, later := isrChangeOf(0), isrChangeOf(0)
	later.PartitionEpoch++
	for _, order := range [][]*replica.ISRChange{{earlier, later}, {later, earlier}} {
		var c isrChanges
		c.init()
		for _, change := range order {
			c.add(isrChange{ISRChange: change})
		}
		if taken := c.take(); len(taken) != 1 || taken[0].ISRChange != later {
			t.Errorf("%d changes are sent, the first of partition epoch %d", len(taken), taken[0].PartitionEpoch)
		}
	}
}

// isrChangeOf proposes brokers 1 and 2 for a partition at partition epoch 5.
func isrChangeOf(partition int32) *replica.ISRChange {
	return &replica.ISRChange{
		ID: replica.TopicIDPartition{TopicID: uuid.UUID{9}, Partition: partition}, LeaderEpoch: 4, PartitionEpoch: 5,
		ISR: []replica.ISRMember{{ID: 1, BrokerEpoch: 7}, {ID: 2, BrokerEpoch: 8}},
	}
}

// alterAll commits every change but that of partition 1.
func alterAll(req *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse {
	resp := req.ResponseKind().(*kmsg.AlterPartitionResponse)
	for _, t := range req.Topics {
		answer := kmsg.NewAlterPartitionResponseTopic()
		answer.TopidID = t.TopicID
		for _, p := range t.Partitions {
			part := kmsg.NewAlterPartitionResponseTopicPartition()
			part.Partition, part.LeaderEpoch, part.PartitionEpoch = p.Partition, p.LeaderEpoch, p.PartitionEpoch+1
			for _, m := range p.NewEpochISR {
				part.ISR = append(part.ISR, m.BrokerID)
			}
			if p.Partition == 1 {
				part.ErrorCode = kafkaerr.IneligibleReplica.Code
			}
			answer.Partitions = append(answer.Partitions, part)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp
}

// TestISRChangesWithoutController: each hears the error, and the next request waits a little.
func TestISRChangesWithoutController(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		if err := r.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		r.c.script(func(req kmsg.Request) (kmsg.Response, metadata.Position, error) {
			if _, ok := req.(*kmsg.AlterPartitionRequest); ok {
				return nil, metadata.Position{}, kafkaerr.NotController
			}
			return obliging(req)
		})
		r.c.take()
		begin, tries := time.Now(), 0
		ended := make(chan struct{})
		var again func(replica.ISRResult)
		again = func(res replica.ISRResult) {
			if !errors.Is(res.Err, kafkaerr.NotController) {
				t.Errorf("answer %v", res.Err)
			}
			if tries++; tries == 5 {
				close(ended)
				return
			}
			r.AlterPartition(isrChangeOf(0), again)
		}
		r.AlterPartition(isrChangeOf(0), again)
		<-ended
		if took := time.Since(begin); took != 4*retryPause {
			t.Errorf("5 tries took %s, want %s", took, 4*retryPause)
		}
	})
}
