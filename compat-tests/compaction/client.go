package compaction

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// patience is how long a broker may take for what it does by itself.
const patience = 2 * time.Minute

// Client speaks to a broker of one node, request by request.
type Client struct {
	t testing.TB
	c *kgo.Client
}

// Dial connects until the test ends. All requests go to addr, wherever leaders are said
// to be.
func Dial(t testing.TB, addr string, more ...kgo.Opt) *Client {
	t.Helper()
	c, err := kgo.NewClient(append(more, kgo.SeedBrokers(addr))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &Client{t, c}
}

// of is the client in a part of the test.
func (c *Client) of(t testing.TB) *Client { return &Client{t, c.c} }

func (c *Client) request(req kmsg.Request) kmsg.Response {
	c.t.Helper()
	resp, err := c.c.SeedBrokers()[0].RetriableRequest(c.t.Context(), req)
	if err != nil {
		c.t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return resp
}

// named keeps a client from choosing a version in which topics have ids only.
type named struct {
	kmsg.Request
	version int16
}

func (n named) MaxVersion() int16 { return n.version }

// until looks again until done has no error.
func (c *Client) until(what string, done func() error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := done()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			c.t.Fatalf("not within %s: %s: %v", patience, what, err)
		}
	}
}

// Create makes a topic, and waits until each partition has a leader. Configs are keys and
// values in turn.
func (c *Client) Create(name string, partitions int32, configs ...string) {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for i := 0; i+1 < len(configs); i += 2 {
		topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: configs[i], Value: &configs[i+1]})
	}
	req.Topics = append(req.Topics, topic)
	if made := c.request(req).(*kmsg.CreateTopicsResponse).Topics[0]; made.ErrorCode != 0 {
		c.t.Fatalf("create topic %s: code %d", name, made.ErrorCode)
	}
	c.AwaitLeaders(name, partitions)
}

// AwaitLeaders waits until each partition of a topic has a leader.
func (c *Client) AwaitLeaders(topic string, partitions int32) {
	c.t.Helper()
	c.until("leaders of "+topic, func() error {
		for p := range partitions {
			if found := c.lookup(topic, p, latest); found.ErrorCode != 0 {
				return fmt.Errorf("partition %d: code %d", p, found.ErrorCode)
			}
		}
		return nil
	})
}

// Set changes settings of a topic. Configs are keys and values in turn.
func (c *Client) Set(topic string, configs ...string) {
	c.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for i := 0; i+1 < len(configs); i += 2 {
		resource.Configs = append(resource.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: configs[i], Value: &configs[i+1]})
	}
	req.Resources = append(req.Resources, resource)
	if r := c.request(req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]; r.ErrorCode != 0 {
		c.t.Fatalf("set %v of %s: code %d", configs, topic, r.ErrorCode)
	}
}

// Produce sends the bytes of one batch, acks=all.
func (c *Client) Produce(topic string, partition int32, batch []byte) (code int16, base int64) {
	c.t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = partition, batch
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{part}}}
	answer := c.request(named{req, 12}).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return answer.ErrorCode, answer.BaseOffset
}

// deleteRecords deletes up to an offset of partition 0.
func (c *Client) deleteRecords(topic string, before int64) int16 {
	c.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: before}}}}
	return c.request(req).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode
}

// Times that ListOffsets knows beside those of records.
const (
	latest   = -1
	earliest = -2
	maxTime  = -3 // the record with the largest timestamp (KIP-734)
)

func (c *Client) lookup(topic string, partition int32, at int64) kmsg.ListOffsetsResponseTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition, part.Timestamp = partition, at
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{part}}}
	return c.request(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
}

// LogEnd is the offset that the next record of a partition will have.
func (c *Client) LogEnd(topic string, partition int32) int64 {
	c.t.Helper()
	return c.lookup(topic, partition, latest).Offset
}

// fetch gives the bytes that a consumer gets at an offset.
func (c *Client) fetch(topic string, partition int32, at int64, maxBytes int32) []byte {
	c.t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.SessionEpoch, req.MaxBytes, req.MaxWaitMillis = -1, -1, maxBytes, 100
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = partition, at, maxBytes
	req.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{part}}}
	resp := c.request(named{req, 12}).(*kmsg.FetchResponse)
	if resp.ErrorCode != 0 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		c.t.Fatalf("fetch %s at %d: %+v", topic, at, resp)
	}
	return resp.Topics[0].Partitions[0].RecordBatches
}

var errNothing = errors.New("nothing is there below the end")

// Read is every batch of a partition from its start on.
func (c *Client) Read(topic string, partition int32) (all []Batch) {
	c.t.Helper()
	next, end := c.lookup(topic, partition, earliest).Offset, c.LogEnd(topic, partition)
	for next < end {
		got, err := decode(c.fetch(topic, partition, next, 4<<20))
		if err == nil && len(got) == 0 {
			err = errNothing
		}
		if err != nil {
			c.t.Fatalf("%s at %d of %d: %v", topic, next, end, err)
		}
		all = append(all, got...)
		next = got[len(got)-1].Last + 1
	}
	return all
}
