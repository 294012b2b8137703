package metalog

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
	"github.com/klamm-mq/klamm/protocol/uuid"
	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

// cluster is a number of voters in one bubble, each on a network and a disk in memory.
type cluster struct {
	t     *testing.T
	net   *memnet.Network
	nodes []*node
	tune  func(*raft.Config)
	// timing is zero for that of service, or hasty: faults that are short cost elections, too.
	timing Timing
	// Nodes that find each other: see formation_test.go.
	doors     bool
	peers     []Peer
	observers *observersOf
	// Where no peers are configured: see voters_test.go.
	bootstrap   []string
	controllers *observersOf
}

// node is one voter with what stands in for its controller: whoever leads passes a barrier.
type node struct {
	c     *cluster
	id    int32
	wipe  byte // how often its disk was replaced
	logs  byte // how often its log was deleted, and the disk stayed
	moved int  // how often its address has changed
	disk  *vfs.CrashFS
	lost  *vfs.CrashFS // that was in its place
	door  *Door        // of this process; nil: its listener is Raft's alone

	log     *Log
	ready   atomic.Uint64 // term in which this node passed its barrier; 0: none
	stopped chan struct{}
	fatal   chan error // of this process

	view *view // of this process
	full atomic.Bool
	// startPublishingAt is where the registration of a broker would stand.
	startPublishingAt metadata.Position
	hung              atomic.Pointer[chan struct{}] // while it is there, syncs wait for its end

	mu     sync.Mutex
	images map[uint64]*metadata.Image // applied by this node, by index
}

func newCluster(t *testing.T, n int, tune func(*raft.Config)) *cluster {
	return newClusterTimed(t, n, Timing{}, tune)
}

func hasty() Timing {
	return TimingForQuorum().WithTimeouts(200*time.Millisecond, 200*time.Millisecond)
}

func newClusterTimed(t *testing.T, n int, timing Timing, tune func(*raft.Config)) *cluster {
	c := &cluster{t: t, net: memnet.New(), tune: tune, timing: timing}
	for i := range n {
		c.nodes = append(c.nodes, &node{
			c: c, id: int32(i + 1), disk: vfs.NewCrash(rand.NewPCG(1, uint64(i))),
			images: map[uint64]*metadata.Image{},
		})
	}
	for _, n := range c.nodes {
		n.start()
	}
	if err := c.nodes[0].log.BootstrapVoters(c.voters()); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) voters() []Voter {
	var list []Voter
	for _, n := range c.nodes {
		list = append(list, n.voter())
	}
	return list
}

func (n *node) voter() Voter {
	return Voter{NodeID: n.id, DirectoryID: uuid.UUID{14: n.wipe, 15: byte(n.id)}, Address: n.address()}
}

// newID is what a node draws that finds its log gone.
func (n *node) newID() []byte {
	return append([]byte{12: 'l', 13: 'o', 14: n.logs}, byte(n.id))
}

func (n *node) host() string    { return fmt.Sprintf("broker-%d", n.id) }
func (n *node) address() string { return n.host() + ":" + strconv.Itoa(9093+n.moved) }

// smallReserve fits disks in memory.
func smallReserve() Reserve { return Reserve{KeepFree: 3 << 10, Floor: 1 << 10, Ballast: 1 << 10} }

func (n *node) start() {
	t := n.c.t
	t.Helper()
	host := n.c.net.Host(n.host())
	n.view = &view{}
	fatal := make(chan error, 1)
	n.fatal = fatal
	ln, err := host.Listen("tcp", n.address())
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		return host.DialContext(ctx, "tcp", address)
	}
	stream := NewStreamLayer(ln, dial)
	if n.c.doors {
		n.door = NewDoor(DoorOptions{NodeID: n.id, Address: n.address(), Dial: dial, Logger: testLogger(t, n.host())})
		stream = n.serveDoor(ln)
	}
	log, err := Open(Options{
		NodeID: n.id, DirectoryID: n.voter().DirectoryID, Joined: n.logs > 0, IDs: bytes.NewReader(n.newID()), Dir: "/metadata", FS: hookfs.Wrap(n.disk.Process(), true, n.sync), Stores: FileStores,
		Stream: stream, Voters: n.c.configured(), Refuses: n.refuses, Reserve: smallReserve(), Space: n.space, Timing: n.c.timing, Logger: testLogger(t, n.host()), tune: n.c.tune,
		Bootstrap: []metadata.Record{bootstrapRecord()}, Publishers: []Publisher{n.view},
		Fatal: func(err error) { fatal <- err },
		applied: func(image *metadata.Image) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.images[image.Position().Index] = image
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	log.StartPublishing(n.startPublishingAt)
	n.log, n.stopped = log, make(chan struct{})
	if n.door != nil {
		n.keep(log)
	}
	go n.control(log, n.stopped)
}

// sync is a hookfs.Hook.
func (n *node) sync(c *hookfs.Call) error {
	if end := n.hung.Load(); end != nil && c.Op == hookfs.Sync {
		<-*end
	}
	return nil
}

// space is that of a disk with plenty of room, or with just enough for votes.
func (n *node) space() (vfs.Space, error) {
	s, err := n.disk.Space("/metadata")
	if n.full.Load() {
		s.AvailBytes = smallReserve().Floor
	}
	return s, err
}

// control passes a barrier with each leadership.
func (n *node) control(log *Log, stopped chan struct{}) {
	for {
		select {
		case lead := <-log.Leadership():
			n.ready.Store(0)
			if !lead.Leader {
				continue
			}
			if _, err := log.Barrier(context.Background(), lead.Term); err == nil {
				n.ready.Store(lead.Term)
			}
		case <-stopped:
			return
		}
	}
}

func (n *node) stop() {
	n.c.t.Helper()
	close(n.stopped)
	if err := n.log.Close(); err != nil {
		n.c.t.Error(err)
	}
	n.log = nil
	n.ready.Store(0)
}

func (c *cluster) close() {
	for _, n := range c.nodes {
		if n.log == nil {
			continue
		}
		n.stop()
		select {
		case err := <-n.fatal:
			c.t.Errorf("node %d: %v", n.id, err)
		default:
		}
	}
}

// eventually waits, in virtual time, until cond holds.
func (c *cluster) eventually(what string, cond func() bool) {
	c.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 60_000 {
		if cond() {
			return
		}
		<-tick.C
	}
	c.t.Fatalf("not within a minute: %s", what)
}

// leader waits for a node that leads and has passed its barrier, other than those given. An
// older leader may not have heard of a newer one yet.
func (c *cluster) leader(except ...*node) *node {
	c.t.Helper()
	var found *node
	c.eventually("a leader", func() bool {
		found = nil
		for _, n := range c.nodes {
			// A node that has just lost its leadership may not have heard so yet: its
			// ready term is then older than Raft's.
			if n.log == nil || n.ready.Load() == 0 || slices.Contains(except, n) ||
				n.log.raft.State() != raft.Leader || n.log.raft.CurrentTerm() != n.ready.Load() {
				continue
			}
			if found == nil || n.ready.Load() > found.ready.Load() {
				found = n
			}
		}
		return found != nil
	})
	return found
}

func (c *cluster) followers() []*node {
	lead := c.leader()
	var list []*node
	for _, n := range c.nodes {
		if n != lead {
			list = append(list, n)
		}
	}
	return list
}

// propose creates a topic through n.
func (n *node) propose(name string) (metadata.Position, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return n.log.Propose(ctx, n.ready.Load(), newTopic(name))
}

func (n *node) mustPropose(name string) metadata.Position {
	n.c.t.Helper()
	pos, err := n.propose(name)
	if err != nil {
		n.c.t.Fatal(err)
	}
	return pos
}

func (n *node) has(name string) bool { return n.log.Image().Topic(name) != nil }

// wantConverged waits until all running nodes have applied the same, and checks the
// invariant ImagesEqualAtOffset: every two nodes that had an image at one index had the
// same.
func (c *cluster) wantConverged() {
	c.t.Helper()
	c.eventually("all nodes have the leader's image", func() bool {
		lead := c.leader()
		for _, n := range c.nodes {
			if n.log != nil && (n.log.Image().Position() != lead.log.Image().Position() || n.log.Published() != n.log.Image().Position()) {
				return false
			}
		}
		return true
	})
	for i, a := range c.nodes {
		for _, b := range c.nodes[:i] {
			imagesEqualAtOffset(c.t, a, b)
		}
		a.view.check(c.t)
	}
}

// imagesEqualAtOffset compares what two nodes had at the same indexes: each one while they
// are few, else a sample.
func imagesEqualAtOffset(t *testing.T, a, b *node) {
	t.Helper()
	var common []uint64
	images := [2]map[uint64]*metadata.Image{a.history(), b.history()}
	for index := range images[0] {
		if images[1][index] != nil {
			common = append(common, index)
		}
	}
	slices.Sort(common)
	for i := 0; i < len(common); i += 1 + len(common)/100 {
		index := common[i]
		if diff := metadata.DiffImages(images[0][index], images[1][index]); diff != "" {
			t.Fatalf("ImagesEqualAtOffset: nodes %d and %d at %d: %s", a.id, b.id, index, diff)
		}
	}
}

func (n *node) history() map[uint64]*metadata.Image {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.images)
}

// view is a publisher that follows the deltas alone.
type view struct {
	mu     sync.Mutex
	topics map[uuid.UUID]*metadata.Topic
	last   *metadata.Image
	errs   []string
}

func (v *view) Name() string { return "view" }

func (v *view) OnMetadataUpdate(delta *metadata.Delta, next *metadata.Image) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.last == nil {
		v.last, v.topics = metadata.Empty(), map[uuid.UUID]*metadata.Topic{}
	}
	// The position may have moved on without a delta of its own.
	if diff := metadata.DiffImages(v.last, delta.Base().At(v.last.Position())); diff != "" {
		v.errs = append(v.errs, fmt.Sprintf("delta to %v begins elsewhere: %s", next.Position(), diff))
	}
	for change := range delta.Topics() {
		if change.Deleted() {
			delete(v.topics, change.ID)
		} else {
			v.topics[change.ID] = change.New
		}
	}
	v.last = next
}

func (v *view) check(t *testing.T) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.last == nil {
		return
	}
	for _, err := range v.errs {
		t.Error(err)
	}
	for topic := range v.last.Topics() {
		if !reflect.DeepEqual(v.topics[topic.ID], topic) {
			t.Errorf("publisher has %v, the image %v", v.topics[topic.ID], topic)
		}
	}
	if len(v.topics) != v.last.NumTopics() {
		t.Errorf("publisher has %d topics, the image %d", len(v.topics), v.last.NumTopics())
	}
}

func bootstrapRecord() metadata.BootstrapRecord {
	return metadata.BootstrapRecord{
		ClusterID: "test", Durability: metadata.DurabilityFsync,
		Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: metadata.MaxMetadataLevel}},
	}
}

func newTopic(name string) []metadata.Record {
	var id uuid.UUID
	copy(id[:], name)
	return []metadata.Record{metadata.TopicRecord{Name: name, ID: id}}
}

// testLogger writes what a broker would log at its default level, and only if the test fails.
func testLogger(t *testing.T, name string) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", name)
}
