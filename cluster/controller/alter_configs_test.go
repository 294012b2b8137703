package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// configured is a state with the topics "led" and "leaderless", each with an eligible
// leader replica, and two registered brokers. Durability is that of the cluster.
func configured(t *testing.T, durability metadata.Durability, records ...metadata.Record) *state {
	t.Helper()
	d := metadata.NewDelta(metadata.Empty())
	partition := func(id byte, leader int32, isr []int32) metadata.Record {
		return metadata.PartitionRecord{TopicID: uuid.UUID{id}, Partition: metadata.Partition{
			Replicas: []int32{1, 2}, Directories: make([]uuid.UUID, 2), ISR: isr, ELR: []int32{2}, Leader: leader,
		}}
	}
	broker := func(id int32) metadata.Record {
		return metadata.RegisterBrokerRecord{Broker: metadata.Broker{
			ID: id, Epoch: int64(id), IncarnationID: uuid.UUID{byte(id)},
			Listeners: []metadata.Endpoint{{Name: "PLAINTEXT", Host: "b", Port: 9092}},
		}}
	}
	err := d.ReplayAll(append([]metadata.Record{
		metadata.BootstrapRecord{ClusterID: "c", Durability: durability, Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: 1}}},
		broker(1), broker(2),
		metadata.TopicRecord{Name: "led", ID: uuid.UUID{1}},
		partition(1, 1, []int32{1}),
		metadata.TopicRecord{Name: "leaderless", ID: uuid.UUID{2}},
		partition(2, metadata.NoLeader, []int32{1}),
	}, records...)...)
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{NodeID: 1, Topics: fakeConfigs{}}.withDefaults()
	s := &state{opts: &opts}
	s.activate(time.Now(), d.Image(metadata.Position{Index: 9, Term: 1}))
	return s
}

func configRecord(kind metadata.ResourceType, name, key, value string) metadata.Record {
	return metadata.ConfigRecord{Resource: metadata.Resource{Type: kind, Name: name}, Key: key, Value: &value}
}

// changeOf is an IncrementalAlterConfigs: "key=value" sets, "-key" deletes, "key+=value" and
// "key-=value" change a list.
func changeOf(kind metadata.ResourceType, name string, ops ...string) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceType(kind), name
	for _, op := range ops {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		key, value, set := strings.Cut(op, "=")
		switch {
		case !set:
			c.Op, key = kmsg.IncrementalAlterConfigOpDelete, key[1:]
		case strings.HasSuffix(key, "+"):
			c.Op, key = kmsg.IncrementalAlterConfigOpAppend, strings.TrimSuffix(key, "+")
		case strings.HasSuffix(key, "-"):
			c.Op, key = kmsg.IncrementalAlterConfigOpSubtract, strings.TrimSuffix(key, "-")
		}
		c.Name = key
		if set {
			c.Value = &value
		}
		res.Configs = append(res.Configs, c)
	}
	req.Resources = append(req.Resources, res)
	return req
}

// written is what a decision writes, one word for each record.
func written(records []metadata.Record) string {
	var words []string
	for _, r := range records {
		switch r := r.(type) {
		case metadata.ConfigRecord:
			value := "none"
			if r.Value != nil {
				value = *r.Value
			}
			words = append(words, r.Key+"="+value)
		case metadata.PartitionChangeRecord:
			words = append(words, fmt.Sprintf("elr-of-%d=%v", r.TopicID[0], r.ELR))
		default:
			words = append(words, fmt.Sprintf("%T", r))
		}
	}
	return strings.Join(words, " ")
}

func TestIncrementalAlterConfigs(t *testing.T) {
	const topic, broker, metrics, group = metadata.TopicResource, metadata.BrokerResource, metadata.ClientMetricsResource, metadata.GroupResource
	set := []metadata.Record{
		configRecord(topic, "led", "retention.ms", "5"), configRecord(topic, "led", "durability", "fsync"),
		configRecord(broker, "", "min.insync.replicas", "1"), configRecord(broker, "", "log.cleanup.policy", "compact"),
	}
	for _, c := range []struct {
		name string
		req  *kmsg.IncrementalAlterConfigsRequest
		want *kafkaerr.Kind
		rec  string
	}{
		{"set", changeOf(topic, "led", "retention.ms=7"), nil, "retention.ms=7"},
		{"set to the same", changeOf(topic, "led", "retention.ms=5"), nil, ""},
		{"delete", changeOf(topic, "led", "-retention.ms"), nil, "retention.ms=none"},
		{"delete what is not there", changeOf(topic, "led", "-no.such"), nil, ""},
		{"bad value", changeOf(topic, "led", "retention.ms=x"), kafkaerr.InvalidConfig, ""},
		{"bad value, unknown topic", changeOf(topic, "nope", "retention.ms=x"), kafkaerr.InvalidConfig, ""},
		{"unknown topic", changeOf(topic, "nope", "retention.ms=7"), kafkaerr.UnknownTopicOrPartition, ""},
		{"no name", changeOf(topic, "", "retention.ms=7"), kafkaerr.InvalidRequest, ""},
		{"bad name", changeOf(topic, "a b", "retention.ms=7"), kafkaerr.InvalidTopic, ""},
		{"no list", changeOf(topic, "led", "retention.ms+=7"), kafkaerr.InvalidConfig, ""},
		{"long value", changeOf(topic, "led", "retention.ms="+strings.Repeat("1", 32768)), kafkaerr.InvalidConfig, ""},
		{"fewer in sync", changeOf(topic, "led", "min.insync.replicas=1"), nil, "min.insync.replicas=1 elr-of-1=[]"},
		{"fewer in sync without a leader", changeOf(topic, "leaderless", "min.insync.replicas=1"), nil, "min.insync.replicas=1"},
		{"broker, the same", changeOf(broker, "", "log.cleanup.policy=compact"), nil, "log.cleanup.policy=compact"},
		{"broker's list", changeOf(broker, "", "log.cleanup.policy+=delete"), nil, "log.cleanup.policy=compact,delete"},
		{"broker's list, less", changeOf(broker, "", "log.cleanup.policy-=compact"), nil, "log.cleanup.policy="},
		{"list of one broker", changeOf(broker, "2", "log.cleanup.policy+=compact"), nil, "log.cleanup.policy=delete,compact"},
		{"key without a name", changeOf(broker, "", "=x"), nil, ""},
		{"unknown broker", changeOf(broker, "3", "a=1"), kafkaerr.BrokerIDNotRegistered, ""},
		{"no broker", changeOf(broker, "x", "a=1"), kafkaerr.InvalidRequest, ""},
		{"in sync, all brokers", changeOf(broker, "", "min.insync.replicas=2"), nil, "min.insync.replicas=2 elr-of-1=[]"},
		{"in sync, no more", changeOf(broker, "", "-min.insync.replicas"), kafkaerr.InvalidConfig, ""},
		{"in sync, one broker", changeOf(broker, "1", "min.insync.replicas=2"), kafkaerr.InvalidConfig, ""},
		{"group", changeOf(group, "g", "consumer.session.timeout.ms=50000"), nil, "consumer.session.timeout.ms=50000"},
		{"no group", changeOf(group, "", "consumer.session.timeout.ms=50000"), kafkaerr.InvalidRequest, ""},
		{"metrics", changeOf(metrics, "m", "interval.ms=100"), nil, "interval.ms=100"},
		{"bad metrics", changeOf(metrics, "m", "interval.ms=1"), kafkaerr.InvalidRequest, ""},
		{"no name of metrics", changeOf(metrics, "", "interval.ms=100"), kafkaerr.InvalidRequest, ""},
		{"other type", changeOf(3, "m", "interval.ms=100"), kafkaerr.InvalidRequest, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := configured(t, metadata.DurabilityFsync, set...)
			d := s.incrementalAlterConfigs(Call{Request: c.req})
			answer := d.response.(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
			want := int16(0)
			if c.want != nil {
				want = c.want.Code
			}
			if answer.ErrorCode != want || written(d.records) != c.rec {
				t.Errorf("answered %d, written %q", answer.ErrorCode, written(d.records))
			}
			s.apply(d.records)
			c.req.ValidateOnly = true
			if d := s.incrementalAlterConfigs(Call{Request: c.req}); len(d.records) > 0 {
				t.Errorf("validated only, written %q", written(d.records))
			}
		})
	}
}

// An operation that does not exist makes Kafka stumble over the whole request.
func TestUnknownOperation(t *testing.T) {
	s := configured(t, metadata.DurabilityFsync)
	req := changeOf(metadata.TopicResource, "led", "retention.ms=7")
	req.Resources = append(req.Resources, changeOf(metadata.TopicResource, "leaderless", "retention.ms=7").Resources...)
	req.Resources[1].Configs[0].Op = 4
	d := s.incrementalAlterConfigs(Call{Request: req})
	for _, r := range d.response.(*kmsg.IncrementalAlterConfigsResponse).Resources {
		if r.ErrorCode != -1 || r.ErrorMessage != nil || len(d.records) > 0 {
			t.Errorf("%+v, %q", r, written(d.records))
		}
	}
}

// One resource is refused, the other changes; and both are too much together.
func TestResourcesAreDecidedAlone(t *testing.T) {
	s := configured(t, metadata.DurabilityFsync)
	req := changeOf(metadata.TopicResource, "led", "retention.ms=7", "min.insync.replicas=x")
	req.Resources = append(req.Resources, changeOf(metadata.TopicResource, "leaderless", "retention.ms=7").Resources...)
	d := s.incrementalAlterConfigs(Call{Request: req})
	if got := written(d.records); got != "retention.ms=7" || !d.atomic {
		t.Errorf("written %q, atomic %t", got, d.atomic)
	}
	many := make([]string, maxRecordsPerRequest+1)
	for i := range many {
		many[i] = fmt.Sprintf("k%d=x", i)
	}
	d = s.incrementalAlterConfigs(Call{Request: changeOf(metadata.BrokerResource, "", many...)})
	if r := d.response.(*kmsg.IncrementalAlterConfigsResponse).Resources[0]; r.ErrorCode != kafkaerr.PolicyViolation.Code || len(d.records) > 0 {
		t.Errorf("%+v", r)
	}
}

// AlterConfigs replaces the whole map, except for the key that only we have.
func TestAlterConfigsReplaces(t *testing.T) {
	s := configured(t, metadata.DurabilityReplicated,
		configRecord(metadata.TopicResource, "led", "retention.ms", "5"), configRecord(metadata.TopicResource, "led", "durability", "fsync"),
		configRecord(metadata.BrokerResource, "", "min.insync.replicas", "1"))
	for _, c := range []struct {
		kind metadata.ResourceType
		name string
		next map[string]string
		want int16
		rec  string
	}{
		{metadata.TopicResource, "led", map[string]string{"unclean.leader.election.enable": "true"}, 0, "retention.ms=none unclean.leader.election.enable=true"},
		{metadata.TopicResource, "led", map[string]string{"retention.ms": "5"}, 0, ""},
		{metadata.TopicResource, "led", map[string]string{"durability": "replicated", "retention.ms": "5"}, 0, "durability=replicated"},
		{metadata.TopicResource, "led", map[string]string{"retention.ms": "x"}, kafkaerr.InvalidConfig.Code, ""},
		{metadata.BrokerResource, "", map[string]string{"log.roll.ms": "5"}, kafkaerr.InvalidConfig.Code, ""}, // min.insync.replicas would go
		{metadata.BrokerResource, "", map[string]string{"log.roll.ms": "5", "min.insync.replicas": "1"}, 0, "log.roll.ms=5 min.insync.replicas=1 elr-of-1=[]"},
	} {
		req := kmsg.NewPtrAlterConfigsRequest()
		res := kmsg.NewAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceType(c.kind), c.name
		for _, key := range slices.Sorted(maps.Keys(c.next)) {
			entry := kmsg.NewAlterConfigsRequestResourceConfig()
			value := c.next[key]
			entry.Name, entry.Value = key, &value
			res.Configs = append(res.Configs, entry)
		}
		req.Resources = append(req.Resources, res)
		d := s.alterConfigs(Call{Request: req})
		if r := d.response.(*kmsg.AlterConfigsResponse).Resources[0]; r.ErrorCode != c.want || written(d.records) != c.rec {
			t.Errorf("%s %v: answered %d, written %q", c.name, c.next, r.ErrorCode, written(d.records))
		}
	}
}

// A topic whose key durability is deleted has the cluster's, in writing, if it may.
func TestDurabilityOfATopic(t *testing.T) {
	for _, c := range []struct {
		cluster metadata.Durability
		topic   string
		op      string
		ok      bool
		rec     string
	}{
		{metadata.DurabilityFsync, "fsync", "durability=replicated", true, "durability=replicated"},
		{metadata.DurabilityFsync, "replicated", "durability=fsync", false, ""},
		{metadata.DurabilityFsync, "replicated", "-durability", false, ""},
		{metadata.DurabilityFsync, "fsync", "-durability", true, ""},
		{metadata.DurabilityReplicated, "fsync", "-durability", true, "durability=replicated"},
		{metadata.DurabilityReplicated, "replicated", "-durability", true, ""},
	} {
		s := configured(t, c.cluster, configRecord(metadata.TopicResource, "led", "durability", c.topic))
		d := s.incrementalAlterConfigs(Call{Request: changeOf(metadata.TopicResource, "led", c.op)})
		r := d.response.(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
		if (r.ErrorCode == 0) != c.ok || written(d.records) != c.rec {
			t.Errorf("%+v: answered %d, written %q", c, r.ErrorCode, written(d.records))
		}
	}
}
