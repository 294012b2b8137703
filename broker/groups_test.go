package broker_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// member joins a group that reads a topic from its start.
func member(t *testing.T, m *brokertest.Machine, group, topic string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	return newClient(t, m, append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, opts...)...)
}

// poll collects values until there are as many as wanted.
func poll(t *testing.T, client *kgo.Client, count int) (values []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(values) < count {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil { // others pass: the client tries again
			t.Fatalf("poll after %d of %d: %v", len(values), count, fetches.Err())
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

func commit(t *testing.T, client *kgo.Client) {
	t.Helper()
	if err := client.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

// What a group has committed survives the broker, and whoever joins later goes on there.
func TestCommitsSurviveAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := brokertest.NewMachine(t)
		b := m.Start(t)
		produce(t, newClient(t, m), "events", numbered(0, 10)...)
		first := member(t, m, "readers", "events")
		expect(t, "values", poll(t, first, 10), numbered(0, 10))
		commit(t, first)
		first.Close()

		brokertest.Stop(t, b)
		m.Start(t)
		produce(t, newClient(t, m), "events", numbered(10, 15)...)
		expect(t, "values after a restart", poll(t, member(t, m, "readers", "events"), 5), numbered(10, 15))
	})
}

// A member whose broker goes away and comes back stays in its group.
func TestMemberOutlivesItsBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := brokertest.NewMachine(t)
		b := m.Start(t)
		produce(t, newClient(t, m), "events", numbered(0, 10)...)
		reader := member(t, m, "readers", "events")
		poll(t, reader, 10)
		commit(t, reader)
		brokertest.Stop(t, b)
		m.Start(t)
		produce(t, newClient(t, m), "events", numbered(10, 20)...)
		expect(t, "values", poll(t, reader, 10), numbered(10, 20))
		commit(t, reader)
		expect(t, "committed offset", committed(t, newClient(t, m)), int64(20))
	})
}

// The partitions of a topic are shared by the members, and taken over by who is left.
func TestMembersShareATopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := brokertest.NewMachine(t)
		m.Start(t)
		admin := kadm.NewClient(newClient(t, m))
		if _, err := admin.CreateTopic(t.Context(), 6, 1, nil, "events"); err != nil {
			t.Fatal(err)
		}
		var members []*kgo.Client
		for i := range 3 {
			members = append(members, member(t, m, "readers", "events", kgo.ClientID(fmt.Sprint("member-", i))))
		}
		expect(t, "partitions by member", shares(t, admin, 3), []int{2, 2, 2})
		members[0].Close()
		expect(t, "partitions by member that is left", shares(t, admin, 2), []int{3, 3})
	})
}

// shares waits until a group is stable with so many members, and tells how many partitions
// each has.
func shares(t *testing.T, admin *kadm.Client, members int) (counts []int) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for time.Now().Before(deadline) {
		synctest.Wait()
		groups, err := admin.DescribeGroups(t.Context(), "readers")
		if err != nil {
			t.Fatal(err)
		}
		if g := groups["readers"]; g.State == "Stable" && len(g.Members) == members {
			for _, m := range g.Members {
				assigned, _ := m.Assigned.AsConsumer()
				n := 0
				for _, topic := range assigned.Topics {
					n += len(topic.Partitions)
				}
				counts = append(counts, n)
			}
			slices.Sort(counts)
			return counts
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("the group did not settle with %d members", members)
	return nil
}

// The topic of groups is made when somebody looks for a coordinator, with Kafka's settings,
// also where topics are not made for those who name them.
func TestTopicOfGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := brokertest.NewMachine(t)
		b := m.Start(t, "auto.create.topics.enable=false", "offsets.topic.segment.bytes=20000000", "offsets.topic.compression.codec=3")
		admin := kadm.NewClient(newClient(t, m))
		if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "events"); err != nil {
			t.Fatal(err)
		}
		produce(t, newClient(t, m), "events", numbered(0, 10)...)
		reader := member(t, m, "readers", "events")
		poll(t, reader, 10)
		commit(t, reader)
		reader.Close()
		topics, err := admin.ListTopicsWithInternal(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		made := topics["__consumer_offsets"]
		expect(t, "internal", made.IsInternal, true)
		expect(t, "partitions", len(made.Partitions), 50)
		expect(t, "replicas", made.Partitions.NumReplicas(), 1)
		config := maps.Clone(b.Image().Config(metadata.Resource{Type: metadata.TopicResource, Name: "__consumer_offsets"}))
		delete(config, "durability")
		expect(t, "configuration", config, map[string]string{
			"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "20000000",
		})
		expect(t, "codecs of its batches", codecs(t, m, "__consumer_offsets"), []string{"lz4"})

		brokertest.Stop(t, b)
		m.Start(t)
		produce(t, newClient(t, m), "events", numbered(10, 12)...)
		expect(t, "values after a restart", poll(t, member(t, m, "readers", "events"), 2), numbered(10, 12))
	})
}

// codecs lists those of a topic's records.
func codecs(t *testing.T, m *brokertest.Machine, topic string) (names []string) {
	t.Helper()
	client := newClient(t, m, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(names) == 0 && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			names = append(names, batch.Codec(r.Attrs.CompressionType()).String())
		})
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Whoever waits for a group to complete does not hold a stop up.
func TestStopDoesNotWaitForGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := brokertest.NewMachine(t)
		b := m.Start(t, "group.initial.rebalance.delay.ms=300000")
		produce(t, newClient(t, m), "events", "value")
		member(t, m, "readers", "events")
		time.Sleep(10 * time.Second)
		groups, err := kadm.NewClient(newClient(t, m)).DescribeGroups(t.Context(), "readers")
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "state", groups["readers"].State, "PreparingRebalance")
		begin := time.Now()
		brokertest.Stop(t, b)
		if took := time.Since(begin); took > 500*time.Millisecond {
			t.Errorf("the stop took %v", took)
		}
	})
}

// What a full disk refuses is answered at once and forgotten; the group lives on.
func TestCommitsOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := brokertest.NewMachine(t)
		m.Start(t)
		client := newClient(t, m)
		produce(t, client, "events", numbered(0, 10)...)
		reader := member(t, m, "readers", "events")
		poll(t, reader, 10)
		commit(t, reader)
		reader.Close()

		disk := m.FS.(*vfs.MemFS)
		disk.SetCapacity(20 << 20) // less than the reserve
		time.Sleep(3 * time.Second)
		expect(t, "while the disk is full", commitAlone(t, client, 5), kerr.NotCoordinator.Code)
		expect(t, "committed offset", committed(t, client), int64(10))
		disk.SetCapacity(1 << 40)
		time.Sleep(3 * time.Second)
		expect(t, "committed offset when there is room", committed(t, client), int64(10))
		expect(t, "when there is room", commitAlone(t, client, 7), int16(0))
		expect(t, "committed offset then", committed(t, client), int64(7))
	})
}

// commitAlone sets the offset of a group without members, once.
func commitAlone(t *testing.T, client *kgo.Client, offset int64) (code int16) {
	t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = "readers", -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	details, err := kadm.NewClient(client).ListTopics(t.Context(), "events")
	if err != nil {
		t.Fatal(err)
	}
	topic.Topic, topic.TopicID = "events", details["events"].ID
	partition := kmsg.NewOffsetCommitRequestTopicPartition()
	partition.Offset = offset
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	resp, err := client.Broker(1).Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

func committed(t *testing.T, client *kgo.Client) int64 {
	t.Helper()
	offsets, err := kadm.NewClient(client).FetchOffsets(t.Context(), "readers")
	if err != nil {
		t.Fatal(err)
	}
	at, _ := offsets.Lookup("events", 0)
	return at.At
}
