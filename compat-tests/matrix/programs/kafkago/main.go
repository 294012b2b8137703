// Command kafkago shows what segmentio/kafka-go does (see package matrix).
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

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

// A transport of its own: the one that all share by default keeps for seconds which
// topics there are.
func produce(ctx context.Context, bootstrap string, c programs.Command, out programs.Out) error {
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	w := &kafka.Writer{Addr: kafka.TCP(bootstrap), Topic: c.Topic, Transport: transport}
	switch c.Acks {
	case "0":
		w.RequiredAcks = kafka.RequireNone
	case "1":
		w.RequiredAcks = kafka.RequireOne
	case "all":
		w.RequiredAcks = kafka.RequireAll
	}
	if c.Codec != "" && c.Codec != "none" {
		if err := w.Compression.UnmarshalText([]byte(c.Codec)); err != nil {
			return err
		}
	}
	index := map[string]int{}
	var messages []kafka.Message
	for i, r := range c.Records {
		index[*r.Key] = i
		messages = append(messages, message(r))
	}
	acked := make(chan kafka.Message, len(messages))
	w.Completion = func(written []kafka.Message, err error) {
		for _, m := range written {
			if err == nil && w.RequiredAcks != kafka.RequireNone {
				acked <- m
			}
		}
	}
	err := errors.Join(w.WriteMessages(ctx, messages...), w.Close())
	close(acked)
	for m := range acked {
		err = errors.Join(err, out.Acked(index[string(m.Key)], int32(m.Partition), m.Offset))
	}
	return err
}

func message(r programs.Record) kafka.Message {
	m := kafka.Message{Key: programs.Bytes(r.Key), Value: programs.Bytes(r.Value)}
	if r.Time != 0 {
		m.Time = time.UnixMilli(r.Time)
	}
	for name, value := range r.Headers {
		m.Headers = append(m.Headers, kafka.Header{Key: name, Value: []byte(value)})
	}
	return m
}

func show(m kafka.Message, out programs.Out) error {
	r := programs.Record{
		Partition: int32(m.Partition), Offset: m.Offset, Time: m.Time.UnixMilli(),
		Key: programs.Text(m.Key), Value: programs.Text(m.Value), Headers: map[string]string{},
	}
	for _, h := range m.Headers {
		r.Headers[h.Key] = string(h.Value)
	}
	return out.Record(r)
}

// consume has a Reader for each partition, as the library wants it without a group.
func consume(ctx context.Context, bootstrap string, c programs.Command, out programs.Out) error {
	ctx, done := context.WithCancel(ctx)
	defer done()
	all := make(chan kafka.Message)
	failed := make(chan error, c.Partitions)
	for partition := range c.Partitions {
		r, err := reader(ctx, bootstrap, c, partition)
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }() // it was only read from
		go func() {
			for {
				m, err := r.FetchMessage(ctx)
				if err != nil {
					failed <- err
					return
				}
				select {
				case all <- m:
				case <-ctx.Done():
				}
			}
		}()
	}
	for n := range c.Count {
		select {
		case m := <-all:
			if err := show(m, out); err != nil {
				return err
			}
		case err := <-failed:
			return fmt.Errorf("after %d records: %w", n, err)
		}
	}
	return nil
}

// maxWait is shorter than the library's ten seconds, for which a Reader would take to close.
const maxWait = 500 * time.Millisecond

func reader(ctx context.Context, bootstrap string, c programs.Command, partition int) (*kafka.Reader, error) {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, Topic: c.Topic, Partition: partition, MaxWait: maxWait})
	switch c.From {
	case "start":
		return r, r.SetOffset(kafka.FirstOffset)
	case "end":
		return r, r.SetOffset(kafka.LastOffset)
	default:
		ms, err := strconv.ParseInt(c.From, 10, 64)
		if err != nil {
			return nil, err
		}
		return r, r.SetOffsetAt(ctx, time.UnixMilli(ms))
	}
}

func group(ctx context.Context, bootstrap string, c programs.Command, out programs.Out) error {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, GroupID: c.Group, Topic: c.Topic, StartOffset: kafka.FirstOffset, MaxWait: maxWait})
	var read []kafka.Message
	for range c.Count {
		m, err := r.FetchMessage(ctx)
		if err != nil {
			return errors.Join(fmt.Errorf("after %d records: %w", len(read), err), r.Close())
		}
		if err := show(m, out); err != nil {
			return err
		}
		read = append(read, m)
	}
	return errors.Join(r.CommitMessages(ctx, read...), r.Close())
}
