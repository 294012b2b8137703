package handlers

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/fetchsession"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
	"github.com/klamm-mq/klamm/protocol/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeReplicas and fakeNode answer what a test tells them to.
type fakeReplicas struct {
	appended  []replica.AppendPartition
	result    replica.AppendResult
	later     bool
	pending   *replica.AppendRequest
	fetched   replica.FetchResult
	asked     replica.FetchRequest // the last
	sent      int                  // fetches
	deleted   *replica.DeleteRecordsRequest
	producers []replica.ProducerInfo
	dirs      []replica.LogDirInfo
	moved     []replica.ReplicaDir
}

func (f *fakeReplicas) Append(r *replica.AppendRequest) bool {
	f.appended = append(f.appended, r.Partitions...)
	for i := range r.Partitions {
		r.Partitions[i].Result = f.result
	}
	f.pending = r
	return !f.later
}

func (f *fakeReplicas) Fetch(_ context.Context, r *replica.FetchRequest) {
	f.asked = *r
	for i := range r.Partitions {
		if r.Partitions[i].Result.Err == nil {
			r.Partitions[i].Result = f.fetched
		}
	}
}

func (f *fakeReplicas) Sent(*replica.FetchRequest) { f.sent++ }

func (f *fakeReplicas) ListOffsets(r *replica.ListOffsetsRequest) {
	for i := range r.Partitions {
		if r.Partitions[i].Result.Err == nil {
			r.Partitions[i].Result = replica.ListOffsetsResult{TimestampMs: -1, Offset: 42, LeaderEpoch: 5}
		}
	}
}

func (f *fakeReplicas) DeleteRecords(_ context.Context, req *replica.DeleteRecordsRequest) {
	f.deleted = req
}

func (f *fakeReplicas) Producers(replica.TopicIDPartition) ([]replica.ProducerInfo, error) {
	return f.producers, nil
}

func (f *fakeReplicas) DescribeLogDirs() []replica.LogDirInfo { return f.dirs }

func (f *fakeReplicas) AlterReplicaLogDirs(wanted []replica.ReplicaDir) {
	f.moved = wanted
	for i := range wanted {
		if wanted[i].Dir == "/nowhere" {
			wanted[i].Err = kafkaerr.LogDirNotFound
		}
	}
}

func (f *fakeReplicas) OffsetForLeaderEpoch(parts []replica.EpochRequestPartition) {
	for i := range parts {
		parts[i].Result = replica.EpochEndOffset{Epoch: 5, EndOffset: 42}
	}
}

type fakeNode struct {
	calls chan kmsg.Request
	err   error
}

func (f *fakeNode) Call(_ context.Context, c controller.Call) (kmsg.Response, metadata.Position, error) {
	f.calls <- c.Request
	return c.Request.ResponseKind(), metadata.Position{}, f.err
}

func (f *fakeNode) NextProducerID(context.Context) (int64, error) { return 4711, f.err }

var topicID = uuid.UUID{1, 2, 3}

// testImage has two brokers, of which the second is fenced, and the topic "t" with two
// partitions: one led by the first broker, one without leader.
func testImage(t testing.TB) *metadata.Image {
	t.Helper()
	d := metadata.NewDelta(metadata.Empty())
	listener := func(port int32) []metadata.Endpoint {
		return []metadata.Endpoint{{Name: "PLAINTEXT", Host: "registered", Port: port}}
	}
	dir := uuid.UUID{9}
	err := d.ReplayAll(
		metadata.BootstrapRecord{ClusterID: "cluster-of-the-test", ForOne: true, Durability: metadata.DurabilityFsync, Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: 1}}},
		metadata.RegisterBrokerRecord{Broker: metadata.Broker{ID: 1, Epoch: 1, Listeners: listener(1001), LogDirs: []uuid.UUID{dir}}},
		metadata.RegisterBrokerRecord{Broker: metadata.Broker{ID: 2, Epoch: 2, Listeners: listener(1002), LogDirs: []uuid.UUID{dir}, Fenced: true}},
		metadata.TopicRecord{Name: "t", ID: topicID},
		metadata.PartitionRecord{TopicID: topicID, Partition: metadata.Partition{
			Index: 0, Replicas: []int32{1, 2}, Directories: []uuid.UUID{dir, dir}, ISR: []int32{1}, Leader: 1, LeaderEpoch: 5,
		}},
		metadata.PartitionRecord{TopicID: topicID, Partition: metadata.Partition{
			Index: 1, Replicas: []int32{2}, Directories: []uuid.UUID{dir}, ISR: []int32{2}, Leader: metadata.NoLeader, LeaderEpoch: 7,
		}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return d.Image(metadata.Position{Index: 6, Term: 1})
}

// changed is the image after further records.
func changed(t testing.TB, from *metadata.Image, records ...metadata.Record) *metadata.Image {
	t.Helper()
	d := metadata.NewDelta(from)
	if err := d.ReplayAll(records...); err != nil {
		t.Fatal(err)
	}
	return d.Image(metadata.Position{Index: from.Position().Index + 1, Term: 1})
}

type fixture struct {
	h        *Handlers
	replicas *fakeReplicas
	node     *fakeNode
	groups   *fakeGroups
	buffers  *wire.Buffers
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{
		replicas: &fakeReplicas{}, node: &fakeNode{calls: make(chan kmsg.Request, 10)}, groups: &fakeGroups{leader: 1},
		buffers: wire.NewBuffers(0),
	}
	image := testImage(t)
	f.h = New(Options{
		NodeID: 1, Image: func() *metadata.Image { return image }, Replicas: f.replicas, Node: f.node, Groups: f.groups,
		Sessions: fetchsession.NewCache(fetchsession.Options{}), Advertised: func(string) bool { return true },
		Config: Config{AutoCreateTopics: true, NumPartitions: -1, DefaultReplicationFactor: -1, FetchMaxBytes: 1 << 20},
		Logger: slog.New(slog.DiscardHandler), Rand: rand.New(rand.NewPCG(1, 1)),
	})
	t.Cleanup(f.h.Close)
	return f
}

func (f *fixture) request(req kmsg.Request) *wire.Request {
	r := wire.NewRequest(f.buffers, req.Key(), req.GetVersion(), req.AppendTo(nil))
	r.Conn.Listener = wire.ListenerInfo{Name: "PLAINTEXT", Kind: protocol.BrokerListener}
	r.Conn.Local = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092}
	r.Received = time.Now()
	return r
}

// ask sends a request through Handle and decodes the answer.
func ask[Resp kmsg.Response](t *testing.T, f *fixture, req kmsg.Request) Resp {
	t.Helper()
	out := f.h.Handle(t.Context(), f.request(req))
	if out.Response == nil {
		t.Fatalf("no response: %+v", out)
	}
	resp := req.ResponseKind()
	decode(t, out.Response, resp)
	return resp.(Resp)
}

func decode(t *testing.T, from *wire.Response, into kmsg.Response) {
	t.Helper()
	body, err := from.Body()
	if err != nil {
		t.Fatal(err)
	}
	if err := into.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	from.Release()
}

func TestEveryServedAPIHasAHandler(t *testing.T) {
	h := newFixture(t).h
	served := map[int16]bool{}
	for api := range protocol.Served() {
		served[api.Key] = true
		if h.routes[api.Key] == nil {
			t.Errorf("%s is advertised and has no handler", api.Name)
		}
	}
	for key := range h.routes {
		if !served[key] {
			t.Errorf("key %d has a handler and is not advertised", key)
		}
	}
}

// The page of differences names the keys that are served and those that are not; both
// lists are held against the table.
func TestDivergencePageNamesEveryKey(t *testing.T) {
	page, err := os.ReadFile("../docs/divergence.md")
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`Served now: ([0-9, ]+)\.`).FindSubmatch(page)
	if match == nil {
		t.Fatal("docs/divergence.md does not say what is served")
	}
	var want []string
	for api := range protocol.Served() {
		want = append(want, strconv.Itoa(int(api.Key)))
	}
	if got := string(match[1]); got != strings.Join(want, ", ") {
		t.Errorf("docs/divergence.md says served are %s; the table says %s", got, strings.Join(want, ", "))
	}
}

func TestMetadata(t *testing.T) {
	f := newFixture(t)
	request := func(version int16, topics ...kmsg.MetadataRequestTopic) *kmsg.MetadataRequest {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.Topics = version, topics
		return req
	}
	named := func(name string) kmsg.MetadataRequestTopic {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		return topic
	}
	t.Run("null means all topics", func(t *testing.T) {
		resp := ask[*kmsg.MetadataResponse](t, f, request(12))
		if len(resp.Topics) != 1 || *resp.Topics[0].Topic != "t" || uuid.UUID(resp.Topics[0].TopicID) != topicID {
			t.Errorf("topics %+v", resp.Topics)
		}
		if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 1 || resp.ControllerID != 1 {
			t.Errorf("brokers %+v, controller %d: the fenced one must not show", resp.Brokers, resp.ControllerID)
		}
	})
	t.Run("empty means none from version 1 on, all in version 0", func(t *testing.T) {
		for version, want := range map[int16]int{0: 1, 1: 0, 12: 0} {
			req := request(version)
			req.Topics = []kmsg.MetadataRequestTopic{}
			if resp := ask[*kmsg.MetadataResponse](t, f, req); len(resp.Topics) != want {
				t.Errorf("version %d: %d topics, want %d", version, len(resp.Topics), want)
			}
		}
	})
	t.Run("partitions", func(t *testing.T) {
		resp := ask[*kmsg.MetadataResponse](t, f, request(12, named("t")))
		led, orphan := resp.Topics[0].Partitions[0], resp.Topics[0].Partitions[1]
		if led.Leader != 1 || led.LeaderEpoch != 5 || fmt.Sprint(led.Replicas, led.ISR, led.OfflineReplicas) != "[1 2] [1] [2]" {
			t.Errorf("partition 0: %+v", led)
		}
		if orphan.ErrorCode != kafkaerr.LeaderNotAvailable.Code || orphan.Leader != -1 {
			t.Errorf("partition 1: %+v", orphan)
		}
	})
	t.Run("a dead replica is an error in version 0", func(t *testing.T) {
		resp := ask[*kmsg.MetadataResponse](t, f, request(0, named("t")))
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != kafkaerr.ReplicaNotAvailable.Code || fmt.Sprint(p.Replicas) != "[1]" {
			t.Errorf("partition 0: %+v", p)
		}
	})
	t.Run("an illegal name, and one that is made", func(t *testing.T) {
		req := request(9, named("a/b"), named("new"))
		req.AllowAutoTopicCreation = true
		resp := ask[*kmsg.MetadataResponse](t, f, req)
		for _, topic := range resp.Topics {
			want := kafkaerr.UnknownTopicOrPartition.Code
			if *topic.Topic == "a/b" {
				want = kafkaerr.InvalidTopic.Code
			}
			if topic.ErrorCode != want {
				t.Errorf("%s: error %d, want %d", *topic.Topic, topic.ErrorCode, want)
			}
		}
		made := (<-f.node.calls).(*kmsg.CreateTopicsRequest)
		if len(made.Topics) != 1 || made.Topics[0].Topic != "new" {
			t.Errorf("asked to create %+v", made.Topics)
		}
	})
	t.Run("an id that nobody has", func(t *testing.T) {
		topic := kmsg.NewMetadataRequestTopic()
		topic.TopicID = uuid.UUID{8}
		resp := ask[*kmsg.MetadataResponse](t, f, request(12, topic))
		if resp.Topics[0].ErrorCode != kafkaerr.UnknownTopicID.Code || resp.Topics[0].Topic != nil {
			t.Errorf("topic %+v", resp.Topics[0])
		}
	})
	t.Run("an id is answered once, however many there are", func(t *testing.T) {
		const n = 200_000 // comparing each with all others would take a minute
		topics := make([]kmsg.MetadataRequestTopic, 2*n)
		for i := range topics {
			topics[i] = kmsg.NewMetadataRequestTopic()
			binary.BigEndian.PutUint32(topics[i].TopicID[:], uint32(1+i%n))
		}
		resp := ask[*kmsg.MetadataResponse](t, f, request(12, topics...))
		if len(resp.Topics) != n || resp.Topics[0].TopicID != topics[0].TopicID || resp.Topics[n-1].TopicID != topics[n-1].TopicID {
			t.Errorf("%d topics, want each of %d once, in order", len(resp.Topics), n)
		}
	})
	t.Run("an id before version 12", func(t *testing.T) {
		topic := named("")
		topic.TopicID = topicID
		resp := ask[*kmsg.MetadataResponse](t, f, request(10, topic))
		if resp.Topics[0].ErrorCode != kafkaerr.InvalidRequest.Code || len(resp.Brokers) != 0 || resp.ControllerID != -1 {
			t.Errorf("answer %+v", resp)
		}
	})
}

func TestApiVersions(t *testing.T) {
	f := newFixture(t)
	request := func(version int16, name, software string) *kmsg.ApiVersionsRequest {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, name, software
		return req
	}
	for _, c := range []struct {
		name, software string
		version, want  int16
	}{
		{"franz-go", "1.2.3", 3, 0},
		{"a", "b", 4, 0},
		{"-a", "1", 3, kafkaerr.InvalidRequest.Code},
		{"a", "1-", 3, kafkaerr.InvalidRequest.Code},
		{"", "1", 3, kafkaerr.InvalidRequest.Code},
		{"-a", "", 2, 0}, // not part of version 2
	} {
		if resp := ask[*kmsg.ApiVersionsResponse](t, f, request(c.version, c.name, c.software)); resp.ErrorCode != c.want {
			t.Errorf("%q %q in version %d: error %d, want %d", c.name, c.software, c.version, resp.ErrorCode, c.want)
		}
	}
	resp := ask[*kmsg.ApiVersionsResponse](t, f, request(3, "a", "1"))
	const unadvertised = 2 + 8 // of client telemetry, and of controller listeners
	if len(resp.ApiKeys) != len(protocol.APIs())-unadvertised || resp.ApiKeys[0].ApiKey != 0 || resp.ApiKeys[0].MinVersion != 0 {
		t.Errorf("keys %+v: Produce must be advertised from 0 (KAFKA-18659)", resp.ApiKeys)
	}
}

func TestApiVersionsKnowsWhereTheClientMeantToBe(t *testing.T) {
	f := newFixture(t)
	cluster, other := "cluster-of-the-test", "another"
	for _, c := range []struct {
		cluster *string
		node    int32
		want    int16
	}{
		{nil, -1, 0},
		{&cluster, 1, 0},
		{&cluster, -1, kafkaerr.InvalidRequest.Code},
		{nil, 1, kafkaerr.InvalidRequest.Code},
		{&other, 1, kafkaerr.RebootstrapRequired.Code},
		{&cluster, 2, kafkaerr.RebootstrapRequired.Code},
	} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 5, "a", "1"
		req.ClusterID, req.NodeID = c.cluster, c.node
		if resp := ask[*kmsg.ApiVersionsResponse](t, f, req); resp.ErrorCode != c.want {
			t.Errorf("%+v: error %d", c, resp.ErrorCode)
		}
	}
}

func TestUnknownVersionOfApiVersionsGetsAVersion0Answer(t *testing.T) {
	f := newFixture(t)
	out := f.h.Handle(t.Context(), wire.NewRequest(f.buffers, 18, 99, nil))
	resp := kmsg.NewPtrApiVersionsResponse()
	decode(t, out.Response, resp)
	if resp.ErrorCode != kafkaerr.UnsupportedVersion.Code || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].MaxVersion != 5 {
		t.Errorf("answer %+v", resp)
	}
}

func TestInitProducerID(t *testing.T) {
	f := newFixture(t)
	id, empty := "tx", ""
	for _, c := range []struct {
		name  string
		txn   *string
		pid   int64
		epoch int16
		want  int16
	}{
		{"new", nil, -1, -1, 0},
		{"id and epoch", nil, 5, 1, 0},
		{"id alone", nil, 5, -1, kafkaerr.InvalidRequest.Code},
		{"empty transactional id", &empty, -1, -1, kafkaerr.InvalidRequest.Code},
		{"transactional", &id, -1, -1, kafkaerr.TransactionalIDAuthorizationFailed.Code},
	} {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch = 4, c.txn, c.pid, c.epoch
		resp := ask[*kmsg.InitProducerIDResponse](t, f, req)
		if resp.ErrorCode != c.want {
			t.Errorf("%s: error %d, want %d", c.name, resp.ErrorCode, c.want)
		}
		if c.want == 0 && (resp.ProducerID != 4711 || resp.ProducerEpoch != 0) {
			t.Errorf("%s: id %d epoch %d", c.name, resp.ProducerID, resp.ProducerEpoch)
		}
	}
}

func TestAddressOfALoneBrokerIsTheOneAskedOn(t *testing.T) {
	d := metadata.NewDelta(metadata.Empty())
	err := d.ReplayAll(
		metadata.BootstrapRecord{ClusterID: "c", ForOne: true, Durability: metadata.DurabilityFsync, Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: 1}}},
		metadata.RegisterBrokerRecord{Broker: metadata.Broker{ID: 1, Epoch: 1, Listeners: []metadata.Endpoint{{Name: "PLAINTEXT", Host: "registered", Port: 1}}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	alone, two := d.Image(metadata.Position{Index: 1, Term: 1}), testImage(t)
	for _, c := range []struct {
		name       string
		image      *metadata.Image
		advertised bool
		host       string
	}{
		{"alone, nothing advertised", alone, false, "127.0.0.1"},
		{"alone, advertised", alone, true, "registered"},
		{"two brokers, nothing advertised", two, false, "registered"},
	} {
		f := newFixture(t)
		f.h.advertised = func(string) bool { return c.advertised }
		host, _, ok := f.h.address(c.image, call{request: f.request(kmsg.NewPtrMetadataRequest())}, c.image.Broker(1))
		if !ok || host != c.host {
			t.Errorf("%s: %q, want %q", c.name, host, c.host)
		}
	}
}
