package metadata

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/klamm-mq/klamm/cluster/metadata/metadatapb"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Entry is one entry of the metadata log: records that take effect together, with the
// term in which they were computed and their number among the entries of that term (D17).
type Entry struct {
	Term    uint64
	Number  uint64 // from 1; 0 for a barrier
	Barrier bool
	Records []Record
}

// EncodeEntry gives the bytes of an entry, for EncodeBatch. Level is the cluster's level of
// FeatureMetadata (0, before the bootstrap, counts as MinMetadataLevel): the newest versions
// that it permits are written, and a record that it does not permit is an error.
func EncodeEntry(e Entry, level int16) ([]byte, error) {
	m := &pb.Entry{Term: e.Term, Number: e.Number, Barrier: e.Barrier, Records: make([]*pb.Record, len(e.Records))}
	for i, r := range e.Records {
		var err error
		if m.Records[i], err = toProto(r, level); err != nil {
			return nil, err
		}
	}
	return marshal(nil, m)
}

// EncodeBatch puts encoded entries together. It adds at most BatchOverhead bytes to each.
func EncodeBatch(entries [][]byte) []byte {
	size := 0
	for _, e := range entries {
		size += len(e) + BatchOverhead
	}
	b := make([]byte, 0, size)
	for _, e := range entries {
		b = protowire.AppendTag(b, entriesField, protowire.BytesType)
		b = protowire.AppendBytes(b, e)
	}
	return b
}

// BatchOverhead is what an entry costs in a batch beside its own bytes: a tag and a length.
const BatchOverhead = 6

// entriesField is the number of metadatapb.Batch.entries.
const entriesField = 1

// EncodeRecord gives the bytes of one record, as in an entry and a snapshot.
func EncodeRecord(r Record, level int16) ([]byte, error) {
	m, err := toProto(r, level)
	if err != nil {
		return nil, err
	}
	return marshal(nil, m)
}

// marshal appends the one byte form of m: equal records have equal bytes.
func marshal(dst []byte, m proto.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, m)
	if err != nil { // text that is not UTF-8
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	return b, nil
}

func toProto(r Record, level int16) (*pb.Record, error) {
	version, err := writeVersion(r.kind(), max(level, MinMetadataLevel))
	if err != nil {
		return nil, err
	}
	m := &pb.Record{RecordVersion: version}
	switch r := r.(type) {
	case NoOpRecord:
		m.Kind = &pb.Record_NoOp{NoOp: &pb.NoOp{}}
	case BootstrapRecord:
		m.Kind = &pb.Record_Bootstrap{Bootstrap: bootstrapToProto(r)}
	case FeatureLevelRecord:
		m.Kind = &pb.Record_FeatureLevel{FeatureLevel: levelToProto(r.FeatureLevel)}
	case RegisterBrokerRecord:
		m.Kind = &pb.Record_RegisterBroker{RegisterBroker: brokerToProto(&r.Broker)}
	case RegisterControllerRecord:
		m.Kind = &pb.Record_RegisterController{RegisterController: controllerToProto(&r.Controller)}
	case UnregisterBrokerRecord:
		m.Kind = &pb.Record_UnregisterBroker{UnregisterBroker: &pb.UnregisterBroker{Id: r.ID, Epoch: r.Epoch}}
	case BrokerChangeRecord:
		m.Kind = &pb.Record_BrokerChange{BrokerChange: &pb.BrokerChange{
			Id: r.ID, Epoch: r.Epoch, Fenced: r.Fenced, InControlledShutdown: r.InControlledShutdown,
			LogDirs: bytesListToProto(r.LogDirs),
		}}
	case BumpLeaderEpochsRecord:
		m.Kind = &pb.Record_BumpLeaderEpochs{BumpLeaderEpochs: &pb.BumpLeaderEpochs{BrokerId: r.BrokerID}}
	case TopicRecord:
		m.Kind = &pb.Record_Topic{Topic: &pb.Topic{Name: r.Name, Id: r.ID[:]}}
	case RemoveTopicRecord:
		m.Kind = &pb.Record_RemoveTopic{RemoveTopic: &pb.RemoveTopic{Id: r.ID[:]}}
	case PartitionRecord:
		m.Kind = &pb.Record_Partition{Partition: partitionToProto(r)}
	case PartitionChangeRecord:
		m.Kind = &pb.Record_PartitionChange{PartitionChange: changeToProto(r)}
	case ConfigRecord:
		m.Kind = &pb.Record_Config{Config: &pb.Config{
			ResourceType: int32(r.Type), ResourceName: r.Name, Name: r.Key, Value: r.Value,
		}}
	case ProducerIDsRecord:
		m.Kind = &pb.Record_ProducerIds{ProducerIds: &pb.ProducerIds{
			BrokerId: r.BrokerID, BrokerEpoch: r.BrokerEpoch, Next: r.Next,
		}}
	case QuotaRecord:
		m.Kind = &pb.Record_Quota{Quota: quotaToProto(r)}
	case BeginTransactionRecord:
		m.Kind = &pb.Record_BeginTransaction{BeginTransaction: &pb.BeginTransaction{Name: r.Name}}
	case EndTransactionRecord:
		m.Kind = &pb.Record_EndTransaction{EndTransaction: &pb.EndTransaction{}}
	case AbortTransactionRecord:
		m.Kind = &pb.Record_AbortTransaction{AbortTransaction: &pb.AbortTransaction{Reason: r.Reason}}
	default:
		return nil, fmt.Errorf("encode record of type %T", r)
	}
	return m, nil
}

func bootstrapToProto(r BootstrapRecord) *pb.Bootstrap {
	m := &pb.Bootstrap{ClusterId: r.ClusterID, Durability: pb.Durability(r.Durability), ForOne: r.ForOne}
	for _, f := range r.Features {
		m.Features = append(m.Features, levelToProto(f))
	}
	return m
}

func levelToProto(f FeatureLevel) *pb.FeatureLevel {
	return &pb.FeatureLevel{Name: f.Name, Level: int32(f.Level)}
}

func brokerToProto(b *Broker) *pb.RegisterBroker {
	return &pb.RegisterBroker{
		Id:                   b.ID,
		Epoch:                b.Epoch,
		IncarnationId:        b.IncarnationID[:],
		LogDirs:              uuidsToProto(b.LogDirs),
		Listeners:            endpointsToProto(b.Listeners),
		Rack:                 b.Rack,
		Features:             featuresToProto(b.Features),
		Fenced:               b.Fenced,
		InControlledShutdown: b.InControlledShutdown,
	}
}

func controllerToProto(c *Controller) *pb.RegisterController {
	return &pb.RegisterController{
		Id:            c.ID,
		IncarnationId: c.IncarnationID[:],
		Listeners:     endpointsToProto(c.Listeners),
		Features:      featuresToProto(c.Features),
	}
}

func endpointsToProto(endpoints []Endpoint) (list []*pb.Endpoint) {
	for _, l := range endpoints {
		list = append(list, &pb.Endpoint{
			Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: int32(l.SecurityProtocol), Unadvertised: l.Unadvertised,
		})
	}
	return list
}

func featuresToProto(features []Feature) (list []*pb.SupportedFeature) {
	for _, f := range features {
		list = append(list, &pb.SupportedFeature{
			Name: f.Name, MinLevel: int32(f.Min), MaxLevel: int32(f.Max),
		})
	}
	return list
}

func partitionToProto(r PartitionRecord) *pb.Partition {
	return &pb.Partition{
		TopicId:          r.TopicID[:],
		Index:            r.Index,
		Replicas:         r.Replicas,
		Directories:      uuidsToProto(r.Directories),
		Isr:              r.ISR,
		AddingReplicas:   r.AddingReplicas,
		RemovingReplicas: r.RemovingReplicas,
		Elr:              r.ELR,
		LastKnownElr:     r.LastKnownELR,
		Leader:           r.Leader,
		LeaderEpoch:      r.LeaderEpoch,
		PartitionEpoch:   r.PartitionEpoch,
		RecoveryState:    int32(r.RecoveryState),
	}
}

func changeToProto(r PartitionChangeRecord) *pb.PartitionChange {
	m := &pb.PartitionChange{
		TopicId:          r.TopicID[:],
		Index:            r.Index,
		Replicas:         listToProto(r.Replicas),
		Isr:              listToProto(r.ISR),
		AddingReplicas:   listToProto(r.AddingReplicas),
		RemovingReplicas: listToProto(r.RemovingReplicas),
		Elr:              listToProto(r.ELR),
		LastKnownElr:     listToProto(r.LastKnownELR),
		Leader:           r.Leader,
		Directories:      bytesListToProto(r.Directories),
	}
	if r.RecoveryState != nil {
		m.RecoveryState = Ptr(int32(*r.RecoveryState))
	}
	return m
}

func listToProto(ids []int32) *pb.Int32List {
	if ids == nil {
		return nil
	}
	return &pb.Int32List{Values: ids}
}

func bytesListToProto(ids []uuid.UUID) *pb.BytesList {
	if ids == nil {
		return nil
	}
	return &pb.BytesList{Values: uuidsToProto(ids)}
}

func uuidsToProto(ids []uuid.UUID) [][]byte {
	var list [][]byte
	for i := range ids {
		list = append(list, ids[i][:])
	}
	return list
}

func quotaToProto(r QuotaRecord) *pb.Quota {
	e := r.Entity
	return &pb.Quota{
		User: quotaNameToProto(e.User), ClientId: quotaNameToProto(e.ClientID), Ip: quotaNameToProto(e.IP),
		Key: r.Key, Value: r.Value,
	}
}

func quotaNameToProto(n QuotaName) *pb.QuotaName {
	switch n.Kind {
	case QuotaNotGiven:
		return nil
	case QuotaDefault:
		return &pb.QuotaName{}
	default:
		return &pb.QuotaName{Name: &n.Name}
	}
}
