package exchange

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// client speaks to one broker.
type client struct {
	t testing.TB
	c *kgo.Client
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	return &client{t, c}
}

func (c *client) close() { c.c.Close() }

// of is the client in a part of the test.
func (c *client) of(t testing.TB) *client { return &client{t, c.c} }

func (c *client) request(req kmsg.Request) kmsg.Response {
	c.t.Helper()
	resp, err := c.c.SeedBrokers()[0].Request(c.t.Context(), req)
	if err != nil {
		c.t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return resp
}

// until repeats a request until done likes its answer: a topic takes a moment to be there.
func (c *client) until(what string, req func() kmsg.Request, done func(kmsg.Response) bool) kmsg.Response {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		resp := c.request(req())
		if done(resp) {
			return resp
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: not within a minute: %+v", what, resp)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (c *client) createTopic(name string) {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	for key, value := range map[string]string{"segment.bytes": "1048576", "retention.ms": "-1", "index.interval.bytes": "4096"} {
		topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: key, Value: &value})
	}
	req.Topics = append(req.Topics, topic)
	if code := c.request(req).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 {
		c.t.Fatalf("create topic %s: code %d", name, code)
	}
	c.offsetOf(name, -1)
}

// found is an offset with the time of its record.
type found struct{ offset, time int64 }

// offsetOf is the offset of a time, -1 for the end.
func (c *client) offsetOf(topic string, at int64) found {
	c.t.Helper()
	resp := c.until("offset of "+topic, func() kmsg.Request {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Timestamp = at
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{part}}}
		return req
	}, func(resp kmsg.Response) bool {
		return resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode == 0
	})
	part := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	return found{part.Offset, part.Timestamp}
}

func (c *client) produce(topic string, batch []byte) (code int16, base int64) {
	c.t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 10_000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = batch
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{part}}}
	resp := c.request(fixed{req, 9}).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return resp.ErrorCode, resp.BaseOffset
}

// fixed keeps a client from choosing a version in which topics have no names.
type fixed struct {
	kmsg.Request
	version int16
}

func (f fixed) MaxVersion() int16 { return f.version }

// readAll is every batch of partition 0.
func (c *client) readAll(topic string) (all []byte) {
	c.t.Helper()
	end := c.offsetOf(topic, -1).offset
	for next := int64(0); next < end; {
		req := kmsg.NewPtrFetchRequest()
		req.ReplicaID, req.SessionEpoch, req.MaxBytes, req.MaxWaitMillis = -1, -1, 4<<20, 100
		part := kmsg.NewFetchRequestTopicPartition()
		part.FetchOffset, part.PartitionMaxBytes = next, 4<<20
		req.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{part}}}
		resp := c.request(fixed{req, 12}).(*kmsg.FetchResponse)
		if resp.ErrorCode != 0 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			c.t.Fatalf("fetch %s at %d: %+v", topic, next, resp)
		}
		whole, after := wholeBatches(resp.Topics[0].Partitions[0].RecordBatches)
		if after <= next {
			c.t.Fatalf("fetch %s at %d of %d finds nothing", topic, next, end)
		}
		all = append(all, whole...)
		next = after
	}
	return all
}

// wholeBatches leaves out what was cut at the end, and returns the offset behind the rest.
func wholeBatches(b []byte) (whole []byte, next int64) {
	pos := 0
	for len(b)-pos > 61 {
		size := 12 + int(binary.BigEndian.Uint32(b[pos+8:]))
		if pos+size > len(b) {
			break
		}
		next = int64(binary.BigEndian.Uint64(b[pos:])) + int64(binary.BigEndian.Uint32(b[pos+23:])) + 1
		pos += size
	}
	return b[:pos], next
}

// writing is what an idempotent producer has written to a topic.
type writing struct {
	topic      string
	codec      kgo.CompressionCodecType
	producer   int64
	begin      int64 // time of the first record
	sequence   int32 // of the next batch
	end        int64 // offset of the next batch
	last       []byte
	lastOffset int64
	bytes      []byte          // as the writer serves them
	times      map[int64]found // what the writer finds
}

const (
	batches        = 400
	recordsInBatch = 5

	newest = -3 // the offset of the newest time (KIP-734)
)

// write fills a topic with several segments, and notes how its broker serves them.
func (c *client) write(topic string, codec kgo.CompressionCodecType) *writing {
	c.t.Helper()
	init := c.until("producer id", func() kmsg.Request { return kmsg.NewPtrInitProducerIDRequest() }, func(resp kmsg.Response) bool {
		return resp.(*kmsg.InitProducerIDResponse).ErrorCode == 0
	}).(*kmsg.InitProducerIDResponse)
	w := &writing{topic: topic, codec: codec, producer: init.ProducerID, begin: time.Now().Add(-time.Hour).UnixMilli(), times: map[int64]found{}}
	for range batches {
		b := w.batch(w.sequence)
		code, base := c.produce(topic, b)
		if code != 0 || base != w.end {
			c.t.Fatalf("produce to %s: code %d at %d, want %d", topic, code, base, w.end)
		}
		w.appended(b, base)
	}
	w.bytes = c.readAll(topic)
	for i := range int64(20) {
		at := w.begin + i*int64(batches*recordsInBatch/20)
		w.times[at] = c.offsetOf(topic, at)
	}
	w.times[-2], w.times[newest] = c.offsetOf(topic, -2), c.offsetOf(topic, newest)
	return w
}

// batch is the producer's batch of a sequence number.
func (w *writing) batch(sequence int32) []byte {
	var records []conform.Record
	for i := range recordsInBatch {
		n := int(sequence) + i
		value := make([]byte, 700)
		for j := range value {
			value[j] = byte('0' + (n*7919+j*j)%10)
		}
		records = append(records, conform.Record{
			Time: w.begin + int64(n), Key: fmt.Appendf(nil, "key %d", n%13), Value: value,
			Headers: []kmsg.Header{{Key: "n", Value: fmt.Append(nil, n)}},
		})
	}
	return conform.Batch{Records: records, Codec: w.codec, Idempotent: true, ProducerID: w.producer, FirstSequence: sequence}.Bytes()
}

func (w *writing) appended(b []byte, base int64) {
	w.last, w.lastOffset = b, base
	w.sequence += recordsInBatch
	w.end = base + recordsInBatch
}
