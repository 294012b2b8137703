package broker_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/peer"
)

// asker asks one node who leads, on a connection that is open.
type asker struct {
	c      *nodes
	at     int32
	client *kgo.Client
}

func (c *nodes) asker(at int32) *asker {
	a := &asker{c: c, at: at, client: c.client(at)}
	a.leaders()
	return a
}

// leaders asks for all topics: the brokers that the answer sends clients to, and how long it
// took.
func (a *asker) leaders() (named []int32, took time.Duration) {
	a.c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	begin := time.Now()
	reply, err := a.client.SeedBrokers()[0].Request(ctx, kmsg.NewPtrMetadataRequest())
	if err != nil {
		a.c.t.Errorf("Metadata of node %d: %v", a.at, err)
		return nil, time.Since(begin)
	}
	resp := reply.(*kmsg.MetadataResponse)
	for _, b := range resp.Brokers {
		named = append(named, b.NodeID)
	}
	for i := range resp.Topics {
		for _, p := range resp.Topics[i].Partitions {
			named = append(named, p.Leader)
		}
	}
	return named, time.Since(begin)
}

// knows wants an answer that sends nobody to a broker, within a time.
func (a *asker) knows(dead int32, within time.Duration) {
	a.c.t.Helper()
	named, took := a.leaders()
	if slices.Contains(named, dead) || slices.Contains(named, -1) {
		a.c.t.Errorf("node %d names %v after %v, and broker %d is dead", a.at, named, took, dead)
	}
	if took > within {
		a.c.t.Errorf("node %d has answered after %v", a.at, took)
	}
	a.c.t.Logf("node %d has answered after %v", a.at, took)
}

// Some clients ask for metadata once when a connection breaks, and not again for seconds.
// So an answer of the first moments must not name the leader that has just died, whether it
// was the active controller or not.
func TestMetadataRightAfterADeath(t *testing.T) {
	for name, test := range map[string]struct {
		controller bool
		within     time.Duration
	}{
		"of a broker":              {false, 200 * time.Millisecond},
		"of the active controller": {true, peer.Patience},
	} {
		t.Run(name, func(t *testing.T) {
			clusterTest(t, threeCombined, func(c *nodes) {
				c.start(1, 2, 3)
				c.createTopic(1, "t", 3)
				c.inSync(1, "t")
				<-time.After(time.Second) // until all follow
				dead := c.leader(1)
				if !test.controller {
					dead = dead%3 + 1
				}
				var others []*asker
				for id := range c.all {
					if id != dead {
						a := c.asker(id)
						defer a.client.Close()
						others = append(others, a)
					}
				}
				c.kill(dead)
				synctest.Wait() // its connections are gone, and no time has passed
				var asking sync.WaitGroup
				for _, a := range others {
					asking.Go(func() { a.knows(dead, test.within) })
				}
				asking.Wait()
			})
		})
	}
}

// A broker that fetches nothing from the active controller hears of its death, too: the
// connection of its heartbeats ends. So does one whose fetcher is busy with its disk.
func TestMetadataRightAfterTheDeathOfAStranger(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.start(1, 2, 3)
		dead := c.leader(1)
		next, stranger := dead%3+1, (dead+1)%3+1
		c.admin(1, func(ctx context.Context, adm *kadm.Client) {
			if _, err := adm.CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
				t.Fatal(err)
			}
			var move kadm.AlterPartitionAssignmentsReq
			move.Assign("t", 0, []int32{dead, next})
			if _, err := adm.AlterPartitionAssignments(ctx, move); err != nil {
				t.Fatal(err)
			}
		})
		c.eventually("it is led by who is to die", time.Minute, func() bool {
			topic := c.all[stranger].B.Image().Topic("t")
			if topic == nil {
				return false
			}
			p := topic.Partitions[0]
			return len(p.ISR) == 2 && len(p.Replicas) == 2 && p.Replicas[0] == dead
		})
		c.admin(1, func(ctx context.Context, adm *kadm.Client) {
			_, _ = adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, nil)
		})
		<-time.After(time.Second)
		a := c.asker(stranger)
		defer a.client.Close()
		c.kill(dead)
		synctest.Wait() // its connections are gone, and no time has passed
		a.knows(dead, peer.Patience)
	})
}

// Nobody waits for a broker that stops in good order, stands still or is cut off: it is no
// sudden death, or nobody can tell.
func TestMetadataDoesNotWait(t *testing.T) {
	for name, test := range map[string]func(c *nodes, id int32){
		"for one that stops": func(c *nodes, id int32) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			if err := c.all[id].B.Stop(ctx); err != nil {
				c.t.Error(err)
			}
			c.all[id].B = nil
		},
		"for one that is cut off": func(c *nodes, id int32) { c.net.Isolate(c.all[id].Machine.Name) },
	} {
		t.Run(name, func(t *testing.T) {
			clusterTest(t, threeCombined, func(c *nodes) {
				c.start(1, 2, 3)
				c.createTopic(1, "t", 3)
				c.inSync(1, "t")
				gone := c.leader(1)%3 + 1
				a := c.asker(gone%3 + 1)
				defer a.client.Close()
				over := make(chan struct{})
				go func() {
					defer close(over)
					test(c, gone)
				}()
				for range 100 {
					if _, took := a.leaders(); took > 0 {
						t.Errorf("answered after %v", took)
					}
					<-time.After(20 * time.Millisecond)
				}
				<-over
				c.net.Rejoin(c.all[gone].Machine.Name)
			})
		})
	}
}

// coordinator is where the node sends members of a group.
func (a *asker) coordinator(group string) int32 {
	a.c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = []string{group}
	reply, err := a.client.SeedBrokers()[0].RetriableRequest(ctx, req)
	if err != nil {
		a.c.t.Errorf("FindCoordinator of node %d: %v", a.at, err)
		return -1
	}
	return reply.(*kmsg.FindCoordinatorResponse).Coordinators[0].NodeID
}

// A group whose coordinator has just died is told of the next one.
func TestCoordinatorRightAfterADeath(t *testing.T) {
	clusterTest(t, threeCombined, func(c *nodes) {
		c.start(1, 2, 3)
		var askers [3]*asker
		for i := range askers {
			askers[i] = c.asker(int32(i + 1))
			defer askers[i].client.Close()
		}
		dead := int32(-1)
		c.eventually("a coordinator", 10*time.Second, func() bool {
			dead = askers[0].coordinator("g")
			return dead > 0
		})
		c.inSync(1, "__consumer_offsets")
		<-time.After(time.Second) // until all follow
		c.kill(dead)
		synctest.Wait()
		if next := askers[dead%3].coordinator("g"); next == dead || next < 0 {
			t.Errorf("broker %d is dead, and the coordinator is %d", dead, next)
		}
	})
}
