package fieldcases

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

func metadataRequest(create bool, topics ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 12, create
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// topics lists what there is.
func (w *world) topics() (names []string) {
	w.t.Helper()
	req := metadataRequest(false)
	req.Topics = nil
	for _, topic := range ask[*kmsg.MetadataResponse](w.conn, req).Topics {
		names = append(names, *topic.Topic)
	}
	return names
}

// kop#273, confluent-kafka-dotnet#1622: to describe a topic that is missing made it. Both
// the request and the broker must allow that.
func TestDescribingDoesNotCreate(t *testing.T) {
	for _, c := range []struct{ request, broker, want bool }{
		{false, true, false}, {true, false, false}, {false, false, false}, {true, true, true},
	} {
		setting := "auto.create.topics.enable=false"
		if c.broker {
			setting = "auto.create.topics.enable=true"
		}
		run(t, func(t *testing.T, w *world) {
			if code := ask[*kmsg.MetadataResponse](w.conn, metadataRequest(c.request, "missing")).Topics[0].ErrorCode; code != kafkaerr.UnknownTopicOrPartition.Code {
				t.Errorf("%+v: error %d", c, code)
			}
			time.Sleep(time.Second)
			if made := len(w.topics()) > 0; made != c.want {
				t.Errorf("%+v: created %v", c, made)
			}
		}, setting)
	}
}

// redpanda#3787, #1256, #1456, kop#506: the first produce to a topic that a client caused
// to be made failed. Whoever is told of a leader may write to it at once.
func TestFirstProduceAfterMetadataNamesALeader(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		other := w.dial()
		for i := range 100 {
			name := "new-" + string(rune('a'+i/26)) + string(rune('a'+i%26))
			w.eventually("the topic has a leader", 10*time.Second, func() bool {
				topic := ask[*kmsg.MetadataResponse](w.conn, metadataRequest(true, name)).Topics[0]
				return topic.ErrorCode == 0 && topic.Partitions[0].Leader == 1
			})
			if p := other.produce(name, records(batch.BuilderOptions{}, nowMs())); p.ErrorCode != 0 || p.BaseOffset != 0 {
				t.Errorf("%s: %+v", name, p)
			}
		}
	})
}

// redpanda PR #31234: internal topics were made with the settings of any other.
func TestInternalTopicsHaveTheirOwnSettings(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		for _, name := range []string{"__consumer_offsets", "__transaction_state", "__share_group_state"} {
			w.eventually(name+" is made", 10*time.Second, func() bool {
				return ask[*kmsg.MetadataResponse](w.conn, metadataRequest(true, name)).Topics[0].ErrorCode == 0
			})
			topic := ask[*kmsg.MetadataResponse](w.conn, metadataRequest(false, name)).Topics[0]
			if !topic.IsInternal || len(topic.Partitions) != 50 {
				t.Errorf("%s: internal %v, %d partitions", name, topic.IsInternal, len(topic.Partitions))
			}
			config := w.broker.Image().Config(metadata.Resource{Type: metadata.TopicResource, Name: name})
			if config["cleanup.policy"] != "compact" || config["segment.bytes"] != "104857600" {
				t.Errorf("%s: %v", name, config)
			}
		}
	})
}

// KafScale PR #133: a handler's error closed the connection. What does not exist is an
// error in its field, and the connection goes on.
func TestWhatIsUnknownIsAnErrorInItsField(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		unknown := kafkaerr.UnknownTopicOrPartition.Code
		if p := w.produce("unknown", records(batch.BuilderOptions{}, 1)); p.ErrorCode != unknown {
			t.Errorf("Produce: %+v", p)
		}
		if p := w.fetch("unknown", 0); p.ErrorCode != unknown {
			t.Errorf("Fetch: %+v", p)
		}
		if got := w.list("unknown", latest); got.Error != unknown {
			t.Errorf("ListOffsets: %+v", got)
		}
		epoch := kmsg.NewPtrOffsetForLeaderEpochRequest()
		epoch.Version = 4
		epoch.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "unknown", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{}}}}
		if p := ask[*kmsg.OffsetForLeaderEpochResponse](w.conn, epoch).Topics[0].Partitions[0]; p.ErrorCode != unknown {
			t.Errorf("OffsetForLeaderEpoch: %+v", p)
		}
		gone := kmsg.NewPtrDeleteTopicsRequest()
		gone.Version = 6
		gone.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: uuid.UUID{7}}}
		if topic := ask[*kmsg.DeleteTopicsResponse](w.conn, gone).Topics[0]; topic.ErrorCode != kafkaerr.UnknownTopicID.Code {
			t.Errorf("DeleteTopics: %+v", topic)
		}
	})
}

// HN item 46955708: a byte of tags in the header of an ApiVersions answer made librdkafka
// allocate 34 GB; and a version that is not known must be answered so that the client can
// ask again.
func TestApiVersionsIsReadableWhateverTheVersion(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		for version := int16(0); version <= 6; version++ {
			c := w.dial()
			req := kmsg.NewPtrApiVersionsRequest()
			req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "a", "1"
			c.send(req)
			body, err := c.receiveRaw() // begins right after the correlation id
			if err != nil {
				t.Fatal(err)
			}
			resp := kmsg.NewPtrApiVersionsResponse()
			if resp.Version = version; version > 5 {
				resp.Version = 0
			}
			if err := resp.ReadFrom(body); err != nil || len(resp.AppendTo(nil)) != len(body) {
				t.Errorf("version %d: %d bytes, %v", version, len(body), err)
			}
			if want := int16(0); version > 5 {
				want = kafkaerr.UnsupportedVersion.Code
				if resp.ErrorCode != want || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].MaxVersion != 5 {
					t.Errorf("version %d: %+v", version, resp)
				}
			} else if resp.ErrorCode != want || len(resp.ApiKeys) < 10 {
				t.Errorf("version %d: error %d, %d keys", version, resp.ErrorCode, len(resp.ApiKeys))
			}
		}
	})
}

// franz-go c06d6408: any name of client software was taken.
func TestClientSoftwareNamesAreChecked(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		for name, want := range map[string]int16{"apache-kafka-java": 0, "": kafkaerr.InvalidRequest.Code, "a b": kafkaerr.InvalidRequest.Code, "-a": kafkaerr.InvalidRequest.Code} {
			req := kmsg.NewPtrApiVersionsRequest()
			req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, name, "1.0"
			if resp := ask[*kmsg.ApiVersionsResponse](w.conn, req); resp.ErrorCode != want {
				t.Errorf("%q: error %d, want %d", name, resp.ErrorCode, want)
			}
		}
	})
}

// redpanda#7946: validate_only said that a topic could be made which there was already;
// redpanda#1573, #10379: more replicas than brokers got another code.
func TestCreateTopicsValidates(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("there", 1)
		for _, c := range []struct {
			name     string
			replicas int16
			want     int16
		}{
			{"there", 1, kafkaerr.TopicAlreadyExists.Code},
			{"new", 1, 0},
			{"new", -1, 0},
			{"new", 3, kafkaerr.InvalidReplicationFactor.Code},
			{"new", 0, kafkaerr.InvalidReplicationFactor.Code},
		} {
			req := createTopic(c.name, 1)
			req.ValidateOnly, req.Topics[0].ReplicationFactor = true, c.replicas
			if topic := ask[*kmsg.CreateTopicsResponse](w.conn, req).Topics[0]; topic.ErrorCode != c.want {
				t.Errorf("%s with %d replicas: error %d, want %d", c.name, c.replicas, topic.ErrorCode, c.want)
			}
		}
		if names := w.topics(); len(names) != 1 {
			t.Errorf("there are %v", names)
		}
	})
}

// redpanda#978, #4170, materialize#6078: answers lacked configuration. CreateTopics names
// all of a topic's, and what the topic itself sets. The durability that it takes over from
// its cluster is told as a default, which no tool copies to another cluster.
func TestCreateTopicsAnswersAllConfiguration(t *testing.T) {
	for _, durability := range []string{"fsync", "replicated"} {
		run(t, func(t *testing.T, w *world) {
			topic := ask[*kmsg.CreateTopicsResponse](w.conn, createTopic("t", 1, "retention.ms=5")).Topics[0]
			all, own := map[string]string{}, map[string]string{}
			for _, c := range topic.Configs {
				if c.Value != nil {
					all[c.Name] = *c.Value
				}
				if c.Source == int8(kmsg.ConfigSourceDynamicTopicConfig) {
					own[c.Name] = *c.Value
				}
			}
			if len(topic.Configs) != 38 || len(own) != 1 || own["retention.ms"] != "5" || all["durability"] != durability {
				t.Errorf("%d settings, of the topic: %v, durability %s", len(topic.Configs), own, all["durability"])
			}
		}, "durability="+durability)
	}
}

// A size that is no frame's must not be waited for.
func TestFramesThatAreNone(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		for _, size := range []uint32{0, 1 << 31, 0xffffffff, 100<<20 + 1} {
			c := w.dial()
			c.sendRaw(binary.BigEndian.AppendUint32(nil, size))
			if _, err := c.receiveRaw(); err == nil {
				t.Errorf("size %#x was answered", size)
			}
		}
		w.create("after", 1)
	})
}

// wurstmeister#559, bitnami/containers#12917, snuba#6562, cp-all-in-one#68: ids of clusters
// were altered, or differed after a restart, and a step to format the directory was needed.
func TestClusterIDIsKeptExactly(t *testing.T) {
	const given = "4L6g3nShT-eMCtK--X86sw"
	for _, settings := range [][]string{nil, {"cluster.id=" + given}} {
		run(t, func(t *testing.T, w *world) {
			id := func() string { return *ask[*kmsg.MetadataResponse](w.conn, metadataRequest(false)).ClusterID }
			first := id()
			if len(first) != 22 || settings != nil && first != given {
				t.Errorf("cluster id %s with %v", first, settings)
			}
			brokertest.Stop(t, w.broker)
			w.start() // which does not name it
			if again := id(); again != first {
				t.Errorf("cluster id %s after a restart, %s before", again, first)
			}
		}, settings...)
	}
}
