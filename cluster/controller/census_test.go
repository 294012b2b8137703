package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// What a controller counts, change by change.
func TestCensus(t *testing.T) {
	reg := prometheus.NewRegistry()
	census, image := NewCensus(reg), metadata.Empty()
	topic := uuid.UUID{1}
	change := func(r metadata.PartitionChangeRecord) metadata.Record { r.TopicID = topic; return r }
	register := func(id int32) metadata.Record {
		return metadata.RegisterBrokerRecord{Broker: metadata.Broker{ID: id, Epoch: int64(id)}}
	}
	for _, step := range []struct {
		what    string
		records []metadata.Record
		// active, fenced and leaving brokers; topics, partitions, offline, not preferred;
		// elections, of them from the ELR, unclean
		want [10]float64
	}{
		{"three brokers", []metadata.Record{register(1), register(2), register(3)}, [10]float64{3}},
		{"a topic", []metadata.Record{
			metadata.TopicRecord{Name: "t", ID: topic},
			metadata.PartitionRecord{TopicID: topic, Partition: *part(1, 1, 2, 3)},
			metadata.PartitionRecord{TopicID: topic, Partition: *indexed(part(2, 2), 1)},
		}, [10]float64{3, 0, 0, 1, 2, 0, 1}},
		{"a broker is fenced and another one leaves", []metadata.Record{
			metadata.BrokerChangeRecord{ID: 1, Epoch: 1, Fenced: metadata.Ptr(true)},
			metadata.BrokerChangeRecord{ID: 2, Epoch: 2, InControlledShutdown: metadata.Ptr(true)},
		}, [10]float64{2, 1, 1, 1, 2, 0, 1}},
		{"a member of the ISR is elected", []metadata.Record{
			change(metadata.PartitionChangeRecord{Leader: metadata.Ptr(int32(2)), ISR: []int32{2}}),
		}, [10]float64{2, 1, 1, 1, 2, 0, 2, 1}},
		{"it goes on in a new epoch, and the ISR grows", []metadata.Record{
			change(metadata.PartitionChangeRecord{Leader: metadata.Ptr(int32(2))}),
			change(metadata.PartitionChangeRecord{ISR: []int32{2, 3}}),
		}, [10]float64{2, 1, 1, 1, 2, 0, 2, 1}},
		{"no leader is left", []metadata.Record{
			change(metadata.PartitionChangeRecord{Leader: metadata.Ptr(metadata.NoLeader), ISR: []int32{}, ELR: []int32{3}}),
		}, [10]float64{2, 1, 1, 1, 2, 1, 2, 1}},
		{"an eligible leader replica is elected", []metadata.Record{
			change(metadata.PartitionChangeRecord{Leader: metadata.Ptr(int32(3)), ISR: []int32{3}, ELR: []int32{}}),
		}, [10]float64{2, 1, 1, 1, 2, 0, 2, 2, 1}},
		{"an unclean election", []metadata.Record{
			change(metadata.PartitionChangeRecord{Leader: metadata.Ptr(int32(1)), ISR: []int32{1}, RecoveryState: metadata.Ptr(metadata.Recovering)}),
		}, [10]float64{2, 1, 1, 1, 2, 0, 1, 3, 1, 1}},
		{"another one before the leader has settled", []metadata.Record{
			change(metadata.PartitionChangeRecord{Leader: metadata.Ptr(int32(2)), ISR: []int32{2}}),
		}, [10]float64{2, 1, 1, 1, 2, 0, 2, 4, 1, 2}},
		{"the topic and a broker go", []metadata.Record{
			metadata.RemoveTopicRecord{ID: topic}, metadata.UnregisterBrokerRecord{ID: 1, Epoch: 1},
		}, [10]float64{2, 0, 1, 0, 0, 0, 0, 4, 1, 2}},
	} {
		delta := metadata.NewDelta(image)
		if err := delta.ReplayAll(step.records...); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		image = delta.Image(metadata.Position{Index: image.Position().Index + 1})
		census.OnMetadataUpdate(delta, image)
		if diff := cmp.Diff(step.want, counted(t, reg)); diff != "" {
			t.Errorf("%s: %s", step.what, diff)
		}
	}
}

// Deltas that were merged, since publishers were busy, tell of each election; those from before
// this process was there count nothing.
func TestCensusOfMergedChanges(t *testing.T) {
	reg := prometheus.NewRegistry()
	census, topic := NewCensus(reg), uuid.UUID{1}
	image := metadata.Empty()
	replay := func(records ...metadata.Record) *metadata.Delta {
		delta := metadata.NewDelta(image)
		if err := delta.ReplayAll(records...); err != nil {
			t.Fatal(err)
		}
		image = delta.Image(metadata.Position{Index: image.Position().Index + 1})
		return delta
	}
	elect := func(leader int32, state metadata.RecoveryState) metadata.Record {
		return metadata.PartitionChangeRecord{
			TopicID: topic, Leader: &leader, ISR: []int32{leader}, RecoveryState: &state,
		}
	}
	unclean := func() *metadata.Delta {
		delta := replay(elect(2, metadata.Recovering))
		delta.Merge(replay(metadata.PartitionChangeRecord{TopicID: topic, RecoveryState: metadata.Ptr(metadata.Recovered)}))
		delta.Merge(replay(elect(1, metadata.Recovering)))
		delta.Merge(replay(metadata.PartitionChangeRecord{TopicID: topic, RecoveryState: metadata.Ptr(metadata.Recovered)}))
		return delta
	}
	before := replay(metadata.TopicRecord{Name: "t", ID: topic}, metadata.PartitionRecord{TopicID: topic, Partition: *part(1, 1, 2)})
	before.Merge(unclean())
	census.OnMetadataUpdate(before, image)
	if got := counted(t, reg); got[7] != 0 {
		t.Errorf("%v elections from before", got[7])
	}
	census.OnMetadataUpdate(unclean(), image)
	if got := counted(t, reg); got[7] != 2 || got[9] != 2 {
		t.Errorf("%v elections, %v unclean, want 2 of 2", got[7], got[9])
	}
}

func indexed(p *metadata.Partition, index int32) *metadata.Partition {
	p.Index = index
	return p
}

func counted(t *testing.T, reg *prometheus.Registry) (got [10]float64) {
	t.Helper()
	for i, name := range []string{
		"kafka_controller_kafkacontroller_activebrokercount",
		"kafka_controller_kafkacontroller_fencedbrokercount",
		"kafka_controller_kafkacontroller_controlledshutdownbrokercount",
		"kafka_controller_kafkacontroller_globaltopiccount",
		"kafka_controller_kafkacontroller_globalpartitioncount",
		"kafka_controller_kafkacontroller_offlinepartitionscount",
		"kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
		"klamm_controller_leader_elections_total",
		"kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total",
		"kafka_controller_controllerstats_uncleanleaderelections_total",
	} {
		got[i] = gathered(t, reg, name)
	}
	return got
}
