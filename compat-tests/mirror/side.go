package mirror

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	patience    = 2 * time.Minute
	partitions  = 3
	perCodec    = 40
	retention   = "123456789"
	retainLater = "234567890"
	group       = "billing"
)

// side is one of the two brokers. Its topic is copied to the other side.
type side struct {
	t      *testing.T
	name   string // the alias that MirrorMaker knows it by
	addr   string
	topic  string
	client *kgo.Client
	admin  *kadm.Client
	lines  []string // what was written, see line
}

func newSide(t *testing.T, name, addr, topic string) *side {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AlwaysRetryEOF())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s := &side{t: t, name: name, addr: addr, topic: topic, client: client, admin: kadm.NewClient(client)}
	configs := map[string]*string{"retention.ms": kadm.StringPtr(retention), "compression.type": kadm.StringPtr("producer")}
	if _, err := s.admin.CreateTopic(t.Context(), partitions, 1, configs, topic); err != nil {
		t.Fatal(err)
	}
	return s
}

// line is a record as both sides have it.
func line(r *kgo.Record) string {
	var headers []string
	for _, h := range r.Headers {
		headers = append(headers, h.Key+"="+string(h.Value))
	}
	value := fmt.Sprintf("%q", r.Value)
	if r.Value == nil {
		value = "null"
	}
	return fmt.Sprintf("%d %d %d %q %s %s", r.Partition, r.Offset, r.Timestamp.UnixMilli(), r.Key, value, strings.Join(headers, ","))
}

// write writes records with each codec.
func (s *side) write() {
	s.t.Helper()
	for _, codec := range []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	} {
		client, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec))
		if err != nil {
			s.t.Fatal(err)
		}
		var records []*kgo.Record
		for i := range perCodec {
			n := len(s.lines) + i
			r := &kgo.Record{
				Topic: s.topic, Partition: int32(n % partitions), Timestamp: time.UnixMilli(time.Now().UnixMilli() - int64(n)),
				Key: fmt.Appendf(nil, "key-%d", n), Value: fmt.Appendf(nil, "value %d of %s", n, s.name),
				Headers: []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, n)}},
			}
			if i == 1 {
				r.Value = nil
			}
			records = append(records, r)
		}
		err = client.ProduceSync(s.t.Context(), records...).FirstErr()
		client.Close()
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range records {
			s.lines = append(s.lines, line(r))
		}
	}
}

// read reads a topic from its start to its end.
func (s *side) read(ctx context.Context, topic string) (lines []string, err error) {
	ends, err := s.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	if err := ends.Error(); err != nil {
		return nil, err
	}
	var total int64
	ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
	client, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for int64(len(lines)) < total {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) { lines = append(lines, line(r)) })
	}
	return lines, nil
}

// remote is what the topic is called on the other side.
func (s *side) remote() string { return s.name + "." + s.topic }

// mirrored expects the topic on the other side, record for record.
func (s *side) mirrored(ctx context.Context, on *side) error {
	got, err := on.read(ctx, s.remote())
	if err != nil {
		return err
	}
	slices.Sort(got)
	want := slices.Sorted(slices.Values(s.lines))
	if len(got) != len(want) {
		return fmt.Errorf("%d records of %d are there", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("there is %s, and on the source %s", got[i], want[i])
		}
	}
	return nil
}

// configured expects settings of the topic and a number of partitions on the other side.
func (s *side) configured(ctx context.Context, on *side, count int, want map[string]string) error {
	topics, err := on.admin.ListTopics(ctx, s.remote())
	if err != nil {
		return err
	}
	if got := len(topics[s.remote()].Partitions); got != count {
		return fmt.Errorf("it has %d partitions", got)
	}
	described, err := on.admin.DescribeTopicConfigs(ctx, s.remote())
	if err != nil {
		return err
	}
	got := map[string]string{}
	for _, c := range described[0].Configs {
		if _, wanted := want[c.Key]; wanted {
			got[c.Key] = c.MaybeValue()
		}
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("it has %v, want %v", got, want)
	}
	return nil
}

// commit commits the end of the topic for a group. A broker that has just created the
// topic of its coordinators refuses it for a while.
func (s *side) commit() {
	s.t.Helper()
	await(s.t, "the group commits on "+s.name, func(ctx context.Context) error {
		ends, err := s.admin.ListEndOffsets(ctx, s.topic)
		if err != nil {
			return err
		}
		return s.admin.CommitAllOffsets(ctx, group, ends.Offsets())
	})
}

// translated expects the group's offsets on the other side, at the end of the topic there.
func (s *side) translated(ctx context.Context, on *side) error {
	offsets, err := on.admin.FetchOffsets(ctx, group)
	if err != nil {
		return err
	}
	ends, err := on.admin.ListEndOffsets(ctx, s.remote())
	if err != nil {
		return err
	}
	for p := range int32(partitions) {
		committed, _ := offsets.Lookup(s.remote(), p)
		end, _ := ends.Lookup(s.remote(), p)
		if committed.At != end.Offset || end.Offset == 0 {
			return fmt.Errorf("partition %d: committed is %d, its end is %d", p, committed.At, end.Offset)
		}
	}
	return nil
}

// await looks until there is no error.
func await(t *testing.T, what string, look func(context.Context) error) {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		try, done := context.WithTimeout(ctx, patience/8)
		err := look(try)
		done()
		if err == nil {
			t.Logf("%s, after %s", what, time.Since(begin).Round(time.Millisecond))
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s: %v", patience, what, err)
		}
	}
}
