package handlers

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// crowdedImage has brokers 1, 2, 3 and 7, of which 2 is fenced and 7 has no address on
// PLAINTEXT, and so many topics with ten partitions each on random ones of them and of
// broker 9, which nobody knows.
func crowdedImage(t testing.TB, topics int) *metadata.Image {
	t.Helper()
	d := metadata.NewDelta(metadata.Empty())
	dir, lost := uuid.UUID{9}, uuid.UUID{8}
	records := []metadata.Record{metadata.BootstrapRecord{
		ClusterID: "crowd", ForOne: true, Durability: metadata.DurabilityFsync,
		Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: 1}},
	}}
	for i, id := range []int32{1, 2, 3, 7} {
		listener := "PLAINTEXT"
		if id == 7 {
			listener = "INSIDE"
		}
		records = append(records, metadata.RegisterBrokerRecord{Broker: metadata.Broker{
			ID: id, Epoch: int64(i + 1), LogDirs: []uuid.UUID{dir}, Fenced: id == 2,
			Listeners: []metadata.Endpoint{{Name: listener, Host: fmt.Sprintf("host-%d", id), Port: 9092}},
		}})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range topics {
		topic := metadata.TopicRecord{Name: fmt.Sprintf("crowd-%03d", i), ID: uuid.UUID{1, byte(i), byte(i >> 8)}}
		if i == 0 {
			topic.Name = "__consumer_offsets"
		}
		records = append(records, topic)
		for index := range int32(10) {
			p := metadata.Partition{Index: index, Leader: metadata.NoLeader, LeaderEpoch: rng.Int32N(1000)}
			for _, id := range []int32{1, 2, 3, 7, 9} {
				if rng.IntN(2) > 0 || id == 9 && p.Replicas == nil {
					p.Replicas, p.Directories = append(p.Replicas, id), append(p.Directories, []uuid.UUID{dir, lost}[rng.IntN(2)])
					if rng.IntN(2) > 0 {
						p.ISR, p.Leader = append(p.ISR, id), id
					}
				}
			}
			if p.ISR == nil {
				p.ISR = p.Replicas[:1:1]
			}
			records = append(records, metadata.PartitionRecord{TopicID: topic.ID, Partition: p})
		}
	}
	if err := d.ReplayAll(records...); err != nil {
		t.Fatal(err)
	}
	return d.Image(metadata.Position{Index: 6, Term: 1})
}

func answerOf(image *metadata.Image, version int16, operations bool) *metadataAnswer {
	resp := kmsg.NewPtrMetadataResponse()
	cluster := "crowd"
	resp.Version, resp.ThrottleMillis, resp.ControllerID, resp.ClusterID = version, 7, 3, &cluster
	if version >= 8 && version <= 10 && operations {
		resp.AuthorizedOperations = clusterOperations
	}
	if version >= 13 {
		resp.ErrorCode = 5
	}
	b := kmsg.NewMetadataResponseBroker()
	b.NodeID, b.Host, b.Port = 1, "host-1", 9092
	resp.Brokers = append(resp.Brokers, b)
	m := &metadataAnswer{MetadataResponse: resp, view: viewBrokers(image, "PLAINTEXT"), operations: operations}
	for topic := range image.Topics() {
		m.topics = append(m.topics, topicAnswer{Topic: topic})
	}
	name := "nobody's"
	m.topics = append(m.topics, topicAnswer{unknown: &unknownTopic{name: &name, errorCode: kafkaerr.UnknownTopicOrPartition.Code}})
	if version >= 12 {
		m.topics = append(m.topics, topicAnswer{unknown: &unknownTopic{id: uuid.UUID{77}, errorCode: kafkaerr.UnknownTopicID.Code}})
	}
	return m
}

// TestMetadataIsEncodedAsKmsgDoes: what is encoded from the image is what kmsg makes of
// what it reads from it.
func TestMetadataIsEncodedAsKmsgDoes(t *testing.T) {
	image := crowdedImage(t, 30)
	for version := range kmsg.NewPtrMetadataRequest().MaxVersion() + 1 {
		for _, operations := range []bool{false, true} {
			m := answerOf(image, version, operations)
			encoded := m.AppendTo([]byte("before"))
			read := kmsg.NewPtrMetadataResponse()
			read.Version = version
			if err := read.ReadFrom(encoded[len("before"):]); err != nil {
				t.Fatalf("version %d: %v", version, err)
			}
			if !bytes.Equal(read.AppendTo([]byte("before")), encoded) {
				t.Fatalf("version %d: kmsg encodes it in another way", version)
			}
			if len(read.Topics) != len(m.topics) || len(read.Topics[1].Partitions) != 10 {
				t.Errorf("version %d: %d topics", version, len(read.Topics))
			}
			if read.Brokers[0].Host != "host-1" || version > 0 && read.ControllerID != 3 || version >= 13 && read.ErrorCode != 5 {
				t.Errorf("version %d: %+v", version, read)
			}
		}
	}
}

// TestMetadataOfPartitions holds each partition to the rules, one by one.
func TestMetadataOfPartitions(t *testing.T) {
	image := crowdedImage(t, 30)
	m := answerOf(image, 13, false)
	read := kmsg.NewPtrMetadataResponse()
	read.Version = 13
	if err := read.ReadFrom(m.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	for i, topic := range read.Topics[:30] {
		if *topic.Topic != m.topics[i].Name || topic.TopicID != m.topics[i].ID || topic.IsInternal != (*topic.Topic == "__consumer_offsets") {
			t.Errorf("topic %+v", topic)
		}
		for j, p := range topic.Partitions {
			is := m.topics[i].Partitions[j]
			want := kmsg.NewMetadataResponseTopicPartition()
			want.Partition, want.Leader, want.LeaderEpoch = is.Index, is.Leader, is.LeaderEpoch
			want.Replicas, want.ISR, want.OfflineReplicas = append([]int32{}, is.Replicas...), append([]int32{}, is.ISR...), []int32{}
			for k, id := range is.Replicas {
				if id != 1 && id != 3 || is.Directories[k] != (uuid.UUID{9}) {
					want.OfflineReplicas = append(want.OfflineReplicas, id)
				}
			}
			switch is.Leader {
			case 7:
				want.Leader, want.ErrorCode = -1, kafkaerr.ListenerNotFound.Code
			case 9, -1:
				want.Leader, want.ErrorCode = -1, kafkaerr.LeaderNotAvailable.Code
			}
			p.UnknownTags = want.UnknownTags
			if diff := cmp.Diff(want.Replicas, p.Replicas); diff != "" || fmt.Sprint(want) != fmt.Sprint(p) {
				t.Errorf("partition %+v\nis answered %+v\nnot         %+v", is, p, want)
			}
		}
	}
}

// TestMetadataCopiesNoPartition: an answer's cost in memory does not grow with the partitions.
func TestMetadataCopiesNoPartition(t *testing.T) {
	image := crowdedImage(t, 100)
	dst := make([]byte, 0, 1<<20)
	m := answerOf(image, 13, false)
	if n := testing.AllocsPerRun(10, func() { dst = m.AppendTo(dst[:0]) }); n > 210 {
		t.Errorf("%v allocations for 1,000 partitions of 100 topics", n)
	}
}

// BenchmarkMetadata encodes 10,000 partitions.
func BenchmarkMetadata(b *testing.B) {
	image := crowdedImage(b, 1000)
	dst := make([]byte, 0, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		dst = answerOf(image, 13, false).AppendTo(dst[:0])
	}
	b.ReportMetric(float64(len(dst))/10_000, "B/partition")
}
