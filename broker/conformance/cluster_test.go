package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/conform"
	"github.com/klamm-mq/klamm/conform/scenarios"
	"github.com/klamm-mq/klamm/conform/transcripts"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

// Three nodes answer, fail and come back as three of Kafka's did, in virtual time.
func TestReplayCluster(t *testing.T) {
	reference, err := transcripts.LoadCluster()
	if err != nil {
		t.Fatal(err)
	}
	why, err := transcripts.ClusterExplanations()
	if err != nil {
		t.Fatal(err)
	}
	chosen := chosenScenarios(t)
	var outcomes []conform.Outcome
	var target *conform.Target
	for _, inRacks := range []bool{false, true} {
		list := slices.DeleteFunc(slices.Clone(chosen), func(s conform.Scenario) bool { return s.Racks != inRacks })
		if len(list) == 0 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, inRacks)
			defer c.stop()
			target = c.start()
			came, err := conform.Run(t.Context(), target, list, conform.Options{Parallel: parallel})
			if err != nil {
				t.Error(err)
			}
			outcomes = append(outcomes, came...)
		})
	}
	for _, o := range outcomes {
		if o.Err != nil {
			t.Error(o.Err)
		}
	}
	report := conform.Judge(target, outcomes, reference, why)
	if len(chosen) < len(scenarios.Cluster()) {
		report.Forgive()
	}
	var text strings.Builder
	if err := report.WriteText(&text, printed); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text.String())
	if !report.Passed {
		t.Fail()
	}
}

// chosenScenarios are those whose names match SCENARIOS, or all.
func chosenScenarios(t *testing.T) (chosen []conform.Scenario) {
	t.Helper()
	pattern, err := regexp.Compile(os.Getenv("SCENARIOS"))
	if err != nil {
		t.Fatalf("SCENARIOS: %v", err)
	}
	for _, s := range scenarios.Cluster() {
		if pattern.MatchString(s.Name) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// clusterSize is how many nodes there are; node i is the machine broker-i.
const clusterSize = 3

// cluster is several brokers, each on a machine of its own, that scenarios make fail.
type cluster struct {
	t       *testing.T
	inRacks bool // and with voters that can be changed
	net     *memnet.Network
	nodes   []*node
}

type node struct {
	brokertest.Process
	id int32
}

func newCluster(t *testing.T, inRacks bool) *cluster {
	c := &cluster{t: t, inRacks: inRacks, net: memnet.New()}
	for i := range clusterSize {
		id := int32(i + 1)
		n := &node{id: id}
		n.Machine = brokertest.NewMachineOn(t, c.net, machineName(id), uint64(id))
		n.Machine.Logger = brokertest.Logger(t, slog.LevelError+1).With("node", id)
		n.Disk = vfs.NewCrash(rand.NewPCG(7, uint64(id)))
		n.Machine.Settings = append([]string{
			"process.roles=broker,controller", fmt.Sprintf("node.id=%d", id),
			"listeners=PLAINTEXT://" + clientAddress(id) + ",CONTROLLER://" + c.Controller(id),
			"controller.listener.names=CONTROLLER", "admin.listener=",
		}, append(scenarios.ClusterSettings(), c.settings(i)...)...)
		c.nodes = append(c.nodes, n)
	}
	return c
}

// settings are what node i has of its kind of cluster.
func (c *cluster) settings(i int) []string {
	if c.inRacks {
		return append(scenarios.RackSettings(i), fmt.Sprintf("log.dirs=/data-%d,/more-%d", i+1, i+1), "controller.quorum.bootstrap.servers="+c.Controller(1))
	}
	var voters []string
	for id := range int32(clusterSize) {
		voters = append(voters, fmt.Sprintf("%d@%s", id+1, c.Controller(id+1)))
	}
	return []string{"log.dirs=/data", "controller.quorum.voters=" + strings.Join(voters, ",")}
}

func machineName(id int32) string   { return fmt.Sprintf("broker-%d", id) }
func clientAddress(id int32) string { return fmt.Sprintf("%s:%d", machineName(id), 9090+id) }

// Controller is the listener of controllers.
func (c *cluster) Controller(id int32) string { return fmt.Sprintf("%s:%d", machineName(id), 9190+id) }

// start starts all nodes, and returns them when each knows of all.
func (c *cluster) start() *conform.Target {
	c.t.Helper()
	var started sync.WaitGroup
	failed := make([]error, clusterSize)
	for i, n := range c.nodes {
		started.Go(func() { failed[i] = c.Start(n.id) })
	}
	started.Wait()
	if err := errors.Join(failed...); err != nil {
		c.t.Fatal(err)
	}
	dial := c.net.Host("client").DialContext
	for range 1000 {
		target, err := conform.ConnectBy(c.t.Context(), dial, clientAddress(1))
		if err == nil && target.Size() == clusterSize {
			target.Control(c)
			c.addVoters(target)
			return target
		}
		<-time.After(10 * time.Millisecond)
	}
	c.t.Fatal("the nodes do not find each other")
	return nil
}

// addVoters has all nodes keep the metadata log, where the first one does it alone.
func (c *cluster) addVoters(target *conform.Target) {
	if !c.inRacks {
		return
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	if err := target.AddVoters(ctx); err != nil {
		c.t.Fatal(err)
	}
}

// Start starts a node on what its disk holds.
func (c *cluster) Start(id int32) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return c.nodes[id-1].Launch(ctx, c.t)
}

// Kill ends a node as SIGKILL does.
func (c *cluster) Kill(id int32) error {
	c.nodes[id-1].Kill()
	return nil
}

// Stop stops a node in order.
func (c *cluster) Stop(id int32) error {
	n := c.nodes[id-1]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := n.B.Stop(ctx)
	n.B = nil
	return err
}

// Pause takes a node off the network: to all others it is as if its time stood still.
func (c *cluster) Pause(id int32) error {
	c.net.Isolate(machineName(id))
	return nil
}

// Resume brings it back.
func (c *cluster) Resume(id int32) error {
	c.net.Rejoin(machineName(id))
	return nil
}

func (c *cluster) stop() {
	var stopped sync.WaitGroup
	for _, n := range c.nodes {
		stopped.Go(func() {
			n.AwaitEnd()
			if n.B != nil {
				brokertest.Stop(c.t, n.B)
			}
		})
	}
	stopped.Wait()
}
