package conform

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// AddVoters makes all nodes of the cluster voters of its metadata log, which must observe it.
func (t *Target) AddVoters(ctx context.Context) error {
	c, err := dial(ctx, t.dial, t.addr)
	if err != nil {
		return err
	}
	defer c.close()
	for {
		p, err := describeQuorum(ctx, c)
		if err != nil || len(p.CurrentVoters) == len(t.nodes) {
			return err
		}
		for _, o := range p.Observers {
			if slices.Contains(t.nodes, o.ReplicaID) {
				if err := t.addVoter(ctx, c, o); err != nil {
					return err
				}
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d nodes are voters: %w", len(p.CurrentVoters), len(t.nodes), ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}

func describeQuorum(ctx context.Context, c *Conn) (p kmsg.DescribeQuorumResponseTopicPartition, err error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Version = 2
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic, topic.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{{}}
	req.Topics = append(req.Topics, topic)
	resp, err := ask(ctx, c, req)
	if err != nil {
		return p, fmt.Errorf("describe the quorum: %w", err)
	}
	q := resp.(*kmsg.DescribeQuorumResponse)
	if q.ErrorCode != 0 || len(q.Topics) != 1 || len(q.Topics[0].Partitions) != 1 {
		return p, nil
	}
	return q.Topics[0].Partitions[0], nil
}

// addVoter makes an observer a voter. One that has not caught up is asked for again later.
func (t *Target) addVoter(ctx context.Context, c *Conn, o kmsg.DescribeQuorumResponseTopicPartitionReplicaState) error {
	host, text, err := net.SplitHostPort(t.processes.Controller(o.ReplicaID))
	if err != nil {
		return err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrAddRaftVoterRequest()
	req.TimeoutMillis, req.VoterID, req.VoterDirectoryID = 10_000, o.ReplicaID, o.ReplicaDirectoryID
	req.Listeners = []kmsg.AddRaftVoterRequestListener{{Name: "CONTROLLER", Host: host, Port: uint16(port)}}
	resp, err := ask(ctx, c, req)
	if err != nil {
		return fmt.Errorf("add voter %d: %w", o.ReplicaID, err)
	}
	const timedOut = 7
	if code := resp.(*kmsg.AddRaftVoterResponse).ErrorCode; code != 0 && code != timedOut {
		return fmt.Errorf("add voter %d: error %d", o.ReplicaID, code)
	}
	return nil
}
