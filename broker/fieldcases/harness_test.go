package fieldcases

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a broker on a machine in memory, and one connection to it.
type world struct {
	*conn
	t       *testing.T
	machine *brokertest.Machine
	env     broker.Env
	broker  *broker.Broker
}

// run plays a case in a bubble: what sleeps there takes no time. Settings of the broker
// are key=value.
func run(t *testing.T, play func(t *testing.T, w *world), settings ...string) {
	runOn(t, func(*brokertest.Machine) {}, play, settings...)
}

// runOn is run on a machine that change has prepared.
func runOn(t *testing.T, change func(*brokertest.Machine), play func(t *testing.T, w *world), settings ...string) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, machine: brokertest.NewMachine(t)}
		change(w.machine)
		w.start(settings...)
		play(t, w)
	})
}

func (w *world) start(settings ...string) {
	w.t.Helper()
	w.env = w.machine.Env()
	cfg := brokertest.Config(w.t, append(w.machine.Settings, settings...)...)
	b, err := broker.Start(w.t.Context(), cfg, w.env)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { brokertest.Stop(w.t, b) })
	w.broker = b
	w.conn = w.dial()
}

// conn is a connection whose requests are written and read one after the other.
type conn struct {
	t    *testing.T
	net  net.Conn
	last int32 // correlation id
}

// dial opens a further connection.
func (w *world) dial() *conn {
	w.t.Helper()
	nc, err := w.machine.Dial(w.t.Context(), "tcp", w.machine.Addr())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = nc.Close() })
	return &conn{t: w.t, net: nc}
}

// send writes a request.
func (c *conn) send(req kmsg.Request) {
	c.t.Helper()
	c.last++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("field")).AppendRequest(nil, req, c.last)
	c.sendRaw(frame)
}

func (c *conn) sendRaw(frame []byte) {
	c.t.Helper()
	if _, err := c.net.Write(frame); err != nil {
		c.t.Fatal(err)
	}
}

// receive reads the answer to the request that was sent last; an error is the end of the
// connection.
func (c *conn) receive(into kmsg.Response) error {
	c.t.Helper()
	body, err := c.receiveRaw()
	if err != nil {
		return err
	}
	if into.IsFlexible() && into.Key() != protocol.ApiVersionsKey {
		body = body[1:] // no tags in the header
	}
	return into.ReadFrom(body)
}

// receiveRaw reads a frame up to and with its correlation id, and returns the rest.
func (c *conn) receiveRaw() ([]byte, error) {
	c.t.Helper()
	_ = c.net.SetReadDeadline(time.Now().Add(time.Minute))
	var size [4]byte
	if _, err := io.ReadFull(c.net, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.net, frame); err != nil {
		return nil, err
	}
	if id := int32(binary.BigEndian.Uint32(frame)); id != c.last {
		c.t.Fatalf("answer to request %d, not to %d", id, c.last)
	}
	return frame[4:], nil
}

// ask sends a request and returns the answer.
func ask[Resp kmsg.Response](c *conn, req kmsg.Request) Resp {
	c.t.Helper()
	resp := req.ResponseKind()
	c.send(req)
	if err := c.receive(resp); err != nil {
		c.t.Fatalf("%s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp.(Resp)
}

// client is a franz-go client with its defaults.
func (w *world) client(opts ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.machine.Addr()), kgo.Dialer(w.machine.Dial)}, opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	return client
}

// create makes a topic; settings are key=value.
func (w *world) create(name string, partitions int32, settings ...string) uuid.UUID {
	w.t.Helper()
	req := createTopic(name, partitions, settings...)
	topic := ask[*kmsg.CreateTopicsResponse](w.conn, req).Topics[0]
	if topic.ErrorCode != 0 {
		w.t.Fatalf("create %s: error %d, %s", name, topic.ErrorCode, *topic.ErrorMessage)
	}
	return topic.TopicID
}

func createTopic(name string, partitions int32, settings ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for _, s := range settings {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		key, value, _ := strings.Cut(s, "=")
		config.Name, config.Value = key, &value
		topic.Configs = append(topic.Configs, config)
	}
	req.Topics = append(req.Topics, topic)
	return req
}

func (w *world) delete(name string) {
	w.t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TopicNames, req.TimeoutMillis = 5, []string{name}, 10_000
	if code := ask[*kmsg.DeleteTopicsResponse](w.conn, req).Topics[0].ErrorCode; code != 0 {
		w.t.Fatalf("delete %s: error %d", name, code)
	}
}

// records is a batch of values with these timestamps, in milliseconds.
func records(o batch.BuilderOptions, timestamps ...int64) []byte {
	var rs []batch.NewRecord
	for i, ts := range timestamps {
		rs = append(rs, batch.NewRecord{TimestampMs: ts, Key: []byte("key"), Value: fmt.Appendf(nil, "value %d", i)})
	}
	return batch.New(o, rs...)
}

func nowMs() int64 { return time.Now().UnixMilli() }

// produceRequest is a Produce of one batch to partition 0.
func produceRequest(topic string, acks int16, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, acks, 10_000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = records
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, part)
	req.Topics = append(req.Topics, t)
	return req
}

// produce sends a batch to partition 0 and returns the answer about it.
func (c *conn) produce(topic string, records []byte) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	return ask[*kmsg.ProduceResponse](c, produceRequest(topic, -1, records)).Topics[0].Partitions[0]
}

// must is produce that succeeds.
func (c *conn) must(topic string, records []byte) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	p := c.produce(topic, records)
	if p.ErrorCode != 0 {
		c.t.Fatalf("produce to %s: error %d", topic, p.ErrorCode)
	}
	return p
}

// fetchRequest is a Fetch by name of partition 0, which does not wait.
func fetchRequest(topic string, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes, req.ReplicaID, req.SessionEpoch = 12, 50<<20, 1, -1, -1
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes, part.CurrentLeaderEpoch = offset, 1<<20, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, part)
	req.Topics = append(req.Topics, t)
	return req
}

func (c *conn) fetch(topic string, offset int64) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	return ask[*kmsg.FetchResponse](c, fetchRequest(topic, offset)).Topics[0].Partitions[0]
}

// read is one record as it was fetched.
type read struct {
	Offset, TimestampMs int64
	Key, Value          string
}

// readAll decodes what was fetched.
func readAll(t *testing.T, p kmsg.FetchResponseTopicPartition) (out []read) {
	t.Helper()
	codecs := batch.NewCodecs(batch.CodecsOptions{})
	for rest := p.RecordBatches; len(rest) > 0; {
		v, next, err := batch.Next(rest)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Check(); err != nil {
			t.Fatal(err)
		}
		it := batch.NewIterator(v, codecs)
		for it.Next() {
			r := &it.Record
			out = append(out, read{r.Offset, r.Timestamp, string(r.Key), string(r.Value)})
		}
		if err := it.Err(); err != nil {
			t.Fatal(err)
		}
		it.Close()
		rest = next
	}
	return out
}

// at is an answer of ListOffsets.
type at struct {
	Offset, TimestampMs int64
	Epoch               int32
	Error               int16
}

// list asks ListOffsets about partition 0.
func (c *conn) list(topic string, timestamp int64) at { return c.listWith(topic, timestamp, 0) }

func (c *conn) listWith(topic string, timestamp int64, isolation int8) at {
	c.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID, req.IsolationLevel = 7, -1, isolation
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Timestamp, part.CurrentLeaderEpoch = timestamp, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, part)
	req.Topics = append(req.Topics, t)
	p := ask[*kmsg.ListOffsetsResponse](c, req).Topics[0].Partitions[0]
	return at{p.Offset, p.Timestamp, p.LeaderEpoch, p.ErrorCode}
}

// Special timestamps of ListOffsets.
const (
	latest      int64 = -1
	earliest    int64 = -2
	largestTime int64 = -3
)

// eventually waits, in virtual time, until something that runs by the clock has happened.
func (w *world) eventually(what string, within time.Duration, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// metric is the sum of a metric of the broker.
func (w *world) metric(name string) (sum float64) {
	w.t.Helper()
	families, err := w.env.Registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
			return sum
		}
	}
	w.t.Fatalf("no metric %s", name)
	return 0
}

// within bounds a call of a client.
func (w *world) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	context.AfterFunc(w.t.Context(), cancel)
	return ctx
}
