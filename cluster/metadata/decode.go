package metadata

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/klamm-mq/klamm/cluster/metadata/metadatapb"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// DecodeBatch reads a batch of entries. The error wraps ErrUnsupported if a newer release
// wrote it; any other error is damage. Nothing in the result aliases b.
func DecodeBatch(b []byte) ([]Entry, error) {
	var m pb.Batch
	if err := unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("decode metadata batch: %w", err)
	}
	entries := make([]Entry, len(m.Entries))
	for i, em := range m.Entries {
		var err error
		if entries[i], err = entryFromProto(em); err != nil {
			return nil, fmt.Errorf("decode metadata entry %d of term %d: %w", em.Number, em.Term, err)
		}
	}
	return entries, nil
}

func entryFromProto(m *pb.Entry) (Entry, error) {
	if err := checkKnown(m.ProtoReflect(), false); err != nil {
		return Entry{}, err
	}
	e := Entry{Term: m.Term, Number: m.Number, Barrier: m.Barrier}
	for i, rm := range m.Records {
		r, err := fromProto(rm)
		if err != nil {
			return Entry{}, fmt.Errorf("record %d: %w", i, err)
		}
		e.Records = append(e.Records, r)
	}
	return e, nil
}

// DecodeRecord reads one record, with the errors of DecodeBatch.
func DecodeRecord(b []byte) (Record, error) {
	var m pb.Record
	if err := unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("decode metadata record: %w", err)
	}
	r, err := fromProto(&m)
	if err != nil {
		return nil, fmt.Errorf("decode metadata record: %w", err)
	}
	return r, nil
}

// unmarshal parses m and refuses unknown fields of m itself; fromProto sees to those of
// records, whose version says more.
func unmarshal(b []byte, m proto.Message) error {
	if err := proto.Unmarshal(b, m); err != nil {
		return err
	}
	if _, isRecord := m.(*pb.Record); isRecord {
		return nil
	}
	return checkKnown(m.ProtoReflect(), false)
}

// checkKnown refuses fields that this code does not know, in m and, if deep, below it.
func checkKnown(m protoreflect.Message, deep bool) error {
	if len(m.GetUnknown()) > 0 {
		return fmt.Errorf("unknown field in %s: %w", m.Descriptor().Name(), ErrUnsupported)
	}
	var err error
	if deep {
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			err = checkKnownField(f, v)
			return err == nil
		})
	}
	return err
}

func checkKnownField(f protoreflect.FieldDescriptor, v protoreflect.Value) error {
	switch {
	case f.Message() == nil:
		return nil
	case !f.IsList():
		return checkKnown(v.Message(), true)
	}
	for i := range v.List().Len() {
		if err := checkKnown(v.List().Get(i).Message(), true); err != nil {
			return err
		}
	}
	return nil
}

func fromProto(m *pb.Record) (Record, error) {
	if m.Kind == nil {
		return nil, fmt.Errorf("record of unknown kind: %w", ErrUnsupported)
	}
	d := decoder{}
	r := d.record(m)
	// The version is looked at first: it explains what else may be strange.
	if err := checkVersion(r.kind(), m.RecordVersion); err != nil {
		return nil, err
	}
	if err := checkKnown(m.ProtoReflect(), true); err != nil {
		return nil, fmt.Errorf("%s record version %d: %w", Name(r), m.RecordVersion, err)
	}
	if d.err != nil {
		return nil, fmt.Errorf("%s record: %w", Name(r), d.err)
	}
	return r, nil
}

// decoder keeps the first error, so that the conversions below read as plain lists.
type decoder struct {
	err error
}

func (d *decoder) record(m *pb.Record) Record {
	switch k := m.Kind.(type) {
	case *pb.Record_NoOp:
		return NoOpRecord{}
	case *pb.Record_Bootstrap:
		return d.bootstrap(k.Bootstrap)
	case *pb.Record_FeatureLevel:
		return FeatureLevelRecord{d.level(k.FeatureLevel)}
	case *pb.Record_RegisterBroker:
		return RegisterBrokerRecord{d.broker(k.RegisterBroker)}
	case *pb.Record_RegisterController:
		return RegisterControllerRecord{d.controller(k.RegisterController)}
	case *pb.Record_UnregisterBroker:
		return UnregisterBrokerRecord{ID: k.UnregisterBroker.GetId(), Epoch: k.UnregisterBroker.GetEpoch()}
	case *pb.Record_BrokerChange:
		return BrokerChangeRecord{
			ID:                   k.BrokerChange.GetId(),
			Epoch:                k.BrokerChange.GetEpoch(),
			Fenced:               k.BrokerChange.Fenced,
			InControlledShutdown: k.BrokerChange.InControlledShutdown,
			LogDirs:              d.optionalUUIDs(k.BrokerChange.LogDirs),
		}
	case *pb.Record_BumpLeaderEpochs:
		return BumpLeaderEpochsRecord{BrokerID: k.BumpLeaderEpochs.GetBrokerId()}
	case *pb.Record_Topic:
		return TopicRecord{Name: k.Topic.GetName(), ID: d.uuid(k.Topic.GetId())}
	case *pb.Record_RemoveTopic:
		return RemoveTopicRecord{ID: d.uuid(k.RemoveTopic.GetId())}
	case *pb.Record_Partition:
		return PartitionRecord{d.uuid(k.Partition.GetTopicId()), d.partition(k.Partition)}
	case *pb.Record_PartitionChange:
		return d.change(k.PartitionChange)
	case *pb.Record_Config:
		return ConfigRecord{
			Resource: Resource{ResourceType(d.int8(k.Config.GetResourceType())), k.Config.GetResourceName()},
			Key:      k.Config.GetName(),
			Value:    k.Config.Value,
		}
	case *pb.Record_ProducerIds:
		return ProducerIDsRecord{
			BrokerID:    k.ProducerIds.GetBrokerId(),
			BrokerEpoch: k.ProducerIds.GetBrokerEpoch(),
			Next:        k.ProducerIds.GetNext(),
		}
	case *pb.Record_Quota:
		return QuotaRecord{
			Entity: QuotaEntity{
				User: quotaNameFromProto(k.Quota.User), ClientID: quotaNameFromProto(k.Quota.ClientId), IP: quotaNameFromProto(k.Quota.Ip),
			},
			Key: k.Quota.GetKey(), Value: k.Quota.Value,
		}
	case *pb.Record_BeginTransaction:
		return BeginTransactionRecord{Name: k.BeginTransaction.GetName()}
	case *pb.Record_EndTransaction:
		return EndTransactionRecord{}
	default:
		return AbortTransactionRecord{Reason: m.GetAbortTransaction().GetReason()}
	}
}

func (d *decoder) bootstrap(m *pb.Bootstrap) BootstrapRecord {
	r := BootstrapRecord{
		ClusterID:  m.GetClusterId(),
		Durability: Durability(d.int8(int32(m.GetDurability()))),
		ForOne:     m.GetForOne(),
	}
	for _, f := range m.GetFeatures() {
		r.Features = append(r.Features, d.level(f))
	}
	return r
}

func (d *decoder) level(m *pb.FeatureLevel) FeatureLevel {
	return FeatureLevel{Name: m.GetName(), Level: d.int16(m.GetLevel())}
}

func (d *decoder) broker(m *pb.RegisterBroker) Broker {
	return Broker{
		ID:                   m.GetId(),
		Epoch:                m.GetEpoch(),
		IncarnationID:        d.uuid(m.GetIncarnationId()),
		LogDirs:              d.uuids(m.GetLogDirs()),
		Listeners:            d.endpoints(m.GetListeners()),
		Rack:                 m.Rack,
		Features:             d.features(m.GetFeatures()),
		Fenced:               m.GetFenced(),
		InControlledShutdown: m.GetInControlledShutdown(),
	}
}

func (d *decoder) controller(m *pb.RegisterController) Controller {
	return Controller{
		ID:            m.GetId(),
		IncarnationID: d.uuid(m.GetIncarnationId()),
		Listeners:     d.endpoints(m.GetListeners()),
		Features:      d.features(m.GetFeatures()),
	}
}

func (d *decoder) endpoints(list []*pb.Endpoint) (endpoints []Endpoint) {
	for _, l := range list {
		endpoints = append(endpoints, Endpoint{
			Name: l.GetName(), Host: l.GetHost(), Port: l.GetPort(), SecurityProtocol: d.int16(l.GetSecurityProtocol()), Unadvertised: l.GetUnadvertised(),
		})
	}
	return endpoints
}

func (d *decoder) features(list []*pb.SupportedFeature) (features []Feature) {
	for _, f := range list {
		features = append(features, Feature{
			Name: f.GetName(), Min: d.int16(f.GetMinLevel()), Max: d.int16(f.GetMaxLevel()),
		})
	}
	return features
}

func (d *decoder) partition(m *pb.Partition) Partition {
	return Partition{
		Index:            m.GetIndex(),
		Replicas:         m.GetReplicas(),
		Directories:      d.uuids(m.GetDirectories()),
		ISR:              m.GetIsr(),
		AddingReplicas:   m.GetAddingReplicas(),
		RemovingReplicas: m.GetRemovingReplicas(),
		ELR:              m.GetElr(),
		LastKnownELR:     m.GetLastKnownElr(),
		Leader:           m.GetLeader(),
		LeaderEpoch:      m.GetLeaderEpoch(),
		PartitionEpoch:   m.GetPartitionEpoch(),
		RecoveryState:    d.recoveryState(m.GetRecoveryState()),
	}
}

func (d *decoder) change(m *pb.PartitionChange) PartitionChangeRecord {
	r := PartitionChangeRecord{
		TopicID:          d.uuid(m.GetTopicId()),
		Index:            m.GetIndex(),
		Replicas:         listFromProto(m.Replicas),
		ISR:              listFromProto(m.Isr),
		AddingReplicas:   listFromProto(m.AddingReplicas),
		RemovingReplicas: listFromProto(m.RemovingReplicas),
		ELR:              listFromProto(m.Elr),
		LastKnownELR:     listFromProto(m.LastKnownElr),
		Leader:           m.Leader,
		Directories:      d.optionalUUIDs(m.Directories),
	}
	if m.RecoveryState != nil {
		r.RecoveryState = Ptr(d.recoveryState(*m.RecoveryState))
	}
	return r
}

// listFromProto keeps "not given" (nil) and "empty" apart.
func listFromProto(m *pb.Int32List) []int32 {
	if m == nil {
		return nil
	}
	return append([]int32{}, m.GetValues()...)
}

// optionalUUIDs keeps "not given" (nil) and "empty" apart.
func (d *decoder) optionalUUIDs(m *pb.BytesList) []uuid.UUID {
	if m == nil {
		return nil
	}
	return append([]uuid.UUID{}, d.uuids(m.GetValues())...)
}

func (d *decoder) uuid(b []byte) uuid.UUID {
	if len(b) != len(uuid.UUID{}) {
		d.fail("id of %d bytes", len(b))
		return uuid.Zero
	}
	return uuid.UUID(b)
}

func (d *decoder) uuids(list [][]byte) []uuid.UUID {
	var ids []uuid.UUID
	for _, b := range list {
		ids = append(ids, d.uuid(b))
	}
	return slices.Clip(ids)
}

func (d *decoder) recoveryState(n int32) RecoveryState {
	s := RecoveryState(d.int8(n))
	if s != Recovered && s != Recovering {
		d.fail("recovery state %d", n)
	}
	return s
}

func (d *decoder) int8(n int32) int8 {
	if n < math.MinInt8 || n > math.MaxInt8 {
		d.fail("%d is not an int8", n)
	}
	return int8(n)
}

func (d *decoder) int16(n int32) int16 {
	if n < math.MinInt16 || n > math.MaxInt16 {
		d.fail("%d is not an int16", n)
	}
	return int16(n)
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
}

func quotaNameFromProto(m *pb.QuotaName) QuotaName {
	switch {
	case m == nil:
		return QuotaName{}
	case m.Name == nil:
		return QuotaForDefault()
	default:
		return QuotaFor(m.GetName())
	}
}
