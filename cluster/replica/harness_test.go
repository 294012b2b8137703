package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// harness is a Manager of broker 1 on a memory file system, fed with metadata by hand.
type harness struct {
	t       testing.TB
	fs      *vfs.MemFS
	gate    *syncGate
	codecs  *batch.Codecs
	names   []string // of the directories
	dirs    []*logstore.Dir
	m       *Manager
	image   *metadata.Image
	topics  map[string]uuid.UUID
	options Options
	starts  uint64
	offline error // what OnAllDirsOffline got
	// ignoreClose is for tests that break the disk for good.
	ignoreClose bool
	id          int32
	mirror      *harness // sees the same metadata; may be nil
	wrap        func(vfs.FS) vfs.FS
}

// syncGate lets a test hold the group commits of all directories back.
type syncGate struct {
	closed  atomic.Bool
	waiting chan struct{} // one per sync that waits
	open    chan struct{}
}

// hook is a hookfs.Hook.
func (g *syncGate) hook(c *hookfs.Call) error {
	if c.Op == hookfs.SyncAll && g.closed.Load() {
		select {
		case g.waiting <- struct{}{}:
		default:
		}
		<-g.open
	}
	return nil
}

func (g *syncGate) close() {
	g.waiting, g.open = make(chan struct{}, 1), make(chan struct{})
	g.closed.Store(true)
}

func (g *syncGate) release() { g.closed.Store(false); close(g.open) }

// bubble runs f with a started harness in virtual time, and stops it afterwards.
func bubble(t *testing.T, f func(h *harness), change ...func(*harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, change...)
		h.start()
		f(h)
		h.stop()
	})
}

func newHarness(t testing.TB, change ...func(*harness)) *harness {
	h := &harness{
		t: t, fs: vfs.NewMem(), gate: &syncGate{}, codecs: batch.NewCodecs(batch.CodecsOptions{}),
		id: 1, names: []string{"/d1"}, image: metadata.Empty(), topics: map[string]uuid.UUID{},
		wrap: func(fs vfs.FS) vfs.FS { return fs },
	}
	for _, c := range change {
		c(h)
	}
	return h
}

func withDirs(names ...string) func(*harness) { return func(h *harness) { h.names = names } }

func withOptions(change func(*Options)) func(*harness) {
	return func(h *harness) { change(&h.options) }
}

func withFS(wrap func(vfs.FS) vfs.FS) func(*harness) { return func(h *harness) { h.wrap = wrap } }

// start opens the directories, makes a Manager and gives it all metadata at once.
func (h *harness) start() {
	h.t.Helper()
	h.dirs = nil
	h.starts++
	for i, name := range h.names {
		d, err := logstore.OpenDir(logstore.DirOptions{
			FS: h.wrap(h.gated()), Path: name, NodeID: h.id, ClusterID: "c", Codecs: h.codecs,
			Rand: seeded{rand.New(rand.NewPCG(uint64(i), h.starts))}, Logger: slog.New(slog.DiscardHandler), ReserveBytes: 1 << 10,
			OnOffline:   func(d *logstore.Dir, err error) { h.m.DirectoryFailed(d, err) },
			OnLogFailed: func(l *logstore.Log, err error) { h.m.LogFailed(l, err) },
		})
		if err != nil {
			h.t.Fatal(err)
		}
		h.dirs = append(h.dirs, d)
	}
	o := h.options
	o.BrokerID, o.Dirs, o.TopicConfig = h.id, h.dirs, topicConfig
	o.OnAllDirsOffline = func(err error) { h.offline = err }
	h.m = NewManager(o)
	h.m.OnMetadataUpdate(metadata.Between(metadata.Empty(), h.image), h.image)
}

// gated is the file system behind the gate; without a gate it is bare, since a hook
// allocates.
func (h *harness) gated() vfs.FS {
	if h.gate == nil {
		return h.fs
	}
	return hookfs.Wrap(h.fs, false, h.gate.hook)
}

func (h *harness) stop() {
	h.t.Helper()
	if err := h.m.Close(7); err != nil && !h.ignoreClose {
		h.t.Errorf("close: %v", err)
	}
}

// crash ends the process as SIGKILL would.
func (h *harness) crash() {
	h.m.isr.stop()
	h.m.moves.close()
	h.m.creations.stop()
	h.m.fetchers.stop()
	for _, d := range h.m.dirs {
		d.committer.Stop()
		d.keeper.Stop()
		d.Abandon()
	}
	h.m.fetches.Close()
	h.m.deletes.Close()
	h.m.produces.Close()
}

// seeded is a source of bytes.
type seeded struct{ *rand.Rand }

// Read implements io.Reader.
func (s seeded) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s.Uint32())
	}
	return len(p), nil
}

// topicConfig knows the keys that the tests use.
func topicConfig(overrides map[string]string) (TopicConfig, error) {
	c := TopicConfig{Log: logstore.DefaultConfig(), MinInSyncCount: 1}
	for k, v := range overrides {
		n, _ := strconv.Atoi(v)
		switch k {
		case "durability":
			if v == "replicated" {
				c.Log.Durability = logstore.DurabilityReplicated
			}
		case "min.insync.replicas":
			c.MinInSyncCount = n
		case "retention.bytes":
			c.Log.RetentionBytes = int64(n)
		case "segment.bytes":
			c.Log.SegmentBytes = int32(n)
		case "leader.throttled":
			c.LeaderThrottled = Throttled{All: v == "*", Partitions: []int32{int32(n)}}
		case "follower.throttled":
			c.FollowerThrottled.Partitions = []int32{int32(n)}
		case "max.message.bytes":
			c.Log.MaxMessageBytes = int32(n)
		default:
			return c, fmt.Errorf("key %s", k)
		}
	}
	return c, nil
}

// apply replays records and hands the outcome to the Manager.
func (h *harness) apply(records ...metadata.Record) {
	h.t.Helper()
	d := metadata.NewDelta(h.image)
	if err := d.ReplayAll(records...); err != nil {
		h.t.Fatal(err)
	}
	pos := h.image.Position()
	pos.Index++
	h.image = d.Image(pos)
	h.m.OnMetadataUpdate(d, h.image)
	if h.mirror != nil {
		h.mirror.image = h.image
		h.mirror.m.OnMetadataUpdate(d, h.image)
	}
}

// assignment is what topic gives each of its partitions.
type assignment struct {
	replicas, isr []int32
	dir           uuid.UUID
	epoch         int32
}

var alone = assignment{replicas: []int32{1}, isr: []int32{1}, dir: uuid.DirUnassigned}

// topic creates a topic whose partitions are led by the first replica.
func (h *harness) topic(name string, partitions int, a assignment, config ...string) TopicIDPartition {
	h.t.Helper()
	id := uuid.UUID{0: byte(len(h.topics) + 1), 1: 0xee}
	records := []metadata.Record{metadata.TopicRecord{Name: name, ID: id}}
	for i := range partitions {
		p := metadata.Partition{Index: int32(i), Replicas: a.replicas, ISR: a.isr, Leader: a.replicas[0], LeaderEpoch: a.epoch}
		for range a.replicas {
			p.Directories = append(p.Directories, a.dir)
		}
		records = append(records, metadata.PartitionRecord{TopicID: id, Partition: p})
	}
	for _, kv := range config {
		records = append(records, setConfig(name, kv))
	}
	h.topics[name+id.String()] = id
	h.apply(records...)
	return TopicIDPartition{TopicID: id}
}

func setConfig(topic, kv string) metadata.Record {
	k, v, _ := strings.Cut(kv, "=")
	return metadata.ConfigRecord{Resource: metadata.Resource{Type: metadata.TopicResource, Name: topic}, Key: k, Value: &v}
}

func (id TopicIDPartition) partition(i int) TopicIDPartition {
	id.Partition = int32(i)
	return id
}

// records is one batch with those values.
func (h *harness) records(p *batch.Producer, values ...string) []byte {
	var records []batch.NewRecord
	for _, v := range values {
		records = append(records, batch.NewRecord{TimestampMs: time.Now().UnixMilli(), Value: []byte(v)})
	}
	return h.batch(p, records...)
}

func (h *harness) batch(p *batch.Producer, records ...batch.NewRecord) []byte {
	b := batch.NewBuilder(batch.BuilderOptions{Producer: p})
	for _, r := range records {
		b.Append(r)
	}
	v, err := b.Build(h.codecs)
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

// produced is an append that is under way.
type produced struct {
	*AppendRequest
	done chan struct{}
}

// produce sends one batch and does not wait for the answer.
func (h *harness) produce(id TopicIDPartition, acks int16, values ...string) *produced {
	return h.send(id, acks, h.records(nil, values...))
}

func (h *harness) send(id TopicIDPartition, acks int16, records []byte) *produced {
	p := &produced{done: make(chan struct{})}
	p.AppendRequest = &AppendRequest{
		Acks: acks, Timeout: 30 * time.Second, RequestVersion: 12,
		Partitions: []AppendPartition{{TopicIDPartition: id, Records: records}},
		Done:       func(*AppendRequest) { close(p.done) },
	}
	if h.m.Append(p.AppendRequest) {
		close(p.done)
	}
	return p
}

// answered tells whether the answer is there, once nothing runs any more.
func (p *produced) answered() bool {
	synctest.Wait()
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// result waits for the answer.
func (p *produced) result() AppendResult {
	<-p.done
	return p.Partitions[0].Result
}

// must is a produce that is acknowledged by all.
func (h *harness) must(id TopicIDPartition, values ...string) AppendResult {
	h.t.Helper()
	r := h.produce(id, AcksAll, values...).result()
	if r.Err != nil {
		h.t.Fatalf("produce: %v", r.Err)
	}
	return r
}

// fetchOf is a consumer's fetch of one partition.
func fetchOf(id TopicIDPartition, offset int64) *FetchRequest {
	return &FetchRequest{
		ReplicaID: ConsumerReplicaID, ReplicaEpoch: -1, MinBytes: 1, MaxBytes: 1 << 20,
		Partitions: []FetchPartition{{
			TopicIDPartition: id, FetchOffset: offset, CurrentLeaderEpoch: NoEpoch, LastFetchedEpoch: NoEpoch,
			LogStartOffset: -1, MaxBytes: 1 << 20,
		}},
	}
}

// values reads the values of what a fetch of one partition answered, and releases it.
func (h *harness) values(r *FetchResult) (values []string) {
	h.t.Helper()
	if r.Err != nil {
		h.t.Fatalf("fetch: %v", r.Err)
	}
	if r.Records == nil {
		return nil
	}
	defer r.release()
	buf := make([]byte, r.Records.Len())
	if _, err := r.Records.ReadAt(buf, 0); err != nil && !errors.Is(err, io.EOF) {
		h.t.Fatal(err)
	}
	for {
		v, rest, err := batch.Next(buf)
		if err != nil {
			return values
		}
		buf = rest
		err = batch.Iterate(v, h.codecs, func(r batch.Record) error {
			values = append(values, string(bytes.Clone(r.Value)))
			return nil
		})
		if err != nil {
			h.t.Fatal(err)
		}
	}
}

// read fetches from an offset without waiting.
func (h *harness) read(id TopicIDPartition, offset int64) []string {
	h.t.Helper()
	req := fetchOf(id, offset)
	h.m.Fetch(context.Background(), req)
	return h.values(&req.Partitions[0].Result)
}

// parked is a fetch that waits on a goroutine of its own.
type parked struct {
	*FetchRequest
	done chan time.Duration // how long it took
}

func (h *harness) park(req *FetchRequest) *parked { return h.parkWith(context.Background(), req) }

func (h *harness) parkWith(ctx context.Context, req *FetchRequest) *parked {
	p := &parked{FetchRequest: req, done: make(chan time.Duration, 1)}
	go func() {
		begin := time.Now()
		h.m.Fetch(ctx, req)
		p.done <- time.Since(begin)
	}()
	synctest.Wait()
	return p
}

// answered tells whether the fetch has been answered, once nothing runs any more.
func (p *parked) answered() bool {
	synctest.Wait()
	return len(p.done) > 0
}

func gather(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return got
}

// dirs is one directory for each replica.
func (a assignment) dirs() (dirs []uuid.UUID) {
	for range a.replicas {
		dirs = append(dirs, uuid.DirUnassigned)
	}
	return dirs
}

// registerBrokers makes brokers known, with epochs 100 + id.
func (h *harness) registerBrokers(ids ...int32) {
	h.t.Helper()
	for _, id := range ids {
		h.apply(metadata.RegisterBrokerRecord{Broker: metadata.Broker{ID: id, Epoch: int64(100 + id)}})
	}
}

// list asks a consumer's ListOffsets about one partition.
func (h *harness) list(id TopicIDPartition, timestamp int64) ListOffsetsResult {
	req := &ListOffsetsRequest{Version: 11, ReplicaID: ConsumerReplicaID, Partitions: []ListOffsetsPartition{
		{TopicIDPartition: id, Timestamp: timestamp, CurrentLeaderEpoch: NoEpoch},
	}}
	h.m.ListOffsets(req)
	return req.Partitions[0].Result
}

func withWait(req *FetchRequest, wait time.Duration) *FetchRequest {
	req.MaxWait = wait
	return req
}
