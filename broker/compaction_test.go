package broker_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/broker/brokertest"
)

// createCompacted makes a topic whose segments are small.
func createCompacted(t *testing.T, client *kgo.Client, topic string, configs map[string]string) {
	t.Helper()
	all := map[string]*string{"cleanup.policy": new("compact"), "internal.segment.bytes": new("4096")}
	for key, value := range configs {
		all[key] = &value
	}
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, all, topic); err != nil {
		t.Fatal(err)
	}
}

const endKey = "end"

// produceKeys gives each of some keys one value after the other, and then the key end.
func produceKeys(t *testing.T, client *kgo.Client, topic string, keys, values int) {
	t.Helper()
	for v := range values {
		var records []*kgo.Record
		for k := range keys {
			records = append(records, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key %d", k), Value: fmt.Appendf(nil, "value %d", v)})
		}
		if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(endKey)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// readKeys reads a topic up to the key end: how many records there are, and each key's last
// value.
func readKeys(t *testing.T, m *brokertest.Machine, topic string) (records int, last map[string]string) {
	t.Helper()
	client := newClient(t, m, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	last = map[string]string{}
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("read %s after %d records: %v", topic, records, err)
		}
		ended := false
		fetches.EachRecord(func(r *kgo.Record) {
			if ended = string(r.Key) == endKey; !ended {
				records++
				last[string(r.Key)] = string(r.Value)
			}
		})
		if ended {
			return records, last
		}
	}
}

// sizeOf is the size of a topic's logs.
func sizeOf(t *testing.T, client *kgo.Client, topic string) (bytes int64) {
	t.Helper()
	dirs, err := kadm.NewClient(client).DescribeAllLogDirs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if p.Topic == topic {
				bytes += p.Size
			}
		})
	})
	return bytes
}

// Of a compacted topic each key's last value stays, also after a restart, and little else. A
// log is left alone until its dirty share is above what the topic says, which may change.
func TestCompactedTopicKeepsTheLastOfEachKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, values = 10, 50
		m := brokertest.NewMachine(t)
		b := m.Start(t)
		client := newClient(t, m)
		createCompacted(t, client, "eager", nil)
		createCompacted(t, client, "lazy", map[string]string{"min.cleanable.dirty.ratio": "1"})
		want := map[string]string{}
		for k := range keys {
			want[fmt.Sprintf("key %d", k)] = fmt.Sprintf("value %d", values-1)
		}
		full := map[string]int64{}
		for _, topic := range []string{"eager", "lazy"} {
			produceKeys(t, client, topic, keys, values)
			full[topic] = sizeOf(t, client, topic)
		}
		check := func(topic string, compacted bool) {
			t.Helper()
			records, last := readKeys(t, m, topic)
			expect(t, "last values of "+topic, last, want)
			if size := sizeOf(t, client, topic); (records < keys*values/2) != compacted || (size < full[topic]/2) != compacted {
				t.Errorf("%s has %d records in %d of %d bytes; compacted: %v", topic, records, size, full[topic], compacted)
			}
		}
		check("eager", false)
		time.Sleep(2 * time.Minute) // the recovery point moves, the cleaner looks
		check("eager", true)
		check("lazy", false)
		if code := setConfig(t, client, topicKind, "lazy", "min.cleanable.dirty.ratio", new("0.1")); code != 0 {
			t.Fatalf("error %d", code)
		}
		time.Sleep(time.Minute)
		check("lazy", true)
		brokertest.Stop(t, b)
		m.Start(t)
		check("eager", true)
		check("lazy", true)
	})
}

// With log.cleaner.enable=false nothing is compacted, as in Kafka 4.4, and the log says so.
func TestWithoutACleanerNothingIsCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, values = 10, 50
		var log bytes.Buffer
		m := brokertest.NewMachine(t)
		m.Logger = slog.New(slog.NewTextHandler(&log, nil))
		m.Settings = append(m.Settings, "log.cleaner.enable=false")
		b := m.Start(t)
		client := newClient(t, m)
		createCompacted(t, client, "t", nil)
		produceKeys(t, client, "t", keys, values)
		time.Sleep(10 * time.Minute)
		if records, _ := readKeys(t, m, "t"); records != keys*values {
			t.Errorf("%d of %d records are left", records, keys*values)
		}
		brokertest.Stop(t, b)
		if !strings.Contains(log.String(), "log.cleaner.enable is false") {
			t.Error("no warning")
		}
	})
}

// A group's commits are compacted, and loaded from what is left of them.
func TestCommittedOffsetsAreCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const topic, commits = "__consumer_offsets", 200
		m := brokertest.NewMachine(t)
		m.Settings = append(m.Settings, "offsets.topic.num.partitions=1")
		b := m.Start(t)
		client := newClient(t, m)
		produce(t, client, "events", numbered(0, commits)...)
		admin := kadm.NewClient(client)
		for i := range commits {
			offsets := kadm.Offsets{}
			offsets.Add(kadm.Offset{Topic: "events", At: int64(i + 1), LeaderEpoch: -1})
			if err := admin.CommitAllOffsets(t.Context(), "readers", offsets); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				setConfig(t, client, topicKind, topic, "internal.segment.bytes", new("2048"))
			}
		}
		full := sizeOf(t, client, topic)
		time.Sleep(2 * time.Minute)
		if left := sizeOf(t, client, topic); left > full/2 {
			t.Errorf("%d of %d bytes are left", left, full)
		}
		brokertest.Stop(t, b)
		m.Start(t)
		expect(t, "committed offset", committed(t, newClient(t, m)), int64(commits))
	})
}
