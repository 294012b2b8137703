package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

const (
	drainBound = 3 * time.Minute
	askBound   = time.Minute // until a node that has just started may vote
)

// newGrowing prepares nodes that are no voters by their configuration. The first one founds the
// cluster alone.
func newGrowing(c *cluster) {
	var all []string
	for _, n := range c.nodes {
		all = append(all, n.controllers.addr)
	}
	c.configure(false, func(n *server) string {
		servers := all
		if n.id == 1 {
			servers = all[:1]
		}
		return "controller.quorum.bootstrap.servers=" + strings.Join(servers, ",")
	})
}

// grow starts the nodes, and has all of them vote.
func (r *clusterRun) grow() {
	r.t.Helper()
	first := r.nodes[0]
	r.start(first)
	var all []string
	for _, n := range r.nodes {
		all = append(all, n.controllers.addr)
	}
	first.Set("controller.quorum.bootstrap.servers=" + strings.Join(all, ",")) // or it would found another one
	r.start(r.nodes[1:]...)
	for _, n := range r.nodes[1:] {
		r.vote(n)
	}
}

// vote has a node vote in the quorum.
func (r *clusterRun) vote(n *server) {
	r.t.Helper()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(askBound); ; <-look.C {
		said, err := r.klamm("cluster", "add", strconv.Itoa(n.id), "CONTROLLER://"+n.controllers.addr).run()
		switch {
		case err == nil:
			return
		case time.Now().After(deadline):
			r.t.Fatalf("node %d does not become a voter: %v: %s", n.id, err, said)
		}
	}
}

// unvote takes a running node's vote away.
func (r *clusterRun) unvote(id int) {
	r.t.Helper()
	req := kmsg.NewPtrRemoveRaftVoterRequest()
	req.VoterID = int32(id)
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(askBound); ; <-look.C {
		err := r.directory(id, &req.VoterDirectoryID)
		if err == nil {
			var resp *kmsg.RemoveRaftVoterResponse
			if resp, err = req.RequestWith(r.t.Context(), r.load.client); err == nil {
				err = kerr.ErrorForCode(resp.ErrorCode)
			}
		}
		switch {
		case err == nil || errors.Is(err, kerr.VoterNotFound):
			return
		case time.Now().After(deadline):
			r.t.Fatalf("take the vote of node %d: %v", id, err)
		}
	}
}

// directory is the id of the directory in which a voter has the metadata log.
func (r *clusterRun) directory(id int, dir *[16]byte) error {
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic, topic.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{{}}
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(r.t.Context(), r.load.client)
	if err != nil {
		return err
	}
	for _, topic := range resp.Topics {
		for _, v := range topic.Partitions[0].CurrentVoters {
			if v.ReplicaID == int32(id) {
				*dir = v.ReplicaDirectoryID
				return nil
			}
		}
	}
	return kerr.VoterNotFound
}

// command is klamm as an operator runs it.
type command struct {
	cmd  *exec.Cmd
	said output
	over chan error
}

// output is what a program has printed so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (r *clusterRun) klamm(args ...string) *command {
	r.t.Helper()
	bin, err := harness.Binary()
	if err != nil {
		r.t.Fatal(err)
	}
	c := &command{cmd: exec.Command(bin, append(args, "--bootstrap", r.bootstrap())...), over: make(chan error, 1)}
	c.cmd.Stdout, c.cmd.Stderr = &c.said, &c.said
	return c
}

// run waits for its end.
func (c *command) run() (said string, err error) {
	err = c.cmd.Run()
	return c.said.String(), err
}

// begin does not.
func (c *command) begin() error {
	if err := c.cmd.Start(); err != nil {
		return err
	}
	go func() { c.over <- c.cmd.Wait() }()
	return nil
}

// awaitSaid waits until a command has printed something.
func (r *clusterRun) awaitSaid(c *command, text string) {
	r.t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(askBound); !strings.Contains(c.said.String(), text); <-look.C {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s has not printed %q: %s", strings.Join(c.cmd.Args[1:], " "), text, c.said.String())
		}
	}
}

// await is for one that was begun.
func (c *command) await(within time.Duration) error {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case err := <-c.over:
		return err
	case <-late.C:
		return errors.Join(fmt.Errorf("it has not ended after %s", within), c.cmd.Process.Kill(), <-c.over)
	}
}

// exchange takes a node out of the cluster while the others are restarted one after the other,
// and puts an empty one in its place: its partitions are moved away from the first restart on,
// and its vote is taken away while another node is down.
func (r *clusterRun) exchange(id int) {
	r.t.Helper()
	drained := r.klamm("cluster", "drain", strconv.Itoa(id), "--parallel", "1")
	if err := drained.begin(); err != nil {
		r.t.Fatal(err)
	}
	r.awaitSaid(drained, "moved ") // the plan needs all brokers, its moves do not
	others := r.others(id)
	r.roll(restart("restart, drain", ""), others[0].id)
	unvoted := restart("restart, voter out", "")
	unvoted.begin = func(c *cluster, s strike) {
		stopNode(c, s)
		r.unvote(id)
	}
	r.roll(unvoted, others[1].id)
	r.roll(restart("restart, drain", ""), others[2].id)
	if err := drained.await(drainBound); err != nil {
		r.t.Fatalf("drain node %d: %v: %s", id, err, drained.said.String())
	}
	r.t.Logf("node %d: %s", id, lastLine(drained.said.String()))
	r.replace(r.node(id))
}

// replace removes a node that has nothing any more, and starts it with an empty disk.
func (r *clusterRun) replace(n *server) {
	r.t.Helper()
	n.away = true
	r.stop(n)
	if said, err := r.klamm("cluster", "remove", strconv.Itoa(n.id)).run(); err != nil {
		r.t.Fatalf("remove node %d: %v: %s", n.id, err, said)
	}
	if err := os.RemoveAll(n.data); err != nil {
		r.t.Fatal(err)
	}
	since := time.Now()
	r.load.wait(settle)
	r.load.goOn(fmt.Sprintf("going on without node %d", n.id), since, bound)
	r.start(n)
	n.away = false
	r.vote(n)
	r.awaitWhole()
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
