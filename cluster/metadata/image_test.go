package metadata_test

import (
	"bytes"
	"testing"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

func TestSmoke(t *testing.T) {
	d := metadata.NewDelta(nil)
	id := uuid.UUID{1}
	if err := d.ReplayAll(
		metadata.BootstrapRecord{ClusterID: "c", Durability: metadata.DurabilityFsync, Features: []metadata.FeatureLevel{{metadata.FeatureMetadata, 1}}, ForOne: true},
		metadata.RegisterBrokerRecord{metadata.Broker{ID: 1, Epoch: 5, Rack: metadata.Ptr("r")}},
		metadata.TopicRecord{Name: "t", ID: id},
		metadata.PartitionRecord{id, metadata.Partition{Replicas: []int32{1}, Directories: []uuid.UUID{{2}}, ISR: []int32{1}, Leader: 1}},
		metadata.ConfigRecord{metadata.Resource{metadata.TopicResource, "t"}, "retention.ms", metadata.Ptr("5")},
		metadata.ProducerIDsRecord{1, 5, 1000},
	); err != nil {
		t.Fatal(err)
	}
	image := d.Image(metadata.Position{7, 3})
	var b bytes.Buffer
	if err := metadata.WriteSnapshot(&b, metadata.Snapshot{image, 3, 2}); err != nil {
		t.Fatal(err)
	}
	s, err := metadata.ReadSnapshot(&b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := metadata.DiffImages(image, s.Image); diff != "" {
		t.Fatal(diff)
	}
	for c := range d.Topics() {
		t.Log(c.Name(), c.Created())
		for p := range c.Partitions() {
			t.Log(p)
		}
	}
}
