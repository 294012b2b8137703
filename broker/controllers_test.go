package broker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Controllers register, so that a client that knows one of them is told of all (KIP-919), and
// one that asks brokers who keeps the metadata log is told where. One that starts again
// replaces its registration.
func TestControllersAreRegistered(t *testing.T) {
	clusterTest(t, []string{"broker,controller", "controller", "controller", "broker"}, func(c *nodes) {
		c.all[3].Machine.Settings[2] = "listeners=CONTROLLER://:9093" // known by what names it a voter
		c.start(1, 2, 3, 4)
		c.awaitControllers(4, 3)
		all := "[1@broker-1:9093 2@broker-2:9093 3@broker-3:9093]"
		for id := range int32(3) {
			if got := c.controllersOf(id + 1); got != all {
				c.t.Errorf("controller %d tells of %s", id+1, got)
			}
		}
		if got := c.quorumListeners(4); got != "[1:CONTROLLER://broker-1:9093 2:CONTROLLER://broker-2:9093 3:CONTROLLER://broker-3:9093]" {
			c.t.Errorf("broker 4 tells of a quorum at %s", got)
		}
		before := c.all[4].B.Image().Controller(2).IncarnationID
		c.kill(2)
		c.start(2)
		c.eventually("the new process is registered", 10*time.Second, func() bool {
			is := c.all[4].B.Image().Controller(2)
			return is != nil && is.IncarnationID != before
		})
	})
}

// Who is no controller does not become one by saying so.
func TestStrangerIsNoController(t *testing.T) {
	clusterTest(t, []string{"controller", "broker"}, func(c *nodes) {
		c.start(1, 2)
		c.awaitControllers(2, 1)
		client := c.controllerClient(1)
		defer client.Close()
		req := kmsg.NewPtrControllerRegistrationRequest()
		req.ControllerID, req.IncarnationID = 2, uuid.UUID{9}
		resp, err := req.RequestWith(c.t.Context(), client)
		if err != nil || resp.ErrorCode != kafkaerr.UnknownControllerID.Code || resp.ErrorMessage == nil {
			c.t.Errorf("%+v, %v", resp, err)
		}
		if c.all[2].B.Image().Controller(2) != nil {
			c.t.Error("it is registered")
		}
	})
}

func (c *nodes) awaitControllers(at int32, n int) {
	c.t.Helper()
	c.eventually("the controllers are registered", 10*time.Second, func() bool {
		known := 0
		for range c.all[at].B.Image().Controllers() {
			known++
		}
		return known == n
	})
}

// controllerClient talks to a node on its controller listener.
func (c *nodes) controllerClient(id int32) *kgo.Client {
	c.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(fmt.Sprintf("broker-%d:9093", id)), kgo.Dialer(c.all[id].Machine.Dial))
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// controllersOf is what DescribeCluster tells on a controller's listener.
func (c *nodes) controllersOf(id int32) string {
	c.t.Helper()
	client := c.controllerClient(id)
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = 2
	reply, err := client.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		c.t.Fatal(err)
	}
	resp := reply.(*kmsg.DescribeClusterResponse)
	if resp.ErrorCode != 0 || resp.EndpointType != 2 || c.all[resp.ControllerID] == nil {
		c.t.Errorf("%+v", resp)
	}
	var list []string
	for _, b := range resp.Brokers {
		list = append(list, fmt.Sprintf("%d@%s:%d", b.NodeID, b.Host, b.Port))
	}
	return fmt.Sprint(list)
}

// quorumListeners is where DescribeQuorum through a broker says that the voters are.
func (c *nodes) quorumListeners(through int32) string {
	c.t.Helper()
	client := c.client(through)
	defer client.Close()
	resp, err := quorumRequest().RequestWith(c.t.Context(), client)
	if err != nil {
		c.t.Fatal(err)
	}
	var list []string
	for _, n := range resp.Nodes {
		for _, l := range n.Listeners {
			list = append(list, fmt.Sprintf("%d:%s://%s:%d", n.NodeID, l.Name, l.Host, l.Port))
		}
	}
	return fmt.Sprint(list)
}
