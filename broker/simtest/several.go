package simtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/klamm-mq/klamm/broker/brokertest"
)

// What is different when there are several brokers, each on a machine of its own, with real
// Raft among them:
//
//	faults   kill, power cut, orderly stop, a machine that is cut off from all others;
//	         several at a time, and all at once
//	promise  what was acknowledged with acks=all is served at the end, whoever leads then,
//	         and after the power has failed everywhere at once

func (c *Cluster) several() bool { return c.opts.Brokers > 1 }

// addBrokers makes the machines of a cluster; c.machine is the first.
func (c *Cluster) addBrokers() {
	var voters []string
	for i := range c.opts.Brokers {
		voters = append(voters, fmt.Sprintf("%d@broker-%d:9093", i+1, i+1))
	}
	quorum := "controller.quorum.voters=" + strings.Join(voters, ",")
	for i := range c.opts.Brokers {
		m, number := c.machine, uint64(i+1)
		if i > 0 {
			m = brokertest.NewMachineOn(c.t, c.machine.Net, fmt.Sprintf("broker-%d", number), c.seed<<8+number)
			c.brokers = append(c.brokers, newBroker(c, m, number))
		}
		if c.opts.Growing {
			quorum = c.bootstrapServers(i + 1)
		}
		m.Settings = []string{
			"process.roles=broker,controller", fmt.Sprintf("node.id=%d", number),
			fmt.Sprintf("listeners=PLAINTEXT://broker-%d:9092,CONTROLLER://broker-%d:9093", number, number),
			"controller.listener.names=CONTROLLER", quorum,
			"log.dirs=/data", "admin.listener=",
			// Faults that are short are to cost elections, too.
			"controller.quorum.fetch.timeout.ms=200", "controller.quorum.election.timeout.ms=200",
		}
	}
}

func (c *Cluster) addresses() (list []string) {
	for _, b := range c.brokers {
		list = append(list, b.machine.Addr())
	}
	return list
}

// startAll starts every broker that is down, all at the same time: they may need each other.
func (c *Cluster) startAll() {
	var starts sync.WaitGroup
	for _, b := range c.brokers {
		if l := b.current(); l == nil || l.dead() {
			starts.Go(b.Start)
		}
	}
	starts.Wait()
}

// ChaosOfSeveral lets faults happen until the channels are closed. At its end every broker
// is up and reaches the others.
func (c *Cluster) ChaosOfSeveral(until ...<-chan struct{}) (done <-chan struct{}) {
	over := make(chan struct{})
	c.Go(func() {
		defer close(over)
		var down sync.WaitGroup
		defer down.Wait()
		for _, ch := range until {
			c.faultsOfSeveral(ch, &down)
		}
	})
	return over
}

func (c *Cluster) faultsOfSeveral(ch <-chan struct{}, down *sync.WaitGroup) {
	for {
		timer := time.NewTimer(c.pause(4 * time.Second))
		select {
		case <-ch:
			timer.Stop()
			return
		case <-c.over.Done():
			timer.Stop()
			panic(stopped{})
		case <-timer.C:
		}
		hit := []*Broker{c.brokers[c.draw(len(c.brokers))]}
		if c.draw(8) == 0 {
			hit = c.brokers
		}
		for _, b := range hit {
			if b.busy.CompareAndSwap(false, true) {
				down.Go(func() {
					defer b.busy.Store(false)
					c.misfortune(b)
				})
			}
		}
	}
}

// misfortune is one fault of one broker, and its end.
func (c *Cluster) misfortune(b *Broker) {
	switch c.draw(5) {
	case 0, 1:
		b.crashSomehow()
	case 2:
		b.setSyncFaults(1+c.draw(30), false)
		select {
		case <-b.current().ctx.Done():
		case <-time.After(5 * time.Second):
			b.setSyncFaults(0, false)
			b.Kill()
		}
	case 3:
		b.Stop()
	default:
		c.tracef("%s: cut off", b.machine.Name)
		b.machine.Net.Isolate(b.machine.Name)
		c.sleep(c.pause(8 * time.Second))
		c.tracef("%s: reached again", b.machine.Name)
		b.machine.Net.Rejoin(b.machine.Name)
	}
	for b.current().dead() && c.over.Err() == nil {
		c.sleep(c.pause(3 * time.Second))
		b.Start()
	}
}

// JudgeSeveral compares what the cluster serves with what was promised: as it is, and after
// the power has failed everywhere at once.
func (c *Cluster) JudgeSeveral() {
	c.tracef("judge")
	c.awaitInSync()
	c.readAll()
	for _, b := range c.brokers {
		b.PowerCut()
	}
	c.startAll()
	c.awaitInSync()
	c.readAll()
	if c.over.Err() != nil {
		panic(stopped{})
	}
}

// awaitInSync waits until every replica of every topic is in sync, as any broker tells.
func (c *Cluster) awaitInSync() {
	client := c.client()
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.over, judgePatience)
	defer cancel()
	for {
		behind, err := c.behind(ctx, kadm.NewClient(client))
		if err == nil && behind == "" {
			return
		}
		if ctx.Err() != nil {
			c.violated("Progress", "not in sync: %s %v", behind, err)
			panic(stopped{})
		}
		c.sleep(100 * time.Millisecond)
	}
}

func (c *Cluster) behind(ctx context.Context, admin *kadm.Client) (string, error) {
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return "", fmt.Errorf("list topics: %w", err)
	}
	for _, t := range topics {
		for _, p := range t.Partitions {
			if len(p.ISR) < len(p.Replicas) || p.Leader < 0 {
				return fmt.Sprintf("%s-%d: leader %d, ISR %v of %v", t.Topic, p.Partition, p.Leader, p.ISR, p.Replicas), nil
			}
		}
	}
	return "", nil
}
