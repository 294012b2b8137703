package controller

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// twoBrokers is a world with brokers 1 and 2, and a topic led by 1 with both in its ISR.
func twoBrokers() *world {
	w := newWorld()
	broker := func(id int32, most int16) metadata.RegisterBrokerRecord {
		return metadata.RegisterBrokerRecord{Broker: metadata.Broker{
			ID: id, Epoch: int64(id), IncarnationID: uuid.UUID{byte(id)}, LogDirs: []uuid.UUID{{byte(id)}},
			Features: []metadata.Feature{{Name: metadata.FeatureMetadata, Min: 1, Max: 1}, {Name: "some", Min: 1, Max: most}},
		}}
	}
	topic := uuid.UUID{0xa}
	w.commit(decision{records: []metadata.Record{
		metadata.BootstrapRecord{ClusterID: "cluster", Durability: metadata.DurabilityFsync, Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: 1}}},
		broker(1, 3), broker(2, 2),
		metadata.TopicRecord{Name: "t", ID: topic},
		metadata.PartitionRecord{TopicID: topic, Partition: metadata.Partition{
			Replicas: []int32{1, 2}, Directories: []uuid.UUID{{1}, {2}}, ISR: []int32{1, 2}, Leader: 1,
		}},
	}})
	w.out.Reset()
	return w
}

func TestUpdateFeatures(t *testing.T) {
	type update = kmsg.UpdateFeaturesRequestFeatureUpdate
	some := func(level int16, how int8) update {
		return update{Feature: "some", MaxVersionLevel: level, UpgradeType: how}
	}
	bad := kafkaerr.InvalidUpdateVersion.Code
	w := twoBrokers()
	for i, c := range []struct {
		only    bool
		updates []update
		code    int16
		level   int16 // of "some" afterwards
	}{
		{false, nil, 0, 0},
		{false, []update{some(1, 0)}, bad, 0},
		{false, []update{some(1, 4)}, bad, 0},
		{false, []update{some(-1, 1)}, bad, 0},
		{false, []update{some(3, 1)}, bad, 0}, // broker 2 does not have it
		{false, []update{some(1, 2)}, bad, 0}, // a downgrade that goes up
		{true, []update{some(2, 1)}, 0, 0},
		{false, []update{some(2, 1), {Feature: "other", MaxVersionLevel: 1, UpgradeType: 1}}, bad, 0},
		{false, []update{some(2, 1)}, 0, 2},
		{false, []update{some(1, 1)}, bad, 2}, // an upgrade that goes down
		{false, []update{some(1, 2)}, 0, 1},
		{false, []update{some(0, 3)}, bad, 1},
		{false, []update{{Feature: metadata.FeatureMetadata, MaxVersionLevel: 1, UpgradeType: 1}}, 0, 1},
		{false, []update{{Feature: metadata.FeatureMetadata, MaxVersionLevel: 2, UpgradeType: 1}}, bad, 1},
	} {
		for _, version := range []int16{1, 2} {
			req := kmsg.NewPtrUpdateFeaturesRequest()
			req.Version, req.ValidateOnly, req.FeatureUpdates = version, c.only, c.updates
			d := w.updateFeatures(Call{Request: req})
			resp := d.response.(*kmsg.UpdateFeaturesResponse)
			if resp.ErrorCode != c.code || (resp.ErrorMessage != nil) != (c.code != 0) {
				t.Errorf("case %d: %+v", i, resp)
			}
			if want := c.code == 0 && version == 1; want != (len(resp.Results) == len(c.updates)) && len(c.updates) > 0 {
				t.Errorf("case %d, version %d: %d results", i, version, len(resp.Results))
			}
			if version == 2 {
				w.apply(d.records)
			}
		}
		if got := w.image.Feature("some"); got != c.level {
			t.Errorf("case %d: level %d, want %d", i, got, c.level)
		}
	}
}

// A broker that is unregistered leads nothing any more, and is not there.
func TestUnregisterBroker(t *testing.T) {
	w := twoBrokers()
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = 3
	if d := w.unregisterBroker(Call{Request: req}); d.records != nil || d.response.(*kmsg.UnregisterBrokerResponse).ErrorCode != kafkaerr.BrokerIDNotRegistered.Code {
		t.Errorf("%+v", d)
	}
	req.BrokerID = 1
	d := w.unregisterBroker(Call{Request: req})
	if d.response.(*kmsg.UnregisterBrokerResponse).ErrorCode != 0 {
		t.Fatalf("%+v", d.response)
	}
	w.apply(d.records)
	p := w.image.Topic("t").Partitions[0]
	if w.image.Broker(1) != nil || p.Leader != 2 || len(p.ISR) != 1 {
		t.Errorf("%+v", p)
	}
}
