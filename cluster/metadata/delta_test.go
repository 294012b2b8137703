package metadata

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// changes lists everything that a delta says, one line each.
func changes(d *Delta) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for c := range d.Topics() {
		add("topic %s created=%v deleted=%v", c.Name(), c.Created(), c.Deleted())
		for p := range c.Partitions() {
			add("  %d: %v -> %v", p.Index, deref(p.Old), deref(p.New))
		}
	}
	for c := range d.Brokers() {
		add("broker %d: %v -> %v", c.ID, deref(c.Old), deref(c.New))
	}
	for id := range int32(5) {
		if d.ControllerChanged(id) {
			add("controller %d: %v -> %v", id, deref(d.Base().Controller(id)), deref(d.Next().Controller(id)))
		}
	}
	for c := range d.Configs() {
		add("config %v: %v -> %v", c.Resource, c.Old, c.New)
	}
	if d.ClusterChanged() {
		add("cluster %s", d.Next().ClusterID())
	}
	if d.FeaturesChanged() {
		add("features %v", d.Next().Features())
	}
	if d.ProducerIDsChanged() {
		add("producer ids %d", d.Next().NextProducerID())
	}
	return lines
}

func TestDeltaTellsEachChange(t *testing.T) {
	_, d := derive(t, sampleImage(t),
		RemoveTopicRecord{topicID(1)},
		TopicRecord{"orders", topicID(3)}, partition(3, 0, 2),
		PartitionChangeRecord{TopicID: topicID(2), ISR: []int32{}},
		BrokerChangeRecord{ID: 2, Epoch: 11, Fenced: Ptr(true)},
		config("audit", "k", "v"),
		FeatureLevelRecord{FeatureLevel{"group.version", 1}},
		ProducerIDsRecord{1, 10, 2000},
	)
	var got []string
	for c := range d.Topics() {
		got = append(got, fmt.Sprintf("%s %v %v", c.Name(), c.Created(), c.Deleted()))
		for p := range c.Partitions() {
			got = append(got, fmt.Sprintf("%d %v %v", p.Index, p.Old == nil, p.New == nil))
		}
	}
	for c := range d.Brokers() {
		got = append(got, fmt.Sprintf("broker %d %v %v", c.ID, c.Old.Fenced, c.New.Fenced))
	}
	for c := range d.Configs() {
		got = append(got, fmt.Sprintf("config %s %d %d", c.Name, len(c.Old), len(c.New)))
	}
	want := []string{
		"orders false true", "0 false true", "1 false true", "2 false true", // a deletion comes first
		"audit false false", "0 false false",
		"orders true false", "0 true false",
		"broker 2 false true",
		"config audit 0 1", "config orders 2 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !d.FeaturesChanged() || !d.ProducerIDsChanged() || d.ClusterChanged() || d.IsEmpty() {
		t.Error("features and producer ids changed, the cluster did not")
	}
}

func TestDeltaForgetsWhatWasUndone(t *testing.T) {
	_, d := derive(t, sampleImage(t),
		TopicRecord{"new", topicID(3)}, partition(3, 0, 2), config("new", "k", "v"), RemoveTopicRecord{topicID(3)},
		BrokerChangeRecord{ID: 2, Epoch: 11, Fenced: Ptr(true)}, BrokerChangeRecord{ID: 2, Epoch: 11, Fenced: Ptr(false)},
		config("orders", "retention.ms", "6"), config("orders", "retention.ms", "5"),
		FeatureLevelRecord{FeatureLevel{"f", 1}}, FeatureLevelRecord{FeatureLevel{"f", 0}},
	)
	if lines := changes(d); len(lines) != 0 {
		t.Errorf("changes: %v", lines)
	}
}

// A delta that goes on merging while topics come and go does not grow.
func TestMergedDeltaStaysSmall(t *testing.T) {
	base := sampleImage(t)
	image, merged := base, (*Delta)(nil)
	for i := range 100 {
		var d *Delta
		record := []Record{TopicRecord{"new", topicID(byte(i + 10))}, config("new", "k", "v"), broker(9, int64(i))}
		if i%2 == 1 {
			record = []Record{RemoveTopicRecord{topicID(byte(i + 9))}, UnregisterBrokerRecord{9, int64(i - 1)}}
		}
		image, d = derive(t, image, record...)
		if merged == nil {
			merged = d
		} else {
			merged.Merge(d)
		}
	}
	if n := len(merged.touched.topics) + len(merged.touched.brokers) + len(merged.touched.configs); n != 0 {
		t.Errorf("%d names are kept", n)
	}
	if !merged.IsEmpty() || merged.Base() != base || merged.Next() != image {
		t.Error("the merged delta does not lead from the first image to the last")
	}
}

// generator draws records that fit an image, most of the time.
type generator struct {
	t     *rapid.T
	image *Image
	epoch int64
}

func (g *generator) id(label string) uuid.UUID {
	return topicID(byte(rapid.IntRange(1, 6).Draw(g.t, label)))
}

func (g *generator) node() int32 { return int32(rapid.IntRange(0, 4).Draw(g.t, "node")) }

func (g *generator) nodes() []int32 {
	return rapid.SliceOfNDistinct(rapid.Int32Range(0, 4), 1, 3, rapid.ID[int32]).Draw(g.t, "nodes")
}

func (g *generator) resource() Resource {
	return Resource{
		rapid.SampledFrom([]ResourceType{TopicResource, BrokerResource, GroupResource}).Draw(g.t, "resource"),
		rapid.SampledFrom([]string{"", "a", "b", "t1", "t2"}).Draw(g.t, "name"),
	}
}

func (g *generator) record() Record {
	g.epoch++
	switch rapid.IntRange(0, 12).Draw(g.t, "kind") {
	case 0:
		return bootstrap
	case 1:
		return FeatureLevelRecord{FeatureLevel{rapid.SampledFrom([]string{"f", "g"}).Draw(g.t, "feature"), int16(rapid.IntRange(0, 2).Draw(g.t, "level"))}}
	case 2:
		return broker(g.node(), g.epoch)
	case 3:
		return UnregisterBrokerRecord{ID: g.node(), Epoch: g.brokerEpoch()}
	case 4:
		return BrokerChangeRecord{ID: g.node(), Epoch: g.brokerEpoch(), Fenced: Ptr(rapid.Bool().Draw(g.t, "fenced"))}
	case 5:
		return BumpLeaderEpochsRecord{g.node()}
	case 6:
		return TopicRecord{fmt.Sprintf("t%d", rapid.IntRange(1, 4).Draw(g.t, "topic")), g.id("id")}
	case 7:
		return RemoveTopicRecord{g.id("id")}
	case 8, 9:
		id := g.id("id")
		replicas := g.nodes()
		return PartitionRecord{id, Partition{
			Index: int32(g.image.TopicByID(id).numPartitions()), Replicas: replicas,
			Directories: make([]uuid.UUID, len(replicas)), ISR: replicas, Leader: replicas[0],
		}}
	case 10:
		return PartitionChangeRecord{TopicID: g.id("id"), Index: int32(rapid.IntRange(0, 2).Draw(g.t, "index")), Leader: Ptr(NoLeader), ELR: g.nodes()}
	case 11:
		return RegisterControllerRecord{Controller{ID: g.node(), IncarnationID: g.id("incarnation")}}
	default:
		r := ConfigRecord{Resource: g.resource(), Key: rapid.SampledFrom([]string{"k1", "k2"}).Draw(g.t, "key")}
		if rapid.Bool().Draw(g.t, "set") {
			r.Value = Ptr(rapid.SampledFrom([]string{"", "v", "w"}).Draw(g.t, "value"))
		}
		return r
	}
}

func (g *generator) brokerEpoch() int64 {
	for b := range g.image.Brokers() {
		return b.Epoch
	}
	return 0
}

// step derives the next image from a few records that fit.
func (g *generator) step() *Delta {
	d := NewDelta(g.image)
	for range rapid.IntRange(0, 4).Draw(g.t, "records") {
		r := g.record()
		// Whether it fits is tried on a copy: an error leaves a delta useless.
		if probe := NewDelta(d.Image(g.image.pos)); probe.Replay(r) == nil {
			if err := d.Replay(r); err != nil {
				g.t.Fatal(err)
			}
		}
		g.image = d.Image(Position{g.image.pos.Index + 1, 1})
	}
	d.Image(Position{g.image.pos.Index + 1, 1})
	return d
}

// Whatever happens: an image's records rebuild it, a delta says exactly what differs
// between its images, and merging deltas says what differs between the outer ones.
func TestImagesAndDeltasAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := &generator{t: rt, image: Empty()}
		start := g.image
		var merged *Delta
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			before := g.image
			d := g.step()
			g.image = d.Next()
			wantSame(rt, "delta", changes(Between(before, g.image)), changes(d))
			if merged == nil {
				merged = d
			} else {
				merged.Merge(d)
			}
			wantSame(rt, "merged", changes(Between(start, g.image)), changes(merged))
			wantSound(rt, g.image)
			wantRebuilds(t, g.image)
		}
	})
}

func wantSame(t *rapid.T, what string, want, got []string) {
	t.Helper()
	if !slices.Equal(want, got) {
		t.Fatalf("%s: %s", what, cmp.Diff(want, got))
	}
}

// wantSound checks the counters and the second index of an image.
func wantSound(t *rapid.T, image *Image) {
	partitions, byID := 0, map[uuid.UUID]*Topic{}
	for topic := range image.Topics() {
		partitions += len(topic.Partitions)
		byID[topic.ID] = topic
		if image.TopicByID(topic.ID) != topic {
			t.Fatalf("topic %s is not the one with its id", topic.Name)
		}
	}
	if partitions != image.NumPartitions() || len(byID) != image.NumTopics() {
		t.Fatalf("%d partitions of %d topics, the image says %d of %d", partitions, len(byID), image.NumPartitions(), image.NumTopics())
	}
	for r, values := range image.Configs() {
		if !maps.Equal(values, image.Config(r)) || len(values) == 0 {
			t.Fatalf("configuration of %v: %v", r, values)
		}
	}
}

// Deltas that nobody takes, as while a node starts, merge at a cost that does not grow.
func BenchmarkMerge(b *testing.B) {
	image := largeImage(b, 10_000, 1)
	merged := Between(Empty(), image)
	_, d := derive(b, image, TopicRecord{"new-topic", topicID(9)}, partition(9, 0, 1, 2, 3))
	b.ReportAllocs()
	for b.Loop() {
		merged.Merge(d)
	}
}

func largeImage(b *testing.B, topics, partitions int) *Image {
	var records []Record
	for n := range topics {
		id := uuid.UUID{1, byte(n >> 8), byte(n)}
		records = append(records, TopicRecord{fmt.Sprintf("topic-%05d", n), id})
		for i := range partitions {
			p := partition(1, int32(i), 1, 2, 3)
			p.TopicID = id
			records = append(records, p)
		}
	}
	image, _ := derive(b, nil, records...)
	return image
}

// Creating one topic in an image with 10,000 partitions: at most about 20 µs.
func BenchmarkCreateTopic(b *testing.B) {
	for _, shape := range []struct{ topics, partitions int }{{10_000, 1}, {100, 100}, {1, 10_000}} {
		b.Run(fmt.Sprintf("topics=%d/partitions=%d", shape.topics, shape.partitions), func(b *testing.B) {
			image := largeImage(b, shape.topics, shape.partitions)
			b.ReportAllocs()
			for b.Loop() {
				d := NewDelta(image)
				if err := d.ReplayAll(TopicRecord{"new-topic", topicID(9)}, partition(9, 0, 1, 2, 3)); err != nil {
					b.Fatal(err)
				}
				d.Image(Position{2, 1})
			}
		})
	}
}

func BenchmarkChangePartition(b *testing.B) {
	for _, shape := range []struct{ topics, partitions int }{{10_000, 1}, {100, 100}, {1, 10_000}} {
		b.Run(fmt.Sprintf("topics=%d/partitions=%d", shape.topics, shape.partitions), func(b *testing.B) {
			image := largeImage(b, shape.topics, shape.partitions)
			var id uuid.UUID
			for t := range image.Topics() {
				id = t.ID
			}
			b.ReportAllocs()
			for b.Loop() {
				d := NewDelta(image)
				if err := d.Replay(PartitionChangeRecord{TopicID: id, ISR: []int32{1, 2}}); err != nil {
					b.Fatal(err)
				}
				d.Image(Position{2, 1})
			}
		})
	}
}

func BenchmarkBumpLeaderEpochs(b *testing.B) {
	image := largeImage(b, 10_000, 1)
	for b.Loop() {
		d := NewDelta(image)
		if err := d.Replay(BumpLeaderEpochsRecord{1}); err != nil {
			b.Fatal(err)
		}
		d.Image(Position{2, 1})
	}
}
