package metadata

import (
	"reflect"
	"testing"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// samples has every kind of record with every field set, so that a field that the codec
// forgets is missed by the tests that use it.
func samples() []Record {
	return []Record{
		NoOpRecord{},
		BootstrapRecord{
			ClusterID: "cluster", Durability: DurabilityReplicated, ForOne: true,
			Features: []FeatureLevel{{FeatureMetadata, 1}, {"transaction.version", 2}},
		},
		FeatureLevelRecord{FeatureLevel{"group.version", 1}},
		RegisterBrokerRecord{sampleBroker()},
		RegisterControllerRecord{Controller{
			ID: 3, IncarnationID: uuid.UUID{0x1c}, Features: []Feature{{FeatureMetadata, 1, 2}},
			Listeners: []Endpoint{{Name: "CONTROLLER", Host: "h", Port: 9093, SecurityProtocol: 3, Unadvertised: true}},
		}},
		UnregisterBrokerRecord{ID: 3, Epoch: 77},
		BrokerChangeRecord{
			ID: 3, Epoch: 77, Fenced: Ptr(true), InControlledShutdown: Ptr(true), LogDirs: []uuid.UUID{{0xd1}},
		},
		BumpLeaderEpochsRecord{BrokerID: 3},
		TopicRecord{Name: "orders", ID: uuid.UUID{0xa1}},
		RemoveTopicRecord{ID: uuid.UUID{0xa1}},
		PartitionRecord{uuid.UUID{0xa1}, samplePartition()},
		PartitionChangeRecord{
			TopicID: uuid.UUID{0xa1}, Index: 4, Replicas: []int32{4, 5}, Directories: []uuid.UUID{{0xd4}, {0xd5}},
			ISR: []int32{5}, AddingReplicas: []int32{4}, RemovingReplicas: []int32{3}, ELR: []int32{2},
			LastKnownELR: []int32{1}, Leader: Ptr(NoLeader), RecoveryState: Ptr(Recovering),
		},
		ConfigRecord{Resource{TopicResource, "orders"}, "retention.ms", Ptr("-1")},
		ProducerIDsRecord{BrokerID: 3, BrokerEpoch: 77, Next: 2000},
		QuotaRecord{QuotaEntity{User: QuotaFor("u"), ClientID: QuotaFor("c"), IP: QuotaFor("::1")}, "producer_byte_rate", Ptr(0.5)},
		BeginTransactionRecord{Name: "create"},
		EndTransactionRecord{},
		AbortTransactionRecord{Reason: "leader changed"},
	}
}

func sampleBroker() Broker {
	return Broker{
		ID: 3, Epoch: 77, IncarnationID: uuid.UUID{0x1c}, LogDirs: []uuid.UUID{{0xd1}, {0xd2}},
		Listeners: []Endpoint{{Name: "PLAINTEXT", Host: "h", Port: 9092, SecurityProtocol: 3, Unadvertised: true}},
		Rack:      Ptr("r1"), Features: []Feature{{FeatureMetadata, 1, 2}}, Fenced: true, InControlledShutdown: true,
	}
}

func samplePartition() Partition {
	return Partition{
		Index: 4, Replicas: []int32{3, 4}, Directories: []uuid.UUID{{0xd3}, {0xd4}}, ISR: []int32{3},
		AddingReplicas: []int32{4}, RemovingReplicas: []int32{2}, ELR: []int32{4}, LastKnownELR: []int32{4},
		Leader: 3, LeaderEpoch: 9, PartitionEpoch: 11, RecoveryState: Recovering,
	}
}

func TestSamplesAreComplete(t *testing.T) {
	seen := map[kind]bool{}
	for _, r := range samples() {
		seen[r.kind()] = true
		wantNoZero(t, Name(r), reflect.ValueOf(r))
	}
	for k := firstKind; k < kindsBound; k++ {
		if !seen[k] {
			t.Errorf("no sample of %s", kinds[k].name)
		}
	}
}

// wantNoZero complains about each field that has its zero value.
func wantNoZero(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			wantNoZero(t, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
		return
	}
	if v.Kind() == reflect.Slice && v.Len() > 0 {
		wantNoZero(t, path+"[0]", v.Index(0))
	}
	if v.IsZero() {
		t.Errorf("%s is not set in the sample", path)
	}
}
