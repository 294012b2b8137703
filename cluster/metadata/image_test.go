package metadata

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

var bootstrap = BootstrapRecord{
	ClusterID: "c", Durability: DurabilityFsync, ForOne: true, Features: []FeatureLevel{{FeatureMetadata, 1}},
}

func topicID(n byte) uuid.UUID { return uuid.UUID{0xaa, n} }

func broker(id int32, epoch int64) RegisterBrokerRecord {
	return RegisterBrokerRecord{Broker{ID: id, Epoch: epoch, IncarnationID: uuid.UUID{byte(id), byte(epoch)}}}
}

func partition(topic byte, index int32, replicas ...int32) PartitionRecord {
	dirs := make([]uuid.UUID, len(replicas))
	return PartitionRecord{topicID(topic), Partition{
		Index: index, Replicas: replicas, Directories: dirs, ISR: replicas, Leader: replicas[0],
	}}
}

func config(topic, key, value string) ConfigRecord {
	return ConfigRecord{Resource{TopicResource, topic}, key, &value}
}

// derive gives the image after records.
func derive(t testing.TB, base *Image, records ...Record) (*Image, *Delta) {
	t.Helper()
	d := NewDelta(base)
	if err := d.ReplayAll(records...); err != nil {
		t.Fatal(err)
	}
	return d.Image(Position{Index: d.Base().pos.Index + 1, Term: 1}), d
}

func sampleImage(t testing.TB) *Image {
	t.Helper()
	image, _ := derive(t, nil,
		bootstrap,
		broker(1, 10), broker(2, 11), RegisterBrokerRecord{sampleBroker()},
		RegisterControllerRecord{Controller{ID: 1, IncarnationID: uuid.UUID{1}}}, RegisterControllerRecord{Controller{ID: 2, IncarnationID: uuid.UUID{2}}},
		TopicRecord{"orders", topicID(1)}, partition(1, 0, 1, 2), partition(1, 1, 2, 1), partition(1, 2, 3),
		TopicRecord{"audit", topicID(2)}, partition(2, 0, 1),
		config("orders", "retention.ms", "5"), config("orders", "cleanup.policy", "compact"),
		ConfigRecord{Resource{BrokerResource, ""}, "log.cleaner.threads", Ptr("2")},
		ProducerIDsRecord{1, 10, 1000},
	)
	return image
}

// wantRebuilds checks that the image's records and its snapshot rebuild it.
func wantRebuilds(t testing.TB, image *Image) {
	t.Helper()
	d := NewDelta(nil)
	for r := range image.Records() {
		if err := d.Replay(r); err != nil {
			t.Fatal(err)
		}
	}
	if diff := DiffImages(image, d.Image(image.pos)); diff != "" {
		t.Fatalf("records: %s", diff)
	}
	var first bytes.Buffer
	if err := WriteSnapshot(&first, Snapshot{image, 4, 5, uuid.UUID{6}}); err != nil {
		t.Fatal(err)
	}
	s, err := ReadSnapshot(bytes.NewReader(first.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := DiffImages(image, s.Image); diff != "" || s.EntryTerm != 4 || s.EntryNumber != 5 || s.Lineage != (uuid.UUID{6}) {
		t.Fatalf("snapshot: %s, entry %d of term %d, lineage %s", diff, s.EntryNumber, s.EntryTerm, s.Lineage)
	}
	var second bytes.Buffer
	if err := WriteSnapshot(&second, s); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Fatal("two equal images have different snapshots")
	}
}

func TestImageAnswers(t *testing.T) {
	image := sampleImage(t)
	if image.ClusterID() != "c" || image.Durability() != DurabilityFsync || !image.BootstrappedForOne() || image.Feature(FeatureMetadata) != 1 || image.Feature("none") != 0 {
		t.Errorf("cluster: %s %v %v %v", image.ClusterID(), image.Durability(), image.BootstrappedForOne(), image.Features())
	}
	if image.NumTopics() != 2 || image.NumPartitions() != 4 || image.NumBrokers() != 3 || image.NextProducerID() != 1000 {
		t.Errorf("counts: %d %d %d %d", image.NumTopics(), image.NumPartitions(), image.NumBrokers(), image.NextProducerID())
	}
	var names []string
	for topic := range image.Topics() {
		names = append(names, topic.Name)
	}
	if !slices.Equal(names, []string{"audit", "orders"}) {
		t.Errorf("topics: %v", names)
	}
	var ids []int32
	for b := range image.Brokers() {
		ids = append(ids, b.ID)
	}
	if !slices.Equal(ids, []int32{1, 2, 3}) {
		t.Errorf("brokers: %v", ids)
	}
	if image.Topic("orders") != image.TopicByID(topicID(1)) || image.Topic("none") != nil || image.TopicByID(uuid.UUID{9}) != nil {
		t.Error("topic by name and by id")
	}
	if image.Partition(topicID(1), 2).Leader != 3 || image.Partition(topicID(1), 3) != nil || image.Partition(topicID(1), -1) != nil || image.Partition(uuid.UUID{9}, 0) != nil {
		t.Error("partition")
	}
	if image.Broker(3).Epoch != 77 || image.Broker(4) != nil {
		t.Error("broker")
	}
	want := map[string]string{"retention.ms": "5", "cleanup.policy": "compact"}
	if diff := cmp.Diff(want, image.Config(Resource{TopicResource, "orders"})); diff != "" {
		t.Error(diff)
	}
	if image.Config(Resource{TopicResource, "audit"}) != nil {
		t.Error("configuration of a topic without")
	}
	wantRebuilds(t, image)
}

// What was read from an image stays as it was, whatever is derived from it.
func TestImageNeverChanges(t *testing.T) {
	image := sampleImage(t)
	d := NewDelta(image)
	if err := d.ReplayAll(
		PartitionChangeRecord{TopicID: topicID(1), Index: 0, Leader: Ptr(int32(2))},
		TopicRecord{"new", topicID(3)}, partition(3, 0, 1),
	); err != nil {
		t.Fatal(err)
	}
	first := d.Image(Position{2, 1})
	if err := d.ReplayAll(
		PartitionChangeRecord{TopicID: topicID(1), Index: 0, Leader: Ptr(NoLeader)},
		partition(3, 1, 1), RemoveTopicRecord{topicID(2)}, config("orders", "retention.ms", "6"),
		BrokerChangeRecord{ID: 1, Epoch: 10, Fenced: Ptr(true)}, BumpLeaderEpochsRecord{2},
	); err != nil {
		t.Fatal(err)
	}
	second := d.Image(Position{3, 1})
	if diff := DiffImages(image, sampleImage(t)); diff != "" {
		t.Errorf("base: %s", diff)
	}
	if p := first.Partition(topicID(1), 0); p.Leader != 2 || p.LeaderEpoch != 1 || first.NumPartitions() != 5 || first.Topic("audit") == nil {
		t.Errorf("first: %+v, %d partitions", p, first.NumPartitions())
	}
	if p := second.Partition(topicID(1), 0); p.Leader != NoLeader || p.LeaderEpoch != 2 || second.NumPartitions() != 5 || second.Topic("audit") != nil {
		t.Errorf("second: %+v, %d partitions", p, second.NumPartitions())
	}
	if second.Partition(topicID(1), 1).LeaderEpoch != 1 || first.Partition(topicID(1), 1).LeaderEpoch != 0 {
		t.Error("leader epochs were not bumped in the second image alone")
	}
}

func TestPartitionChange(t *testing.T) {
	base, _ := derive(t, nil, TopicRecord{"t", topicID(1)}, partition(1, 0, 1, 2))
	step := func(c PartitionChangeRecord) *Partition {
		c.TopicID = topicID(1)
		base, _ = derive(t, base, c)
		return base.Partition(c.TopicID, 0)
	}
	if p := step(PartitionChangeRecord{ISR: []int32{1}}); p.LeaderEpoch != 0 || p.PartitionEpoch != 1 || !slices.Equal(p.ISR, []int32{1}) {
		t.Errorf("ISR: %+v", p)
	}
	if p := step(PartitionChangeRecord{Leader: Ptr(int32(1))}); p.LeaderEpoch != 1 || p.PartitionEpoch != 2 {
		t.Errorf("same leader again: %+v", p)
	}
	if p := step(PartitionChangeRecord{ISR: []int32{}, Leader: Ptr(NoLeader), ELR: []int32{1}}); len(p.ISR) != 0 || p.Leader != NoLeader || p.LeaderEpoch != 2 {
		t.Errorf("no leader: %+v", p)
	}
	if p := step(PartitionChangeRecord{Replicas: []int32{2, 3}, Directories: make([]uuid.UUID, 2), RecoveryState: Ptr(Recovering)}); !slices.Equal(p.Replicas, []int32{2, 3}) || p.RecoveryState != Recovering || p.LeaderEpoch != 2 || p.PartitionEpoch != 4 {
		t.Errorf("replicas: %+v", p)
	}
	wantRebuilds(t, base)
}

func TestRecordsThatDoNotFit(t *testing.T) {
	tests := []struct {
		record Record
		text   string
	}{
		{bootstrap, "cluster c exists"},
		{FeatureLevelRecord{FeatureLevel{"", 1}}, `feature ""`},
		{FeatureLevelRecord{FeatureLevel{FeatureMetadata, 0}}, "lowest is 1"},
		{broker(1, 10), ""},
		{RegisterBrokerRecord{Broker{ID: 1, Epoch: 10}}, "broker 1 has epoch 10"},
		{broker(1, 9), "broker 1 has epoch 10"},
		{broker(-1, 9), "broker -1"},
		{UnregisterBrokerRecord{1, 9}, "epoch 10, not 9"},
		{UnregisterBrokerRecord{9, 9}, "not registered"},
		{BrokerChangeRecord{ID: 2, Epoch: 10}, "epoch 11, not 10"},
		{TopicRecord{"orders", topicID(9)}, "topic orders exists"},
		{TopicRecord{"other", topicID(1)}, "is that of orders"},
		{TopicRecord{"", topicID(9)}, "topic"},
		{TopicRecord{"other", uuid.Zero}, `topic "other"`},
		{RemoveTopicRecord{topicID(9)}, "no topic"},
		{partition(9, 0, 1), "no topic"},
		{partition(1, 2, 1), "partition 2 of orders, which has 3"},
		{partition(1, 4, 1), "partition 4 of orders, which has 3"},
		{PartitionRecord{topicID(1), Partition{Index: 3}}, "without replicas"},
		{PartitionRecord{topicID(1), Partition{Index: 3, Replicas: []int32{1}}}, "1 replicas and 0 directories"},
		{PartitionChangeRecord{TopicID: topicID(1), Index: 3}, "partition 3"},
		{PartitionChangeRecord{TopicID: topicID(9)}, "no topic"},
		{PartitionChangeRecord{TopicID: topicID(1), Leader: Ptr(int32(7))}, "leader 7"},
		{PartitionChangeRecord{TopicID: topicID(1), ISR: []int32{7}}, "ISR [7]"},
		{ConfigRecord{Resource{7, "x"}, "k", Ptr("v")}, "resource type 7"},
		{config("orders", "", "v"), "without key"},
		{ProducerIDsRecord{1, 10, 1000}, "next producer id 1000 after 1000"},
		{EndTransactionRecord{}, "no transaction"},
		{AbortTransactionRecord{}, "no transaction"},
	}
	for _, test := range tests {
		d := NewDelta(sampleImage(t))
		err := d.Replay(test.record)
		if test.text == "" && err == nil {
			continue
		}
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), test.text) || !strings.Contains(err.Error(), Name(test.record)) {
			t.Errorf("%+v: %v, want %q", test.record, err, test.text)
		}
	}
	for name, r := range map[string]BootstrapRecord{
		"no cluster id": {Durability: DurabilityFsync, Features: bootstrap.Features},
		"durability":    {ClusterID: "c", Features: bootstrap.Features},
		"no level":      {ClusterID: "c", Durability: DurabilityFsync},
	} {
		if err := NewDelta(nil).Replay(r); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, want %q", r, err, name)
		}
	}
	if err := NewDelta(nil).Replay(FeatureLevelRecord{FeatureLevel{FeatureMetadata, MaxMetadataLevel + 1}}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("level of a newer release: %v", err)
	}
}

func TestTransaction(t *testing.T) {
	base := sampleImage(t)
	create := []Record{TopicRecord{"new", topicID(3)}, partition(3, 0, 1)}

	d := NewDelta(base)
	if err := d.ReplayAll(append([]Record{BeginTransactionRecord{}}, create...)...); err != nil {
		t.Fatal(err)
	}
	if !d.InTransaction() {
		t.Fatal("no transaction is open")
	}
	if err := d.ReplayAll(partition(3, 1, 2), EndTransactionRecord{}); err != nil {
		t.Fatal(err)
	}
	if image := d.Image(Position{9, 1}); image.Topic("new").numPartitions() != 2 {
		t.Error("the transaction did not take effect")
	}
	if err := d.Replay(NoOpRecord{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("record after the end: %v", err)
	}

	d = NewDelta(base)
	if err := d.ReplayAll(append([]Record{BeginTransactionRecord{}}, append(create, AbortTransactionRecord{})...)...); err != nil {
		t.Fatal(err)
	}
	if diff := DiffImages(base, d.Image(base.pos)); diff != "" || !d.IsEmpty() {
		t.Errorf("an aborted transaction left %s", diff)
	}

	if err := NewDelta(base).ReplayAll(NoOpRecord{}, BeginTransactionRecord{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("begin in the middle: %v", err)
	}
	if err := NewDelta(base).ReplayAll(BeginTransactionRecord{}, BeginTransactionRecord{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("begin twice: %v", err)
	}
}

func TestBadSnapshots(t *testing.T) {
	var b bytes.Buffer
	if err := WriteSnapshot(&b, Snapshot{Image: sampleImage(t)}); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	for n := range whole {
		if _, err := ReadSnapshot(bytes.NewReader(whole[:n])); err == nil {
			t.Fatalf("accepted the first %d of %d bytes", n, len(whole))
		}
	}
	if _, err := ReadSnapshot(bytes.NewReader(append(slices.Clone(whole), 0))); err == nil {
		t.Error("accepted more bytes at the end")
	}
	header := message(1, 2)
	future := append([]byte{byte(len(header))}, header...)
	if _, err := ReadSnapshot(bytes.NewReader(future)); !errors.Is(err, ErrUnsupported) {
		t.Errorf("newer format: %v", err)
	}
	if _, err := ReadSnapshot(io.MultiReader(bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}), bytes.NewReader(whole))); err == nil {
		t.Error("accepted a huge message")
	}
}

func FuzzReadSnapshot(f *testing.F) {
	for _, image := range []*Image{Empty(), sampleImage(f)} {
		var b bytes.Buffer
		if err := WriteSnapshot(&b, Snapshot{Image: image}); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := ReadSnapshot(bytes.NewReader(b)); err == nil {
			wantRebuilds(t, s.Image)
		}
	})
}

// TestNewTopicsShareTheirConfiguration: all begin with the same one, and a map for each would
// be a tenth of what a topic takes.
func TestNewTopicsShareTheirConfiguration(t *testing.T) {
	image, d := derive(t, nil, bootstrap, config("a", "durability", "fsync"), config("b", "durability", "fsync"))
	if n := testing.AllocsPerRun(100, func() { d.draft.changed(nil, "durability", Ptr("fsync")) }); n != 0 {
		t.Errorf("%v allocations for the same again", n)
	}
	later, _ := derive(t, image, config("a", "retention.ms", "1"), ConfigRecord{Resource{TopicResource, "a"}, "durability", nil})
	for _, c := range []struct {
		image *Image
		topic string
		want  map[string]string
	}{
		{image, "a", map[string]string{"durability": "fsync"}},
		{image, "b", map[string]string{"durability": "fsync"}},
		{later, "a", map[string]string{"retention.ms": "1"}},
		{later, "b", map[string]string{"durability": "fsync"}},
	} {
		if got := c.image.Config(Resource{TopicResource, c.topic}); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.topic, got, c.want)
		}
	}
}
