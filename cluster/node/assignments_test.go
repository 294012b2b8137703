package node

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// TestAssignmentsAreSentUntilAnswered: what was known before the broker was registered, what
// a controller did not take, and what has changed while a request was on its way.
func TestAssignmentsAreSentUntilAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		var sent []string
		refuse := kafkaerr.StaleBrokerEpoch.Code
		r.c.script(func(req kmsg.Request) (kmsg.Response, metadata.Position, error) {
			assign, ok := req.(*kmsg.AssignReplicasToDirsRequest)
			if !ok {
				return obliging(req)
			}
			sent = append(sent, shownAssignments(assign))
			resp := granted(assign)
			resp.ErrorCode, refuse = refuse, 0
			time.Sleep(100 * time.Millisecond)
			return resp, metadata.Position{}, nil
		})
		at := func(partition int32) replica.TopicIDPartition {
			return replica.TopicIDPartition{TopicID: uuid.UUID{9}, Partition: partition}
		}
		r.AssignDirectory(at(0), uuid.UUID{2})
		r.AssignDirectory(at(1), uuid.UUID{3})
		r.AssignDirectory(at(2), uuid.UUID{2})
		if err := r.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(650 * time.Millisecond) // the second request is on its way
		r.AssignDirectory(at(0), uuid.UUID{3})
		time.Sleep(time.Minute)
		synctest.Wait()
		all := "epoch 7: 2: [0 2] 3: [1]"
		if want := []string{all, all, "epoch 7: 3: [0]"}; !slices.Equal(sent, want) {
			t.Errorf("sent %q, want %q", sent, want)
		}
	})
}

func shownAssignments(req *kmsg.AssignReplicasToDirsRequest) string {
	s := fmt.Sprintf("epoch %d:", req.BrokerEpoch)
	for _, d := range req.Directories {
		var partitions []int32
		for _, p := range d.Topics[0].Partitions {
			partitions = append(partitions, p.Partition)
		}
		s += fmt.Sprintf(" %d: %v", d.ID[0], partitions)
	}
	return s
}

// granted refuses partition 2, which the controller does not know.
func granted(req *kmsg.AssignReplicasToDirsRequest) *kmsg.AssignReplicasToDirsResponse {
	resp := req.ResponseKind().(*kmsg.AssignReplicasToDirsResponse)
	for _, d := range req.Directories {
		answer := kmsg.NewAssignReplicasToDirsResponseDirectory()
		answer.ID = d.ID
		for _, t := range d.Topics {
			topic := kmsg.NewAssignReplicasToDirsResponseDirectoryTopic()
			topic.TopicID = t.TopicID
			for _, p := range t.Partitions {
				part := kmsg.NewAssignReplicasToDirsResponseDirectoryTopicPartition()
				if part.Partition = p.Partition; p.Partition == 2 {
					part.ErrorCode = kafkaerr.UnknownTopicOrPartition.Code
				}
				topic.Partitions = append(topic.Partitions, part)
			}
			answer.Topics = append(answer.Topics, topic)
		}
		resp.Directories = append(resp.Directories, answer)
	}
	return resp
}
