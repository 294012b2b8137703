package metadata

import (
	"errors"
	"fmt"
	"slices"
)

// FeatureMetadata is the feature whose level says which records, and which version of
// each, may be written: our counterpart of Kafka's metadata.version.
const FeatureMetadata = "klamm.metadata"

// The levels of FeatureMetadata that this code reads and writes.
const (
	MinMetadataLevel int16 = 1
	MaxMetadataLevel int16 = 1
)

// ErrUnsupported is wrapped by errors about records from a newer release: an unknown kind,
// version, field or level of FeatureMetadata. A node must not go on past such a record.
var ErrUnsupported = errors.New("written by a newer release, upgrade this one")

// ErrInvalid is wrapped by errors about a record that does not fit the image: every node
// refuses it alike.
var ErrInvalid = errors.New("record does not fit the metadata")

// kind numbers the record types; the numbers are the fields of metadatapb.Record.
type kind int

const (
	kindNoOp               kind = 2
	kindBootstrap          kind = 3
	kindFeatureLevel       kind = 4
	kindRegisterBroker     kind = 5
	kindUnregisterBroker   kind = 6
	kindBrokerChange       kind = 7
	kindBumpLeaderEpochs   kind = 8
	kindTopic              kind = 9
	kindRemoveTopic        kind = 10
	kindPartition          kind = 11
	kindPartitionChange    kind = 12
	kindConfig             kind = 13
	kindProducerIDs        kind = 14
	kindBeginTransaction   kind = 15
	kindEndTransaction     kind = 16
	kindAbortTransaction   kind = 17
	kindQuota              kind = 18
	kindRegisterController kind = 19
	firstKind, kindsBound  kind = kindNoOp, kindRegisterController + 1
)

// recordKind is a row of the table of versions.
type recordKind struct {
	name string
	// levels[v-1] is the level of FeatureMetadata from which on version v is written.
	levels []int16
}

// kinds is the table of versions. A new version is a new element of levels, and a new kind a
// row that begins with the level it came with. What a level that has been released writes never
// changes: testdata has the bytes of each.
var kinds = [kindsBound]recordKind{
	kindNoOp:               {"NoOp", []int16{1}},
	kindBootstrap:          {"Bootstrap", []int16{1}},
	kindFeatureLevel:       {"FeatureLevel", []int16{1}},
	kindRegisterBroker:     {"RegisterBroker", []int16{1}},
	kindUnregisterBroker:   {"UnregisterBroker", []int16{1}},
	kindBrokerChange:       {"BrokerChange", []int16{1}},
	kindBumpLeaderEpochs:   {"BumpLeaderEpochs", []int16{1}},
	kindTopic:              {"Topic", []int16{1}},
	kindRemoveTopic:        {"RemoveTopic", []int16{1}},
	kindPartition:          {"Partition", []int16{1}},
	kindPartitionChange:    {"PartitionChange", []int16{1}},
	kindConfig:             {"Config", []int16{1}},
	kindProducerIDs:        {"ProducerIDs", []int16{1}},
	kindBeginTransaction:   {"BeginTransaction", []int16{1}},
	kindEndTransaction:     {"EndTransaction", []int16{1}},
	kindAbortTransaction:   {"AbortTransaction", []int16{1}},
	kindQuota:              {"Quota", []int16{1}},
	kindRegisterController: {"RegisterController", []int16{1}},
}

// writeVersion is the newest version of k that may be written at a metadata level.
func writeVersion(k kind, level int16) (uint32, error) {
	row := kinds[k]
	for v := len(row.levels); v > 0; v-- {
		if row.levels[v-1] <= level {
			return uint32(v), nil
		}
	}
	return 0, fmt.Errorf("%s record needs %s %d, the cluster is at %d", row.name, FeatureMetadata, row.levels[0], level)
}

// RecordsChanged tells whether records are written at the level high that are not at low: then
// what is in the metadata at high may not fit into low.
func RecordsChanged(low, high int16) bool { return changedBetween(kinds[:], low, high) }

func changedBetween(kinds []recordKind, low, high int16) bool {
	return slices.ContainsFunc(kinds, func(k recordKind) bool {
		return slices.ContainsFunc(k.levels, func(since int16) bool { return low < since && since <= high })
	})
}

// checkVersion refuses a version of k that this code cannot read.
func checkVersion(k kind, version uint32) error {
	row := kinds[k]
	switch {
	case version == 0:
		return fmt.Errorf("%s record without version", row.name)
	case int64(version) > int64(len(row.levels)):
		return fmt.Errorf("%s record version %d, known up to %d: %w", row.name, version, len(row.levels), ErrUnsupported)
	default:
		return nil
	}
}

func (NoOpRecord) kind() kind               { return kindNoOp }
func (BootstrapRecord) kind() kind          { return kindBootstrap }
func (FeatureLevelRecord) kind() kind       { return kindFeatureLevel }
func (RegisterBrokerRecord) kind() kind     { return kindRegisterBroker }
func (RegisterControllerRecord) kind() kind { return kindRegisterController }
func (UnregisterBrokerRecord) kind() kind   { return kindUnregisterBroker }
func (BrokerChangeRecord) kind() kind       { return kindBrokerChange }
func (BumpLeaderEpochsRecord) kind() kind   { return kindBumpLeaderEpochs }
func (TopicRecord) kind() kind              { return kindTopic }
func (RemoveTopicRecord) kind() kind        { return kindRemoveTopic }
func (PartitionRecord) kind() kind          { return kindPartition }
func (PartitionChangeRecord) kind() kind    { return kindPartitionChange }
func (ConfigRecord) kind() kind             { return kindConfig }
func (ProducerIDsRecord) kind() kind        { return kindProducerIDs }
func (BeginTransactionRecord) kind() kind   { return kindBeginTransaction }
func (EndTransactionRecord) kind() kind     { return kindEndTransaction }
func (AbortTransactionRecord) kind() kind   { return kindAbortTransaction }
func (QuotaRecord) kind() kind              { return kindQuota }

// Name is the kind of a record, for logs and errors.
func Name(r Record) string { return kinds[r.kind()].name }
