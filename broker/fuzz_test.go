package broker_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// victim is a whole broker in memory that gets what no client should send, and one good
// client of it.
type victim struct {
	machine  *brokertest.Machine
	broker   *broker.Broker
	registry *prometheus.Registry
	good     net.Conn
	sent     int32 // by the good client
}

// aliveTopic is the good client's.
const aliveTopic = "alive"

func newVictim(t testing.TB) *victim {
	v := &victim{machine: brokertest.NewMachine(t)}
	env := v.machine.Env()
	v.registry = env.Registry
	// Nobody may wait for longer than this, be it in a request or between two.
	cfg := brokertest.Config(t, append(v.machine.Settings, "connections.max.idle.ms=500")...)
	b, err := broker.Start(t.Context(), cfg, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { brokertest.Stop(t, b) })
	v.broker = b
	v.create(t, aliveTopic)
	return v
}

func (v *victim) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := v.machine.Dial(t.Context(), "tcp", v.machine.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// frame is a request as it is sent, its size first.
func frame(req kmsg.Request, correlation int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("client")).AppendRequest(nil, req, correlation)
}

// ask is one request of the good client, which must be answered.
func ask[Resp kmsg.Response](t testing.TB, v *victim, req kmsg.Request) Resp {
	t.Helper()
	if v.good == nil {
		v.good = v.dial(t)
	}
	v.sent++
	if _, err := v.good.Write(frame(req, v.sent)); err != nil {
		_ = v.good.Close() // it was idle for too long: fuzzing pauses at times
		v.good = nil
		return ask[Resp](t, v, req)
	}
	_ = v.good.SetReadDeadline(time.Now().Add(20 * time.Second))
	body, err := readFrame(v.good)
	if err != nil {
		_ = v.good.Close()
		v.good = nil
		if errors.Is(err, io.EOF) {
			return ask[Resp](t, v, req)
		}
		t.Fatalf("the broker does not answer any more: %v", err)
	}
	body = body[4:]
	resp := req.ResponseKind()
	if resp.IsFlexible() {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	return resp.(Resp)
}

func readFrame(conn net.Conn) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(conn, body)
	return body, err
}

func (v *victim) create(t testing.TB, name string) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, topic)
	if made := ask[*kmsg.CreateTopicsResponse](t, v, req).Topics[0]; made.ErrorCode != 0 {
		t.Fatalf("create %s: error %d", name, made.ErrorCode)
	}
}

// checkAlive produces a record and reads it back. If somebody has deleted the topic, it is
// made anew.
func (v *victim) checkAlive(t testing.TB) {
	t.Helper()
	if v.broker.Image().Topic(aliveTopic) == nil {
		v.create(t, aliveTopic)
	}
	value := binary.BigEndian.AppendUint32([]byte("value "), uint32(v.sent))
	produce := kmsg.NewPtrProduceRequest()
	produce.Version, produce.Acks, produce.TimeoutMillis = 9, -1, 10_000
	produce.Topics = []kmsg.ProduceRequestTopic{{Topic: aliveTopic, Partitions: []kmsg.ProduceRequestTopicPartition{{
		Records: batch.New(batch.BuilderOptions{}, batch.NewRecord{TimestampMs: time.Now().UnixMilli(), Value: value}),
	}}}}
	p := ask[*kmsg.ProduceResponse](t, v, produce).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		t.Fatalf("produce: error %d", p.ErrorCode)
	}
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version, fetch.MaxBytes, fetch.ReplicaID, fetch.SessionEpoch = 12, 1<<20, -1, -1
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes, part.CurrentLeaderEpoch = p.BaseOffset, 1<<20, -1
	fetch.Topics = []kmsg.FetchRequestTopic{{Topic: aliveTopic, Partitions: []kmsg.FetchRequestTopicPartition{part}}}
	got := ask[*kmsg.FetchResponse](t, v, fetch).Topics[0].Partitions[0]
	if got.ErrorCode != 0 || !bytes.Contains(got.RecordBatches, value) {
		t.Fatalf("fetched error %d, %d bytes at %d", got.ErrorCode, len(got.RecordBatches), p.BaseOffset)
	}
}

// attack sends bytes on a connection of their own, whatever they are, and waits for its
// end.
func (v *victim) attack(t testing.TB, stream []byte) {
	t.Helper()
	conn := v.dial(t)
	defer conn.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = conn.Write(stream) // the broker may have closed long since
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection neither goes on nor ends")
	}
	_ = conn.Close()
	<-sent
}

// checkClean finds out whether what was sent has left anything behind, and removes topics.
func (v *victim) checkClean(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		memory, inFlight := v.gauge(t, "klamm_network_frame_memory_bytes"), v.gauge(t, "klamm_network_requests_in_flight")
		if memory == 0 && inFlight == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v bytes of frames and %v requests are left", memory, inFlight)
		}
	}
	gone := kmsg.NewPtrDeleteTopicsRequest()
	gone.Version, gone.TimeoutMillis = 5, 20_000
	for topic := range v.broker.Image().Topics() {
		if topic.Name != aliveTopic && topic.Name != metadata.GroupMetadataTopic {
			gone.TopicNames = append(gone.TopicNames, topic.Name)
		}
	}
	if len(gone.TopicNames) > 0 {
		ask[*kmsg.DeleteTopicsResponse](t, v, gone)
	}
}

func (v *victim) gauge(t testing.TB, name string) float64 {
	t.Helper()
	families, err := v.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// seed is a request of a version in which every array has an element and every field a
// value: what it names is there. JoinGroup is refused for its session timeout of 0, since
// who joins may have to wait for minutes.
func (v *victim) seed(key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	if d, ok := req.(interface{ Default() }); ok {
		d.Default()
	}
	fill(reflect.ValueOf(req).Elem())
	req.SetVersion(version)
	id := v.broker.Image().Topic(aliveTopic).ID
	switch req := req.(type) {
	case *kmsg.FetchRequest:
		req.Topics[0].TopicID, req.ForgottenTopics[0].TopicID = id, id
		req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 1<<20, 1<<20
		req.MaxWaitMillis, req.SessionID, req.SessionEpoch, req.ReplicaState.ID = 1, 0, 0, -1
		if version < 15 {
			req.ReplicaState.Epoch = -1
		}
		req.Topics[0].Partitions[0].HighWatermark = 1<<63 - 1
	case *kmsg.ProduceRequest:
		req.Acks, req.TransactionID, req.Topics[0].TopicID = -1, nil, id
	case *kmsg.DeleteTopicsRequest:
		req.TopicNames = []string{"another"}
		req.Topics[0].Topic = &req.TopicNames[0]
	case *kmsg.OffsetCommitRequest:
		req.Group, req.MemberID, req.InstanceID, req.Generation = "committed", "", nil, -1
		req.Topics[0].TopicID = id
	case *kmsg.OffsetFetchRequest:
		req.Group, req.Groups[0].Group, req.Groups[0].MemberID = "committed", "committed", nil
		req.Groups[0].Topics[0].TopicID = id
	case *kmsg.CreatePartitionsRequest:
		req.Topics[0].Count, req.Topics[0].Assignment, req.ValidateOnly = 2, nil, true
	case *kmsg.OffsetDeleteRequest:
		req.Group = "committed"
	case *kmsg.CreateTopicsRequest:
		req.Topics[0].Topic = "another"
		req.Topics[0].NumPartitions, req.Topics[0].ReplicationFactor, req.Topics[0].ReplicaAssignment = 1, 1, nil
		*req.Topics[0].Configs[0].Value, req.Topics[0].Configs[0].Name = "1000", "retention.ms"
	}
	return req
}

// fill gives every field of a request a value; numbers keep their default.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() && v.Type().Field(i).Name != "UnknownTags" {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(batch.New(batch.BuilderOptions{}, batch.NewRecord{Value: []byte("v")}))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if d, ok := v.Index(0).Addr().Interface().(interface{ Default() }); ok {
			d.Default()
		}
		fill(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.String:
		v.SetString(aliveTopic)
	default: // a number, or a topic id
	}
}

// seeds are streams of bytes: each API in each version, and the versions around them.
func (v *victim) seeds() (all [][]byte) {
	for _, api := range protocol.APIs() {
		for version := max(0, api.MinVersion-1); version <= api.MaxVersion; version++ {
			all = append(all, frame(v.seed(api.Key, version), 7))
		}
		unknown := frame(v.seed(api.Key, api.MaxVersion), 7)
		binary.BigEndian.PutUint16(unknown[6:], uint16(api.MaxVersion+1))
		all = append(all, unknown)
	}
	produce, fetch := frame(v.seed(0, 9), 1), frame(v.seed(1, 12), 2)
	all = append(all, slices.Concat(produce, produce, fetch, produce), fetch[:len(fetch)-3], []byte("GET / HTTP/1.1\r\n\r\n"))
	return append(all, []byte{0, 0, 0, 0}, []byte{0xff, 0xff, 0xff, 0xff}, []byte{0x16, 3, 1, 2, 0, 1})
}

// FuzzRequests: whatever bytes come on a connection, the broker lives, leaves nothing of
// them behind, and serves the next client.
func FuzzRequests(f *testing.F) {
	v := newVictim(f)
	for _, s := range v.seeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		v.attack(t, stream)
		v.checkClean(t)
		v.checkAlive(t)
	})
}

// maxAllocated is what the broker may allocate for a request of a few hundred bytes.
const maxAllocated = 32 << 20

// A length that lies does not make the broker allocate what it promises: at each place of
// each request there may stand a large number.
func TestLengthsThatLie(t *testing.T) {
	v := newVictim(t)
	for _, api := range protocol.APIs() {
		for _, version := range []int16{api.MinVersion, api.MaxVersion} {
			honest := frame(v.seed(api.Key, version), 7)
			for at := 12; at < len(honest); at++ {
				for _, lie := range []string{"\x7f\xff\xff\xff", "\xff\xff\xff\xff\x07"} {
					stream := slices.Clone(honest)
					copy(stream[at:], lie)
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					v.attack(t, stream)
					runtime.ReadMemStats(&after)
					if n := after.TotalAlloc - before.TotalAlloc; n > maxAllocated {
						t.Errorf("%s v%d, %x at %d: %d MiB allocated", api.Name, version, lie, at, n>>20)
					}
				}
			}
		}
	}
	v.checkClean(t)
	v.checkAlive(t)
}
