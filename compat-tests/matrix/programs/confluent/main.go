//go:build cgo

// Command confluent shows what confluent-kafka-go does (see package matrix). It needs a C
// compiler: the library is librdkafka with a face of Go.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/klamm-mq/klamm/compat-tests/matrix/programs"
)

func main() { programs.Serve(do) }

func do(ctx context.Context, bootstrap string, c programs.Command, out programs.Out) error {
	switch c.Do {
	case "produce":
		return produce(ctx, bootstrap, c, out)
	case "consume":
		return consume(ctx, bootstrap, c, out)
	case "group":
		return group(ctx, bootstrap, c, out)
	default:
		return administer(ctx, bootstrap, c, out)
	}
}

func produce(ctx context.Context, bootstrap string, c programs.Command, out programs.Out) error {
	config := kafka.ConfigMap{"bootstrap.servers": bootstrap}
	if c.Acks != "" {
		config["acks"] = c.Acks
	}
	if c.Codec != "" {
		config["compression.type"] = c.Codec
	}
	if c.Idempotent {
		config["enable.idempotence"] = true
	}
	p, err := kafka.NewProducer(&config)
	if err != nil {
		return err
	}
	defer p.Close()
	delivered := make(chan kafka.Event, len(c.Records))
	for i, r := range c.Records {
		if err := p.Produce(message(c.Topic, i, r), delivered); err != nil {
			return err
		}
	}
	for range c.Records {
		select {
		case e := <-delivered:
			m, ok := e.(*kafka.Message)
			if !ok {
				return fmt.Errorf("%v", e)
			}
			if err := m.TopicPartition.Error; err != nil {
				return err
			}
			if c.Acks == "0" {
				continue
			}
			if err := out.Acked(m.Opaque.(int), m.TopicPartition.Partition, int64(m.TopicPartition.Offset)); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func message(topic string, i int, r programs.Record) *kafka.Message {
	m := &kafka.Message{
		TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: kafka.PartitionAny}, Opaque: i,
		Key: programs.Bytes(r.Key), Value: programs.Bytes(r.Value),
	}
	if r.Time != 0 {
		m.Timestamp = time.UnixMilli(r.Time)
	}
	for name, value := range r.Headers {
		m.Headers = append(m.Headers, kafka.Header{Key: name, Value: []byte(value)})
	}
	return m
}

func show(m *kafka.Message, out programs.Out) error {
	r := programs.Record{
		Partition: m.TopicPartition.Partition, Offset: int64(m.TopicPartition.Offset), Time: m.Timestamp.UnixMilli(),
		Key: programs.Text(m.Key), Value: programs.Text(m.Value), Headers: map[string]string{},
	}
	for _, h := range m.Headers {
		r.Headers[h.Key] = string(h.Value)
	}
	return out.Record(r)
}

// consume assigns the partitions by hand; the library wants the name of a group all the
// same.
func consume(ctx context.Context, bootstrap string, c programs.Command, out programs.Out) error {
	r, err := kafka.NewConsumer(&kafka.ConfigMap{"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": false, "client.rack": c.Rack})
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it has committed, or has nothing to commit
	var from []kafka.TopicPartition
	for partition := range int32(c.Partitions) {
		from = append(from, kafka.TopicPartition{Topic: &c.Topic, Partition: partition})
	}
	for i := range from {
		switch c.From {
		case "start":
			from[i].Offset = kafka.OffsetBeginning
		case "end":
			from[i].Offset = kafka.OffsetEnd
		default:
			ms, err := strconv.ParseInt(c.From, 10, 64)
			if err != nil {
				return err
			}
			from[i].Offset = kafka.Offset(ms)
		}
	}
	if c.From != "start" && c.From != "end" {
		if from, err = r.OffsetsForTimes(from, timeoutMs); err != nil {
			return err
		}
	}
	if err := r.Assign(from); err != nil {
		return err
	}
	_, err = read(ctx, r, c.Count, out)
	return err
}

const timeoutMs = 10000

// read reads so many records, and returns where to go on.
func read(ctx context.Context, r *kafka.Consumer, count int, out programs.Out) ([]kafka.TopicPartition, error) {
	next := map[int32]kafka.TopicPartition{}
	for n := 0; n < count; {
		m, err := r.ReadMessage(100 * time.Millisecond)
		var failed kafka.Error
		switch {
		case err == nil:
			if err := show(m, out); err != nil {
				return nil, err
			}
			at := m.TopicPartition
			at.Offset++
			next[at.Partition] = at
			n++
		case ctx.Err() != nil:
			return nil, fmt.Errorf("after %d records: %w", n, ctx.Err())
		case !errors.As(err, &failed) || !failed.IsTimeout() && failed.Code() != kafka.ErrTransport: // a connection that is lost is made again
			return nil, fmt.Errorf("after %d records: %w", n, err)
		}
	}
	var all []kafka.TopicPartition
	for _, at := range next {
		all = append(all, at)
	}
	return all, nil
}

func group(ctx context.Context, bootstrap string, c programs.Command, out programs.Out) error {
	r, err := kafka.NewConsumer(&kafka.ConfigMap{
		"bootstrap.servers": bootstrap, "group.id": c.Group, "enable.auto.commit": false, "auto.offset.reset": "earliest",
	})
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it has committed, or has nothing to commit
	if err := r.Subscribe(c.Topic, nil); err != nil {
		return err
	}
	next, err := read(ctx, r, c.Count, out)
	if err != nil {
		return err
	}
	_, err = r.CommitOffsets(next)
	return err
}
