package broker_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/broker/brokertest"
)

// setConfig sets a key of a resource, or deletes it if value is nil, and gives the error
// code of the answer.
func setConfig(t *testing.T, client *kgo.Client, kind kmsg.ConfigResourceType, name, key string, value *string) int16 {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kind, name
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = key, value
	if value == nil {
		c.Op = kmsg.IncrementalAlterConfigOpDelete
	}
	res.Configs = append(res.Configs, c)
	req.Resources = append(req.Resources, res)
	resp, err := req.RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Resources[0].ErrorCode
}

const (
	topicKind  = kmsg.ConfigResourceTypeTopic
	brokerKind = kmsg.ConfigResourceTypeBroker
)

// tryProduce sends one record once, and gives its error code.
func tryProduce(t *testing.T, client *kgo.Client, topic, value string) int16 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return kafkaCode(client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr())
}

// onceClient gives up at the first refusal.
func onceClient(t *testing.T, m *brokertest.Machine) *kgo.Client {
	return newClient(t, m, kgo.RecordRetries(0), kgo.DisableIdempotentWrite(), kgo.ProducerBatchMaxBytes(1<<20),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
}

// A topic's key counts for the very next request after the answer, and when it is deleted,
// what is set on brokers does: on this one, on all, in its file.
func TestChangedKeysCountAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := brokertest.NewMachine(t)
		b := m.Start(t, "message.max.bytes=900")
		client := onceClient(t, m)
		create(t, client, "events")
		small, middle, large := strings.Repeat("a", 100), strings.Repeat("a", 500), strings.Repeat("a", 1000)
		tooLarge := kerr.MessageTooLarge.Code
		for _, step := range []struct {
			name     string
			kind     kmsg.ConfigResourceType
			resource string
			key      string
			value    *string
			want     [3]int16
		}{
			{"topic", topicKind, "events", "max.message.bytes", new("300"), [3]int16{0, tooLarge, tooLarge}},
			{"all brokers", brokerKind, "", "message.max.bytes", new("2000"), [3]int16{0, tooLarge, tooLarge}},
			{"this broker", brokerKind, "1", "message.max.bytes", new("700"), [3]int16{0, tooLarge, tooLarge}},
			{"topic no more", topicKind, "events", "max.message.bytes", nil, [3]int16{0, 0, tooLarge}},
			{"this broker no more", brokerKind, "1", "message.max.bytes", nil, [3]int16{0, 0, 0}},
			{"nothing but the file", brokerKind, "", "message.max.bytes", nil, [3]int16{0, 0, tooLarge}},
			{"all brokers again", brokerKind, "", "message.max.bytes", new("500"), [3]int16{0, tooLarge, tooLarge}},
		} {
			expect(t, step.name+": answer", setConfig(t, client, step.kind, step.resource, step.key, step.value), int16(0))
			for i, value := range []string{small, middle, large} {
				expect(t, step.name+": produce", tryProduce(t, client, "events", value), step.want[i])
			}
		}
		brokertest.Stop(t, b)
		m.Start(t, "message.max.bytes=900")
		expect(t, "after a restart", tryProduce(t, onceClient(t, m), "events", middle), tooLarge)
	})
}

func create(t *testing.T, client *kgo.Client, topic string) {
	t.Helper()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
}

// A topic's compression counts for the next batch, the size of its segments too, and old
// segments go with the next look for them.
func TestCompressionSegmentsAndRetentionFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := brokertest.NewMachine(t)
		m.Start(t)
		client := onceClient(t, m)
		create(t, client, "events")
		set := func(key string, value *string) {
			t.Helper()
			expect(t, key, setConfig(t, client, topicKind, "events", key, value), int16(0))
		}
		expect(t, "before", tryProduce(t, client, "events", strings.Repeat("a", 1000)), int16(0))
		set("compression.type", new("gzip"))
		produce(t, client, "events", strings.Repeat("b", 1000))
		reader := newClient(t, m, kgo.ConsumeTopics("events"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		var codecs []uint8
		for len(codecs) < 2 {
			reader.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) { codecs = append(codecs, r.Attrs.CompressionType()) })
		}
		expect(t, "codecs", codecs, []uint8{0, 1})

		set("internal.segment.bytes", new("100"))
		produce(t, client, "events", "c")
		produce(t, client, "events", "d")
		set("retention.bytes", new("0"))
		time.Sleep(6 * time.Minute) // log.retention.check.interval.ms
		offsets, err := kadm.NewClient(client).ListStartOffsets(t.Context(), "events")
		if err != nil {
			t.Fatal(err)
		}
		start, _ := offsets.Lookup("events", 0)
		if start.Offset < 2 {
			t.Errorf("the log starts at %d: old segments are still there", start.Offset)
		}
	})
}

// What an ack means can be made less of, never more: see docs/architecture.md.
func TestDurabilityGoesOneWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := brokertest.NewMachine(t)
		m.Start(t)
		client := onceClient(t, m)
		create(t, client, "events")
		for _, step := range []struct {
			value *string
			want  int16
		}{
			{new("fsync"), 0},
			{nil, 0},
			{new("replicated"), 0},
			{new("replicated"), 0},
			{new("fsync"), kerr.InvalidConfig.Code},
			{nil, kerr.InvalidConfig.Code},
			{new("x"), kerr.InvalidConfig.Code},
		} {
			expect(t, "durability", setConfig(t, client, topicKind, "events", "durability", step.value), step.want)
		}
		// Who replaces the whole map without knowing the key leaves it as it is.
		req := kmsg.NewPtrAlterConfigsRequest()
		res := kmsg.NewAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = topicKind, "events"
		req.Resources = append(req.Resources, res)
		resp, err := req.RequestWith(t.Context(), client)
		if err != nil || resp.Resources[0].ErrorCode != 0 {
			t.Fatalf("%+v, %v", resp, err)
		}
		described, err := kadm.NewClient(client).DescribeTopicConfigs(t.Context(), "events")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range described[0].Configs {
			if c.Key == "durability" {
				expect(t, "durability after AlterConfigs", *c.Value, "replicated")
			}
		}
	})
}

// Loggers are described, and a level that is set counts for the logger and, from the root,
// for those that have none of their own.
func TestLevelsOfLoggers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := brokertest.NewMachine(t)
		m.Start(t)
		client := onceClient(t, m)
		levels := func() map[string]string {
			req := kmsg.NewPtrDescribeConfigsRequest()
			res := kmsg.NewDescribeConfigsRequestResource()
			res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeBrokerLogger, "1"
			req.Resources = append(req.Resources, res)
			resp, err := req.RequestWith(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}
			all := map[string]string{}
			for _, c := range resp.Resources[0].Configs {
				all[c.Name] = *c.Value
			}
			return all
		}
		set := func(name string, level *string) int16 {
			return setConfig(t, client, kmsg.ConfigResourceTypeBrokerLogger, "1", name, level)
		}
		expect(t, "own", set("klamm.controller", new("ERROR")), int16(0))
		expect(t, "root", set("root", new("TRACE")), int16(0))
		expect(t, "level of its own", levels()["klamm.controller"], "ERROR")
		expect(t, "level of the root", levels()["klamm.replica"], "TRACE")
		expect(t, "unset", set("klamm.controller", nil), int16(0))
		expect(t, "level of the root again", levels()["klamm.controller"], "TRACE")
		expect(t, "unknown", set("no.such", new("INFO")), kerr.InvalidConfig.Code)
		expect(t, "unset the root", set("root", nil), kerr.InvalidRequest.Code)
	})
}
