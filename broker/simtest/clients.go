package simtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/broker/simtest/check"
)

func isTopicExists(err error) bool  { return errors.Is(err, kerr.TopicAlreadyExists) }
func isUnknownTopic(err error) bool { return errors.Is(err, kerr.UnknownTopicOrPartition) }

// Mode is how a producer produces.
type Mode struct {
	name string
	opts []kgo.Opt
	acks int // -1, 0, 1
	idem bool
}

// The modes. With AcksOne and AcksNone the producer is not idempotent, as in any client.
var (
	Idempotent = Mode{name: "idempotent", acks: -1, idem: true}
	AcksAll    = Mode{name: "all", acks: -1, opts: []kgo.Opt{kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks())}}
	AcksOne    = Mode{name: "one", acks: 1, opts: []kgo.Opt{kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck())}}
	AcksNone   = Mode{name: "none", acks: 0, opts: []kgo.Opt{kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.NoAck())}}
)

// Producer is one client that produces.
type Producer struct {
	c      *Cluster
	name   string
	mode   Mode
	topic  string
	client *kgo.Client
	next   []int // by partition: number of the next record
	keys   int   // of each partition; 0: records have none

	// Done is closed when every record has been answered.
	Done <-chan struct{}
}

// Produce starts a producer that sends so many records to a topic, in bursts.
func (c *Cluster) Produce(topicName string, mode Mode, records int) *Producer {
	c.mu.Lock()
	c.producers++
	name := fmt.Sprintf("%s-%d", mode.name, c.producers)
	partitions := c.topics[topicName].partitions
	c.mu.Unlock()
	c.history.AddProducer(name, mode.idem)
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.SnappyCompression(), kgo.GzipCompression()}
	if c.isCompacted(topicName) {
		codecs = codecs[:1] // several segments are to be filled
	}
	opts := append([]kgo.Opt{
		kgo.DefaultProduceTopic(topicName), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(c.pause(10 * time.Millisecond)), kgo.MaxBufferedRecords(1 + c.draw(500)),
		kgo.ProducerBatchMaxBytes(40_000), // below the segments of the scenarios
		kgo.ProduceRequestTimeout(5 * time.Second), kgo.ProducerBatchCompression(codecs[c.draw(len(codecs))]),
		kgo.ProducerOnDataLossDetected(func(topic string, partition int32) {
			c.violated("AckedRecordsReadable", "%s: the client found that partition %d of %s lost data", name, partition, topic)
		}),
	}, mode.opts...)
	if !mode.idem && c.draw(2) == 0 {
		opts = append(opts, kgo.MaxProduceRequestsInflightPerBroker(1+c.draw(5)))
	}
	done := make(chan struct{})
	p := &Producer{c: c, name: name, mode: mode, topic: topicName, client: c.client(opts...), next: make([]int, partitions), Done: done}
	if c.isCompacted(topicName) {
		p.keys = 1 + c.draw(15)
	}
	c.Go(func() { p.run(records, done) })
	return p
}

// run sends in bursts with pauses, and closes done when all has been answered.
func (p *Producer) run(records int, done chan<- struct{}) {
	answered := make(chan struct{}, records)
	for sent := 0; sent < records; {
		for burst := 1 + p.c.draw(20); burst > 0 && sent < records; burst-- {
			p.send(func() { answered <- struct{}{} })
			sent++
		}
		if !p.c.sleep(p.c.pause(time.Second)) {
			return
		}
	}
	for range records {
		select {
		case <-answered:
		case <-p.c.over.Done():
			return
		}
	}
	p.c.tracef("%s is done", p.name)
	close(done)
}

// send sends the next record of some partition.
func (p *Producer) send(answered func()) {
	index := int32(p.c.draw(len(p.next)))
	at := check.Partition{Topic: p.topic, Index: index}
	n := p.next[index]
	p.next[index]++
	size := 20 + p.c.draw(200)
	if p.c.draw(50) == 0 {
		size = p.c.draw(30_000)
	}
	value := check.Value(p.name, n, size)
	record := &kgo.Record{Partition: index, Value: []byte(value)}
	if p.keys > 0 {
		p.giveKey(record, n, at)
	}
	p.client.Produce(p.c.over, record, func(r *kgo.Record, err error) {
		defer answered()
		switch {
		case err == nil && p.mode.acks != 0:
			p.c.history.Acked(p.name, n, at, r.Offset, value)
			p.c.tracef("acked %s: %s record %d at %d", at, p.name, n, r.Offset)
		case err != nil && p.c.over.Err() == nil:
			p.c.history.Refused(p.name, n, at)
			p.c.tracef("refused %s: %s record %d: %v", at, p.name, n, err)
			if p.c.several() { // it tries again for ever, and somebody can always lead in the end
				p.c.violated("Progress", "%s gave up record %d of %s: %v", p.name, n, at, err)
			}
		}
	})
}

// latency is how long an answer takes to a client. Without it, a client that asks again at
// once, as long as some timer has not brought it new metadata, would do so for ever: time
// stands still while anybody runs.
const latency = 200 * time.Microsecond

// farConn is a connection whose bytes take time to arrive.
type farConn struct{ net.Conn }

// Read is net.Conn.
func (c farConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		time.Sleep(latency)
	}
	return n, err
}

// dial connects a client.
func (c *Cluster) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.machine.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return farConn{conn}, nil
}

// Consume starts a consumer that reads a topic from its start to the end of the run.
func (c *Cluster) Consume(topicName string) {
	c.mu.Lock()
	c.producers++
	name := fmt.Sprintf("consumer-%d", c.producers)
	partitions := c.topics[topicName].partitions
	c.mu.Unlock()
	from := map[int32]kgo.Offset{}
	for i := range partitions {
		from[i] = kgo.NewOffset().At(0)
	}
	client := c.client(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topicName: from}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(500*time.Millisecond),
	)
	c.Go(func() {
		for c.over.Err() == nil {
			c.saw(name, client.PollFetches(c.over))
		}
	})
}

func (c *Cluster) saw(name string, fetches kgo.Fetches) {
	fetches.EachError(func(topic string, partition int32, err error) {
		if c.over.Err() != nil || errors.Is(err, context.Canceled) {
			return
		}
		var loss *kgo.ErrDataLoss
		if errors.As(err, &loss) || errors.Is(err, kerr.OffsetOutOfRange) {
			c.violated("AckedRecordsReadable", "%s at partition %d of %s: %v", name, partition, topic, err)
			return
		}
		c.tracef("%s at partition %d of %s: %v", name, partition, topic, err)
	})
	fetches.EachRecord(func(r *kgo.Record) {
		c.history.Saw(name, check.Partition{Topic: r.Topic, Index: r.Partition}, check.Record{Offset: r.Offset, Value: valueOf(r)})
	})
}
