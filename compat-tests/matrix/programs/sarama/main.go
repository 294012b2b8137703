// Command sarama shows what IBM/sarama does (see package matrix).
package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/IBM/sarama"

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
		return administer(bootstrap, c, out)
	}
}

// produce uses the asynchronous producer: the synchronous one waits for each record.
func produce(ctx context.Context, bootstrap string, c programs.Command, out programs.Out) error {
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true
	if acks, chosen := map[string]sarama.RequiredAcks{"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll}[c.Acks]; chosen {
		config.Producer.RequiredAcks = acks
	}
	if c.Codec != "" {
		if err := config.Producer.Compression.UnmarshalText([]byte(c.Codec)); err != nil {
			return err
		}
	}
	if c.Idempotent {
		config.Producer.Idempotent = true
		config.Producer.RequiredAcks = sarama.WaitForAll // demanded by the library
		config.Net.MaxOpenRequests = 1                   // the same
	}
	p, err := sarama.NewAsyncProducer([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	go func() {
		for i, r := range c.Records {
			p.Input() <- message(c.Topic, i, r)
		}
	}()
	var failed error
	for range c.Records { // it may only be closed when nothing is left to be sent again
		select {
		case m := <-p.Successes():
			if c.Acks != "0" {
				failed = errors.Join(failed, out.Acked(m.Metadata.(int), m.Partition, m.Offset))
			}
		case err := <-p.Errors():
			failed = errors.Join(failed, err)
		case <-ctx.Done():
			return errors.Join(failed, ctx.Err())
		}
	}
	return errors.Join(failed, p.Close())
}

func message(topic string, i int, r programs.Record) *sarama.ProducerMessage {
	m := &sarama.ProducerMessage{Topic: topic, Metadata: i}
	if r.Key != nil {
		m.Key = sarama.StringEncoder(*r.Key)
	}
	if r.Value != nil {
		m.Value = sarama.StringEncoder(*r.Value)
	}
	if r.Time != 0 {
		m.Timestamp = time.UnixMilli(r.Time)
	}
	for name, value := range r.Headers {
		m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(name), Value: []byte(value)})
	}
	return m
}

func show(m *sarama.ConsumerMessage, out programs.Out) error {
	r := programs.Record{
		Partition: m.Partition, Offset: m.Offset, Time: m.Timestamp.UnixMilli(),
		Key: programs.Text(m.Key), Value: programs.Text(m.Value), Headers: map[string]string{},
	}
	for _, h := range m.Headers {
		r.Headers[string(h.Key)] = string(h.Value)
	}
	return out.Record(r)
}

func consume(ctx context.Context, bootstrap string, c programs.Command, out programs.Out) error {
	config := sarama.NewConfig()
	if c.Rack != "" {
		config.RackID = c.Rack
		config.Version = sarama.V2_3_0_0 // the first that asks for it
	}
	client, err := sarama.NewClient([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // it was only read from
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return err
	}
	defer func() { _ = consumer.Close() }() // the same
	all := make(chan *sarama.ConsumerMessage)
	for partition := range int32(c.Partitions) {
		from, err := start(client, c, partition)
		if err != nil {
			return err
		}
		reader, err := consumer.ConsumePartition(c.Topic, partition, from)
		if err != nil {
			return err
		}
		defer reader.AsyncClose()
		go func() {
			for m := range reader.Messages() {
				select {
				case all <- m:
				case <-ctx.Done():
				}
			}
		}()
	}
	for range c.Count {
		select {
		case m := <-all:
			if err := show(m, out); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func start(client sarama.Client, c programs.Command, partition int32) (int64, error) {
	switch c.From {
	case "start":
		return sarama.OffsetOldest, nil
	case "end":
		return sarama.OffsetNewest, nil
	default:
		ms, err := strconv.ParseInt(c.From, 10, 64)
		if err != nil {
			return 0, err
		}
		return client.GetOffset(c.Topic, partition, ms)
	}
}
