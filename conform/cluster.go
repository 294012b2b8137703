package conform

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Nodes are the processes of a cluster, as far as scenarios make them fail. Each call
// returns when it is done; what comes of it in the cluster is for the scenario to await.
type Nodes interface {
	// Kill ends a process at once, as SIGKILL does.
	Kill(id int32) error
	// Stop ends it in order, as SIGTERM does.
	Stop(id int32) error
	// Start starts it again on what is left, and returns when it listens.
	Start(id int32) error
	// Pause takes all processor time away from it, as SIGSTOP does; Resume gives it back.
	Pause(id int32) error
	Resume(id int32) error
	// Controller is the address of the listener that nodes use among themselves.
	Controller(id int32) string
}

// nodeState is what a run has done to a node.
type nodeState int

const (
	up nodeState = iota
	down
	paused
)

// At is the name of a connection to node i, for SendOn and Start; each name is one of its
// own. Connections without a node lead to the first node that is up.
func At(i int, name string) string { return name + "@" + strconv.Itoa(i) }

// AtController is At for the listener of controllers.
func AtController(i int, name string) string { return name + "@c" + strconv.Itoa(i) }

// address is where a connection of that name leads.
func (r *R) address(conn string) string {
	_, at, named := strings.Cut(conn, "@")
	onController := strings.HasPrefix(at, "c")
	i, err := strconv.Atoi(strings.TrimPrefix(at, "c"))
	switch {
	case !named || err != nil:
		return r.addressOf(r.home())
	case onController:
		return r.target.processes.Controller(r.Node(i))
	}
	return r.addressOf(i)
}

// addressOf is the client listener of node i.
func (r *R) addressOf(i int) string {
	if addr := r.target.listeners[r.Node(i)]; addr != "" && len(r.target.nodes) > 1 {
		return addr
	}
	return r.target.addr
}

// home is the node that is asked where none is named.
func (r *R) home() int { return max(0, slices.Index(r.states, up)) }

// Up are the nodes that a run has not made fail.
func (r *R) Up() (all []int) {
	for i, s := range r.states {
		if s == up {
			all = append(all, i)
		}
	}
	return all
}

// Count is how many nodes the cluster has.
func (r *R) Count() int { return len(r.states) }

// NumberFrom calls node i the first one from now on, and those after it second, third …,
// so that the transcript is the same whatever chance has made of that node. It comes
// before the first step.
func (r *R) NumberFrom(i int) {
	for name := range r.conns {
		r.Disconnect(name)
	}
	r.symbols.nodes = slices.Concat(r.symbols.nodes[i:], r.symbols.nodes[:i])
}

// SendTo is Send to node i.
func (r *R) SendTo(i int, label string, req kmsg.Request) kmsg.Response {
	return r.SendOn(At(i, "main"), label, req)
}

// SendToOnly is SendOnly to node i.
func (r *R) SendToOnly(i int, label string, req kmsg.Request, mine func(kmsg.Response)) kmsg.Response {
	p := r.Start(At(i, "main"), label, req)
	p.mine = mine
	return p.Wait()
}

// QuietAt is Quiet at node i.
func (r *R) QuietAt(i int, req kmsg.Request) kmsg.Response { return r.quiet(At(i, "quiet"), req) }

// QuietAtController is Quiet at the controller of node i.
func (r *R) QuietAtController(i int, req kmsg.Request) kmsg.Response {
	return r.quiet(AtController(i, "quiet"), req)
}

// Kill ends node i at once.
func (r *R) Kill(i int) { r.fail("kill", i, down, Nodes.Kill) }

// Stop ends node i in order.
func (r *R) Stop(i int) { r.fail("stop", i, down, Nodes.Stop) }

// Pause stops the clock of node i.
func (r *R) Pause(i int) { r.fail("pause", i, paused, Nodes.Pause) }

// StartAgain starts node i, which was killed or stopped, or lets it go on if it was paused,
// and waits until all brokers know that it is in service.
func (r *R) StartAgain(i int) {
	r.Launch(i)
	r.AwaitBrokers()
}

// Launch is StartAgain without the wait.
func (r *R) Launch(i int) {
	switch r.states[i] {
	case down:
		r.fail("start", i, up, Nodes.Start)
	case paused:
		r.fail("resume", i, up, Nodes.Resume)
	case up:
	}
}

// fail does something to a node and notes it as a step.
func (r *R) fail(what string, i int, to nodeState, do func(Nodes, int32) error) {
	from := r.home()
	r.states[i], r.failed = to, true
	for name := range r.conns {
		plain := !strings.Contains(name, "@")
		if plain && r.home() != from || strings.HasSuffix(name, "@"+strconv.Itoa(i)) || strings.HasSuffix(name, "@c"+strconv.Itoa(i)) {
			r.Disconnect(name)
		}
	}
	if err := do(r.target.processes, r.Node(i)); err != nil {
		r.Fail("%s node %d: %w", what, r.Node(i), err)
	}
	r.Note(what, "%s", r.symbols.node(r.Node(i)))
}

// AwaitBrokers waits until every node that is up says that exactly those that are up are
// in service.
func (r *R) AwaitBrokers() {
	for _, at := range r.Up() {
		r.untilAt(at, fmt.Sprintf("%d brokers in service", len(r.Up())), func() kmsg.Request { return metadataOf(nil) }, func(resp kmsg.Response) bool {
			return len(resp.(*kmsg.MetadataResponse).Brokers) == len(r.Up())
		})
	}
	r.Settle()
}

// Replicas are what a partition is awaited to be; NoLeader if it has none.
type Replicas struct {
	Leader int
	ISR    []int
}

// NoLeader is the leader of a partition without one.
const NoLeader = -1

// AwaitPartition waits until every node that is up shows a partition like that, and the
// leader knows.
func (r *R) AwaitPartition(topic string, partition int32, want Replicas) {
	leader := int32(NoLeader)
	if want.Leader >= 0 {
		leader = r.Node(want.Leader)
	}
	isr := r.Nodes(want.ISR...)
	slices.Sort(isr)
	for _, at := range r.Up() {
		ask := func() kmsg.Request { m := metadataOf([]string{r.Name(topic)}); m.Version = 9; return m }
		r.untilAt(at, fmt.Sprintf("%s-%d with leader %d and ISR %v", topic, partition, leader, isr), ask, func(resp kmsg.Response) bool {
			p := partitionIn(resp.(*kmsg.MetadataResponse), partition)
			if p == nil || p.Leader != leader {
				return false
			}
			have := slices.Clone(p.ISR)
			slices.Sort(have)
			return want.ISR == nil || slices.Equal(have, isr)
		})
	}
	r.Settle()
}

func partitionIn(m *kmsg.MetadataResponse, partition int32) *kmsg.MetadataResponseTopicPartition {
	for t := range m.Topics {
		for p := range m.Topics[t].Partitions {
			if part := &m.Topics[t].Partitions[p]; part.Partition == partition {
				return part
			}
		}
	}
	return nil
}

// Nodes are the ids of nodes.
func (r *R) Nodes(indices ...int) []int32 {
	ids := []int32{}
	for _, i := range indices {
		ids = append(ids, r.Node(i))
	}
	return ids
}

// CreateOn makes a topic whose partitions are on these nodes, the leader of each first,
// and waits until they lead and everybody who is up knows. Configs are names and values in
// turn.
func (r *R) CreateOn(name string, replicas [][]int, configs ...string) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 20_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = r.Name(name), -1, -1
	for p, on := range replicas {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(p), r.Nodes(on...)
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, a)
	}
	for i := 0; i+1 < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		topic.Configs = append(topic.Configs, c)
	}
	req.Topics = append(req.Topics, topic)
	made := r.Quiet(req).(*kmsg.CreateTopicsResponse).Topics[0]
	if made.ErrorCode != 0 {
		r.Fail("create topic %s: error %d", name, made.ErrorCode)
	}
	r.Owns(name)
	r.learnID(name, made.TopicID)
	r.awaitLeaders(name, replicas)
}

// awaitLeaders waits until a new topic's leaders answer, and every node knows them.
func (r *R) awaitLeaders(name string, replicas [][]int) {
	for p, on := range replicas {
		if !slices.Contains(r.Up(), on[0]) {
			continue
		}
		r.untilAt(on[0], "leader of "+name, func() kmsg.Request { return r.endOf(name, int32(p)) }, func(resp kmsg.Response) bool {
			return resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode == 0
		})
	}
	for _, at := range r.Up() {
		r.untilAt(at, name+" is known", func() kmsg.Request { return metadataOf([]string{r.Name(name)}) }, func(resp kmsg.Response) bool {
			m := resp.(*kmsg.MetadataResponse)
			return m.Topics[0].ErrorCode == 0 && len(m.Topics[0].Partitions) == len(replicas)
		})
	}
}

func (r *R) endOf(name string, partition int32) kmsg.Request {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 7, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = r.Name(name)
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// ControllerListener is where other nodes reach the controller of node i.
func (r *R) ControllerListener(i int) (host string, port uint16) {
	host, text, _ := net.SplitHostPort(r.target.processes.Controller(r.Node(i)))
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		r.Fail("listener of controller %d: %w", r.Node(i), err)
	}
	return host, uint16(number)
}

// NameID calls an id that the scenario has found "id:name" from now on.
func (r *R) NameID(name string, id [16]byte) { r.learnID(name, id) }

// Settle waits until every node that is up has acted on all that happened before: brokers
// act on metadata in its order, and a topic that is made now comes last.
func (r *R) Settle() {
	var replicas [][]int
	for _, i := range r.Up() {
		replicas = append(replicas, []int{i})
	}
	r.settled++
	r.CreateOn(fmt.Sprintf("settled-%d", r.settled), replicas)
}

// Controller is the index of the active controller.
func (r *R) Controller() (at int) {
	ask := func() kmsg.Request {
		req := kmsg.NewPtrDescribeQuorumRequest()
		t := kmsg.NewDescribeQuorumRequestTopic()
		t.Topic, t.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{{}}
		req.Topics = append(req.Topics, t)
		return req
	}
	r.Until("an active controller", ask, func(resp kmsg.Response) bool {
		q := resp.(*kmsg.DescribeQuorumResponse)
		if q.ErrorCode != 0 || len(q.Topics) == 0 || len(q.Topics[0].Partitions) == 0 {
			return false
		}
		at = slices.Index(r.symbols.nodes, q.Topics[0].Partitions[0].LeaderID)
		return at >= 0 && r.states[at] == up
	})
	return at
}

// UntilAt is Until at node i.
func (r *R) UntilAt(i int, what string, mk func() kmsg.Request, done func(kmsg.Response) bool) kmsg.Response {
	return r.untilAt(i, what, mk, done)
}

func (r *R) untilAt(i int, what string, mk func() kmsg.Request, done func(kmsg.Response) bool) kmsg.Response {
	return r.until(At(i, "quiet"), fmt.Sprintf("%s, at node %d", what, r.Node(i)), mk, done)
}

// heal brings every node back, and waits until the cluster is whole again.
func (r *R) heal() (err error) {
	if !slices.ContainsFunc(r.states, func(s nodeState) bool { return s != up }) && !r.failed {
		return nil
	}
	for i, s := range r.states {
		switch s {
		case down:
			err = errors.Join(err, r.target.processes.Start(r.Node(i)))
		case paused:
			err = errors.Join(err, r.target.processes.Resume(r.Node(i)))
		case up:
		}
		r.states[i] = up
	}
	if err != nil {
		return err
	}
	r.AwaitBrokers()
	whole := func() kmsg.Request { m := metadataOf(nil); m.Topics = nil; m.Version = 9; return m }
	r.Until("all replicas are in sync", whole, func(resp kmsg.Response) bool {
		for _, t := range resp.(*kmsg.MetadataResponse).Topics {
			for _, p := range t.Partitions {
				if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
					return false
				}
			}
		}
		return true
	})
	return nil
}
