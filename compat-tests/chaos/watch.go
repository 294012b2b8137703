package chaos

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// watcher asks nodes, each by itself and without a door, what they take for true.
type watcher struct {
	c       *cluster
	clients []*kgo.Client // the node with id i is at i-1
}

func newWatcher(c *cluster) *watcher {
	w := &watcher{c: c}
	for _, n := range c.nodes {
		target := n.clients.target
		client, err := kgo.NewClient(kgo.SeedBrokers(n.clients.addr), kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, target)
		}))
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(client.Close)
		w.clients = append(w.clients, client)
	}
	return w
}

// patience is how long one look at a node may take: it may be paused.
const patience = time.Second

// look is the metadata of all topics as a node sees it; nil if it does not answer.
func (w *watcher) look(id int) *kmsg.MetadataResponse {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil
	resp, err := w.clients[id-1].SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return nil
	}
	return resp.(*kmsg.MetadataResponse)
}

// leads counts the partitions that a node leads, as another one sees it, and those that
// have no leader; -1 if that does not answer.
func (w *watcher) leads(id, seenBy int) int {
	m := w.look(seenBy)
	if m == nil {
		return -1
	}
	led := 0
	for _, topic := range m.Topics {
		for _, p := range topic.Partitions {
			if p.Leader == int32(id) || p.Leader < 0 {
				led++
			}
		}
	}
	return led
}

// awaitMoved tells how long it takes until a node leads nothing any more and everything has
// a leader, in the eyes of another one; 0 if that has not come when over is closed.
func (w *watcher) awaitMoved(id int, over <-chan struct{}) time.Duration {
	begin := time.Now()
	look := time.NewTicker(25 * time.Millisecond)
	defer look.Stop()
	for {
		for _, n := range w.c.others(id) {
			if w.leads(id, n.id) == 0 {
				return time.Since(begin)
			}
		}
		select {
		case <-over:
			return 0
		case <-look.C:
		}
	}
}

// controller is the leader of the controllers as a node sees it; 0 if nobody knows.
func (w *watcher) controller() int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic, topic.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{{}}
	req.Topics = append(req.Topics, topic)
	for _, client := range w.clients {
		resp, err := client.SeedBrokers()[0].Request(ctx, req)
		if err != nil {
			continue
		}
		for _, topic := range resp.(*kmsg.DescribeQuorumResponse).Topics {
			for _, p := range topic.Partitions {
				if p.LeaderID > 0 {
					return int(p.LeaderID)
				}
			}
		}
	}
	return 0
}

// ill says which partitions lack a leader or an in-sync replica, as any node sees it.
func (w *watcher) ill() (ill []string) {
	present := w.c.present()
	for _, n := range present {
		m := w.look(n.id)
		if m == nil {
			ill = append(ill, fmt.Sprintf("node %d does not answer", n.id))
			continue
		}
		if len(m.Brokers) < len(present) {
			ill = append(ill, fmt.Sprintf("node %d sees %d nodes", n.id, len(m.Brokers)))
		}
		for _, topic := range m.Topics {
			for _, p := range topic.Partitions {
				if p.ErrorCode != 0 || p.Leader < 0 || len(p.ISR) < nodes {
					ill = append(ill, fmt.Sprintf("node %d sees %s-%d with leader %d and in-sync replicas %v", n.id, *topic.Topic, p.Partition, p.Leader, p.ISR))
				}
			}
		}
	}
	return ill
}

// placement says on which nodes each partition is.
func (w *watcher) placement() map[string][]int32 {
	w.c.t.Helper()
	m := w.look(w.c.present()[0].id)
	if m == nil {
		w.c.t.Fatal("no node tells where the partitions are")
	}
	on := map[string][]int32{}
	for _, topic := range m.Topics {
		for _, p := range topic.Partitions {
			on[fmt.Sprintf("%s-%d", *topic.Topic, p.Partition)] = p.Replicas
		}
	}
	return on
}

// awaitWhole waits until every partition has all its replicas in sync, in the eyes of every
// node, and tells how long that took.
func (w *watcher) awaitWhole(within time.Duration) (time.Duration, error) {
	begin := time.Now()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		ill := w.ill()
		took := time.Since(begin)
		if len(ill) == 0 {
			return took, nil
		}
		if took > within {
			slices.Sort(ill)
			return 0, fmt.Errorf("not whole after %s, %d faults: %s", within, len(ill), strings.Join(ill[:min(len(ill), maxFaults)], "; "))
		}
		<-look.C
	}
}

// toldControllers are the addresses of controllers that a node tells brokers who look for the
// active one (KIP-919).
func (w *watcher) toldControllers(n *server) (addresses []string, err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(n.controllers.target))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = 2 // controllers
	reply, err := client.SeedBrokers()[0].Request(context.Background(), req)
	if err != nil {
		return nil, err
	}
	for _, b := range reply.(*kmsg.DescribeClusterResponse).Brokers {
		addresses = append(addresses, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
	}
	return addresses, nil
}

// passDoors waits until every node tells of all controllers. It fails the test if one is at an
// address that is not a door: what goes there is never cut, and a node that should be cut off
// would be heard.
func (w *watcher) passDoors() {
	w.c.t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	deadline := time.Now().Add(healBound)
	for _, n := range w.c.nodes {
		told, err := w.toldControllers(n)
		for err == nil && len(told) < len(w.c.nodes) && time.Now().Before(deadline) {
			<-look.C
			told, err = w.toldControllers(n)
		}
		if err != nil || len(told) < len(w.c.nodes) {
			w.c.t.Fatalf("node %d tells of controllers at %v, %v", n.id, told, err)
		}
		for _, address := range told {
			if !slices.ContainsFunc(w.c.nodes, func(n *server) bool { return n.controllers.addr == address }) {
				w.c.t.Fatalf("node %d tells of a controller at %s, which is no door", n.id, address)
			}
		}
	}
}
