package simtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// Members that come and go while others are restarted one after the other (T24): in each round
// one broker is drained, loses its vote and is forgotten, and its machine comes back with an
// empty disk as a voter.

// bootstrapServers is the setting of a node that is no voter by its configuration. The first
// of them, alone in its own, founds the cluster.
func (c *Cluster) bootstrapServers(node int) string {
	var all []string
	for i := range c.opts.Brokers {
		all = append(all, fmt.Sprintf("broker-%d:9093", i+1))
	}
	if node == 1 {
		all = all[:1]
	}
	return "controller.quorum.bootstrap.servers=" + strings.Join(all, ",")
}

// Grow has every broker vote in the quorum.
func (c *Cluster) Grow() {
	first := c.broker.machine
	i := slices.Index(first.Settings, c.bootstrapServers(1))
	first.Settings[i] = c.bootstrapServers(2) // or with an empty disk it would found another cluster
	for _, b := range c.brokers[1:] {
		c.vote(b)
	}
}

// RollingMembers plays rounds until the channels are closed.
func (c *Cluster) RollingMembers(until ...<-chan struct{}) (done <-chan struct{}) {
	over := make(chan struct{})
	c.Go(func() {
		defer close(over)
		for _, ch := range until {
			for !isClosed(ch) {
				c.memberRound(c.brokers[c.draw(len(c.brokers))])
			}
		}
	})
	return over
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// memberRound exchanges a member while the others are restarted.
func (c *Cluster) memberRound(leaving *Broker) {
	c.tracef("%s: leaves", leaving.machine.Name)
	drained, unvoted := make(chan struct{}), make(chan struct{})
	c.Go(func() {
		defer close(drained)
		c.drain(leaving)
	})
	c.Go(func() {
		defer close(unvoted)
		c.sleep(c.pause(10 * time.Second))
		c.unvote(leaving)
	})
	for _, b := range c.brokers {
		if b != leaving {
			c.restart(b)
		}
	}
	c.RunUntil(drained, unvoted)
	leaving.Stop()
	c.forget(leaving)
	leaving.disk = vfs.NewCrash(rand.NewPCG(c.seed, uint64(c.draw(1<<30))))
	leaving.disk.OnSync(leaving.onSync)
	leaving.Start()
	c.vote(leaving)
	c.awaitInSync()
}

// restart is one of a roll: mostly orderly, and followed by the next when all is in sync.
func (c *Cluster) restart(b *Broker) {
	if c.draw(4) == 0 {
		b.crashSomehow()
	} else {
		b.Stop()
	}
	c.sleep(c.pause(time.Second))
	b.Start()
	c.awaitInSync()
}

// eventually repeats what an operator asks for until it is done.
func (c *Cluster) eventually(what string, ask func(ctx context.Context, client *kgo.Client) error) {
	client := c.client()
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.over, judgePatience)
	defer cancel()
	for {
		err := ask(ctx, client)
		if err == nil {
			c.tracef("%s: done", what)
			return
		}
		if ctx.Err() != nil {
			c.require(what, err)
		}
		c.tracef("%s: %v", what, err)
		c.sleep(200 * time.Millisecond)
	}
}

// drain moves the replicas of a broker to others that have none of the partition.
func (c *Cluster) drain(leaving *Broker) {
	id := leaving.id()
	c.eventually("drain "+leaving.machine.Name, func(ctx context.Context, client *kgo.Client) error {
		admin := kadm.NewClient(client)
		topics, err := admin.ListTopics(ctx)
		if err != nil {
			return err
		}
		if len(topics) < c.numTopics() {
			return fmt.Errorf("only %d topics are told", len(topics))
		}
		var req kadm.AlterPartitionAssignmentsReq
		left := 0
		for _, t := range topics {
			for _, p := range t.Partitions {
				if slices.Contains(p.Replicas, id) {
					left++
					c.moveOne(&req, p, id)
				}
			}
		}
		if left == 0 {
			return nil
		}
		answers, err := admin.AlterPartitionAssignments(ctx, req)
		return errors.Join(fmt.Errorf("%d partitions are there", left), err, answers.Error())
	})
}

func (c *Cluster) numTopics() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.topics)
}

// moveOne moves a partition unless it is on its way: then it has a replica more.
func (c *Cluster) moveOne(req *kadm.AlterPartitionAssignmentsReq, p kadm.PartitionDetail, from int32) {
	if len(p.Replicas) > 3 {
		return
	}
	to := slices.Clone(p.Replicas)
	for _, b := range c.brokers {
		if !slices.Contains(to, b.id()) {
			to[slices.Index(to, from)] = b.id()
			req.Assign(p.Topic, p.Partition, to)
			return
		}
	}
}

func (c *Cluster) vote(b *Broker) {
	c.eventually("vote of "+b.machine.Name, func(ctx context.Context, client *kgo.Client) error {
		directory, _, err := b.member(ctx, client)
		if err != nil {
			return err
		}
		req := kmsg.NewPtrAddRaftVoterRequest()
		req.TimeoutMillis, req.VoterID, req.VoterDirectoryID = 5_000, b.id(), directory
		req.Listeners = []kmsg.AddRaftVoterRequestListener{{Name: "CONTROLLER", Host: b.machine.Name, Port: 9093}}
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		if err = kerr.ErrorForCode(resp.ErrorCode); errors.Is(err, kerr.DuplicateVoter) {
			return nil
		}
		return err
	})
}

func (c *Cluster) unvote(b *Broker) {
	c.eventually("no vote of "+b.machine.Name, func(ctx context.Context, client *kgo.Client) error {
		directory, votes, err := b.member(ctx, client)
		if err != nil || !votes {
			return err
		}
		req := kmsg.NewPtrRemoveRaftVoterRequest()
		req.VoterID, req.VoterDirectoryID = b.id(), directory
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		if err = kerr.ErrorForCode(resp.ErrorCode); errors.Is(err, kerr.VoterNotFound) {
			return nil
		}
		return err
	})
}

// forget has the cluster forget a broker that is stopped.
func (c *Cluster) forget(b *Broker) {
	c.eventually("forget "+b.machine.Name, func(ctx context.Context, client *kgo.Client) error {
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = b.id()
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		if err = kerr.ErrorForCode(resp.ErrorCode); errors.Is(err, kerr.BrokerIDNotRegistered) {
			return nil
		}
		return err
	})
}

// id is the node's: that of broker-2 is 2.
func (b *Broker) id() int32 { return int32(slices.Index(b.c.brokers, b) + 1) }

// member tells a node's directory in the quorum, and whether it votes.
func (b *Broker) member(ctx context.Context, client *kgo.Client) (directory [16]byte, votes bool, err error) {
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic, topic.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{{}}
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return directory, false, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return directory, false, errors.New("no quorum is described")
	}
	p := &resp.Topics[0].Partitions[0]
	for i, list := range [][]kmsg.DescribeQuorumResponseTopicPartitionReplicaState{p.CurrentVoters, p.Observers} {
		for _, m := range list {
			if m.ReplicaID == b.id() {
				return m.ReplicaDirectoryID, i == 0, nil
			}
		}
	}
	return directory, false, errors.Join(fmt.Errorf("node %d is not in the quorum", b.id()), kerr.ErrorForCode(p.ErrorCode))
}
