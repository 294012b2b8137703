package fieldcases

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// deleteRecords deletes up to an offset of partition 0.
func (c *conn) deleteRecords(topic string, before int64) kmsg.DeleteRecordsResponseTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, 10_000
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: before}}}}
	return ask[*kmsg.DeleteRecordsResponse](c, req).Topics[0].Partitions[0]
}

// set changes one setting of a topic and leaves the others.
func (c *conn) set(topic, key, value string) {
	c.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = key, &value
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.Configs = kmsg.ConfigResourceTypeTopic, topic, append(resource.Configs, config)
	req.Resources = append(req.Resources, resource)
	if r := ask[*kmsg.IncrementalAlterConfigsResponse](c, req).Resources[0]; r.ErrorCode != 0 {
		c.t.Fatalf("set %s of %s: error %d", key, topic, r.ErrorCode)
	}
}

// describe gives a resource's settings, with where they come from and what they are for.
func (c *conn) describe(kind kmsg.ConfigResourceType, name string) map[string]kmsg.DescribeConfigsResponseResourceConfig {
	c.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms, req.IncludeDocumentation = 4, true, true
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kind, name
	req.Resources = append(req.Resources, resource)
	r := ask[*kmsg.DescribeConfigsResponse](c, req).Resources[0]
	if r.ErrorCode != 0 {
		c.t.Fatalf("describe %s: error %d", name, r.ErrorCode)
	}
	all := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, config := range r.Configs {
		all[config.Name] = config
	}
	return all
}

// redpanda#978, #4170, OpenMetadata#4817: few settings were described, without synonyms and
// types; materialize#6078: num.partitions was missing among a broker's.
func TestSettingsAreDescribedInFull(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1, "max.message.bytes=5")
		for what, c := range map[string]struct {
			all  map[string]kmsg.DescribeConfigsResponseResourceConfig
			want []string
		}{
			"topic":  {w.describe(kmsg.ConfigResourceTypeTopic, "t"), []string{"retention.ms", "cleanup.policy", "max.message.bytes"}},
			"broker": {w.describe(kmsg.ConfigResourceTypeBroker, "1"), []string{"num.partitions", "log.retention.ms", "default.replication.factor", "auto.create.topics.enable"}},
		} {
			for _, name := range c.want {
				if _, found := c.all[name]; !found {
					t.Errorf("%s: no %s", what, name)
				}
			}
			for name, config := range c.all {
				if config.ConfigType == 0 || config.Source == 0 {
					t.Errorf("%s %s: type %d, source %d", what, name, config.ConfigType, config.Source)
				}
			}
		}
		var chain []string
		for _, s := range w.describe(kmsg.ConfigResourceTypeTopic, "t")["max.message.bytes"].ConfigSynonyms {
			chain = append(chain, s.Name+"="+*s.Value)
		}
		if got := strings.Join(chain, " "); got != "max.message.bytes=5 message.max.bytes=1048588" {
			t.Errorf("synonyms of a topic's max.message.bytes: %s", got)
		}
	})
}

// apache/kafka PR #21855: the synonyms of a group's settings did not name the broker's keys.
func TestSettingsOfGroupsNameThoseOfTheBroker(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		all := w.describe(kmsg.ConfigResourceTypeGroupConfig, "g")
		for _, name := range []string{"consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "share.session.timeout.ms"} {
			var chain []string
			for _, s := range all[name].ConfigSynonyms {
				chain = append(chain, s.Name)
			}
			if got := strings.Join(chain, " "); got != "group."+name {
				t.Errorf("synonyms of %s: %q", name, got)
			}
		}
	})
}

// redpanda docs PR #635: AlterConfigs kept what it did not name. The old request is the
// whole configuration; the incremental one is a change.
func TestAlterConfigsResetsWhatItDoesNotName(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1, "retention.ms=5", "segment.ms=7")
		w.set("t", "retention.ms", "6")
		if all := w.describe(kmsg.ConfigResourceTypeTopic, "t"); *all["retention.ms"].Value != "6" || *all["segment.ms"].Value != "7" {
			t.Errorf("incremental: %s, %s", *all["retention.ms"].Value, *all["segment.ms"].Value)
		}
		req := kmsg.NewPtrAlterConfigsRequest()
		req.Version = 2
		value := "8"
		resource := kmsg.NewAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
		resource.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: "segment.ms", Value: &value}}
		req.Resources = append(req.Resources, resource)
		if r := ask[*kmsg.AlterConfigsResponse](w.conn, req).Resources[0]; r.ErrorCode != 0 {
			t.Fatalf("AlterConfigs: error %d", r.ErrorCode)
		}
		if all := w.describe(kmsg.ConfigResourceTypeTopic, "t"); *all["retention.ms"].Value != "604800000" || *all["segment.ms"].Value != "8" {
			t.Errorf("whole: %s, %s", *all["retention.ms"].Value, *all["segment.ms"].Value)
		}
	})
}

// redpanda#8849, #13442: a reassignment without replicas crashed, or had a wrong code. None
// cancels, an empty list is an error.
func TestReassignmentsWithoutReplicas(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		for _, c := range []struct {
			replicas []int32
			want     int16
		}{
			{nil, kafkaerr.NoReassignmentInProgress.Code},
			{[]int32{}, kafkaerr.InvalidReplicaAssignment.Code},
			{[]int32{1}, 0},
		} {
			req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
			req.TimeoutMillis = 10_000
			part := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
			part.Replicas = c.replicas
			topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
			topic.Topic, topic.Partitions = "t", append(topic.Partitions, part)
			req.Topics = append(req.Topics, topic)
			resp := ask[*kmsg.AlterPartitionAssignmentsResponse](w.conn, req)
			if got := resp.Topics[0].Partitions[0].ErrorCode; resp.ErrorCode != 0 || got != c.want {
				t.Errorf("replicas %v: errors %d, %d, want %d", c.replicas, resp.ErrorCode, got, c.want)
			}
		}
	})
}

// redpanda#903, #18279, akhq#749: log directories could not be described, and without totals
// interfaces showed "NaN".
func TestLogDirectoriesHaveSizes(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		w.must("t", records(batch.BuilderOptions{}, nowMs()))
		for version := int16(1); version <= 4; version++ {
			req := kmsg.NewPtrDescribeLogDirsRequest()
			req.Version = version
			resp := ask[*kmsg.DescribeLogDirsResponse](w.conn, req)
			if len(resp.Dirs) != 1 || resp.Dirs[0].ErrorCode != 0 {
				t.Fatalf("version %d: %+v", version, resp)
			}
			dir := resp.Dirs[0]
			if version >= 4 && (dir.TotalBytes <= 0 || dir.UsableBytes <= 0 || dir.UsableBytes > dir.TotalBytes) {
				t.Errorf("version %d: %d of %d bytes usable", version, dir.UsableBytes, dir.TotalBytes)
			}
			if len(dir.Topics) != 1 || dir.Topics[0].Partitions[0].Size <= 0 {
				t.Errorf("version %d: %+v", version, dir.Topics)
			}
		}
	})
}

// redpanda#13588, #14891: the code for topics that are only compacted was wrong, and records
// of those that once were could not be deleted.
func TestDeleteRecordsOfCompactedTopics(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1, "cleanup.policy=compact")
		w.must("t", records(batch.BuilderOptions{}, nowMs(), nowMs()))
		if p := w.deleteRecords("t", 1); p.ErrorCode != kafkaerr.PolicyViolation.Code {
			t.Errorf("only compacted: %+v", p)
		}
		for _, policy := range []string{"compact,delete", "delete"} {
			w.set("t", "cleanup.policy", policy)
			if p := w.deleteRecords("t", 1); p.ErrorCode != 0 || p.LowWatermark != 1 {
				t.Errorf("%s: %+v", policy, p)
			}
		}
	})
}

// materialize#6078, redpanda PR #990: answers of Fetch left the log start out; redpanda#1646:
// an offset at the log start, within a batch, was not readable.
func TestLogStartAfterDeleteRecords(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		w.must("t", records(batch.BuilderOptions{}, 1, 2, 3, 4))
		if p := w.deleteRecords("t", 2); p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
		start := w.list("t", earliest).Offset
		for version := int16(5); version <= 12; version++ {
			req := fetchRequest("t", start)
			req.Version = version
			p := ask[*kmsg.FetchResponse](w.conn, req).Topics[0].Partitions[0]
			if p.ErrorCode != 0 || p.LogStartOffset != 2 || start != 2 {
				t.Errorf("version %d: error %d, log start %d, earliest %d", version, p.ErrorCode, p.LogStartOffset, start)
			}
			if rs := readAll(t, p); len(rs) == 0 || rs[len(rs)-1].Offset != 3 {
				t.Errorf("version %d: %v", version, rs)
			}
		}
	})
}

// redpanda 8f2de964: a time after everything was deleted found something, or failed.
func TestNoRecordAtATimeAfterDeletingToTheEnd(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		w.must("t", records(batch.BuilderOptions{}, 1, 2, 3))
		if p := w.deleteRecords("t", -1); p.ErrorCode != 0 || p.LowWatermark != 3 {
			t.Fatalf("%+v", p)
		}
		for _, ts := range []int64{0, 2, 3} {
			if got := w.list("t", ts); got != none {
				t.Errorf("time %d: %+v", ts, got)
			}
		}
	})
}

// redpanda#3699: nobody could see who writes to a partition.
func TestProducersAreDescribed(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		for sequence := range int32(3) {
			w.must("t", records(batch.BuilderOptions{Producer: &batch.Producer{ID: 7, Epoch: 1, BaseSequence: sequence}}, nowMs()))
		}
		req := kmsg.NewPtrDescribeProducersRequest()
		req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0}}}
		p := ask[*kmsg.DescribeProducersResponse](w.conn, req).Topics[0].Partitions[0]
		got := fmt.Sprint(p.ErrorCode)
		for _, a := range p.ActiveProducers {
			got += fmt.Sprintf(", producer %d epoch %d sequence %d transaction %d", a.ProducerID, a.ProducerEpoch, a.LastSequence, a.CurrentTxnStartOffset)
		}
		if want := "0, producer 7 epoch 1 sequence 2 transaction -1"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}
