// Command franz shows what franz-go does (see package matrix).
package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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

func client(bootstrap string, more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(more, kgo.SeedBrokers(bootstrap), kgo.ClientID("franz"))...)
}

func produce(ctx context.Context, bootstrap string, c programs.Command, out programs.Out) error {
	var options []kgo.Opt
	switch c.Acks {
	case "0":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case "1":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "all":
		options = append(options, kgo.RequiredAcks(kgo.AllISRAcks()))
	}
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	if codec, chosen := codecs[c.Codec]; chosen {
		options = append(options, kgo.ProducerBatchCompression(codec))
	}
	p, err := client(bootstrap, options...)
	if err != nil {
		return err
	}
	defer p.Close()
	written := make([]*kgo.Record, len(c.Records))
	for i, r := range c.Records {
		written[i] = record(c.Topic, r)
	}
	if err := p.ProduceSync(ctx, written...).FirstErr(); err != nil {
		return err
	}
	if c.Acks == "0" {
		return nil
	}
	for i, r := range written {
		if err := out.Acked(i, r.Partition, r.Offset); err != nil {
			return err
		}
	}
	return nil
}

func record(topic string, r programs.Record) *kgo.Record {
	k := &kgo.Record{Topic: topic, Key: programs.Bytes(r.Key), Value: programs.Bytes(r.Value)}
	if r.Time != 0 {
		k.Timestamp = time.UnixMilli(r.Time)
	}
	for name, value := range r.Headers {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return k
}

func show(r *kgo.Record, out programs.Out) error {
	p := programs.Record{
		Partition: r.Partition, Offset: r.Offset, Time: r.Timestamp.UnixMilli(),
		Key: programs.Text(r.Key), Value: programs.Text(r.Value), Headers: map[string]string{},
	}
	for _, h := range r.Headers {
		p.Headers[h.Key] = string(h.Value)
	}
	return out.Record(p)
}

func consume(ctx context.Context, bootstrap string, c programs.Command, out programs.Out) error {
	from := kgo.NewOffset()
	switch c.From {
	case "start":
		from = from.AtStart()
	case "end":
		from = from.AtEnd()
	default:
		ms, err := strconv.ParseInt(c.From, 10, 64)
		if err != nil {
			return err
		}
		from = from.AfterMilli(ms)
	}
	options := []kgo.Opt{kgo.ConsumeTopics(c.Topic), kgo.ConsumeResetOffset(from)}
	if c.Rack != "" { // else it asks a follower that is gone for half an hour
		options = append(options, kgo.Rack(c.Rack), kgo.RecheckPreferredReplicaInterval(time.Second))
	}
	r, err := client(bootstrap, options...)
	if err != nil {
		return err
	}
	defer r.Close()
	for n := 0; n < c.Count; {
		fetches := r.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("after %d records: %w", n, err)
		}
		for _, record := range fetches.Records() {
			if err := show(record, out); err != nil {
				return err
			}
			n++
		}
	}
	return nil
}

func group(ctx context.Context, bootstrap string, c programs.Command, out programs.Out) error {
	r, err := client(bootstrap, kgo.ConsumeTopics(c.Topic), kgo.ConsumerGroup(c.Group), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer r.Close()
	for n := 0; n < c.Count; {
		fetches := r.PollRecords(ctx, c.Count-n)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("after %d records: %w", n, err)
		}
		for _, record := range fetches.Records() {
			if err := show(record, out); err != nil {
				return err
			}
			n++
		}
	}
	return r.CommitUncommittedOffsets(ctx)
}
