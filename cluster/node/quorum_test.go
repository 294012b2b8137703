package node_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/cluster/node"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

// server is one process of a cluster, as far as metadata goes: log, controller, node.
type server struct {
	id       int32
	restarts byte
	log      *metalog.Log
	ctrl     *controller.Controller
	node     *node.Node
	running  sync.WaitGroup
}

func bootstrap(forOne bool) []metadata.Record {
	return []metadata.Record{metadata.BootstrapRecord{
		ClusterID: "cluster", Durability: metadata.DurabilityFsync, ForOne: forOne,
		Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: metadata.MaxMetadataLevel}},
	}}
}

// start opens the log and starts the controller on it.
func (s *server) start(t *testing.T, o metalog.Options) {
	t.Helper()
	o.NodeID, o.DirectoryID = s.id, uuid.UUID{15: byte(s.id)}
	o.Fatal = func(err error) { t.Errorf("node %d: %v", s.id, err) }
	log, err := metalog.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	topics, err := controller.TopicConfigsOf(configs.Default())
	if err != nil {
		t.Fatal(err)
	}
	s.log = log
	s.ctrl = controller.New(controller.Options{NodeID: s.id, Log: controller.OnMetalog(log), Topics: topics, Logger: testLogger(t, s.id)})
	s.running.Go(func() { s.ctrl.Run(context.Background()) })
}

// join makes the server a member of the cluster, in service.
func (s *server) join(t *testing.T, channel node.ControllerChannel) {
	t.Helper()
	s.restarts++
	s.node = node.New(node.Options{
		NodeID: s.id, ClusterID: "cluster", Incarnation: uuid.UUID{byte(s.id), s.restarts},
		LogDirs:   []uuid.UUID{{14: byte(s.id)}},
		Listeners: []metadata.Endpoint{{Name: "PLAINTEXT", Host: fmt.Sprintf("broker-%d", s.id), Port: 9092}},
		Features:  []metadata.Feature{{Name: metadata.FeatureMetadata, Min: 1, Max: 1}},
		Channel:   channel, Metadata: s.log, PreviousBrokerEpoch: -1, Logger: testLogger(t, s.id),
	})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := errors.Join(s.node.Start(ctx), s.node.Unfence(ctx)); err != nil {
		t.Fatal(err)
	}
}

func (s *server) stop(t *testing.T) {
	t.Helper()
	if s.node != nil {
		s.node.Close()
	}
	s.ctrl.Close()
	s.running.Wait()
	if err := s.log.Close(); err != nil {
		t.Error(err)
	}
}

// create creates a topic through this server's node and gives the error.
func (s *server) create(name string, replicas int16) (*kafkaerr.Kind, error) {
	return s.createWith(name, 2, replicas)
}

func createRequest(name string, partitions int32, replicas int16) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, replicas
	req.Topics = append(req.Topics, topic)
	return req
}

func (s *server) createWith(name string, partitions int32, replicas int16) (*kafkaerr.Kind, error) {
	req := createRequest(name, partitions, replicas)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	resp, _, err := s.node.Call(ctx, controller.Call{Request: req})
	if err != nil {
		return nil, err
	}
	return kind(resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode), nil
}

func kind(code int16) *kafkaerr.Kind {
	for _, k := range []*kafkaerr.Kind{kafkaerr.TopicAlreadyExists, kafkaerr.RequestTimedOut} {
		if k.Code == code {
			return k
		}
	}
	if code != 0 {
		return &kafkaerr.Kind{Code: code, Message: fmt.Sprint("code ", code)}
	}
	return nil
}

func testLogger(t *testing.T, id int32) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})).With("node", id)
}

// A cluster of one on Badger: the same calls, and leadership survives restarts with higher
// epochs.
func TestClusterOfOne(t *testing.T) {
	dir := t.TempDir()
	options := metalog.Options{Dir: dir, BootstrapSelf: true, Bootstrap: bootstrap(true)}
	s := &server{id: 1}
	s.start(t, options)
	s.join(t, s.ctrl)
	if k, err := s.create("a", 1); k != nil || err != nil {
		t.Fatal(k, err)
	}
	if s.log.Image().Topic("a") == nil || s.log.Published().Index < s.log.Image().Position().Index {
		t.Fatal("answered before the own image was published")
	}
	if k, err := s.create("a", 1); k != kafkaerr.TopicAlreadyExists || err != nil {
		t.Fatal(k, err)
	}
	id, err := s.node.NextProducerID(t.Context())
	if err != nil || id != 0 {
		t.Fatal(id, err)
	}
	epoch := s.node.BrokerEpoch()
	s.stop(t) // as good as killed: the controller is told nothing

	s.start(t, options)
	s.join(t, s.ctrl)
	p := s.log.Image().Topic("a").Partition(0)
	if p.Leader != 1 || p.LeaderEpoch != 1 || s.node.BrokerEpoch() <= epoch {
		t.Fatalf("after the restart: %+v, epoch %d after %d", p, s.node.BrokerEpoch(), epoch)
	}
	if id, err = s.node.NextProducerID(t.Context()); err != nil || id != 1000 {
		t.Fatal(id, err)
	}
	if err := s.node.ControlledShutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := s.log.Image().Topic("a").Partition(0); p.Leader != 1 || len(p.ISR) != 1 {
		t.Fatalf("after a controlled shutdown: %+v", p)
	}
	s.stop(t)
}

// quorum is three servers that are all voters.
type quorum struct {
	t       *testing.T
	net     *memnet.Network
	servers []*server
	mu      sync.Mutex
	cut     int32 // the server that is cut off, 0: none
}

// reach is how a server's node finds the active controller: it asks everybody it can reach.
type reach struct {
	q    *quorum
	from int32
}

func (r reach) Handle(ctx context.Context, call controller.Call) (kmsg.Response, metadata.Position, error) {
	for _, s := range r.q.servers {
		if !r.q.connected(r.from, s.id) {
			continue
		}
		resp, at, err := s.ctrl.Handle(ctx, call)
		if err == nil || !errors.Is(err, kafkaerr.NotController) {
			return resp, at, err
		}
	}
	return nil, metadata.Position{}, kafkaerr.NotController
}

func (q *quorum) connected(a, b int32) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return a == b || a != q.cut && b != q.cut
}

func newQuorum(t *testing.T, seed uint64) *quorum {
	q := &quorum{t: t, net: memnet.New()}
	var voters []metalog.Voter
	for id := int32(1); id <= 3; id++ {
		host := q.net.Host(hostName(id))
		ln, err := host.Listen("tcp", address(id))
		if err != nil {
			t.Fatal(err)
		}
		dial := func(ctx context.Context, address string) (net.Conn, error) {
			return host.DialContext(ctx, "tcp", address)
		}
		s := &server{id: id}
		s.start(t, metalog.Options{
			// Leaders that are cut off for a moment are to be replaced.
			Timing: metalog.TimingForQuorum().WithTimeouts(200*time.Millisecond, 200*time.Millisecond),
			Dir:    "/metadata", FS: vfs.NewCrash(rand.NewPCG(seed, uint64(id))), Stores: metalog.FileStores,
			Stream: metalog.NewStreamLayer(ln, dial), Bootstrap: bootstrap(false),
			Reserve: metalog.Reserve{KeepFree: 3 << 10, Floor: 1 << 10, Ballast: 1 << 10},
		})
		q.servers = append(q.servers, s)
		voters = append(voters, metalog.Voter{NodeID: id, DirectoryID: uuid.UUID{15: byte(id)}, Address: address(id)})
	}
	if err := q.servers[0].log.BootstrapVoters(voters); err != nil {
		t.Fatal(err)
	}
	for _, s := range q.servers {
		s.join(t, reach{q, s.id})
	}
	return q
}

func hostName(id int32) string { return fmt.Sprintf("broker-%d", id) }
func address(id int32) string  { return hostName(id) + ":9093" }

func (q *quorum) stop() {
	for _, s := range q.servers {
		s.stop(q.t)
	}
}

// leader gives the server that leads, nil if nobody does or they disagree.
func (q *quorum) leader() *server {
	for _, s := range q.servers {
		if _, id, known := s.log.Leader(); known && id == s.id {
			return s
		}
	}
	return nil
}

// isolate cuts one server off, 0 heals.
func (q *quorum) isolate(id int32) {
	q.mu.Lock()
	old := q.cut
	q.cut = id
	q.mu.Unlock()
	if old != 0 {
		q.net.Rejoin(hostName(old))
	}
	if id != 0 {
		q.net.Isolate(hostName(id))
	}
}

// converge waits until all servers have the same image, and gives it.
func (q *quorum) converge() *metadata.Image {
	q.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 600 {
		first := q.servers[0].log.Image()
		same := true
		for _, s := range q.servers[1:] {
			same = same && metadata.ImagesEqual(first, s.log.Image())
		}
		if same {
			return first
		}
		<-tick.C
	}
	q.t.Fatal("images differ after a minute")
	return nil
}

// T22: CreateTopics answers success only if the topic exists, on all nodes, whatever happens
// to the controller meanwhile.
func TestCreateTopicsDuringChangesOfLeader(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { createDuringChanges(t, seed) })
		})
	}
}

func createDuringChanges(t *testing.T, seed uint64) {
	q := newQuorum(t, seed)
	defer q.stop()
	var mu sync.Mutex
	created := map[string]bool{}
	unknown := 0
	done := make(chan struct{})
	var clients sync.WaitGroup
	for c := range 6 {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(c)))
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				name := fmt.Sprintf("t-%d-%d", c, i)
				k, err := q.servers[rng.IntN(3)].create(name, 2)
				mu.Lock()
				// An attempt that was repeated may find its own topic.
				if err == nil && (k == nil || k == kafkaerr.TopicAlreadyExists) {
					created[name] = true
				} else {
					unknown++
				}
				mu.Unlock()
				pause(time.Duration(rng.IntN(200)) * time.Millisecond)
			}
		})
	}
	changes := changeLeaders(q, seed, 8)
	close(done)
	clients.Wait()
	image := q.converge()
	for name := range created {
		if image.Topic(name) == nil {
			t.Errorf("topic %s was answered as created and does not exist", name)
		}
	}
	t.Logf("%d topics created, %d requests failed, %d changes of leader", len(created), unknown, changes)
	if len(created) < 100 || changes < 4 {
		t.Errorf("%d topics, %d changes of leader: the test tests nothing", len(created), changes)
	}
	checkEpochs(t, image)
}

// changeLeaders cuts the leader off again and again, and counts the changes.
func changeLeaders(q *quorum, seed uint64, rounds int) int {
	rng := rand.New(rand.NewPCG(seed, 99))
	changes, last := 0, int32(0)
	for range rounds {
		pause(time.Duration(500+rng.IntN(1500)) * time.Millisecond)
		lead := q.leader()
		if lead == nil {
			continue
		}
		if lead.id != last {
			changes, last = changes+1, lead.id
		}
		q.isolate(lead.id)
		pause(time.Duration(200+rng.IntN(4000)) * time.Millisecond)
		q.isolate(0)
	}
	pause(5 * time.Second)
	return changes
}

// checkEpochs checks what must hold for every partition of every image.
func checkEpochs(t *testing.T, image *metadata.Image) {
	t.Helper()
	for topic := range image.Topics() {
		if len(topic.Partitions) != 2 {
			t.Errorf("topic %s has %d partitions: a decision came apart", topic.Name, len(topic.Partitions))
		}
		for _, p := range topic.Partitions {
			if p.LeaderEpoch > p.PartitionEpoch || p.Leader >= 0 && image.Broker(p.Leader).Fenced {
				t.Errorf("%s-%d: %+v", topic.Name, p.Index, p)
			}
		}
	}
}

func pause(d time.Duration) { <-time.After(d) }

// A failed proposal followed by another: the leader is cut off with decisions on their
// way; what it decided is void, also for what it decides when it leads again.
func TestFailedProposalsLeaveNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 1)
		defer q.stop()
		if k, err := q.servers[0].create("before", 3); k != nil || err != nil {
			t.Fatal(k, err)
		}
		old := q.leader()
		q.isolate(old.id)
		// Straight to the old controller, which does not know yet that it is alone.
		var lost sync.WaitGroup
		for i := range 3 {
			lost.Go(func() {
				req := createRequest(fmt.Sprint("lost-", i), 1, 1)
				if resp, _, err := old.ctrl.Handle(context.Background(), controller.Call{Request: req}); !errors.Is(err, kafkaerr.NotController) {
					t.Errorf("a controller without quorum answered %+v %v", resp, err)
				}
			})
		}
		lost.Wait()
		// Once the others have gone on, what is left in the old leader's log is void. (Should
		// it be elected again before that, it would rightly count.)
		if k, err := q.servers[old.id%3].create("after", 1); k != nil || err != nil {
			t.Fatal(k, err)
		}
		q.isolate(0)
		pause(5 * time.Second)
		if k, err := old.create("lost-1", 1); k != nil || err != nil {
			t.Fatal("the name is not free: ", k, err)
		}
		image := q.converge()
		for name, want := range map[string]bool{"before": true, "after": true, "lost-0": false, "lost-1": true, "lost-2": false} {
			if got := image.Topic(name) != nil; got != want {
				t.Errorf("topic %s exists: %v", name, got)
			}
		}
	})
}

// D25: a decision that is larger than an entry takes effect as a whole, on every node.
func TestDecisionLargerThanAnEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stop()
		req := createRequest("large-0", 1, 3)
		throttled := strings.Repeat("10:1,", 6000) + "10:1" // 30 kB, as long as a value may be
		for i := range 50 {
			topic := req.Topics[0]
			topic.Topic = fmt.Sprint("large-", i)
			topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "leader.replication.throttled.replicas", Value: &throttled}}
			req.Topics = append(req.Topics[:i], topic)
		}
		resp, at, err := q.servers[0].node.Call(t.Context(), controller.Call{Request: req})
		if err != nil {
			t.Fatal(err)
		}
		for _, topic := range resp.(*kmsg.CreateTopicsResponse).Topics {
			if topic.ErrorCode != 0 {
				t.Fatal(topic.Topic, kind(topic.ErrorCode))
			}
		}
		if image := q.converge(); image.NumTopics() != 50 || image.Position().Index < at.Index {
			t.Fatalf("%d topics at %v, answered %v", image.NumTopics(), image.Position(), at)
		}
	})
}

// Thousands of partitions change with one broker.
func TestControlledShutdownOfAThousandLeaderships(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 4)
		defer q.stop()
		if k, err := q.servers[0].createWith("many", 3000, 3); k != nil || err != nil {
			t.Fatal(k, err)
		}
		victim := q.servers[q.leader().id%3]
		if err := victim.node.ControlledShutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, p := range q.converge().Topic("many").Partitions {
			if p.Leader == victim.id || len(p.ISR) != 2 {
				t.Fatalf("%+v", p)
			}
		}
	})
}

// A broker that is cut off is fenced when its session ends, comes back by a heartbeat, and
// one that leaves hands its leaderships over first.
func TestFencingAndControlledShutdownInAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 2)
		defer q.stop()
		if k, err := q.servers[0].create("a", 3); k != nil || err != nil {
			t.Fatal(k, err)
		}
		lead := q.leader()
		victim := q.servers[lead.id%3]
		q.isolate(victim.id)
		pause(3500 * time.Millisecond)
		if b := lead.log.Image().Broker(victim.id); !b.Fenced {
			t.Fatal("not fenced after its session")
		}
		for _, p := range lead.log.Image().Topic("a").Partitions {
			if p.Leader == victim.id || len(p.ISR) != 2 {
				t.Fatalf("%+v", p)
			}
		}
		q.isolate(0)
		pause(2 * time.Second)
		if b := lead.log.Image().Broker(victim.id); b.Fenced || victim.node.State() != node.Unfenced {
			t.Fatalf("not back in service: %+v", b)
		}
		if err := victim.node.ControlledShutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, p := range q.converge().Topic("a").Partitions {
			if p.Leader == victim.id || p.Leader < 0 {
				t.Fatalf("%+v", p)
			}
		}
	})
}
